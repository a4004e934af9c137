//! Which pages of a block did not compress when last tried, and how long the marks on them are trusted: see
//! `reclaim/incompressible.rs`.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::kernel::addresses::PAGES;
use crate::kernel::sys;

/// How long marks last at first, in ms; and how many times that can double.
const SHORTEST_MS: u32 = 500;
const DOUBLINGS: u32 = 4;

/// A bit for each page of a block.
pub type Bits = [u64; PAGES / 64];

/// Which pages of a block did not compress when last tried. All zeros: none.
#[repr(C)]
pub struct Marks {
    bits: [AtomicU64; PAGES / 64],
    /// Number of marked pages in the block.
    count: AtomicU32,
    /// Until when the marks are trusted, and how many times in a row they were confirmed, at most
    /// `DOUBLINGS`.
    until_ms: AtomicU32,
    confirmed: AtomicU32,
}

impl Marks {
    /// Whether any page is marked.
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// A copy of all marks.
    pub fn bits(&self) -> Bits {
        core::array::from_fn(|word| self.bits[word].load(Relaxed))
    }

    /// Whether this page is marked.
    pub fn has(&self, index: usize) -> bool {
        self.any() && self.bits[index / 64].load(Relaxed) >> (index % 64) & 1 != 0
    }

    /// Whether it is time to check the marks again.
    pub fn are_due(&self, now_ms: u32) -> bool {
        self.any() && (self.until_ms.load(Relaxed).wrapping_sub(now_ms) as i32) <= 0
    }

    /// Confirms the marks: they last for another period, which doubles from the second confirmation on.
    pub fn confirm(&self, now_ms: u32) {
        let times = self.confirmed.load(Relaxed);
        self.confirmed.store((times + 1).min(DOUBLINGS), Relaxed);
        self.until_ms.store(now_ms.wrapping_add(SHORTEST_MS << times), Relaxed);
    }

    /// Adds marks. Returns the new ones.
    pub fn add(&self, more: &Bits, now_ms: u32) -> Bits {
        if !self.any() {
            self.until_ms.store(now_ms.wrapping_add(SHORTEST_MS), Relaxed);
        }
        let new = core::array::from_fn(|word| more[word] & !self.bits[word].fetch_or(more[word], Relaxed));
        self.count.fetch_add(count(&new) as u32, Relaxed);
        new
    }

    /// Removes all marks except `keep`. Returns how many were removed.
    pub fn keep(&self, keep: &Bits) -> u32 {
        let mut gone = 0;
        for (word, keep) in self.bits.iter().zip(keep) {
            gone += (word.fetch_and(*keep, Relaxed) & !keep).count_ones();
        }
        let left = self.count.fetch_sub(gone, Relaxed) - gone;
        if left == 0 {
            self.confirmed.store(0, Relaxed);
        }
        gone
    }
}

/// A set of `count` pages from index `first` on.
pub fn bits_of(first: usize, count: usize) -> Bits {
    let mut bits = [0; PAGES / 64];
    for index in first..(first + count).min(PAGES) {
        bits[index / 64] |= 1 << (index % 64);
    }
    bits
}

/// How many bits are set.
pub fn count(bits: &Bits) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// Whether this bit is set.
pub fn has(bits: &Bits, index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 != 0
}

/// Milliseconds of a clock that wraps around.
pub fn now_ms() -> u32 {
    (sys::now_ns() / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks of a new block: memory of zeros.
    fn none() -> Marks {
        // SAFETY: all zeros mean no marks.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn a_page_marked_twice_counts_once_and_marks_can_be_removed() {
        let marks = none();
        assert!(!marks.any() && !marks.has(3));
        assert_eq!(marks.add(&bits_of(0, 100), 0), bits_of(0, 100));
        assert_eq!(marks.add(&bits_of(50, 100), 0), bits_of(100, 50));
        assert!(marks.has(0) && marks.has(149) && !marks.has(150));
        assert_eq!(marks.keep(&bits_of(140, 400)), 140);
        assert_eq!(marks.count.load(Relaxed), 10);
        assert_eq!(marks.keep(&[0; PAGES / 64]), 10);
        assert!(!marks.any());
    }

    #[test]
    fn confirmed_marks_last_longer_up_to_a_bound() {
        let marks = none();
        let start = u32::MAX - 100;
        marks.add(&bits_of(7, 1), start);
        let mut now = start;
        let lasts = [0; 7].map(|_| {
            let begin = now;
            while !marks.are_due(now) {
                now = now.wrapping_add(1);
            }
            marks.confirm(now);
            now.wrapping_sub(begin)
        });
        assert_eq!(lasts, [500, 500, 1000, 2000, 4000, 8000, 8000]);
        // New marks start with the shortest time again.
        marks.keep(&[0; PAGES / 64]);
        marks.add(&bits_of(7, 1), now);
        assert!(!marks.are_due(now.wrapping_add(499)) && marks.are_due(now.wrapping_add(500)));
    }
}
