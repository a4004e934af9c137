//! Measures the cost of an operation on a node.
//!
//! - `alloc 16`, `free 16`: dalloc's figure 2: ten thousand batches of a thousand nodes of 16 bytes, each freed
//!   in the order of allocation.
//! - `alloc 20-200`, `free 20-200`: a million nodes of random sizes, freed in random order.
//! - `read`, `write`: eight bytes of random 64-byte nodes, 1 MiB in all, in one session (`get_at`, `set_at`); for
//!   malloc, through a table of pointers.
//! - `two readers`: reads by two threads at once, both over all nodes: throughput relative to one thread.
//!
//! Prints nanoseconds of wall time per operation, as medians of several rounds in one thread. The last row is
//! a ratio.

use std::hint::black_box;
use std::time::Instant;

use memfold::heap::{Handle, Heap, Limit, Options, Session};

use crate::random::Random;

const ROUNDS: usize = 7;
const MIB: usize = 1 << 20;

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i + 1));
    }
}

/// An allocator of nodes, to be compared.
trait Nodes {
    type Node: Copy;
    fn alloc(&mut self, len: usize) -> Self::Node;
    fn free(&mut self, node: Self::Node);
    fn read(&mut self, node: Self::Node) -> u64;
    fn write(&mut self, node: Self::Node, value: u64);
}

struct Malloc;

impl Nodes for Malloc {
    type Node = *mut u64;

    fn alloc(&mut self, len: usize) -> *mut u64 {
        // SAFETY: calloc accepts any size.
        unsafe { libc::calloc(1, len).cast() }
    }

    fn free(&mut self, node: *mut u64) {
        // SAFETY: each node is freed once.
        unsafe { libc::free(node.cast()) };
    }

    fn read(&mut self, node: *mut u64) -> u64 {
        // SAFETY: a live node of at least eight bytes.
        unsafe { node.read() }
    }

    fn write(&mut self, node: *mut u64, value: u64) {
        // SAFETY: as above.
        unsafe { node.write(value) };
    }
}

impl Nodes for Session<'_> {
    type Node = Handle;

    #[inline]
    fn alloc(&mut self, len: usize) -> Handle {
        Session::alloc(self, len).expect("room")
    }

    #[inline]
    fn free(&mut self, node: Handle) {
        Session::free(self, node).expect("a live node");
    }

    #[inline]
    fn read(&mut self, node: Handle) -> u64 {
        self.get_at(node, 0).expect("a live node")
    }

    #[inline]
    fn write(&mut self, node: Handle, value: u64) {
        self.set_at(node, 0, &value).expect("a live node");
    }
}

/// Nanoseconds per operation, for `count` operations.
fn timed(count: usize, operations: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    operations();
    begin.elapsed().as_nanos() as f64 / count as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

type Row = (&'static str, f64);

fn small(nodes: &mut impl Nodes) -> [Row; 2] {
    let (mut allocs, mut frees) = (vec![], vec![]);
    let mut held = Vec::with_capacity(1000);
    for _ in 0..ROUNDS {
        let (mut alloc, mut free) = (0.0, 0.0);
        for _ in 0..10_000 / ROUNDS {
            alloc += timed(1000, || held.extend((0..1000).map(|_| nodes.alloc(16))));
            free += timed(1000, || held.drain(..).for_each(|node| nodes.free(node)));
        }
        allocs.push(alloc / (10_000 / ROUNDS) as f64);
        frees.push(free / (10_000 / ROUNDS) as f64);
    }
    [("alloc 16", median(allocs)), ("free 16", median(frees))]
}

fn mixed(nodes: &mut impl Nodes) -> [Row; 2] {
    let (mut allocs, mut frees) = (vec![], vec![]);
    let mut random = Random(1);
    for _ in 0..3 {
        let sizes: Vec<usize> = (0..1_000_000).map(|_| 20 + random.below(181)).collect();
        let mut held = Vec::with_capacity(sizes.len());
        allocs.push(timed(sizes.len(), || held.extend(sizes.iter().map(|&len| nodes.alloc(len)))));
        shuffle(&mut held, &mut random);
        frees.push(timed(sizes.len(), || held.drain(..).for_each(|node| nodes.free(node))));
    }
    [("alloc 20-200", median(allocs)), ("free 20-200", median(frees))]
}

fn access(nodes: &mut impl Nodes) -> [Row; 2] {
    let mut random = Random(2);
    let held: Vec<_> = (0..MIB / 64).map(|_| nodes.alloc(64)).collect();
    let order: Vec<_> = (0..1_000_000).map(|_| held[random.below(held.len())]).collect();
    let (mut reads, mut writes) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        reads.push(timed(order.len(), || {
            black_box(order.iter().fold(0, |sum: u64, &node| sum.wrapping_add(nodes.read(node))));
        }));
        writes.push(timed(order.len(), || {
            order.iter().enumerate().for_each(|(i, &node)| nodes.write(node, i as u64))
        }));
    }
    held.into_iter().for_each(|node| nodes.free(node));
    [("read", median(reads)), ("write", median(writes))]
}

/// The throughput of reads by two threads, relative to one.
fn two_readers(heap: &Heap) -> f64 {
    let owner = heap.session().expect("a session");
    let held: Vec<Handle> = (0..MIB / 64).map(|_| owner.alloc(64).expect("room")).collect();
    let reads = |seed: u64| {
        let mut session = heap.session().expect("a session");
        let mut random = Random(seed);
        let order: Vec<Handle> = (0..1_000_000).map(|_| held[random.below(held.len())]).collect();
        (0..10).for_each(|_| {
            black_box(
                order.iter().fold(0, |sum: u64, &node| sum.wrapping_add(Nodes::read(&mut session, node))),
            );
        });
    };
    let ratios = (0..ROUNDS).map(|_| {
        let one = timed(1, || reads(3));
        let two = timed(2, || {
            std::thread::scope(|scope| {
                scope.spawn(|| reads(4));
                scope.spawn(|| reads(5));
            });
        });
        one / two
    });
    median(ratios.collect())
}

/// Measures and prints.
pub fn run() {
    let heap = Heap::new(Options::new().limit(Limit::Blocks(8192))).expect("options in range");
    let mut session = heap.session().expect("a session");
    let rows = |malloc: [Row; 2], heap: [Row; 2]| {
        for ((name, malloc), (_, heap)) in malloc.into_iter().zip(heap) {
            println!("{name:>14} {malloc:>10.1} {heap:>10.1} {:>8.2}", heap / malloc);
        }
    };
    println!("{:>14} {:>10} {:>10} {:>8}", "ns", "malloc", "heap", "ratio");
    rows(small(&mut Malloc), small(&mut session));
    rows(mixed(&mut Malloc), mixed(&mut session));
    rows(access(&mut Malloc), access(&mut session));
    drop(session);
    println!("{:>14} {:>10} {:>10} {:>8.2}", "two readers", "", "", two_readers(&heap));
}
