//! Blocks and extents that are left when nodes are freed.

use std::sync::atomic::Ordering::*;
use std::vec;
use std::vec::Vec;

use crate::heap::block::layout::Shape;
use crate::heap::block::layout::mixed::{Extents, Mixed};
use crate::heap::block::table::Residency;
use crate::heap::sync::locked;
use crate::heap::*;
use crate::random::Random;

/// The number of blocks. Each one with nodes of different sizes must be one free extent when it is merged.
fn blocks_of_one_extent(heap: &Heap) -> usize {
    let core = heap.core();
    let end = locked(&core.rooms).numbers().0;
    let blocks = (1..end).filter_map(|number| Some((number, core.blocks.get(number)?)));
    let there = blocks.filter(|(_, block)| block.state().residency() != Residency::Vacant);
    there
        .map(|(number, block)| {
            let _lock = block.lock();
            let (_, frame) = core.resident(0, number, block).unwrap();
            assert_eq!(block.live.load(Relaxed), 0);
            let shape = core.shape_of(block.kind.load(Relaxed)).unwrap();
            if let Shape::Mixed(of_block) = shape {
                let mixed = Mixed::new(core.image(frame, shape), of_block);
                mixed.list(&mut Extents::new()).unwrap();
                let extents: Vec<_> = mixed.extents().map(Result::unwrap).collect();
                assert_eq!((extents.len(), extents[0].node), (1, None), "{extents:?}");
                assert_eq!(extents[0].stride, of_block.room());
            }
        })
        .count()
}

/// dalloc's listing of fragmentation, for any sequence that frees everything: first one extent per block,
/// then no block.
#[test]
fn a_fully_freed_block_is_one_extent_and_then_released() {
    for (seed, sizes) in [(1, &[300][..]), (2, &[16, 24, 40]), (3, &[5000]), (4, &[8, 3, 700]), (5, &[16])] {
        for (block, align) in [(1024, 8), (4096, 1), (32768, 8), (32768, 64)] {
            let options =
                Options::new().block_size(block).alignment(align).limit(Limit::Blocks(4)).codec("lz4");
            let heap = Heap::new(options).unwrap();
            let session = heap.session().unwrap();
            let mut random = Random(seed);
            let mut live: Vec<Handle> = vec![];
            for step in 0..3000 {
                if step % 1000 < 600 || live.is_empty() {
                    let len = match sizes {
                        [most] => 1 + random.index(*most),
                        sizes => sizes[random.index(sizes.len())],
                    };
                    live.push(session.alloc(len).unwrap());
                } else {
                    session.free(live.swap_remove(random.index(live.len()))).unwrap();
                }
            }
            while !live.is_empty() {
                session.free(live.swap_remove(random.index(live.len()))).unwrap();
            }
            // The blocks from which the session allocates are left.
            assert!((1..=20).contains(&blocks_of_one_extent(&heap)));
            drop(session);
            assert_eq!((heap.stats().blocks, blocks_of_one_extent(&heap)), (0, 0));
        }
    }
}

#[test]
fn a_limit_can_be_changed_and_frames_follow() {
    let heap = Heap::new(Options::new().block_size(4096).limit(Limit::Blocks(4)).codec("lz4")).unwrap();
    let mut session = heap.session().unwrap();
    let mut random = Random(9);
    let nodes: Vec<_> = (0..3000).map(|_| session.put_bytes(&random.bytes(100)).unwrap()).collect();
    let read_all = |session: &Session<'_>| {
        let mut random = Random(9);
        nodes.iter().for_each(|node| assert_eq!(session.read(*node).unwrap(), random.bytes(100)));
    };
    let frames = || heap.stats().frame_bytes / 4096;
    assert!(frames() <= 8, "{}", frames());
    let blocks = heap.stats().blocks;
    assert!(blocks > 60);
    heap.set_limit(Limit::Blocks(50)).unwrap();
    read_all(&session);
    assert!((40..=60).contains(&frames()), "{}", frames());
    // Any other limit can be set, but one that leaves no room for a block is refused.
    for limit in [Limit::Blocks(0), Limit::Bytes(4096)] {
        assert!(heap.set_limit(limit).is_err(), "{limit:?}");
    }
    assert_eq!(heap.core().limit(), Limit::Blocks(50));
    heap.set_limit(Limit::Blocks(4)).unwrap();
    read_all(&session);
    assert!(frames() <= 8, "{}", frames());
    // With a limit below the current size, everything can be read, and nothing is added.
    heap.set_limit(Limit::Bytes(64 << 10)).unwrap();
    read_all(&session);
    let full = (0..3000).find_map(|_| session.put_bytes(&[7; 100]).err());
    assert_eq!(full, Some(Error::Limit));
    for limit in [Limit::Share, Limit::Free, Limit::All] {
        heap.set_limit(limit).unwrap();
        session.put_bytes(&[7; 100]).unwrap();
        read_all(&session);
    }
}

#[test]
fn a_limit_is_one_word() {
    let limits = [
        Limit::Free,
        Limit::All,
        Limit::Share,
        Limit::Blocks(1),
        Limit::Blocks(u32::MAX),
        Limit::Bytes(0),
        Limit::Bytes(u64::MAX >> 1),
    ];
    for limit in limits {
        assert_eq!(Limit::from_bits(limit.to_bits()), limit);
    }
    assert_eq!(Limit::from_bits(Limit::Bytes(u64::MAX).to_bits()), Limit::Bytes(u64::MAX >> 1));
}

/// When there are no more kinds of blocks, a node of that length is split into parts. It was refused before,
/// as if no node could be that long.
#[test]
fn nodes_of_a_block_each_beside_blocks_of_all_other_kinds() {
    let options = Options::new().block_size(64 << 10);
    let mut heap = Heap::new(options.clone()).unwrap();
    let made = (1..).take_while(|len| heap.core().equal_kind(*len).is_some()).count();
    assert!(made > 1000, "{made}");
    let mut session = heap.session().unwrap();
    let longest = session.longest();
    let node = session.put_bytes(&vec![7; longest]).unwrap();
    drop(session);
    heap.check().unwrap();
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    let heap = Heap::load_from(&file[..], options).unwrap();
    assert_eq!(heap.session().unwrap().read(node).unwrap(), vec![7; longest]);
}

#[test]
fn the_lowest_limit_that_is_accepted_holds_some_blocks() {
    for block in [1 << 10, 4 << 10, 32 << 10, 1 << 20] {
        for codec in ["zstd:1", "auto"] {
            let new =
                |bytes| Heap::new(Options::new().block_size(block).codec(codec).limit(Limit::Bytes(bytes)));
            let (mut refused, mut accepted) = (0, 1u64 << 30);
            while accepted - refused > 1 {
                let bytes = refused + (accepted - refused) / 2;
                *(if new(bytes).is_ok() { &mut accepted } else { &mut refused }) = bytes;
            }
            let heap = new(accepted).unwrap();
            let session = heap.session().unwrap();
            let nodes = (0..).take_while(|_| session.alloc(100).is_ok()).count();
            assert!(nodes >= block / 256, "{block}, {codec}: {nodes} nodes with {accepted} bytes");
        }
    }
}
