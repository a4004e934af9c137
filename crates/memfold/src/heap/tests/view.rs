//! Looking at nodes in place, and changing them there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec;
use std::vec::Vec;

use crate::heap::{Error, Heap, HeapKind, Limit, Options};
use crate::random::Random;

#[test]
fn nodes_of_all_lengths_where_they_lie() {
    for kind in [HeapKind::Compressed, HeapKind::Plain] {
        let options = Options::new().kind(kind).block_size(4096).alignment(1).limit(Limit::Blocks(2));
        let heap = Heap::new(options).unwrap();
        let session = heap.session().unwrap();
        let longest = session.longest();
        for len in [1, 7, 8, 100, 2000, longest - 1, longest, longest + 1, 100_000] {
            let node = session.alloc(len).unwrap();
            let mut last = 0;
            session
                .change_in_place(node, |bytes| bytes.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8))
                .unwrap();
            for from in [0, 1.min(len - 1), len / 2, len - 1] {
                let byte =
                    session.view(node, |view| (view.len(), view.get::<u8>(from), view.get::<u16>(len - 1)));
                assert_eq!(byte, Ok((len, Some(from as u8), None)), "{len}");
                let mut part = vec![0; len - from];
                assert_eq!(session.view(node, |view| view.copy_to(from, &mut part)), Ok(true));
                assert!(part.iter().enumerate().all(|(i, byte)| *byte == (from + i) as u8));
                last = from;
            }
            assert_eq!(last, len - 1);
            session.free(node).unwrap();
            assert_eq!(session.view(node, |_| ()), Err(Error::Stale));
            assert_eq!(session.change_in_place(node, |_| ()), Err(Error::Stale));
        }
        assert_eq!(heap.stats().nodes, 0);
    }
}

#[test]
fn a_node_that_is_being_changed_is_busy() {
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    let (node, other) = (session.alloc(64).unwrap(), session.alloc(64).unwrap());
    session
        .change_in_place(node, |bytes| {
            assert_eq!(session.change_in_place(node, |_| ()), Err(Error::Busy));
            assert_eq!(session.change_in_place(other, |_| ()), Err(Error::Busy));
            assert_eq!(session.view(node, |_| ()), Err(Error::Busy));
            assert_eq!(session.free(node), Err(Error::Busy));
            bytes[0] = 5;
        })
        .unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| session.change_in_place(node, |_| panic!("as planned"))));
    assert!(panicked.is_err());
    assert_eq!(session.view(node, |view| view.get::<u8>(0)), Ok(Some(5)));
    session.change_in_place(node, |bytes| bytes[0] = 6).unwrap();
    session.free(node).unwrap();
}

#[test]
fn nodes_that_fill_blocks_of_all_kinds() {
    for (size, alignment) in
        [(1024, 1), (1024, 256), (4096, 1024), (32 << 10, 8), (64 << 10, 4096), (1 << 20, 64)]
    {
        let heap =
            Heap::new(Options::new().block_size(size).alignment(alignment).limit(Limit::Blocks(2))).unwrap();
        let session = heap.session().unwrap();
        let len = session.longest();
        assert!(len >= size / 2 && len <= size, "{len} of {size}");
        let nodes: Vec<_> = (0..5u8)
            .map(|number| {
                let node = session.alloc(len).unwrap();
                session.change_in_place(node, |bytes| bytes.fill(number)).unwrap();
                node
            })
            .collect();
        assert_eq!(heap.stats().blocks, 5);
        for (number, node) in nodes.into_iter().enumerate() {
            assert!(session.read(node).unwrap().iter().all(|byte| usize::from(*byte) == number));
            session.free(node).unwrap();
        }
        assert_eq!(heap.stats().blocks, 0);
    }
}

/// While the test looks at a node, it looks at others too, and the node's block is evicted for them.
#[test]
fn looking_while_looking() {
    for (blocks, kind) in
        [1, 2, 3, 8].map(|blocks| (blocks, HeapKind::Compressed)).into_iter().chain([(1, HeapKind::Plain)])
    {
        let options = Options::new().kind(kind).block_size(1024).limit(Limit::Blocks(blocks));
        let heap = Heap::new(options).unwrap();
        let mut session = heap.session().unwrap();
        let nodes: Vec<_> = (0..1000u64).map(|i| session.put(&[i; 20]).unwrap()).collect();
        let mut random = Random(blocks.into());
        for _ in 0..5000 {
            let (at, others) = (random.index(1000), random.index(4));
            let found = session.view(nodes[at], |view| {
                for _ in 0..others {
                    let other = random.index(1000);
                    assert_eq!(session.view(nodes[other], |view| view.get::<u64>(8)), Ok(Some(other as u64)));
                }
                view.get::<u64>(8)
            });
            assert_eq!(found, Ok(Some(at as u64)), "{blocks} blocks");
        }
    }
}

/// Meanwhile the session makes so many translations that its cache grows and moves.
#[test]
fn looking_while_all_is_looked_at() {
    let heap = Heap::new(Options::new().block_size(16 << 10).limit(Limit::Blocks(20_000))).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<_> = (0..1500u64).map(|i| session.put(&[i; 1200]).unwrap()).collect();
    drop(session);
    let session = heap.session().unwrap();
    let look = |at: usize| session.view(nodes[at], |view| view.get::<u64>(8));
    let found = session.view(nodes[0], |view| {
        (1..1500).for_each(|at| assert_eq!(look(at), Ok(Some(at as u64))));
        view.get::<u64>(8)
    });
    assert_eq!(found, Ok(Some(0)));
}
