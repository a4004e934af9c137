//! Files that are damaged, truncated, foreign, or made to do harm.

use std::cell::Cell;
use std::collections::HashSet;
use std::string::ToString;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use zerocopy::{FromBytes, IntoBytes};

use super::super::format::{
    BLOCKS, CODEC, END, HEAD, Head, LARGE, LONGEST, LargeRecord, MARKED, RETIRED, Record,
};
use super::*;
use crate::heap::Limit;
use crate::heap::block::handle::Parts;
use crate::heap::core::{Shape, locked};
use crate::heap::stored::grouping::ASCENDING;

fn options() -> Options {
    Options::new().block_size(1024).limit(Limit::Blocks(3)).codec("copy")
}

/// A small heap with every feature: vacant numbers, blocks of both layouts, with and without checks, long
/// nodes.
fn heap() -> Heap {
    let heap = Heap::new(options().codec("lz4")).unwrap();
    let mut session = heap.session().unwrap();
    let mut model = Model::new(11, &[200]);
    model.go_on(&mut session, 40);
    let equal: Vec<Handle> = (0..90_u64).map(|i| session.put(&[i, 7]).unwrap()).collect();
    let first = session.put_bytes(&[3; 2000]).unwrap();
    let alone = session.alloc(1000).unwrap();
    session.free(alone).unwrap();
    equal[20..60].iter().for_each(|&node| session.free(node).unwrap());
    drop(session);
    // Freed nodes are reused, in another generation.
    let mut session = heap.session().unwrap();
    (0..50_u64).for_each(|i| assert!(session.put(&[i, 8]).is_ok()));
    model.go_on(&mut session, 30);
    drop(session);
    heap.set_root(first.to_bits());
    heap
}

/// The same with uncompressed blocks, so that a change of the file is a change of a block's bytes.
fn open_file() -> Vec<u8> {
    let file = saved(&mut heap());
    let mut heap = load(&file, &options()).unwrap();
    // When it is written again, each block is stored by the current codec.
    let handles: Vec<Handle> = all_handles(&heap);
    let mut session = heap.session().unwrap();
    for handle in handles {
        let bytes = session.read(handle).unwrap();
        session.write_at(handle, 0, &bytes).unwrap();
    }
    drop(session);
    saved(&mut heap)
}

/// Handles of all live nodes except long ones, as far as checks can be guessed.
fn all_handles(heap: &Heap) -> Vec<Handle> {
    let (core, mut found) = (heap.core(), vec![]);
    let session = heap.session().unwrap();
    let end = locked(&core.rooms).numbers().0;
    for (number, block) in (1..end).filter_map(|number| Some((number, core.blocks.get(number)?))) {
        let (incarnation, generation) = (block.incarnation.load(Relaxed), block.generation.load(Relaxed));
        let shape = core.shape_of(block.kind.load(Relaxed)).filter(|_| block.live.load(Relaxed) > 0);
        let mut checks = vec![0, 1, generation];
        checks.sort_unstable();
        checks.dedup();
        for place in 0..shape.map_or(0, Shape::places) as u32 {
            for &check in &checks {
                let handle = Handle::new(Parts { check, incarnation, block: number, place: place as u16 });
                match session.size(handle) {
                    Ok(_) => found.push(handle),
                    // The block is damaged.
                    Err(Error::Damaged) => break,
                    Err(_) => {}
                }
            }
        }
    }
    found
}

/// Uses all of a heap whose content may be anything, but must not be unsound: nodes do not overlap, and no
/// operation panics.
fn use_up(mut heap: Heap) {
    let _ = heap.check();
    let handles = all_handles(&heap);
    let mut session = heap.session().unwrap();
    let mut spans: Vec<(u32, usize, usize)> = vec![];
    for &handle in &handles {
        // One after the other, in the frame where the block is at that time.
        let frames = heap.core();
        let Ok(pin) = session.pin(handle) else { continue };
        let block = frames.blocks.get(handle.block()).unwrap();
        let crate::heap::block::table::Residency::Resident(frame) = block.state().residency() else {
            panic!("it is pinned")
        };
        let at = pin.as_ptr().addr() - frames.frames.get(frame).unwrap().base().addr().get();
        let Some(Shape::Mixed(_) | Shape::Equal(_)) = frames.shape_of(block.kind.load(Relaxed)) else {
            panic!()
        };
        assert!(at + pin.len() <= frames.frames.stride());
        spans.push((handle.block(), at, at + pin.len()));
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "two nodes lie over each other: {pair:?}");
    }
    let root = Handle::from_bits(heap.root());
    for handle in handles.into_iter().chain(root) {
        let _ = session.read(handle);
        let _ = session.write(handle).map(|mut node| node.fill(5));
        let _ = session.resize(handle, 30);
        let _ = session.alloc_near(20, handle);
        let _ = session.free(handle);
    }
    let mut made = HashSet::new();
    for len in [16; 80].into_iter().chain([100, 900, 3000]) {
        // Allocation succeeds, whatever blocks are damaged.
        let handle = session.alloc(len).unwrap();
        assert!(session.read(handle).unwrap().iter().all(|&byte| byte == 0), "new nodes are zero");
        assert!(made.insert(handle));
    }
    drop(session);
    let _ = heap.stats();
    let _ = heap.check();
    let _ = heap.save_to(&mut vec![]);
}

#[test]
fn every_byte_counts() {
    let file = saved(&mut heap());
    load(&file, &options()).unwrap();
    let mut bad = file.clone();
    for at in 0..file.len() {
        for bits in [1, 0x80, 0xff] {
            bad[at] ^= bits;
            let error = load(&bad, &options()).expect_err("a byte was changed");
            match at {
                0..8 => assert!(matches!(error, LoadError::Foreign)),
                8..12 => assert!(matches!(error, LoadError::Newer(_) | LoadError::Damaged(_))),
                _ => assert!(matches!(error, LoadError::Damaged(_)), "{error}"),
            }
            assert!(error.to_string().len() > 20);
            bad[at] = file[at];
        }
    }
}

#[test]
fn every_length_counts() {
    let file = saved(&mut heap());
    assert!(matches!(load(&[], &options()), Err(LoadError::Foreign)));
    for len in 1..file.len() {
        assert!(matches!(load(&file[..len], &options()), Err(LoadError::Damaged(_))), "{len} bytes");
    }
}

#[test]
fn parts_of_a_file_elsewhere() {
    let file = saved(&mut heap());
    let found = chunks(&file);
    let part = |i: usize| &file[found[i].0..found.get(i + 1).map_or(file.len(), |next| next.0)];
    // Each chunk left out, repeated, or swapped with the one before.
    for i in 0..found.len() {
        let without: Vec<u8> = [&file[..found[i].0], &file[found[i].0 + part(i).len()..]].concat();
        assert!(load(&without, &options()).is_err());
        let twice: Vec<u8> = [&file[..found[i].0], part(i), &file[found[i].0..]].concat();
        assert!(load(&twice, &options()).is_err() || i + 1 == found.len());
        if i > 0 {
            let exchanged: Vec<u8> =
                [&file[..found[i - 1].0], part(i), part(i - 1), &file[found[i].0 + part(i).len()..]].concat();
            assert!(load(&exchanged, &options()).is_err());
        }
    }
}

#[test]
fn what_is_no_heap() {
    for foreign in [&b"#!/bin/sh\n"[..], b"\x89PNG\r\n\x1a\n", &[0; 100], b"\x89mfheaq\n", b"x"] {
        assert!(matches!(load(foreign, &options()), Err(LoadError::Foreign)), "{foreign:?}");
    }
    let mut newer = saved(&mut heap());
    newer[8] = 2;
    assert!(matches!(load(&newer, &options()), Err(LoadError::Newer(2))));
}

#[test]
fn every_byte_with_right_checksums() {
    // Only some of the larger one: it is mostly nodes.
    for (file, step) in [(saved(&mut heap()), 1), (open_file(), 3)] {
        let (mut bad, mut loaded, mut refused) = (file.clone(), 0, 0);
        for at in (START..file.len()).step_by(step) {
            bad[at] ^= [1, 0xff, 0x80][at / step % 3];
            repair(&mut bad);
            match load(&bad, &options()) {
                Ok(heap) => {
                    loaded += 1;
                    use_up(heap);
                }
                Err(_) => refused += 1,
            }
            bad.copy_from_slice(&file);
        }
        assert!(loaded > 1000 && refused > 100, "{loaded} {refused}");
    }
}

/// Changes the first record for which `which` holds, in a file whose checksums are then corrected.
fn with_record(
    file: &[u8],
    which: impl Fn(&Record) -> bool,
    change: impl Fn(&mut Record, &mut [u8]),
) -> Vec<u8> {
    let mut file = file.to_vec();
    for (at, _) in chunks(&file.clone()).into_iter().filter(|&(_, kind)| kind == BLOCKS) {
        let len = u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
        let body = &mut file[at + BEFORE..at + BEFORE + len];
        let count = u32::from_le_bytes(body[..4].try_into().unwrap()) as usize;
        let (records, payloads) = <[Record]>::mut_from_prefix_with_elems(&mut body[4..], count).unwrap();
        let mut from = 0;
        for record in records {
            let to = from + record.payload.get() as usize;
            if which(record) {
                change(record, &mut payloads[from..to]);
                repair(&mut file);
                return file;
            }
            from = to;
        }
    }
    panic!("there is no such record");
}

fn is_mixed(record: &Record) -> bool {
    record.kind.get() == 0 && record.live.get() > 1
}

fn is_equal(record: &Record) -> bool {
    record.kind.get() == 1 && record.live.get() > 1
}

#[test]
fn counts_that_lie() {
    let file = open_file();
    let refused: [fn(&mut Record, &mut [u8]); 15] = [
        |record, _| record.live.set(0),
        |record, _| record.live.set(u32::MAX),
        |record, _| record.live.set(record.live.get() + 1),
        |record, _| record.bytes.set(u32::MAX),
        |record, _| record.free.set(2000),
        |record, _| record.longest.set(1 << 31),
        |record, _| record.pending.set(u32::MAX),
        |record, _| record.kind.set(900),
        |record, _| record.kind.set(u16::MAX),
        |record, _| record.codec.set(0),
        |record, _| record.codec.set(500),
        |record, _| record.flags = 64,
        |record, _| record.payload.set(record.payload.get() + 1),
        |record, _| record.payload.set(u32::MAX),
        |record, _| record.payload.set(0),
    ];
    for (which, is) in [(0, is_mixed as fn(&Record) -> bool), (1, is_equal)] {
        for (i, &change) in refused.iter().enumerate() {
            let result = load(&with_record(&file, is, change), &options());
            assert!(matches!(result, Err(LoadError::Damaged(_))), "{which} {i} {result:?}");
        }
    }
    // Errors that only the block's own bytes can show appear then, and only this block is lost.
    let found_later: [fn(&mut Record, &mut [u8]); 6] = [
        |record, _| record.bytes.set(record.bytes.get() - 1),
        |record, _| record.free.set(record.free.get() - 8),
        |_, payload| payload[6] ^= 1,
        |record, _| record.flags ^= MARKED,
        |record, _| record.grouping ^= 1,
        |record, _| record.grouping ^= 255,
    ];
    let whole = all_handles(&load(&file, &options()).unwrap()).len();
    for (i, &change) in found_later.iter().enumerate() {
        let bad = with_record(&file, |record| is_mixed(record) && record.flags & MARKED == 0, change);
        let mut heap = load(&bad, &options()).unwrap();
        assert!(heap.check().is_err(), "{i}");
        let left = all_handles(&heap).len();
        assert!(left < whole && left > whole / 2, "{i}: {left} of {whole} nodes are left");
        use_up(heap);
    }
    let retired = with_record(&file, is_mixed, |record, _| record.flags |= RETIRED);
    load(&retired, &options()).unwrap().check().unwrap();
}

/// Where the marks of a block of nodes of different sizes lie.
const STARTS: usize = 1024;

#[test]
fn nodes_that_lie_over_each_other() {
    let file = open_file();
    // A start in the middle of a node, after bytes that could be a header.
    let bad = with_record(
        &file,
        |record| is_mixed(record) && record.flags & MARKED != 0,
        |_, payload| {
            let word = u64::from_le_bytes(payload[STARTS..STARTS + 8].try_into().unwrap());
            let between =
                (1..60).find(|place| word >> place & 1 == 0 && word >> (place + 1) & 1 == 0).unwrap();
            payload[between * 8 - 2..between * 8].copy_from_slice(&[8, 0]);
            payload[STARTS..STARTS + 8].copy_from_slice(&(word | 1 << between).to_le_bytes());
        },
    );
    let heap = load(&bad, &options()).unwrap();
    assert!(all_handles(&heap).len() < all_handles(&load(&file, &options()).unwrap()).len());
    use_up(heap);
    // A live bit where no node can be.
    let bad = with_record(&file, is_equal, |_, payload| payload[7] |= 0x80);
    let mut heap = load(&bad, &options()).unwrap();
    assert!(heap.check().is_err());
    use_up(heap);
}

#[test]
fn heads_that_lie() {
    let file = open_file();
    let (at, kind) = chunks(&file)[0];
    assert_eq!(kind, HEAD);
    let lies: [fn(&mut Head); 14] = [
        |head| head.block_size.set(0),
        |head| head.block_size.set(1 << 31),
        |head| head.block_size.set(1025),
        |head| head.block_size.set(2048),
        |head| head.alignment.set(0),
        |head| head.alignment.set(3),
        |head| head.alignment.set(4096),
        |head| head.part.set(1),
        |head| head.numbers.set(u32::MAX),
        |head| head.blocks.set(0),
        |head| head.large.set(u32::MAX),
        |head| head.nodes.set(u64::MAX),
        |head| head.shapes.set(0),
        |head| head.zero.set(1),
    ];
    for (i, lie) in lies.into_iter().enumerate() {
        let mut bad = file.clone();
        lie(Head::mut_from_bytes(&mut bad[at + BEFORE..][..size_of::<Head>()]).unwrap());
        repair(&mut bad);
        assert!(matches!(load(&bad, &options()), Err(LoadError::Damaged(_))), "{i}");
    }
    // Kinds: of no bytes, of more than a block, twice the same, and with wrong numbers of nodes.
    for shape in [[0_u32, 63], [5000, 1], [u32::MAX, 0], [16, 64], [16, u32::MAX]] {
        let mut bad = file.clone();
        bad[at + BEFORE + size_of::<Head>()..][..8].copy_from_slice(shape.as_bytes());
        repair(&mut bad);
        assert!(matches!(load(&bad, &options()), Err(LoadError::Damaged(_))), "{shape:?}");
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let file = open_file();
    let started = Instant::now();
    for (at, _) in chunks(&file) {
        for len in [LONGEST as u32, LONGEST as u32 + 1, u32::MAX] {
            let mut bad = file.clone();
            bad[at + 4..at + 8].copy_from_slice(&len.to_le_bytes());
            assert!(matches!(load(&bad, &options()), Err(LoadError::Damaged(_))));
        }
    }
    for (at, kind) in chunks(&file).into_iter().filter(|&(_, kind)| kind == BLOCKS || kind == LARGE) {
        for count in [u32::MAX, u32::MAX / 32, 1 << 27] {
            let mut bad = file.clone();
            let place = if kind == BLOCKS { 0 } else { 8 };
            bad[at + BEFORE + place..][..4].copy_from_slice(&count.to_le_bytes());
            repair(&mut bad);
            assert!(matches!(load(&bad, &options()), Err(LoadError::Damaged(_))));
        }
    }
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

/// A file with an additional chunk before the end.
fn with_chunk(file: &[u8], kind: u8, body: &[u8]) -> Vec<u8> {
    let (end, of_end) = *chunks(file).last().unwrap();
    assert_eq!(of_end, END);
    let mut chunk = vec![kind, 0, 0, 0];
    chunk.extend((body.len() as u32).to_le_bytes());
    chunk.extend(body);
    let mut file = [&file[..end], &chunk, &[0; AFTER], &file[end..]].concat();
    repair(&mut file);
    file
}

#[test]
fn codecs_that_are_not_there() {
    let file = open_file();
    for (body, own) in
        [(&b"\0brotli:5"[..], false), (b"\0delta:8x9", false), (b"\0", false), (b"\x01mine", true)]
    {
        match load(&with_chunk(&file, CODEC, body), &options()) {
            Err(LoadError::Codec { name, own: is_own }) => {
                assert_eq!((name.as_bytes(), is_own), (&body[1..], own));
            }
            other => panic!("{other:?}"),
        }
    }
    for body in [&b""[..], b"\x02lz4", b"\0\xff\xfe"] {
        assert!(matches!(load(&with_chunk(&file, CODEC, body), &options()), Err(LoadError::Damaged(_))));
    }
    // As many as there are numbers, and one more.
    let mut bad = file.clone();
    let (end, _) = *chunks(&bad).last().unwrap();
    let chunk = [&[CODEC, 0, 0, 0, 4, 0, 0, 0, 0][..], b"lz4", &[0; AFTER]].concat();
    bad.splice(end..end, chunk.repeat(1 << 16));
    repair(&mut bad);
    assert!(matches!(load(&bad, &options()), Err(LoadError::Damaged(_))));
}

#[test]
fn long_nodes_that_lie() {
    let mut heap = heap();
    heap.check().unwrap();
    let nodes: Vec<u64> = all_handles(&heap).iter().map(|handle| handle.to_bits()).collect();
    let file = saved(&mut heap);
    let (at, _) = chunks(&file).into_iter().find(|&(_, kind)| kind == LARGE).unwrap();
    let root = heap.root();
    let count = Head::ref_from_bytes(&file[START + BEFORE..][..size_of::<Head>()]).unwrap().large.get();
    let entry = |len: u64, parts: &[u64]| {
        let mut record = LargeRecord::default();
        record.len.set(len);
        record.parts.set(parts.len() as u32);
        let mut file = with_chunk(&file, LARGE, &[record.as_bytes(), parts.as_bytes()].concat());
        let head = Head::mut_from_bytes(&mut file[START + BEFORE..][..size_of::<Head>()]).unwrap();
        head.large.set(count + 1);
        repair(&mut file);
        load(&file, &options())
    };
    let part = heap.core().part() as u64;
    let known: Vec<u64> = LargeRecord::ref_from_prefix(&file[at + BEFORE..])
        .map(|(_, rest)| rest[..8].to_vec())
        .unwrap()
        .chunks(8)
        .map(|bits| u64::from_le_bytes(bits.try_into().unwrap()))
        .collect();
    let free: Vec<u64> = nodes.iter().copied().filter(|node| !known.contains(node)).collect();
    // A part of another node, the same part twice, a long node, the node itself, no block, another
    // incarnation, too few, too many.
    let itself = crate::heap::large::FIRST as u64 * 65536 + u64::from(count);
    for (len, parts) in [
        (part, &known[..]),
        (2 * part, &[free[0]; 2]),
        (part, &[root]),
        (part, &[itself]),
        (part, &[1 << 40]),
        (part, &[free[0] ^ 1 << 48]),
        (part + 1, &[0]),
        (part, &[0, 0]),
        (0, &[0]),
        (1 << 32, &[0]),
        (u64::MAX, &[]),
    ] {
        assert!(matches!(entry(len, parts), Err(LoadError::Damaged(_))), "{len} {parts:?}");
    }
    // Parts that are nodes, but of wrong lengths, or no nodes: errors when they are read, nothing worse.
    for parts in [&[free[0], free[1]][..], &[free[2] ^ 1 << 56, free[3] + 1]] {
        let heap = entry(2 * part, parts).unwrap();
        let long = Handle::from_bits(itself).unwrap();
        let mut session = heap.session().unwrap();
        assert!(session.read(long).is_err());
        assert!(session.write(long).is_err());
        let _ = session.resize(long, 100);
        let _ = session.free(long);
        drop(session);
        use_up(heap);
    }
    let mut heap = entry(2 * part, &[0, 0]).unwrap();
    heap.check().unwrap();
    assert_eq!(
        heap.session().unwrap().read(Handle::from_bits(itself).unwrap()).unwrap(),
        vec![0; 2 * part as usize]
    );
}

#[test]
fn a_limit_that_is_too_small() {
    let mut heap = Heap::new(Options::new().codec("copy")).unwrap();
    let mut model = Model::new(12, &[1500, 2000]);
    model.go_on(&mut heap.session().unwrap(), 6000);
    let file = saved(&mut heap);
    let small = Options::new().codec("lz4").limit(Limit::Bytes(file.len() as u64));
    Heap::new(small.clone()).unwrap();
    assert!(matches!(load(&file, &small), Err(LoadError::Heap(Error::Limit))));
    let enough = Options::new().limit(Limit::Bytes(30 << 20));
    model.is_in(&mut load(&file, &enough).unwrap());
    let bad = Options::new().limit(Limit::Blocks(0));
    assert!(matches!(load(&file, &bad), Err(LoadError::Options(_))));
}

/// Blocks stored as ascending numbers.
#[test]
fn arrays_that_lie() {
    let mut heap = Heap::new(options()).unwrap();
    let mut session = heap.session().unwrap();
    let (mut random, mut last) = (Random(5), 0);
    let nodes: Vec<Handle> = (0..9)
        .map(|_| {
            let node = session.alloc(session.longest()).unwrap();
            for word in session.write(node).unwrap().as_chunks_mut().0 {
                last += random.below(1 << 40);
                *word = last.to_le_bytes();
            }
            node
        })
        .collect();
    let whole: Vec<Vec<u8>> = nodes.iter().map(|&node| session.read(node).unwrap()).collect();
    drop(session);
    let file = saved(&mut heap);
    let is_array = |record: &Record| record.grouping == ASCENDING;
    let loaded = load(&file, &options().codec("zstd:1")).unwrap();
    let session = loaded.session().unwrap();
    for (node, bytes) in nodes.iter().zip(&whole) {
        assert_eq!(&session.read(*node).unwrap(), bytes);
    }
    let len = Cell::new(1);
    let mut at = 0;
    while at < len.get() {
        let bit = 1 << random.below(8);
        let bad = with_record(&file, is_array, |_, payload| {
            len.set(payload.len());
            payload[at] ^= bit;
        });
        use_up(load(&bad, &options()).unwrap());
        at += 1;
    }
    // Other data taken for ascending numbers, and vice versa.
    for grouping in [0, 1, 200, 254] {
        let bad = with_record(&file, is_array, |record, _| record.grouping = grouping);
        assert!(load(&bad, &options()).unwrap().check().is_err());
        use_up(load(&bad, &options()).unwrap());
    }
    let file = open_file();
    for is in [is_mixed as fn(&Record) -> bool, is_equal] {
        let bad = with_record(&file, is, |record, _| record.grouping = ASCENDING);
        let mut heap = load(&bad, &options()).unwrap();
        assert!(heap.check().is_err());
        let _ = heap.save_to(&mut vec![]);
        use_up(heap);
    }
}
