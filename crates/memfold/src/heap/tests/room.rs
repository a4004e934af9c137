//! What is left when nodes go.

use std::sync::atomic::Ordering::*;
use std::vec;
use std::vec::Vec;

use crate::heap::blocks::Place;
use crate::heap::core::locked;
use crate::heap::layout::Shape;
use crate::heap::layout::mixed::{Extents, Mixed};
use crate::heap::*;
use crate::random::Random;

/// Numbers of blocks that there are. Each of those with nodes of different sizes must be one free extent when it is merged.
fn blocks_of_one_extent(heap: &Heap) -> usize {
    let core = heap.core();
    let end = locked(&core.rooms).numbers().0;
    let blocks = (1..end).filter_map(|number| Some((number, core.blocks.get(number)?)));
    let there = blocks.filter(|(_, block)| block.state().place() != Place::Vacant);
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

/// dalloc's listing of fragmentation, for any sequence that frees everything: one extent a block, and then no block.
#[test]
fn what_is_all_freed_is_one_extent_a_block_and_then_nothing() {
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
            // Those from which the session allocates are left.
            assert!((1..=20).contains(&blocks_of_one_extent(&heap)));
            drop(session);
            assert_eq!((heap.stats().blocks, blocks_of_one_extent(&heap)), (0, 0));
        }
    }
}
