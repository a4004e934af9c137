//! Loading restores what was saved.

use std::sync::Arc;
use std::vec::Vec;
use std::{format, vec};

use memfold_codec::dict::{Dictionaries, Step};
use memfold_codec::{Codec, CodecId, Compressed, Malformed, Scratch, codec};

use super::*;
use crate::heap::{HeapKind, Limit, PolicyKind, SaveError};

fn small(block: usize) -> Options {
    Options::new().block_size(block).limit(Limit::Blocks(3)).codec("lz4")
}

/// Saves, loads and changes a heap several times; each time with the next of these options.
fn comes_back(options: &[Options], sizes: &[usize], steps: usize) {
    let mut model = Model::new(steps as u64 + sizes[0] as u64, sizes);
    let mut heap = Heap::new(options[0].clone()).unwrap();
    for round in 0..options.len() {
        let mut session = heap.session().unwrap();
        model.go_on(&mut session, steps);
        let root = model.live.first().map_or(0, |handle| handle.to_bits());
        drop(session);
        heap.set_root(root);
        let before = heap.stats();
        let file = saved(&mut heap);
        let after = heap.stats();
        assert_eq!(
            (before.payload_bytes, before.evictions, before.compressions, before.nodes),
            (after.payload_bytes, after.evictions, after.compressions, after.nodes),
            "saving leaves the heap as it was"
        );
        model.is_in(&mut heap);
        let next = options.get(round + 1).unwrap_or(&options[round]);
        let mut loaded = load(&file, next).unwrap();
        assert_eq!(loaded.root(), root);
        assert_eq!(saved(&mut loaded), file, "nothing was changed in between");
        let (old, new) = (heap.session().unwrap(), loaded.session().unwrap());
        for &handle in &model.stale {
            assert_eq!(new.read(handle), old.read(handle), "{handle:?}");
        }
        drop((old, new));
        model.is_in(&mut loaded);
        heap = loaded;
    }
    let mut session = heap.session().unwrap();
    model.go_on(&mut session, steps);
    drop(session);
    model.is_in(&mut heap);
    model.end(&mut heap);
}

#[test]
fn nodes_of_few_sizes() {
    comes_back(&[small(4096), small(4096)], &[16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 40], 5000);
    comes_back(&[small(1024).alignment(1), small(1024)], &[13, 13], 5000);
    comes_back(&[small(32768), small(32768)], &[96, 96], 5000);
}

#[test]
fn numbers_of_blocks_that_become_others() {
    let mut heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    // Blocks of one size whose nodes are grouped, and then in their place blocks of different sizes.
    let nodes: Vec<Handle> = (0..2000_u64).map(|i| session.put(&[i, i]).unwrap()).collect();
    nodes.iter().for_each(|&node| session.free(node).unwrap());
    drop(session);
    let mut model = Model::new(21, &[200]);
    model.go_on(&mut heap.session().unwrap(), 1000);
    model.is_in(&mut load(&saved(&mut heap), &small(1024)).unwrap());
}

#[test]
fn nodes_longer_than_blocks() {
    comes_back(&[small(1024), small(1024), small(1024)], &[40, 3000, 900, 7, 20_000], 600);
}

#[test]
fn the_largest_blocks() {
    // With their marks they would be longer than the store accepts.
    let options = Options::new().block_size(16 << 20).alignment(256).limit(Limit::Blocks(2)).codec("lz4");
    let mut heap = Heap::new(options.clone()).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> =
        (0..40_u8).map(|i| session.put_bytes(&vec![i; 300 * usize::from(i) + 1]).unwrap()).collect();
    drop(session);
    let mut loaded = load(&saved(&mut heap), &options).unwrap();
    loaded.check().unwrap();
    let session = loaded.session().unwrap();
    for (i, &node) in (0..40_u8).zip(&nodes) {
        assert_eq!(session.read(node).unwrap(), vec![i; 300 * usize::from(i) + 1]);
    }
}

/// Nodes of every critical length, with content that codecs, columns and packing handle well and badly.
#[test]
fn lengths_at_every_bound() {
    for (block, align) in [(1024, 1), (1024, 8), (4096, 16), (32768, 8), (1 << 17, 64)] {
        for codec in ["zstd:1", "lz4", "stride:1", "auto:fast", "auto", "copy", "delta:8x1+shuffle:8+lz4"] {
            let options =
                Options::new().block_size(block).alignment(align).codec(codec).limit(Limit::Blocks(3));
            let mut heap = Heap::new(options.clone()).unwrap();
            let mut session = heap.session().unwrap();
            let mut random = Random(block as u64);
            let mut nodes = vec![];
            for len in [1, block / 64, block / 4, session.longest()] {
                for len in len - 1..=len + 1 {
                    for content in 0..60 * usize::from(len > 0) {
                        let bytes = contents(content, len, &mut random);
                        nodes.push((session.put_bytes(&bytes).unwrap(), bytes));
                    }
                }
            }
            session.put_bytes(&[7; 3]).unwrap();
            drop(session);
            let what = format!("{codec} in {block}, {align}");
            let mut loaded =
                load(&saved(&mut heap), &options).unwrap_or_else(|error| panic!("{what}: {error}"));
            loaded.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            let session = loaded.session().unwrap();
            for (node, bytes) in &nodes {
                assert_eq!(session.read(*node).as_ref(), Ok(bytes), "{what}: {} bytes", bytes.len());
            }
        }
    }
}

/// Zeros, ascending numbers, and ascending numbers with noise at the end; then text in which each page begins
/// with more noise than the last: a plan of columns that suits one page makes another longer.
fn contents(which: usize, len: usize, random: &mut Random) -> Vec<u8> {
    let text = b"mixed content ";
    let noise = random.bytes(len);
    let number = |at: usize| (1000 + 3 * (at as u64 / 8)).to_le_bytes()[at % 8];
    (0..len)
        .map(|at| match which {
            0 => 0,
            1 => number(at),
            2 if at > len / 10 * 9 => noise[at],
            2 => number(at),
            _ if at % 4096 < 4096 * (which % 11) / 10 => noise[at],
            _ => text[at % text.len()],
        })
        .collect()
}

#[test]
fn options_may_change_but_for_blocks() {
    let options = [
        small(4096),
        Options::new().policy(PolicyKind::Fifo).limit(Limit::Bytes(4 << 20)).codec("zstd:3"),
        Options::new().block_size(1 << 20).alignment(64).codec("delta:8x1+shuffle:8+lz4"),
        Options::new().limit(Limit::Blocks(1)).codec("auto"),
        Options::new().limit(Limit::Blocks(5)).codec("auto=xor:1x2+huffman/zstd:5"),
        Options::new().codec("copy").limit(Limit::Blocks(4)),
        Options::new().paranoid(true),
        Options::new(),
        Options::new().limit(Limit::Share),
    ];
    comes_back(&options, &[200], 1200);
    comes_back(&options, &[32, 32], 1200);
    comes_back(&options, &[32, 32, 32, 32, 6000], 400);
    let heap = load(&saved(&mut Heap::new(small(4096)).unwrap()), &options[2]).unwrap();
    let options = &heap.core().options;
    assert_eq!((options.block_size, options.alignment), (4096, 8), "these are the file's");
}

#[test]
fn generations_incarnations_and_numbers_that_are_lost() {
    for paranoid in [false, true] {
        let options = small(1024).paranoid(paranoid);
        let mut heap = Heap::new(options.clone()).unwrap();
        let session = heap.session().unwrap();
        let keeper = session.alloc(50).unwrap();
        let mut old: Vec<Handle> = vec![];
        // The same place again and again, and the same block.
        for _ in 0..700 {
            for len in [60, 960] {
                let handle = session.alloc(len).unwrap();
                session.free(handle).unwrap();
                old.push(handle);
            }
        }
        drop(session);
        let mut loaded = load(&saved(&mut heap), &options).unwrap();
        let (before, after) = (heap.session().unwrap(), loaded.session().unwrap());
        let given: Vec<Handle> = (0..300)
            .flat_map(|_| {
                let handle = after.alloc(60).unwrap();
                after.free(handle).unwrap();
                [Some(handle), after.alloc(960).ok()]
            })
            .flatten()
            .collect();
        assert!(
            !paranoid || given.iter().all(|handle| !old.contains(handle)),
            "a handle was given out twice"
        );
        drop(after);
        for &handle in &old {
            assert_eq!(before.size(handle), Err(Error::Stale));
        }
        drop(before);
        loaded.check().unwrap();
        assert_eq!(loaded.session().unwrap().size(keeper), Ok(50));
    }
}

#[test]
fn an_empty_heap_and_one_that_was_emptied() {
    for steps in [0, 500] {
        let mut heap = Heap::new(small(4096)).unwrap();
        let mut model = Model::new(1, &[100]);
        model.go_on(&mut heap.session().unwrap(), steps);
        model.end(&mut heap);
        let mut loaded = load(&saved(&mut heap), &Options::new()).unwrap();
        assert_eq!(loaded.stats().nodes, 0);
        let mut model = Model::new(2, &[100]);
        model.go_on(&mut loaded.session().unwrap(), 500);
        model.is_in(&mut loaded);
    }
}

#[test]
fn data_of_forgotten_sessions_and_guards_are_saved() {
    let mut heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes = [10, 400, 5000].map(|len| session.alloc(len).unwrap());
    session.write(nodes[0]).unwrap().fill(7);
    session.write(nodes[1]).unwrap().fill(8);
    session.free(nodes[0]).unwrap();
    let mut guard = session.write(nodes[2]).unwrap();
    guard.fill(9);
    std::mem::forget(guard);
    std::mem::forget(session);
    // A block without nodes that only a forgotten session holds.
    let session = heap.session().unwrap();
    let alone = session.alloc(900).unwrap();
    session.free(alone).unwrap();
    std::mem::forget(session);
    let file = saved(&mut heap);
    let mut loaded = load(&file, &small(1024)).unwrap();
    loaded.check().unwrap();
    let session = loaded.session().unwrap();
    assert_eq!(session.read(nodes[1]).unwrap(), [8; 400]);
    assert_eq!(session.read(nodes[2]).unwrap(), [9; 5000]);
    assert_eq!([nodes[0], alone].map(|gone| session.size(gone)), [Err(Error::Stale); 2]);
    nodes[1..].iter().for_each(|&node| session.free(node).unwrap());
}

#[test]
fn one_file_in_another() {
    let mut heap = Heap::new(small(4096)).unwrap();
    let mut model = Model::new(3, &[100]);
    model.go_on(&mut heap.session().unwrap(), 2000);
    let mut file = saved(&mut heap);
    file.extend(b"and the rest");
    let mut from = &file[..];
    model.is_in(&mut Heap::load_from(&mut from, Options::new()).unwrap());
    assert_eq!(from, b"and the rest");
}

#[test]
fn the_twin_is_not_saved() {
    let plain = Options::new().kind(HeapKind::Plain);
    let mut twin = Heap::new(plain.clone()).unwrap();
    assert!(matches!(twin.save_to(&mut vec![]), Err(SaveError::Twin)));
    let file = saved(&mut Heap::new(Options::new()).unwrap());
    assert!(matches!(load(&file, &plain), Err(LoadError::Options(_))));
}

#[test]
fn blocks_that_need_this_process_are_compressed_again() {
    let all = Dictionaries::of_name("zstd-dict:1").unwrap();
    let options = small(1024).codec("zstd-dict:1");
    let mut heap = Heap::new(options.clone()).unwrap();
    let mut model = Model::new(4, &[60]);
    let text =
        |i: u64| format!("the user {i} of the system has the rights {} and no others", i * 7919 % 1000);
    let mut texts = vec![];
    let mut adopted = false;
    for i in 0..200_000 {
        texts.push(heap.session().unwrap().put_bytes(text(i).as_bytes()).unwrap());
        if i % 2000 == 0 && matches!(all.maintain(1 << 40), Step::Adopted(_)) {
            adopted = true;
        }
        if adopted && i % 2000 == 1999 {
            break;
        }
    }
    assert!(adopted);
    let mut session = heap.session().unwrap();
    model.go_on(&mut session, 1000);
    drop(session);
    let file = saved(&mut heap);
    let names: Vec<&[u8]> = chunks(&file)
        .into_iter()
        .filter(|&(_, kind)| kind == super::super::format::CODEC)
        .map(|(at, _)| &file[at + BEFORE + 1..][..usize::from(file[at + 4]) - 1])
        .collect();
    assert!(names.contains(&&b"zstd:1"[..]) && !names.contains(&&b"zstd-dict:1"[..]));
    drop(heap);
    all.release_all();
    let loaded = load(&file, &small(1024)).unwrap();
    let session = loaded.session().unwrap();
    for (i, &node) in texts.iter().enumerate() {
        assert_eq!(session.text(node).unwrap(), text(i as u64));
    }
    for (&node, bytes) in &model.nodes {
        assert_eq!(session.read(node).as_ref(), Ok(bytes));
    }
}

/// A user-supplied codec: zstd after one byte.
struct Mine(&'static str);

impl Codec for Mine {
    fn name(&self) -> &str {
        self.0
    }

    fn id(&self) -> CodecId {
        CodecId::LZ4
    }

    fn bound(&self, len: usize) -> usize {
        codec("zstd:1").unwrap().bound(len) + 1
    }

    fn compress_scratch(&self, len: usize) -> usize {
        codec("zstd:1").unwrap().compress_scratch(len)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        codec("zstd:1").unwrap().decompress_scratch(len)
    }

    fn compress(&self, src: &[u8], dst: &mut [u8], most: usize, scratch: &mut Scratch<'_>) -> Compressed {
        let (first, rest) = dst.split_first_mut().unwrap();
        *first = 77;
        match codec("zstd:1").unwrap().compress(src, rest, most - 1, scratch) {
            Compressed::Fits(len) => Compressed::Fits(len + 1),
            other => other,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        match src.split_first() {
            Some((77, rest)) => codec("zstd:1").unwrap().decompress(rest, dst, scratch),
            _ => Err(Malformed),
        }
    }
}

#[test]
fn a_codec_of_ones_own_is_asked_for_by_its_name() {
    let own = |name| small(4096).own_codec(Arc::new(Mine(name)));
    comes_back(&[small(4096), own("mine"), own("mine"), own("mine")], &[200], 2000);
    let mut heap = Heap::new(own("mine")).unwrap();
    let mut model = Model::new(5, &[200]);
    model.go_on(&mut heap.session().unwrap(), 2000);
    let file = saved(&mut heap);
    for other in [own("yours"), small(4096)] {
        match load(&file, &other) {
            Err(LoadError::Codec { name, own: true }) => assert_eq!(name, "mine"),
            other => panic!("{other:?}"),
        }
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn nodes_of_different_sizes() {
        for (block, align, most) in
            [(1024, 8, 200), (4096, 1, 300), (4096, 16, 900), (4096, 256, 900), (1 << 17, 8, 5000)]
        {
            let options = small(block).alignment(align);
            comes_back(&[options.clone(), options.clone(), options], &[most], 3000);
        }
    }
}
