//! Several threads at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::vec::Vec;
use std::{thread, vec};

use super::model::against_model;
use super::small;
use crate::heap::*;
use crate::random::Random;

#[test]
fn threads_share_a_heap() {
    let mut heap = Heap::new(small(4096)).unwrap();
    thread::scope(|scope| {
        for seed in 0..3 {
            let heap = &heap;
            scope.spawn(move || {
                let mut session = heap.session().unwrap();
                let mut random = Random(seed);
                let mut model: Vec<(Handle, Vec<u8>)> = vec![];
                for _ in 0..6000 {
                    if random.index(5) < 3 || model.is_empty() {
                        let len = 1 + random.index(200);
                        let (handle, bytes) = (session.alloc(len).unwrap(), random.bytes(len));
                        session.write(handle).unwrap().copy_from_slice(&bytes);
                        model.push((handle, bytes));
                    } else {
                        let at = random.index(model.len());
                        let (handle, bytes) = &model[at];
                        assert_eq!(&session.read(*handle).unwrap(), bytes);
                        if random.index(2) == 0 {
                            session.free(*handle).unwrap();
                            model.swap_remove(at);
                        }
                    }
                }
                for (handle, bytes) in model {
                    assert_eq!(session.read(handle).unwrap(), bytes);
                    session.free(handle).unwrap();
                }
            });
        }
    });
    assert_eq!((heap.stats().nodes, heap.stats().blocks), (0, 0));
    heap.check().unwrap();
}

/// The statistics are read at different moments, and still no sum is smaller than one of its parts.
#[test]
fn figures_are_read_while_others_work() {
    let heap = Heap::new(small(1024)).unwrap();
    let (working, ends) = (AtomicU64::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 0..2 {
            let (heap, working) = (&heap, &working);
            scope.spawn(move || {
                let mut session = heap.session().unwrap();
                let mut random = Random(seed);
                for round in 0..60 {
                    let nodes: Vec<Handle> = (0..100)
                        .map(|_| {
                            let len = if round % 3 == 0 { 1 + random.index(5000) } else { 16 };
                            session.put_bytes(&random.bytes(len)).unwrap()
                        })
                        .collect();
                    nodes.iter().for_each(|&node| session.free(node).unwrap());
                }
                working.fetch_sub(1, AcqRel);
            });
        }
        while !ends.load(Relaxed) {
            let stats = heap.stats();
            assert!(stats.memory_bytes() >= stats.frame_bytes + stats.payload_bytes, "{stats:?}");
            assert!(stats.compressions <= stats.evictions, "{stats:?}");
            assert!(stats.table_bytes < 1 << 30 && stats.node_bytes < 1 << 30, "{stats:?}");
            ends.store(working.load(Acquire) == 0, Relaxed);
        }
    });
    assert_eq!((heap.stats().nodes, heap.stats().node_bytes, heap.stats().blocks), (0, 0, 0));
}

/// Threads free, make, write and read each other's nodes, so that blocks change owners all the time. One
/// thread at a time uses each slot.
fn threads_use_each_others_nodes(options: Options, sizes: &[usize], steps: usize) {
    let mut heap = Heap::new(options).unwrap();
    type Slot = Mutex<Option<(Handle, Vec<u8>)>>;
    let slots: Vec<Slot> = (0..400).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for seed in 0..3 {
            let (heap, slots) = (&heap, &slots);
            scope.spawn(move || {
                let mut session = heap.session().unwrap();
                let mut random = Random(seed);
                for _ in 0..steps {
                    let mut slot = slots[random.index(slots.len())].lock().unwrap();
                    let Some((handle, bytes)) = slot.as_mut() else {
                        let len = sizes[random.index(sizes.len())];
                        let bytes = random.bytes(len);
                        let handle = session.put_bytes(&bytes).unwrap();
                        *slot = Some((handle, bytes));
                        continue;
                    };
                    assert_eq!(session.read(*handle).as_ref(), Ok(&*bytes));
                    match random.index(6) {
                        0..=1 => {
                            session.free(*handle).unwrap();
                            assert_eq!(session.size(*handle), Err(Error::Stale));
                            *slot = None;
                        }
                        2 => {
                            let len = sizes[random.index(sizes.len())];
                            *handle = session.resize(*handle, len).unwrap();
                            bytes.resize(len, 0);
                        }
                        3 => {
                            let len = sizes[random.index(sizes.len())];
                            let near = session.alloc_near(len, *handle).unwrap();
                            session.free(near).unwrap();
                        }
                        _ => {
                            let at = random.index(bytes.len());
                            bytes[at] ^= 1;
                            session.write(*handle).unwrap()[at] ^= 1;
                        }
                    }
                }
            });
        }
    });
    heap.check().unwrap();
    let session = heap.session().unwrap();
    let live = slots.into_iter().filter_map(|slot| slot.into_inner().unwrap());
    for (handle, bytes) in live {
        assert_eq!(session.read(handle), Ok(bytes));
        session.free(handle).unwrap();
    }
    drop(session);
    heap.check().unwrap();
    assert_eq!((heap.stats().nodes, heap.stats().blocks), (0, 0));
}

#[test]
fn blocks_go_from_thread_to_thread() {
    let options = |frames| small(4096).limit(Limit::Blocks(frames));
    // With everything resident, with few frames, and with large nodes among the others.
    threads_use_each_others_nodes(options(1000), &[10, 50, 50, 300], 60_000);
    threads_use_each_others_nodes(options(1000), &[24], 60_000);
    threads_use_each_others_nodes(options(4), &[10, 50, 50, 300], 8000);
    threads_use_each_others_nodes(options(4), &[24], 8000);
    // Several blocks are evicted at once.
    threads_use_each_others_nodes(options(64), &[900, 1500], 8000);
    threads_use_each_others_nodes(options(6), &[10, 200, 6000], 2000);
    threads_use_each_others_nodes(options(4).paranoid(true), &[10, 50], 300);
    threads_use_each_others_nodes(options(64).paranoid(true), &[900, 1500], 300);
}

/// While a place is used again, a handle of the node that was there before finds neither the new node nor
/// damage.
#[test]
fn a_stale_handle_is_stale_while_its_place_is_used_again() {
    // Less than the 256 generations after which a check returns: a node is made in one of 3 places or more.
    const RECENT: u64 = 500;
    for (options, sizes) in
        [(small(1024), [24, 24]), (small(1024), [10, 14]), (small(1024).paranoid(true), [10, 14])]
    {
        let heap = Heap::new(options).unwrap();
        // Freed nodes so far, and the last of them.
        let (freed, last) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let session = heap.session().unwrap();
                let keeper = session.alloc(sizes[0]).unwrap();
                for round in 1..=400_000 {
                    let handle = session.alloc(sizes[round as usize % 2]).unwrap();
                    session.free(handle).unwrap();
                    last.store(handle.to_bits(), Release);
                    freed.store(round, Release);
                }
                session.free(keeper).unwrap();
                freed.store(u64::MAX, Release);
            });
            let session = heap.session().unwrap();
            let mut seen = 0;
            while seen != u64::MAX {
                seen = freed.load(Acquire);
                let Some(handle) = Handle::from_bits(last.load(Acquire)) else { continue };
                loop {
                    let size = session.size(handle);
                    let now = freed.load(Acquire);
                    if now - seen > RECENT || now == u64::MAX {
                        break;
                    }
                    assert_eq!(size, Err(Error::Stale), "{handle:?} after {} others", now - seen);
                }
            }
        });
    }
}

#[test]
fn a_read_has_the_state_of_one_moment() {
    let heap = Heap::new(small(1024)).unwrap();
    let session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..64).map(|_| session.alloc(100).unwrap()).collect();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let reader = || {
            let session = heap.session().unwrap();
            let (mut random, mut bytes) = (Random(1), vec![]);
            while !done.load(Relaxed) {
                session.read_into(nodes[random.index(64)], &mut bytes).unwrap();
                assert!(bytes.len() == 100 && bytes.iter().all(|&byte| byte == bytes[0]), "{bytes:?}");
                reads.fetch_add(1, Relaxed);
            }
        };
        scope.spawn(reader);
        scope.spawn(reader);
        let mut writer = heap.session().unwrap();
        let mut random = Random(2);
        for _ in 0..100_000 {
            let byte = random.next() as u8;
            writer.write(nodes[random.index(64)]).unwrap().fill(byte);
        }
        done.store(true, Relaxed);
    });
    assert!(reads.load(Relaxed) > 0);
}

#[test]
fn the_background_changes_nothing_but_the_time() {
    let options = small(4096).limit(Limit::Blocks(24)).background(true);
    for ahead in [Ahead::Off, Ahead::Neighbours(2), Ahead::Links(vec![0, 8, 4000])] {
        let options = options.clone().ahead(ahead);
        against_model(options.clone(), 10_000, &[300], 30);
        threads_use_each_others_nodes(options, &[10, 50, 300, 300], 8000);
    }
}
