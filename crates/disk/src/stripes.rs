//! The index: leaves by number, in stripes with a lock each.
//!
//! Leaf `n` is in stripe `n mod 256`, so neighbours have different locks. A lock is held for a lookup, a copy of at most a block's compressed form, and
//! what the store needs to take a blob or find one; never for a compression, nor for anything that waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::budget::Budget;
use crate::leaf::{Leaf, PAGE, PAGES};
use crate::locked;

const STRIPES: usize = 256;
/// Bytes of a leaf, and what the allocator and the table of leaves take for it.
pub const LEAF_BYTES: u64 = PAGE as u64 + 64;

/// Leaves with one lock.
#[derive(Default)]
pub struct Stripe {
    /// Leaves stay when nothing is in them.
    keeps: bool,
    /// Moves on with every change of what any page of these leaves holds.
    pub version: u64,
    leaves: BTreeMap<u64, Box<Leaf>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Padded(Mutex<Stripe>);

/// See the module.
pub struct Stripes(Box<[Padded]>);

impl Stripes {
    pub fn new() -> Self {
        Stripes((0..STRIPES).map(|_| Padded::default()).collect())
    }

    pub fn lock(&self, leaf: u64) -> MutexGuard<'_, Stripe> {
        locked(&self.0[leaf as usize % STRIPES].0)
    }

    /// The same, unless somebody has it.
    pub fn try_lock(&self, leaf: u64) -> Option<MutexGuard<'_, Stripe>> {
        self.0[leaf as usize % STRIPES].0.try_lock().ok()
    }

    /// The first leaf from number `from` on.
    pub fn next(&self, from: u64) -> Option<u64> {
        // Mostly it is one of the next.
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

    /// Makes all leaves below `end`, to stay; false if there is no memory.
    pub fn make_all(&self, end: u64, budget: &Budget) -> bool {
        self.0.iter().for_each(|stripe| locked(&stripe.0).keeps = true);
        (0..end).all(|leaf| self.lock(leaf).make(leaf, budget).is_some())
    }

    /// Leaves that there are.
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

    /// The leaf, which is made if there is none; `None` if there is no memory for it.
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

    /// Drops the leaf if there is nothing in it.
    pub fn drop_empty(&mut self, leaf: u64, budget: &Budget) {
        if !self.keeps && self.leaves.get(&leaf).is_some_and(|leaf| leaf.is_empty()) {
            self.leaves.remove(&leaf);
            budget.give(LEAF_BYTES);
        }
    }
}

/// The number of the leaf with a page, and the page's place in it.
pub fn leaf_of(page: u64) -> (u64, usize) {
    (page / PAGES as u64, (page % PAGES as u64) as usize)
}
