//! Sets of 64-bit integers: each structure runs the same operations.

use std::collections::BTreeSet;

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};

use super::compare::{Peer, Run, Set, cpp, own, run, rust};
use super::load::{Load, memory};

/// All peers.
pub const PEERS: &[Peer] = &[
    own("slablist"),
    cpp("absl"),
    rust("btreeset"),
    rust("indexset"),
    cpp("std::set"),
    rust("avl"),
    rust("skiplist"),
    rust("roaring"),
    rust("sorted vec"),
];

/// Runs one structure.
pub fn one(name: &str, load: Load) -> Result<Run, String> {
    let before = memory();
    Ok(match name {
        "slablist" => {
            let options = Options::new().limit(Limit::Blocks(1 << 20));
            let heap = Heap::new(options).map_err(|error| error.to_string())?;
            let session = heap.session().map_err(|error| error.to_string())?;
            let mut list = SlabList::<u64>::new(&session);
            if load.per_slab > 0 {
                list = list.per_slab(load.per_slab);
            }
            run("slab list", load, before, list)
        }
        "btreeset" => run("BTreeSet", load, before, BTreeSet::<u64>::new()),
        "indexset" => run("indexset", load, before, indexset::BTreeSet::<u64>::new()),
        "avl" => run("AVL tree", load, before, avl::AvlTreeSet::<u64>::new()),
        "skiplist" => run("crossbeam skip list", load, before, crossbeam_skiplist::SkipSet::<u64>::new()),
        "roaring" => run("RoaringTreemap", load, before, roaring::RoaringTreemap::new()),
        "sorted vec" => run("sorted Vec", load, before, Sorted::new()),
        _ => return Err(format!("there is no peer {name}")),
    })
}

impl Set<u64> for SlabList<'_, u64> {
    fn insert(&mut self, x: &u64) {
        SlabList::insert(self, x).expect("memory");
    }
    fn contains(&self, x: &u64) -> bool {
        SlabList::contains(self, x).expect("memory")
    }
    fn sum(&self) -> u64 {
        self.fold(0, u64::wrapping_add).expect("memory")
    }
    fn remove(&mut self, x: &u64) {
        SlabList::remove(self, x).expect("memory");
    }
    fn len(&self) -> u64 {
        SlabList::len(self)
    }
}

/// A structure whose methods have the same names as in the standard library.
macro_rules! like_btreeset {
    ($set:ty, $value:expr) => {
        impl Set<u64> for $set {
            fn insert(&mut self, x: &u64) {
                <$set>::insert(self, *x);
            }
            fn contains(&self, x: &u64) -> bool {
                <$set>::contains(self, x)
            }
            fn sum(&self) -> u64 {
                self.iter().fold(0, |sum: u64, x| sum.wrapping_add($value(&x)))
            }
            fn remove(&mut self, x: &u64) {
                <$set>::remove(self, x);
            }
            fn len(&self) -> u64 {
                <$set>::len(self) as u64
            }
        }
    };
}

like_btreeset!(BTreeSet<u64>, |x: &&u64| **x);
like_btreeset!(indexset::BTreeSet<u64>, |x: &&u64| **x);
like_btreeset!(avl::AvlTreeSet<u64>, |x: &&u64| **x);
like_btreeset!(crossbeam_skiplist::SkipSet<u64>, |x: &crossbeam_skiplist::set::Entry<'_, u64>| *x.value());

impl Set<u64> for roaring::RoaringTreemap {
    fn insert(&mut self, x: &u64) {
        roaring::RoaringTreemap::insert(self, *x);
    }
    fn contains(&self, x: &u64) -> bool {
        roaring::RoaringTreemap::contains(self, *x)
    }
    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, x| sum.wrapping_add(x))
    }
    fn remove(&mut self, x: &u64) {
        roaring::RoaringTreemap::remove(self, *x);
    }
    fn len(&self) -> u64 {
        roaring::RoaringTreemap::len(self)
    }
}

/// A vector that is filled first and sorted once. Removed elements are only marked.
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

impl Set<u64> for Sorted {
    fn insert(&mut self, x: &u64) {
        self.elements.push(*x);
    }
    fn settle(&mut self) {
        self.elements.sort_unstable();
        self.elements.dedup();
        self.elements.shrink_to_fit();
    }
    fn contains(&self, x: &u64) -> bool {
        self.elements.binary_search(x).is_ok()
    }
    fn sum(&self) -> u64 {
        self.elements.iter().fold(0, |sum, x| sum.wrapping_add(*x))
    }
    fn remove(&mut self, x: &u64) {
        self.gone.resize(self.elements.len(), false);
        if let Ok(at) = self.elements.binary_search(x) {
            self.count += u64::from(!std::mem::replace(&mut self.gone[at], true));
        }
    }
    fn len(&self) -> u64 {
        self.elements.len() as u64 - self.count
    }
}
