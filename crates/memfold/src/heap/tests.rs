//! The heap against a model: a map from handles to bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::vec::Vec;
use std::{thread, vec};

use super::*;
use crate::random::Random;

pub mod away;
pub mod free;
mod lost;
mod owners;
mod parts;
mod peek;
mod room;
mod threads;
mod view;
mod waiting;

fn small(block: usize) -> Options {
    Options::new().block_size(block).limit(Limit::Blocks(3)).codec("lz4")
}

/// Random operations, everything checked against the model. Stale handles are tried too, and must be refused.
fn against_model(options: Options, steps: usize, sizes: &[usize], seed: u64) {
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let mut random = Random(seed);
    let mut model: HashMap<Handle, Vec<u8>> = HashMap::new();
    let (mut live, mut stale): (Vec<Handle>, Vec<Handle>) = (vec![], vec![]);
    for step in 0..steps {
        let growing = step / 500 % 3 != 2;
        let some = (!live.is_empty()).then(|| random.index(live.len()));
        match (random.index(10), some) {
            (0..=3, _) | (_, None) if growing || live.is_empty() => {
                let len = match sizes {
                    [most] => 1 + random.index(*most),
                    sizes => sizes[random.index(sizes.len())],
                };
                let handle = session.alloc(len).unwrap();
                assert!(session.read(handle).unwrap().iter().all(|&byte| byte == 0), "new nodes are zero");
                let bytes = random.bytes(len);
                session.write(handle).unwrap().copy_from_slice(&bytes);
                assert!(model.insert(handle, bytes).is_none(), "{handle:?} was given out twice");
                live.push(handle);
            }
            (0..=5, Some(at)) => {
                let handle = live.swap_remove(at);
                assert_eq!(session.read(handle), Ok(model.remove(&handle).unwrap()));
                session.free(handle).unwrap();
                assert_eq!(session.read(handle), Err(Error::Stale));
                assert_eq!(session.free(handle), Err(Error::Stale));
                stale.push(handle);
            }
            (6, Some(at)) => {
                let (old, len) = (live[at], 1 + random.index(*sizes.iter().max().unwrap()));
                let new = session.resize(old, len).unwrap();
                let mut bytes = model.remove(&old).unwrap();
                bytes.resize(len, 0);
                assert_eq!(session.read(new).as_ref(), Ok(&bytes));
                assert!(model.insert(new, bytes).is_none());
                if old != new {
                    stale.push(old);
                }
                live[at] = new;
            }
            (7, Some(at)) => {
                let (handle, bytes) = (live[at], model.get_mut(&live[at]).unwrap());
                let byte = random.index(bytes.len());
                bytes[byte] ^= 1;
                session.write(handle).unwrap()[byte] ^= 1;
            }
            (_, Some(at)) => {
                let handle = live[at];
                assert_eq!(session.size(handle), Ok(model[&handle].len()));
                assert_eq!(session.read(handle), Ok(model[&handle].clone()));
                if !stale.is_empty() {
                    let old = stale[random.index(stale.len())];
                    assert!(model.contains_key(&old) || session.read(old) == Err(Error::Stale));
                    assert!(model.contains_key(&old) || session.write(old).is_err());
                }
            }
            _ => {}
        }
    }
    assert_eq!(heap.stats().nodes, live.len() as u64);
    assert_eq!(heap.stats().node_bytes, model.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    for (&handle, bytes) in &model {
        assert_eq!(&session.read(handle).unwrap(), bytes);
    }
    drop(session);
    heap.check().unwrap();
    let session = heap.session().unwrap();
    for handle in live {
        session.free(handle).unwrap();
    }
    drop(session);
    heap.check().unwrap();
    let stats = heap.stats();
    assert_eq!((stats.nodes, stats.node_bytes, stats.blocks, stats.payload_bytes), (0, 0, 0, 0));
}

#[test]
fn nodes_of_different_sizes_do_as_the_model() {
    for (block, align, most) in
        [(1024, 8, 200), (4096, 1, 300), (4096, 16, 900), (32768, 8, 2000), (1 << 20, 8, 5000)]
    {
        against_model(small(block).alignment(align), 20_000, &[most], 1 + block as u64);
    }
}

#[test]
fn nodes_of_few_sizes_do_as_the_model() {
    against_model(small(4096), 30_000, &[16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 40], 3);
    against_model(small(1024).alignment(1), 30_000, &[13, 13], 4);
    against_model(small(32768), 30_000, &[100, 100], 5);
}

#[test]
fn each_kind_of_codec_does_as_the_model() {
    // Blocks have different lengths: with checks, without, and of one size.
    for codec in ["copy", "zstd:1", "zstd:9", "auto", "zstd-dict:1", "delta:8x1+shuffle:8+lz4", "auto:dense"]
    {
        let options = Options::new().limit(Limit::Blocks(2)).codec(codec);
        if Heap::new(options.clone()).is_ok() {
            against_model(options.clone().block_size(2048), 1000, &[120, 16, 16, 16, 16, 16], 40);
            against_model(options, 700, &[2000], 41);
        }
    }
}

#[test]
fn each_policy_does_as_the_model() {
    for policy in PolicyKind::ALL {
        against_model(small(1024).policy(policy), 6000, &[120], 6);
    }
}

#[test]
fn a_paranoid_heap_does_as_the_model() {
    against_model(small(1024).paranoid(true), 4000, &[200], 7);
    against_model(small(4096).paranoid(true), 4000, &[24, 24], 8);
}

#[test]
fn nodes_longer_than_blocks_do_as_the_model() {
    against_model(small(1024), 1500, &[9000], 20);
    against_model(small(4096).alignment(64), 1500, &[40_000, 10, 100_000, 5000], 21);
    against_model(small(1024).paranoid(true), 300, &[5000], 22);
    against_model(small(1 << 20), 120, &[2 << 20], 23);
}

#[test]
fn a_large_node_takes_room_for_what_was_written() {
    let mut heap = Heap::new(Options::new()).unwrap();
    let mut session = heap.session().unwrap();
    let len = MAX_NODE;
    let node = session.alloc(len).unwrap();
    assert_eq!(session.size(node), Ok(len));
    session.write_at(node, len - 5, b"there").unwrap();
    session.write_at(node, 1 << 30, &[7; 100_000]).unwrap();
    let mut bytes = [0; 6];
    session.read_at(node, len - 6, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0there");
    session.read_at(node, (1 << 30) + 99_998, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 7, 0, 0, 0, 0]);
    assert!(session.read_at(node, len - 5, &mut bytes).is_err());
    assert!(session.write_at(node, len, b"x").is_err());
    let stats = heap.stats();
    assert_eq!((stats.nodes, stats.node_bytes), (1, len as u64));
    assert!(stats.memory_bytes() < 4 << 20, "{stats:?}");
    let node = session.resize(node, 100_000).unwrap();
    assert_eq!(session.read(node), Ok(vec![0; 100_000]));
    session.free(node).unwrap();
    assert_eq!((session.free(node), session.size(node)), (Err(Error::Stale), Err(Error::Stale)));
    drop(session);
    assert_eq!(heap.stats().blocks, 0);
    heap.check().unwrap();
}

#[test]
fn guards_of_a_large_node_have_it_in_one_piece() {
    let mut heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let (node, other) = (session.alloc(10_000).unwrap(), session.alloc(5).unwrap());
    session.write(node).unwrap().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    {
        let first = session.pin(node).unwrap();
        let mut second = session.pin(node).unwrap();
        // SAFETY: here and below: one thread, and no slice lives while it writes.
        unsafe {
            second.as_mut_ptr().unwrap().add(5000).write(77);
            assert_eq!(
                (first.bytes()[5000], first.bytes()[4999], first.len()),
                (77, 4999_usize as u8, 10_000)
            );
        }
        let mut bytes = [0; 2];
        session.read_at(node, 4999, &mut bytes).unwrap();
        assert_eq!(bytes, [4999_usize as u8, 77]);
        let mut writer = heap.session().unwrap();
        assert_eq!(writer.write(node).err(), Some(Error::Busy));
        writer.write_at(node, 1, &[99]).unwrap();
        assert_eq!(writer.resize(node, 5), Err(Error::Busy));
    }
    let bytes = session.read(node).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[2], bytes[5000], bytes[9999]), (0, 99, 2, 77, 9999_usize as u8));
    let pin = session.pin(node).unwrap();
    session.free(node).unwrap();
    assert_eq!(pin.len(), 10_000);
    drop(pin);
    session.free(other).unwrap();
    drop(session);
    heap.check().unwrap();
    assert_eq!(heap.stats().nodes, 0);
}

#[test]
fn the_debugging_twin_does_as_the_model() {
    let plain = small(1024).kind(HeapKind::Plain);
    against_model(plain.clone(), 10_000, &[5000], 9);
    let heap = Heap::new(plain.alignment(64)).unwrap();
    let mut session = heap.session().unwrap();
    let node = session.put_bytes(b"here").unwrap();
    let mut pin = session.pin(node).unwrap();
    // SAFETY: the node lives, and nobody else has the heap.
    unsafe { pin.as_mut_ptr().unwrap().write(b'H') };
    assert!(pin.as_ptr().addr().is_multiple_of(64) && pin.len() == 4);
    drop(pin);
    assert_eq!(session.text(node).unwrap(), "Here");
    assert_eq!(heap.stats().memory_bytes() > 0, heap.stats().nodes == 1);
    assert_eq!(session.alloc(0), Err(Error::Size(0)));
    session.free(node).unwrap();
    assert_eq!(session.free(node), Err(Error::Stale));
}

#[test]
fn one_place_used_again_and_again() {
    for paranoid in [false, true] {
        let heap = Heap::new(small(1024).paranoid(paranoid)).unwrap();
        let session = heap.session().unwrap();
        let keeper = session.alloc(50).unwrap();
        let (mut old, mut passed): (Vec<Handle>, usize) = (vec![], 0);
        for _ in 0..2000 {
            let handle = session.alloc(60).unwrap();
            passed += old.iter().filter(|&&old| session.size(old).is_ok()).count();
            session.free(handle).unwrap();
            assert!(old.iter().all(|&old| session.size(old) == Err(Error::Stale)));
            if old.len() < 300 {
                old.push(handle);
            }
        }
        session.free(keeper).unwrap();
        // Of all uses of a handle whose place was reused, at most one in 256 may succeed.
        assert!(passed <= if paranoid { 0 } else { 2000 * 300 / 256 }, "{passed}");
    }
}

#[test]
fn handles_that_were_never_given_out_are_refused() {
    let heap = Heap::new(small(4096)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..500).map(|i| session.alloc(1 + i % 90).unwrap()).collect();
    let mut random = Random(9);
    for _ in 0..20_000 {
        let mut bits = nodes[random.index(nodes.len())].to_bits();
        for _ in 0..1 + random.index(3) {
            bits ^= 1 << random.index(64);
        }
        let Some(handle) = Handle::from_bits(bits).filter(|handle| !nodes.contains(handle)) else { continue };
        assert_eq!(session.size(handle), Err(Error::Stale), "{handle:?}");
        assert_eq!(session.free(handle), Err(Error::Stale));
        assert!(session.write(handle).is_err());
    }
    for far in [1, u64::MAX, 1 << 16, u64::from(u32::MAX) << 16] {
        assert_eq!(session.size(Handle::from_bits(far).unwrap()), Err(Error::Stale));
        assert!(session.write(Handle::from_bits(far).unwrap()).is_err());
    }
    for (i, &node) in nodes.iter().enumerate() {
        assert_eq!(session.size(node), Ok(1 + i % 90));
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    assert_eq!(session.alloc(0), Err(Error::Size(0)));
    assert_eq!(session.alloc(usize::MAX), Err(Error::Size(usize::MAX)));
}

#[test]
fn what_is_pinned_stays() {
    let heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..100).map(|_| session.alloc(200).unwrap()).collect();
    for (i, &node) in nodes.iter().enumerate() {
        session.write(node).unwrap().fill(i as u8);
    }
    let mut first = session.pin(nodes[0]).unwrap();
    let second = session.pin(nodes[50]).unwrap();
    // SAFETY: here and below: this thread alone has the heap.
    unsafe {
        first.as_mut_ptr().unwrap().write(77);
        for (i, &node) in nodes.iter().enumerate().skip(1) {
            assert!(session.read(node).unwrap().iter().all(|&byte| byte == i as u8));
        }
        assert_eq!((first.bytes()[0], first.bytes()[1], second.bytes()[199]), (77, 0, 50));
    }
    assert_eq!((first.len(), second.len()), (200, 200));
    // A third pin leaves no frame for blocks that are not pinned.
    let third = session.pin(nodes[99]).unwrap();
    assert_eq!(session.read(nodes[25]), Err(Error::Pinned));
    assert_eq!(session.read(nodes[99]).unwrap()[0], 99);
    drop((first, second, third));
    assert_eq!(session.read(nodes[25]).unwrap()[0], 25);
    assert_eq!(session.read(nodes[0]).unwrap()[..2], [77, 0]);
    assert!(session.pin(Handle::from_bits(1 << 40).unwrap()).is_err());
}

#[test]
fn values_and_texts_come_back() {
    let heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let numbers: Vec<Handle> = (0..500_u64).map(|i| session.put(&[i, !i]).unwrap()).collect();
    let texts: Vec<Handle> =
        (0..500).map(|i| session.put_bytes("so ".repeat(1 + i % 9).as_bytes()).unwrap()).collect();
    for (i, (&number, &text)) in numbers.iter().zip(&texts).enumerate() {
        session.update(number, |value: &mut [u64; 2]| value[1] ^= 1).unwrap();
        assert_eq!(session.get::<[u64; 2]>(number), Ok([i as u64, !(i as u64) ^ 1]));
        assert_eq!(session.text(text).unwrap(), "so ".repeat(1 + i % 9));
        assert!(session.get::<u64>(number).is_err() && session.set(number, &1_u8).is_err());
    }
    session.set(numbers[7], &[1_u64, 2]).unwrap();
    assert_eq!(session.get::<[u64; 2]>(numbers[7]), Ok([1, 2]));
    assert!(session.read_at(texts[0], 2, &mut [0; 2]).is_err());
}

#[test]
fn nodes_are_grouped_when_that_pays() {
    let mut random = Random(12);
    // Numbers that differ only in the lower bytes; and text, which is best left as it is.
    let numbers: Vec<[u64; 5]> = (0..20_000)
        .map(|i| [i, random.below(1000), 1 << 40 | random.below(1 << 20), 0x1000 + 16 * i, random.below(3)])
        .collect();
    let words = ["lorem ", "ipsum ", "dolor ", "sit am", "et con"];
    let texts: Vec<Vec<u8>> =
        (0..20_000).map(|_| (0..10).flat_map(|_| words[random.index(5)].bytes()).collect()).collect();
    let payload = |sizes: &dyn Fn(usize) -> usize, text: bool| {
        let heap = Heap::new(Options::new().limit(Limit::Blocks(1))).unwrap();
        let mut session = heap.session().unwrap();
        let nodes: Vec<Handle> = (0..20_000)
            .map(|i| {
                let node = session.alloc(sizes(i)).unwrap();
                let mut bytes = session.write(node).unwrap();
                if text {
                    bytes[..60].copy_from_slice(&texts[i]);
                } else {
                    bytes[..40].copy_from_slice(zerocopy::IntoBytes::as_bytes(&numbers[i]));
                }
                node
            })
            .collect();
        for (i, &node) in nodes.iter().enumerate() {
            let bytes = session.read(node).unwrap();
            let same = if text {
                bytes[..60] == texts[i][..]
            } else {
                bytes[..40] == *zerocopy::IntoBytes::as_bytes(&numbers[i])
            };
            assert!(same);
        }
        heap.stats().payload_bytes
    };
    // What the codec makes of the same bytes without the heap, in pieces as long as blocks.
    let alone = |bytes: Vec<u8>| {
        let codec = memfold_codec::codec("zstd:1").unwrap();
        let mut memory = memfold_codec::ScratchBuf::for_codecs([codec], 32 << 10);
        let mut to = vec![0; codec.bound(32 << 10)];
        let mut len = |piece: &[u8]| match codec.compress(piece, &mut to, piece.len(), &mut memory.scratch())
        {
            memfold_codec::Compressed::Fits(len) => len as u64,
            memfold_codec::Compressed::Incompressible => piece.len() as u64,
        };
        bytes.chunks_exact(32 << 10).map(&mut len).sum::<u64>()
    };
    let of_numbers =
        alone(numbers.iter().flat_map(|node| zerocopy::IntoBytes::as_bytes(node).to_vec()).collect());
    // Of one size, and of two.
    let (one, two) = (payload(&|_| 40, false), payload(&|i| 40 + i % 2 * 2, false));
    assert!(one < of_numbers * 7 / 10 && two < of_numbers * 8 / 10, "{one} and {two} of {of_numbers}");
    // As far apart as nodes are.
    let of_texts = alone(texts.iter().flat_map(|text| [text, &[0; 4][..]].concat()).collect());
    let (one, two) = (payload(&|_| 60, true), payload(&|i| 60 + i % 2 * 2, true));
    assert!(one < of_texts * 21 / 20 && two < of_texts * 23 / 20, "{one} and {two} of {of_texts}");
}

#[test]
fn options_out_of_range_are_refused() {
    let bad = [
        Options::new().block_size(1000),
        Options::new().block_size(512),
        Options::new().block_size(32 << 20),
        Options::new().alignment(3),
        Options::new().alignment(8192),
        Options::new().block_size(1024).alignment(1024),
        Options::new().limit(Limit::Blocks(0)),
        Options::new().limit(Limit::Bytes(1000)),
        Options::new().limit(Limit::Bytes(150_000)),
        Options::new().codec("lzma"),
    ];
    for options in bad {
        let words = Heap::new(options.clone()).unwrap_err();
        assert!(std::format!("{words}").len() > 20, "{options:?}");
    }
}

#[test]
fn what_nodes_lead_to_is_brought_ahead() {
    // A list whose nodes lie in as many blocks, in one order or another.
    for (step, ahead) in [(1_u64, Ahead::Neighbours(1)), (37, Ahead::Links(vec![0]))] {
        let heap = Heap::new(small(4096).limit(Limit::Blocks(16)).ahead(ahead)).unwrap();
        let mut session = heap.session().unwrap();
        let nodes: Vec<Handle> = (0..101).map(|_| session.alloc(3000).unwrap()).collect();
        for i in 0..101 {
            let next = nodes[(i + step as usize) % 101].to_bits();
            session.write_at(nodes[i], 0, &next.to_ne_bytes()).unwrap();
        }
        let before = heap.stats();
        let mut node = nodes[0];
        for _ in 0..101 {
            let mut bits = [0; 8];
            session.read_at(node, 0, &mut bits).unwrap();
            node = Handle::from_bits(u64::from_ne_bytes(bits)).unwrap();
            thread::sleep(std::time::Duration::from_micros(300));
        }
        assert_eq!(node, nodes[0]);
        let ahead = heap.stats().ahead - before.ahead;
        assert!(ahead > 20, "{ahead} of 101 blocks were brought ahead");
    }
}

#[test]
fn a_limit_in_bytes_is_held() {
    let most = 8 << 20;
    let heap = Heap::new(Options::new().limit(Limit::Bytes(most))).unwrap();
    let mut session = heap.session().unwrap();
    let (mut random, mut nodes) = (Random(31), vec![]);
    let refused = loop {
        let bytes: Vec<u8> = (0..200).map(|_| random.below(40) as u8).collect();
        match session.put_bytes(&bytes) {
            Ok(node) => nodes.push((node, bytes)),
            Err(error) => break error,
        }
        if nodes.len() % 1000 == 0 {
            let stats = heap.stats();
            assert!(stats.memory_bytes() <= most, "{stats:?}");
        }
        assert!(nodes.len() < 1_000_000);
    };
    assert_eq!(refused, Error::Limit);
    let stats = heap.stats();
    assert!(
        stats.memory_bytes() <= most && stats.node_bytes > most && stats.frame_bytes < most / 4,
        "{stats:?}"
    );
    // Everything is still there, and freeing makes room.
    for (node, bytes) in &nodes {
        assert_eq!(session.read(*node).as_ref(), Ok(bytes));
    }
    assert!(heap.stats().memory_bytes() <= most, "{:?}", heap.stats());
    for (node, _) in nodes.drain(nodes.len() / 2..) {
        session.free(node).unwrap();
    }
    for _ in 0..1000 {
        session.alloc(200).unwrap();
    }
    // Frames are also returned when few blocks are left.
    let resident = |heap: &Heap| heap.stats().frame_bytes;
    let heap = Heap::new(Options::new().limit(Limit::Share).codec("lz4")).unwrap();
    let session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..200_000).map(|_| session.alloc(250).unwrap()).collect();
    let full = resident(&heap);
    for node in nodes {
        session.free(node).unwrap();
    }
    assert!(resident(&heap) < full / 2, "{} of {full}", resident(&heap));
}

#[test]
fn who_waits_for_a_guard_of_the_same_thread_is_told() {
    let heap = Heap::new(small(4096)).unwrap();
    let (mut one, mut other) = (heap.session().unwrap(), heap.session().unwrap());
    let node = one.alloc(50).unwrap();
    let guard = one.write(node).unwrap();
    assert_eq!(other.read(node), Err(Error::Busy));
    assert_eq!(other.size(node), Err(Error::Busy));
    assert_eq!(other.write(node).err(), Some(Error::Busy));
    assert_eq!(other.free(node), Err(Error::Busy));
    assert_eq!(other.resize(node, 500), Err(Error::Busy));
    drop(guard);
    assert_eq!(other.read(node), Ok(vec![0; 50]));
    other.free(node).unwrap();
}

#[test]
fn the_longest_nodes_of_a_block_fit() {
    for (block, align) in [(1024, 1), (1024, 8), (4096, 1), (4096, 512), (32768, 1)] {
        let mut heap = Heap::new(small(block).alignment(align)).unwrap();
        let session = heap.session().unwrap();
        let nodes: Vec<Handle> = (block - 40..block + 40).map(|len| session.alloc(len).unwrap()).collect();
        for (node, len) in nodes.iter().zip(block - 40..) {
            assert_eq!(session.read(*node), Ok(vec![0; len]));
            session.free(*node).unwrap();
        }
        drop(session);
        heap.check().unwrap();
    }
}

#[test]
fn what_was_written_past_a_node_is_found() {
    let mut heap = Heap::new(small(4096)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..100).map(|i| session.alloc(20 + i % 50).unwrap()).collect();
    let mut pin = session.pin(nodes[10]).unwrap();
    let end = pin.as_mut_ptr().unwrap().wrapping_add(pin.len());
    // SAFETY: bytes of the heap, though not of this node: the test is that this is detected.
    unsafe { end.write_bytes(0xFF, 12) };
    drop(pin);
    // The rest stays usable, and the damaged nodes are an error.
    let refused = nodes.iter().filter(|&&node| session.read(node).is_err()).count();
    assert!(refused <= 2);
    for &node in &nodes {
        let _ = session.free(node);
    }
    assert!(session.alloc(100).and_then(|node| session.write(node).map(|mut node| node.fill(1))).is_ok());
    drop(session);
    assert!(heap.check().is_err());
}
