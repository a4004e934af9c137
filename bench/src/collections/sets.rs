//! Sets of 64-bit integers: the same operations over each.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};
use nix::time::{ClockId, clock_gettime};

use super::{Order, Run};

/// A structure that is measured.
pub struct Peer {
    /// Its name on the command line, and part of that in tables.
    pub name: &'static str,
    /// It is one of those in `peers.cc`.
    pub cpp: bool,
}

const fn rust(name: &'static str) -> Peer {
    Peer { name, cpp: false }
}

/// All of them.
pub const PEERS: &[Peer] = &[
    rust("slablist"),
    Peer { name: "absl", cpp: true },
    rust("btreeset"),
    rust("indexset"),
    Peer { name: "std::set", cpp: true },
    rust("skiplist"),
    rust("roaring"),
    rust("sorted vec"),
];

/// What is done.
#[derive(Clone, Copy)]
pub struct Load {
    pub elements: u64,
    pub order: Order,
    /// Elements are below this, if it is not 0.
    pub universe: u64,
    pub per_slab: usize,
}

/// A number that seems to be random (SplitMix64).
pub fn mix(i: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Load {
    /// The element that is added at a turn.
    fn element(self, i: u64) -> u64 {
        match self.order {
            Order::Sequential => i,
            Order::Random if self.universe > 0 => mix(i) % self.universe,
            Order::Random => mix(i),
        }
    }

    /// Another order of turns.
    fn turn(self, i: u64) -> u64 {
        (u128::from(i) * 2_654_435_761 % u128::from(self.elements)) as u64
    }
}

/// What is asked of a structure.
trait Set {
    fn insert(&mut self, x: u64);
    fn contains(&self, x: u64) -> bool;
    fn sum(&self) -> u64;
    fn remove(&mut self, x: u64);
    fn len(&self) -> u64;
    /// All were added.
    fn settle(&mut self) {}
}

fn cpu() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |now| Duration::from(now).as_secs_f64())
}

/// Private anonymous memory, bytes.
pub fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn run(peer: &str, load: Load, before: u64, mut set: impl Set) -> Run {
    let mut begin = cpu();
    let mut lap = || {
        let now = cpu();
        now - std::mem::replace(&mut begin, now)
    };
    (0..load.elements).for_each(|i| set.insert(load.element(i)));
    set.settle();
    let insert = lap();
    let (bytes, len) = (memory().saturating_sub(before), set.len());
    lap();
    let found = (0..load.elements).filter(|i| set.contains(load.element(load.turn(*i)))).count() as u64;
    let find = lap();
    let sum = black_box(set.sum());
    let scan = lap();
    (0..load.elements / 2).for_each(|i| set.remove(load.element(load.turn(i))));
    std::thread::sleep(Duration::from_secs(1));
    let remove = lap();
    let half_bytes = memory().saturating_sub(before);
    Run { peer: peer.into(), len, found, sum, left: set.len(), insert, find, scan, remove, bytes, half_bytes }
}

/// Runs one structure.
pub fn one(name: &str, load: Load) -> Result<Run, String> {
    let before = memory();
    Ok(match name {
        "slablist" => {
            let options = Options::new().limit(Limit::Blocks(1 << 20));
            let heap = Heap::new(options).map_err(|error| error.to_string())?;
            let session = heap.session().map_err(|error| error.to_string())?;
            let mut list = SlabList::new(&session);
            if load.per_slab > 0 {
                list = list.per_slab(load.per_slab);
            }
            run("slab list", load, before, list)
        }
        "btreeset" => run("BTreeSet", load, before, BTreeSet::new()),
        "indexset" => run("indexset", load, before, indexset::BTreeSet::new()),
        "skiplist" => run("crossbeam skip list", load, before, crossbeam_skiplist::SkipSet::new()),
        "roaring" => run("RoaringTreemap", load, before, roaring::RoaringTreemap::new()),
        "sorted vec" => run("sorted Vec", load, before, Sorted::new()),
        _ => return Err(format!("no peer is called {name}")),
    })
}

impl Set for SlabList<'_, u64> {
    fn insert(&mut self, x: u64) {
        SlabList::insert(self, &x).expect("memory");
    }
    fn contains(&self, x: u64) -> bool {
        SlabList::contains(self, &x).expect("memory")
    }
    fn sum(&self) -> u64 {
        self.fold(0, u64::wrapping_add).expect("memory")
    }
    fn remove(&mut self, x: u64) {
        SlabList::remove(self, &x).expect("memory");
    }
    fn len(&self) -> u64 {
        SlabList::len(self)
    }
}

impl Set for BTreeSet<u64> {
    fn insert(&mut self, x: u64) {
        BTreeSet::insert(self, x);
    }
    fn contains(&self, x: u64) -> bool {
        BTreeSet::contains(self, &x)
    }
    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, x| sum.wrapping_add(*x))
    }
    fn remove(&mut self, x: u64) {
        BTreeSet::remove(self, &x);
    }
    fn len(&self) -> u64 {
        BTreeSet::len(self) as u64
    }
}

impl Set for indexset::BTreeSet<u64> {
    fn insert(&mut self, x: u64) {
        indexset::BTreeSet::insert(self, x);
    }
    fn contains(&self, x: u64) -> bool {
        indexset::BTreeSet::contains(self, &x)
    }
    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, x| sum.wrapping_add(*x))
    }
    fn remove(&mut self, x: u64) {
        indexset::BTreeSet::remove(self, &x);
    }
    fn len(&self) -> u64 {
        indexset::BTreeSet::len(self) as u64
    }
}

impl Set for crossbeam_skiplist::SkipSet<u64> {
    fn insert(&mut self, x: u64) {
        crossbeam_skiplist::SkipSet::insert(self, x);
    }
    fn contains(&self, x: u64) -> bool {
        crossbeam_skiplist::SkipSet::contains(self, &x)
    }
    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, x| sum.wrapping_add(*x.value()))
    }
    fn remove(&mut self, x: u64) {
        crossbeam_skiplist::SkipSet::remove(self, &x);
    }
    fn len(&self) -> u64 {
        crossbeam_skiplist::SkipSet::len(self) as u64
    }
}

impl Set for roaring::RoaringTreemap {
    fn insert(&mut self, x: u64) {
        roaring::RoaringTreemap::insert(self, x);
    }
    fn contains(&self, x: u64) -> bool {
        roaring::RoaringTreemap::contains(self, x)
    }
    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, x| sum.wrapping_add(x))
    }
    fn remove(&mut self, x: u64) {
        roaring::RoaringTreemap::remove(self, x);
    }
    fn len(&self) -> u64 {
        roaring::RoaringTreemap::len(self)
    }
}

/// Everything at once, and sorted when all is there. What goes is only marked.
struct Sorted {
    elements: Vec<u64>,
    gone: Vec<bool>,
    count: u64,
}

impl Sorted {
    fn new() -> Self {
        Sorted { elements: Vec::new(), gone: Vec::new(), count: 0 }
    }
}

impl Set for Sorted {
    fn insert(&mut self, x: u64) {
        self.elements.push(x);
    }
    fn settle(&mut self) {
        self.elements.sort_unstable();
        self.elements.dedup();
        self.elements.shrink_to_fit();
    }
    fn contains(&self, x: u64) -> bool {
        self.elements.binary_search(&x).is_ok()
    }
    fn sum(&self) -> u64 {
        self.elements.iter().fold(0, |sum, x| sum.wrapping_add(*x))
    }
    fn remove(&mut self, x: u64) {
        self.gone.resize(self.elements.len(), false);
        if let Ok(at) = self.elements.binary_search(&x) {
            self.count += u64::from(!std::mem::replace(&mut self.gone[at], true));
        }
    }
    fn len(&self) -> u64 {
        self.elements.len() as u64 - self.count
    }
}
