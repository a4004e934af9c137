//! Tracks which units of a file or an export are in use.
//!
//! ```text
//!   │ batch │ free │ batch │ batch │  free  │ batch │ never used ──
//!                                                   ^ top
//! ```
//!
//! Free extents are used before the top rises; the shortest that is long enough is taken (best fit: Wilson et
//! al. 1995, sequential fits). So a file stays short, and batches of different sizes find space when space is
//! scarce.

use std::collections::BTreeMap;

/// See the module. The user defines the size of a unit.
#[derive(Debug)]
pub struct Space {
    most: u64,
    top: u64,
    used: u64,
    /// Free extents below the top: start and length. No two of them are adjacent, and none reaches the top.
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// `most` units, none of them in use.
    pub fn new(most: u64) -> Self {
        Space { most, top: 0, used: 0, free: BTreeMap::new() }
    }

    /// Takes `count` adjacent units; returns the first.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        let fitting = self.free.iter().filter(|(_, run)| **run >= count);
        let found = fitting.min_by_key(|(_, run)| **run).map(|(first, run)| (*first, *run));
        let first = match found {
            Some((first, run)) => {
                self.free.remove(&first);
                if run > count {
                    self.free.insert(first + count, run - count);
                }
                first
            }
            None => {
                let top = self.top.checked_add(count).filter(|top| *top <= self.most)?;
                core::mem::replace(&mut self.top, top)
            }
        };
        self.used += count;
        Some(first)
    }

    /// Returns units that were taken.
    pub fn give_back(&mut self, first: u64, count: u64) {
        self.used -= count;
        let (mut begin, mut end) = (first, first + count);
        if let Some((before, run)) = self.free.range(..first).next_back().map(|(at, run)| (*at, *run))
            && before + run == first
        {
            self.free.remove(&before);
            begin = before;
        }
        if let Some(run) = self.free.remove(&end) {
            end += run;
        }
        if end == self.top {
            self.top = begin;
        } else {
            self.free.insert(begin, end - begin);
        }
    }

    /// Units in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The number of units.
    pub fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a map of single units.
        #[test]
        fn no_unit_has_two_users(steps in prop::collection::vec((any::<bool>(), 1_u64..9, any::<prop::sample::Index>()), 1..200)) {
            let mut space = Space::new(64);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            let mut map = [false; 64];
            for (take, count, which) in steps {
                if take || taken.is_empty() {
                    let longest = map.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0) as u64;
                    match space.take(count) {
                        Some(first) => {
                            for unit in first..first + count {
                                prop_assert!(!std::mem::replace(&mut map[unit as usize], true));
                            }
                            taken.push((first, count));
                        }
                        None => prop_assert!(longest < count),
                    }
                } else {
                    let (first, count) = taken.swap_remove(which.index(taken.len()));
                    space.give_back(first, count);
                    map[first as usize..][..count as usize].fill(false);
                }
                prop_assert_eq!(space.used(), map.iter().filter(|used| **used).count() as u64);
                let top = map.iter().rposition(|used| *used).map_or(0, |last| last as u64 + 1);
                prop_assert_eq!(space.top, top);
                let mut last = None;
                for (first, run) in &space.free {
                    prop_assert!(last < Some(*first) && first + run < top);
                    last = Some(first + run);
                }
            }
        }
    }
}
