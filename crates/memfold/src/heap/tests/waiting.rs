//! Nodes that could not be freed at once, and forgotten guards and sessions.

use std::mem::forget;
use std::sync::atomic::Ordering::Relaxed;

use super::*;

/// Nodes that wait.
fn waiting(heap: &Heap) -> usize {
    locked(&heap.core().large).waiting.len()
}

/// An error is injected at each step of an operation, and then another into freeing what the operation had
/// made: that node waits, and is freed in the end.
fn fails_at_each_place<R>(
    heap: &mut Heap,
    mut operation: impl FnMut(&mut Session<'_>, Handle) -> Result<R, Error>,
) -> usize {
    let (mut waited, mut before) = (0, 0);
    loop {
        let mut session = heap.session().unwrap();
        // Two nodes, so that the first one has no room to grow in place.
        let [node, beside] = [7; 2].map(|byte| session.put_bytes(&[byte; 1500]).unwrap());
        let nodes = heap.stats().nodes;
        session.fail_after(before);
        let result = operation(&mut session, node);
        let has_failed = session.stop_failing();
        assert_eq!(has_failed, result.is_err());
        if !has_failed {
            return waited;
        }
        assert_eq!(session.read(node).unwrap(), [7; 1500]);
        waited += waiting(heap);
        assert_eq!(heap.stats().nodes, nodes);
        session.free(node).and(session.free(beside)).unwrap();
        drop(session);
        assert_eq!((waiting(heap), heap.stats().nodes, heap.check()), (0, 0, Ok(())));
        before += 1;
    }
}

#[test]
fn nodes_of_a_failed_operation_are_freed_later() {
    let heap = &mut Heap::new(Options::new().block_size(4096)).unwrap();
    // The node moves: an operation can fail in filling the new node, or in freeing the old one.
    assert_eq!(fails_at_each_place(heap, |session, node| session.resize(node, 3000)), 2);
    let heap = &mut Heap::new(Options::new().block_size(4096)).unwrap();
    // The node has three parts, each of which can fail.
    assert_eq!(fails_at_each_place(heap, |session, _| session.put_bytes(&[1; 9000])), 3);
}

/// Another session pins all frames when a node is freed. The node is released when a block is made, or at the
/// latest when the session ends.
#[test]
fn a_discarded_node_whose_block_has_no_frame_is_freed_later() {
    for is_short in [true, false] {
        let mut heap = Heap::new(Options::new().block_size(4096).limit(Limit::Blocks(3))).unwrap();
        let session = heap.session().unwrap();
        let nodes: Vec<Handle> = (0..8).map(|_| session.alloc(3000).unwrap()).collect();
        let other = heap.session().unwrap();
        let pins: Vec<_> = nodes[..3].iter().map(|node| other.pin(*node).unwrap()).collect();
        assert_eq!(session.free(nodes[7]), Err(Error::Pinned));
        session.discard(nodes[7]);
        assert_eq!((waiting(&heap), heap.stats().nodes), (1, 7));
        // There is no frame yet.
        assert_eq!((session.alloc(3000), waiting(&heap)), (Err(Error::Pinned), 1));
        drop(pins);
        if is_short {
            let more = session.alloc(3000).unwrap();
            assert_eq!((waiting(&heap), heap.stats().nodes), (0, 8));
            session.free(more).unwrap();
        }
        nodes[..7].iter().for_each(|node| session.free(*node).unwrap());
        drop((session, other));
        assert_eq!((waiting(&heap), heap.stats().nodes, heap.check()), (0, 0, Ok(())));
    }
}

/// Waiting nodes are not saved.
#[test]
fn nodes_that_wait_to_be_freed_are_not_saved() {
    let mut heap = Heap::new(Options::new().block_size(4096)).unwrap();
    let session = heap.session().unwrap();
    let node = session.alloc(100).unwrap();
    session.fail_after(0);
    assert!(session.alloc(1).is_err());
    session.discard(node);
    session.stop_failing();
    forget(session);
    assert_eq!(waiting(&heap), 1);
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    assert_eq!((waiting(&heap), Heap::load_from(&file[..], Options::new()).unwrap().stats().nodes), (0, 0));
}

/// Forgotten sessions used to keep their blocks and participants, and the nodes of their guards, for good.
#[test]
fn forgotten_sessions_and_guards() {
    let mut heap = Heap::new(Options::new().block_size(4096).limit(Limit::Blocks(3))).unwrap();
    let mut nodes = vec![];
    for round in 0..4 {
        let mut session = heap.session().unwrap();
        let (short, long, gone) = (session.alloc(60), session.alloc(9000), session.alloc(3000));
        session.free(gone.unwrap()).unwrap();
        let (short, long) = (short.unwrap(), long.unwrap());
        forget(session.pin(short).unwrap());
        for node in [short, long] {
            let mut guard = session.write(node).unwrap();
            guard.fill(round);
            forget(guard);
        }
        // A guard may be forgotten although its session is not.
        if round % 2 == 0 {
            forget(session)
        } else {
            drop(session)
        }
        nodes.push((short, long));
        assert_eq!(heap.check(), Ok(()));
        let mut session = heap.session().unwrap();
        for (round, &(short, long)) in nodes.iter().enumerate() {
            assert!(
                session
                    .read(short)
                    .unwrap()
                    .iter()
                    .chain(&session.read(long).unwrap())
                    .all(|byte| *byte == round as u8)
            );
            session.write(short).unwrap().fill(round as u8);
            session.write(long).unwrap().fill(round as u8);
        }
    }
    let session = heap.session().unwrap();
    nodes.iter().for_each(|(short, long)| session.free(*short).and(session.free(*long)).unwrap());
    drop(session);
    assert_eq!((heap.check(), heap.stats().nodes), (Ok(()), 0));
}

#[test]
fn as_many_sessions_as_one_forgets() {
    let mut heap = Heap::new(Options::new()).unwrap();
    // There are participants for only 65,535 at a time.
    for _ in 0..70 {
        (0..1000).for_each(|_| forget(heap.session().unwrap()));
        assert_eq!(heap.check(), Ok(()));
    }
    heap.session().unwrap().alloc(10).unwrap();
}

/// Each session makes a node, and together they need no more blocks than one session would.
#[test]
fn as_many_sessions_as_there_can_be() {
    let mut heap = Heap::new(Options::new()).unwrap();
    let all = super::super::MOST_SESSIONS as usize;
    for _ in 0..all {
        let mut session = heap.session().unwrap();
        session.put_bytes(&[7; 100]).unwrap();
        forget(session);
    }
    assert_eq!(heap.session().err(), Some(Error::Sessions));
    let (bytes, blocks) = (all * 100, heap.stats().blocks);
    assert!(blocks < (bytes * 13 / 10 / (32 << 10) + 16) as u64, "{blocks}");
    assert_eq!(heap.check(), Ok(()));
    assert_eq!(heap.core().counts.held.load(Relaxed), 0);
    heap.session().unwrap().alloc(10).unwrap();
}
