//! Incompressible pages: they stay where they are.
//!
//! Keeping such a page in the store would free nothing: the store would hold a copy as large as the page,
//! with a header, and a hole once the page is touched. So a page that no codec makes noticeably smaller goes
//! back from standby to its place, and is marked. The hand skips marked pages for a while, and then tests one
//! of them: if it still does not compress, the next while is twice as long. Blocks that were never evicted
//! are sampled before their eviction, in place (`watch/samples.rs`).
//!
//! ```text
//!  resident ──(sampled: none of them compresses)──────────> marked
//!  resident ──> standby ──(compressor: not smaller)──> back, marked
//!  marked ──(time has passed, a sample compresses)──> resident, not marked
//! ```
//!
//! A mark is a hint: whatever it says, contents are safe. It describes the contents at one time. Writes to
//! the page are not reported, so a mark ends after some time, or with the memory (unmapped, discarded).
//!
//! With a tier to spill to, such pages go to the store and then to the tier: that is what the tier is for.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use memfold_shared::trail;

use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{self, Errno, Fd, PAGE};
use crate::memory::lock::Guard;
use crate::pages::order::Order;
use crate::pages::standby::page_id;
use crate::pages::table::{Block, PAGES, State};
use crate::runtime::Runtime;

/// Pages that compress to more than this many 64ths of a page stay as they are.
pub const THRESHOLD: u8 = 56;
/// How long marks last at first, ms; and how often that time can double.
const SHORTEST_MS: u32 = 500;
const DOUBLINGS: u32 = 4;

/// A bit for each page of a block.
pub type Bits = [u64; PAGES / 64];

/// Which pages of a block did not get smaller when last tried. All zeros: none.
#[repr(C)]
pub struct Marks {
    bits: [AtomicU64; PAGES / 64],
    /// Number of marked pages in the block.
    count: AtomicU32,
    /// Until when the marks are valid, and how often in a row they were confirmed.
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

    /// The marks were confirmed: they last longer now.
    pub fn confirm(&self, now_ms: u32) {
        let times = self.confirmed.load(Relaxed);
        self.confirmed.store((times + 1).min(DOUBLINGS), Relaxed);
        self.until_ms.store(now_ms.wrapping_add(SHORTEST_MS << times), Relaxed);
    }

    /// Adds marks. Returns the new ones.
    fn add(&self, more: &Bits, now_ms: u32) -> Bits {
        if !self.any() {
            self.until_ms.store(now_ms.wrapping_add(SHORTEST_MS), Relaxed);
        }
        let new = core::array::from_fn(|word| more[word] & !self.bits[word].fetch_or(more[word], Relaxed));
        self.count.fetch_add(count(&new) as u32, Relaxed);
        new
    }

    /// Removes all marks except `keep`. Returns how many were removed.
    fn keep(&self, keep: &Bits) -> u32 {
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

/// The result of putting pages back.
pub enum Back {
    /// This many are back at their places.
    Done(usize),
    /// Not now: an event is on its way, or there is no memory.
    Later,
    /// This page cannot go back: it must be kept in another way.
    Never,
}

impl Runtime {
    /// Whether pages that do not get smaller stay where they are.
    pub fn leaves_incompressible(&self) -> bool {
        !self.spill.is_open()
    }

    /// Marks pages of a block.
    pub fn mark_incompressible(&self, block: &Block, pages: &Bits) {
        let new = block.marks.add(pages, now_ms());
        self.pages.incompressible.fetch_add(count(&new) as i64, Relaxed);
        self.slot().counters.pages_incompressible.fetch_add(count(&new) as u64, Relaxed);
        if let Some(trail) = self.shared().trail() {
            trail.sizes[trail::size_class(PAGE)].fetch_add(count(&new) as u64, Relaxed);
        }
    }

    /// Removes all marks of a block except `keep`.
    pub fn unmark_all_but(&self, block: &Block, keep: &Bits) {
        if block.marks.any() {
            self.pages.incompressible.fetch_sub(i64::from(block.marks.keep(keep)), Relaxed);
        }
    }

    /// Removes the marks of a range: it has other contents now, or none.
    pub fn forget_marks(&self, start: usize, end: usize) {
        if self.pages.incompressible.load(Relaxed) == 0 {
            return;
        }
        self.pages.table.for_each_block(start, end, |base, block| {
            let (from, to) = (start.max(base), end.min(base + PAGES * PAGE));
            let gone = bits_of((from - base) / PAGE, (to - from).div_ceil(PAGE));
            self.unmark_all_but(block, &gone.map(|word| !word));
        });
    }

    /// Puts pages back to their places, and marks them: at most `count` pages that are adjacent both in a
    /// slot, from `index` on, and at their places.
    pub fn put_back_incompressible(
        &self,
        order: &mut Guard<'_, Order>,
        slot: u32,
        index: usize,
        count: usize,
    ) -> Back {
        let held = self.pages.standby.slot(slot);
        let owner = held.owners[index].load(Relaxed) as usize;
        let (page, first) = (owner * PAGE, owner % PAGES);
        let Some(block) = self.pages.table.block(page) else { return Back::Never };
        let on_standby = |number: &usize| {
            held.owners[index + number].load(Relaxed) as usize == owner + number
                && block.entries[first + number].load() == State::Standby(page_id(slot, index + number))
        };
        let most = count.min(PAGES - first);
        let mut run = (0..most).take_while(on_standby).count();
        if order.forking || run == 0 {
            return Back::Later;
        }
        if self.kernel.knows_guards.load(Relaxed) {
            // The kernel would overwrite a guard.
            let guard = match self.kernel.pagemap.load(Relaxed) {
                fd if fd >= 0 => Pagemap::of(Fd(fd)).first_swapped(page, page + run * PAGE),
                _ => return Back::Never,
            };
            run = guard.map_or(run, |(guard, _)| (guard - page) / PAGE);
            if run == 0 {
                return Back::Never;
            }
        }
        let from = self.pages.standby.address(slot) + index * PAGE;
        // SAFETY: the entries say that these pages on standby are the program's, and under the order lock
        // that stays so.
        let done = match unsafe { self.uffd().copy(page, from as *const u8, run * PAGE) } {
            Ok(bytes) if bytes >= PAGE => bytes / PAGE,
            // In a forked child a page may be present although its entry says otherwise: the page is right.
            Err(Errno::EXIST) => 1,
            Ok(_) | Err(Errno::AGAIN | Errno::NOMEM) => return Back::Later,
            Err(_) => return Back::Never,
        };
        for number in 0..done {
            self.forget_blob(page + number * PAGE);
            block.entries[first + number].rescue();
            block.evicted.fetch_sub(1, Relaxed);
            self.pages.standby.forget(page_id(slot, index + number));
        }
        self.mark_incompressible(block, &bits_of(first, done));
        Back::Done(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in fresh memory.
    fn none() -> Marks {
        // SAFETY: all zeros are no marks.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn marks_are_counted_once_and_go_with_their_range() {
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
    fn marks_that_were_found_true_last_longer_up_to_a_bound() {
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
