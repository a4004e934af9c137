//! Heaps larger than their limit that spill to a file.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memfold::heap::{Error, Heap, Limit, Options};
use memfold::spill::{Spilled, Target, Terms};

const MIB: u64 = 1 << 20;

fn options(target: &Target, most: u64) -> Options {
    let terms = Terms { most: Some(most), ..Terms::default() };
    let spilled = Spilled::open(target, terms, |_| {}).unwrap();
    Options::new().limit(Limit::Bytes(8 * MIB)).spill(spilled)
}

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..125).flat_map(|_| next()).collect()
}

#[test]
fn a_heap_that_is_larger_than_its_limit_goes_on_in_a_file() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let target = Target::File(directory.path().to_owned());
    let heap = Heap::new(options(&target, 100 * MIB)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<_> = (0..40_000)
        .map(|seed| {
            let node = session.alloc(1000).unwrap();
            session.write(node).unwrap().copy_from_slice(&noise(seed));
            node
        })
        .collect();
    let stats = heap.stats();
    assert!(stats.memory_bytes() <= 8 * MIB && stats.spilled_bytes > 30 * MIB, "{stats:?}");
    for step in 0..40_000_u64 {
        let seed = step * 7919 % 40_000;
        assert_eq!(session.read(nodes[seed as usize]).unwrap(), noise(seed));
    }
    for node in nodes {
        session.free(node).unwrap();
    }
    assert_eq!(heap.stats().spilled_bytes, 0);
}

#[test]
fn a_full_file_is_the_limit_again() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let target = Target::File(directory.path().to_owned());
    let heap = Heap::new(options(&target, 10 * MIB)).unwrap();
    let mut session = heap.session().unwrap();
    let mut nodes = Vec::new();
    let refused = (0..40_000).find_map(|seed| match session.alloc(1000) {
        Ok(node) => {
            session.write(node).unwrap().copy_from_slice(&noise(seed));
            nodes.push(node);
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(refused, Some(Error::Limit));
    assert!((12_000..18_000).contains(&nodes.len()), "{}", nodes.len());
    for (seed, node) in (0..).zip(&nodes) {
        assert_eq!(session.read(*node).unwrap(), noise(seed));
    }
}

/// The compressed form of these blocks is longer than a usual batch.
#[test]
fn long_blocks_go_to_the_file_too() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let target = Target::File(directory.path().to_owned());
    let spilled = Spilled::open(&target, Terms::default(), |_| {}).unwrap();
    let options = Options::new().block_size(1 << 20).limit(Limit::Bytes(24 * MIB)).spill(spilled);
    let heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<_> = (0..80_000).map(|seed| session.put_bytes(&noise(seed)).unwrap()).collect();
    let stats = heap.stats();
    assert!(stats.spilled_bytes > 50 * MIB && stats.memory_bytes() < 26 * MIB, "{stats:?}");
    for (seed, node) in (0..).zip(&nodes).step_by(97) {
        assert_eq!(session.read(*node).unwrap(), noise(seed));
    }
    for node in nodes {
        session.free(node).unwrap();
    }
    assert_eq!(heap.stats().spilled_bytes, 0);
}

/// Several sessions fill blocks by turns, or threads at the same time.
#[test]
fn a_limit_is_held_by_several_sessions() {
    let limit = 32 * MIB;
    for (block, sessions) in [(32 << 10, 2), (32 << 10, 8), (1 << 20, 4)] {
        let heap = Heap::new(Options::new().block_size(block).limit(Limit::Bytes(limit))).unwrap();
        let mut all: Vec<_> = (0..sessions).map(|_| heap.session().unwrap()).collect();
        let (mut most, mut nodes) = (0, 0);
        for seed in 0.. {
            most = most.max(heap.stats().memory_bytes());
            match all[seed as usize % sessions].put_bytes(&noise(seed)) {
                Ok(_) => nodes += 1,
                Err(error) => {
                    assert_eq!(error, Error::Limit);
                    break;
                }
            }
        }
        assert!(nodes * 1000 > 24 * MIB, "{block}, {sessions}: {nodes} nodes");
        assert!(most <= limit + 8 * block as u64 + (128 << 10), "{block}, {sessions}: {most}");
    }
    for (block, threads) in [(32 << 10, 2), (32 << 10, 8), (1 << 20, 4)] {
        let heap = Heap::new(Options::new().block_size(block).limit(Limit::Bytes(limit))).unwrap();
        let most = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (heap, most) = (&heap, &most);
                scope.spawn(move || {
                    let mut session = heap.session().unwrap();
                    for number in 0.. {
                        most.fetch_max(heap.stats().memory_bytes(), Relaxed);
                        if let Err(error) = session.put_bytes(&noise(number * threads + thread)) {
                            assert_eq!(error, Error::Limit);
                            break;
                        }
                    }
                });
            }
        });
        let bound = limit + (8 + (threads - 1)) * block as u64 + (128 << 10);
        assert!(most.load(Relaxed) <= bound, "{block}, {threads}: {}", most.load(Relaxed));
    }
}

/// The bound that docs/heap.md states for data that do not compress, also when nodes are read at random
/// afterwards.
#[test]
fn a_limit_is_exceeded_by_a_few_blocks_at_most() {
    for block in [32 << 10, 1 << 20] {
        let options = Options::new().block_size(block).limit(Limit::Bytes(32 * MIB));
        let heap = Heap::new(options).unwrap();
        let mut session = heap.session().unwrap();
        let (mut nodes, mut most) = (Vec::new(), 0);
        let mut look = |number: u64| {
            if number.is_multiple_of(16) {
                most = most.max(heap.stats().memory_bytes());
            }
        };
        let refused = (0..).find_map(|seed| {
            look(seed);
            session.put_bytes(&noise(seed)).map(|node| nodes.push(node)).err()
        });
        assert_eq!(refused, Some(Error::Limit));
        for step in 0..1000 {
            let seed = step * 7919 % nodes.len() as u64;
            assert_eq!(session.read(nodes[seed as usize]).unwrap(), noise(seed));
            look(step);
        }
        assert!(nodes.len() as u64 * 1000 > 24 * MIB, "{block}: {} nodes", nodes.len());
        assert!(most <= 32 * MIB + 8 * block as u64 + (128 << 10), "{block}: {most}");
    }
}
