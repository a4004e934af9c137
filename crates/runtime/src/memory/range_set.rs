//! A set of address ranges that grows and shrinks. It is for a few thousand ranges at most: each lookup
//! visits all of them. (Ranges of threads are many, are looked up at every eviction and are never removed:
//! see `pages/keep.rs`.)

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::kernel::sys;
use crate::memory::lock::{Guard, Lock};

/// Maximum number of ranges in a set. Unused places cost nothing.
const RANGES: usize = 16_384;

/// How often `first_in_now` tries to take the lock.
const TURNS: usize = 200;

/// A set of ranges. Invariant: the first `count` are in use, none of them is empty, and no two overlap.
pub struct RangeSet {
    list: Lock<List>,
    /// Number of ranges, readable without the lock.
    count: AtomicUsize,
    /// Whether ranges were lost for lack of room.
    overflow: AtomicBool,
}

struct List {
    ranges: [(usize, usize); RANGES],
    count: usize,
}

impl List {
    fn used(&self) -> &[(usize, usize)] {
        &self.ranges[..self.count]
    }

    /// The lowest range that overlaps the given one.
    fn lowest(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        self.used().iter().filter(|(from, to)| *from < end && start < *to).min().copied()
    }

    /// `false` if there is no room.
    fn push(&mut self, start: usize, end: usize) -> bool {
        if start >= end {
            return true;
        }
        let Some(place) = self.ranges.get_mut(self.count) else { return false };
        *place = (start, end);
        self.count += 1;
        true
    }

    /// Removes a range; `false` if there was no room for the remaining parts.
    fn cut(&mut self, start: usize, end: usize) -> bool {
        let (mut at, mut complete) = (0, true);
        while at < self.count {
            let (from, to) = self.ranges[at];
            if to <= start || end <= from {
                at += 1;
                continue;
            }
            self.count -= 1;
            self.ranges[at] = self.ranges[self.count];
            // The remaining parts lie outside the range, so the loop skips them later.
            complete &= self.push(from, start.min(to)) & self.push(end.max(from), to);
        }
        complete
    }
}

impl RangeSet {
    /// An empty set.
    pub const fn new() -> Self {
        RangeSet {
            list: Lock::new(List { ranges: [(0, 0); RANGES], count: 0 }),
            count: AtomicUsize::new(0),
            overflow: AtomicBool::new(false),
        }
    }

    /// Adds a range.
    pub fn add(&self, start: usize, end: usize) {
        self.change(|list| list.cut(start, end) & list.push(start, end));
    }

    /// Removes a range.
    pub fn remove(&self, start: usize, end: usize) {
        if !self.is_empty() {
            self.change(|list| list.cut(start, end));
        }
    }

    /// Whether any byte of the range is in the set.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        !self.is_empty() && self.with(|list| list.used().iter().any(|(from, to)| *from < end && start < *to))
    }

    /// The lowest range of the set that overlaps the given one.
    pub fn first_in(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        if self.is_empty() {
            return None;
        }
        self.with(|list| list.lowest(start, end))
    }

    /// As `first_in`, without waiting: the whole range if a thread of the program is using the set right now.
    /// For threads that hold the order lock. The other thread's stack may have been evicted, and to restore
    /// it takes that lock.
    pub fn first_in_now(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        if self.is_empty() {
            return None;
        }
        for _ in 0..TURNS {
            if let Some(list) = self.list.try_lock() {
                return list.lowest(start, end);
            }
            core::hint::spin_loop();
        }
        Some((start, end))
    }

    /// Whether the set is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count.load(Acquire) == 0
    }

    /// Whether ranges were lost for lack of room.
    pub fn has_overflowed(&self) -> bool {
        self.overflow.load(Relaxed)
    }

    /// Makes the set usable in a forked child.
    ///
    /// # Safety
    /// No other thread may exist.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller upholds the contract. A thread in the middle of a change leaves at worst one
        // range too many or too few: its operation did not complete.
        unsafe { self.list.reset_in_child() };
        self.count.store(self.list.lock().count, Release);
    }

    fn change(&self, work: impl FnOnce(&mut Guard<'_, List>) -> bool) {
        self.with(|list| {
            if !work(list) {
                self.overflow.store(true, Relaxed);
            }
            self.count.store(list.count, Release);
        });
    }

    /// A signal handler may take the lock, so signals are blocked meanwhile.
    fn with<T>(&self, work: impl FnOnce(&mut Guard<'_, List>) -> T) -> T {
        let mask = sys::block_signals();
        sys::touch_stack();
        let done = work(&mut self.list.lock());
        sys::restore_signals(mask);
        done
    }
}

impl Default for RangeSet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_set_in_use_is_not_waited_for() {
        let set = RangeSet::new();
        assert_eq!(set.first_in_now(0, 100), None);
        set.add(10, 20);
        assert_eq!((set.first_in_now(0, 100), set.first_in_now(20, 100)), (Some((10, 20)), None));
        let held = set.list.lock();
        assert_eq!((set.first_in_now(0, 100), set.first_in_now(20, 100)), (Some((0, 100)), Some((20, 100))));
        drop(held);
        assert_eq!(set.first_in_now(20, 100), None);
    }

    #[test]
    fn a_set_of_ranges_agrees_with_a_set_of_numbers() {
        const SPAN: usize = 300;
        let (set, mut naive) = (RangeSet::new(), [false; SPAN]);
        let mut seed = 1u64;
        let mut below = |limit: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % limit
        };
        for _ in 0..5000 {
            let start = below(SPAN);
            let end = start + 1 + below((SPAN - start).min(30));
            let add = below(2) == 0;
            if add {
                set.add(start, end)
            } else {
                set.remove(start, end)
            }
            naive[start..end.min(SPAN)].fill(add);
            for (at, expected) in naive.iter().enumerate() {
                assert_eq!(set.overlaps(at, at + 1), *expected, "{at} after {start}..{end} {add}");
            }
            let first = set.first_in(start, SPAN).map(|(from, _)| from.max(start));
            assert_eq!(first, (start..SPAN).find(|at| naive[*at]), "from {start}");
        }
        assert!(!set.has_overflowed());
    }

    #[test]
    fn too_many_ranges_are_reported() {
        let set = RangeSet::new();
        let ranges: Vec<usize> = (0..RANGES + 1).map(|i| i * 10).collect();
        for start in &ranges {
            assert!(!set.has_overflowed());
            set.add(*start, start + 5);
        }
        assert!(set.has_overflowed());
        assert!(set.overlaps(0, 1) && !set.overlaps(RANGES * 10, RANGES * 10 + 1));
    }
}
