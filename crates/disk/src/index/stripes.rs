//! The index: leaves by number, in stripes with one lock each.
//!
//! Leaf `n` is in stripe `n mod 256`, so neighbours have different locks. A lock is held for a lookup, for
//! copying at most a block's compressed form, and while the store takes or finds a blob; never while
//! compressing or waiting.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::index::leaf::{Leaf, PAGE, PAGES};
use crate::locked;
use crate::memory::budget::Budget;

const STRIPES: usize = 256;
/// Bytes of a leaf, including what the allocator and the table of leaves take for it.
pub const LEAF_BYTES: u64 = PAGE as u64 + 64;

/// The leaves under one lock.
#[derive(Default)]
pub struct Stripe {
    /// Leaves are kept even if they are empty.
    keeps: bool,
    /// Advances with every change of the content of any page in these leaves.
    pub version: u64,
    leaves: BTreeMap<u64, Box<Leaf>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Padded(Mutex<Stripe>);

/// The index; see the module.
pub struct Stripes(Box<[Padded]>);

impl Stripes {
    pub fn new() -> Self {
        Stripes((0..STRIPES).map(|_| Padded::default()).collect())
    }

    pub fn lock(&self, leaf: u64) -> MutexGuard<'_, Stripe> {
        locked(&self.0[leaf as usize % STRIPES].0)
    }

    /// The same, unless another thread has the lock.
    pub fn try_lock(&self, leaf: u64) -> Option<MutexGuard<'_, Stripe>> {
        self.0[leaf as usize % STRIPES].0.try_lock().ok()
    }

    /// The first leaf from number `from` on.
    pub fn next(&self, from: u64) -> Option<u64> {
        // Usually it is one of the next few.
        for leaf in from..from + 4 {
            if self.lock(leaf).leaves.contains_key(&leaf) {
                return Some(leaf);
            }
        }
        self.0
            .iter()
            .filter_map(|stripe| locked(&stripe.0).leaves.range(from..).next().map(|(&leaf, _)| leaf))
            .min()
    }

    /// Creates all leaves below `end`, and keeps them from then on; false if there is not enough memory.
    pub fn make_all(&self, end: u64, budget: &Budget) -> bool {
        self.0.iter().for_each(|stripe| locked(&stripe.0).keeps = true);
        (0..end).all(|leaf| self.lock(leaf).make(leaf, budget).is_some())
    }

    /// The number of leaves.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|stripe| locked(&stripe.0).leaves.len() as u64).sum()
    }

    pub fn table_bytes(&self) -> u64 {
        (STRIPES * size_of::<Padded>()) as u64
    }
}

impl Stripe {
    pub fn get(&self, leaf: u64) -> Option<&Leaf> {
        self.leaves.get(&leaf).map(|leaf| &**leaf)
    }

    pub fn get_mut(&mut self, leaf: u64) -> Option<&mut Leaf> {
        self.leaves.get_mut(&leaf).map(|leaf| &mut **leaf)
    }

    /// The leaf, which is created if it does not exist; `None` if there is no memory for it.
    pub fn make(&mut self, leaf: u64, budget: &Budget) -> Option<&mut Leaf> {
        use std::collections::btree_map::Entry;
        match self.leaves.entry(leaf) {
            Entry::Occupied(there) => Some(there.into_mut()),
            Entry::Vacant(place) => {
                if !budget.take(LEAF_BYTES) {
                    return None;
                }
                match Leaf::new() {
                    Some(made) => Some(place.insert(made)),
                    None => {
                        budget.give(LEAF_BYTES);
                        None
                    }
                }
            }
        }
    }

    /// Drops the leaf if it is empty.
    pub fn drop_empty(&mut self, leaf: u64, budget: &Budget) {
        if !self.keeps && self.leaves.get(&leaf).is_some_and(|leaf| leaf.is_empty()) {
            self.leaves.remove(&leaf);
            budget.give(LEAF_BYTES);
        }
    }
}

/// The number of the leaf that contains a page, and the page's place in it.
pub fn leaf_of(page: u64) -> (u64, usize) {
    (page / PAGES as u64, (page % PAGES as u64) as usize)
}
