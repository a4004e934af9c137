//! Files whose checksums are right and whose numbers lie.

use std::cell::Cell;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use zerocopy::{FromBytes, IntoBytes};

use super::super::format::{BLOCKS, HEAD, Head, LARGE, LONGEST, LargeRecord, MARKED, RETIRED, Record};
use super::hostile::{all_handles, heap, open_file, options, use_up, with_chunk};
use super::*;
use crate::heap::stored::grouping::ASCENDING;

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
    let itself = crate::heap::block::handle::FIRST_LARGE as u64 * 65536 + u64::from(count);
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
