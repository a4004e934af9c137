//! Pages that do not get smaller stay where they are.
//!
//! To keep such a page in the store would free nothing: the store would hold a
//! copy as large as the page, with a header, and a hole once it is touched. So
//! what no codec makes noticeably smaller goes back from standby to its place,
//! and is marked. The hand leaves marked pages alone for a while, and then looks
//! at one of them: if it still does not compress the while is twice as long.
//! Blocks that were never taken are looked at before they are, at the place
//! where they lie (`watch/samples.rs`).
//!
//! ```text
//!  resident ──(sampled: none of them compresses)──────────> marked
//!  resident ──> standby ──(compressor: not smaller)──> back, marked
//!  marked ──(time is over, a sample compresses)──> resident, not marked
//! ```
//!
//! A mark is a hint: whatever it says, contents are safe. It tells of the
//! contents at one time; who writes to the page says nothing, so it ends by
//! time, or with the memory (unmapped, discarded).
//!
//! With a tier to spill to, such pages go to the store and then there: that is
//! what the tier is for.

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
/// Marks last so long at first, and at most, ms.
const SHORTEST_MS: u32 = 500;
const DOUBLINGS: u32 = 4;

/// A bit for each page of a block.
pub type Bits = [u64; PAGES / 64];

/// Which pages of a block did not get smaller when it was last tried. All zeros: none.
#[repr(C)]
pub struct Marks {
    bits: [AtomicU64; PAGES / 64],
    /// How many there are in the block.
    count: AtomicU32,
    /// Until when they count, and how often in a row they were found true.
    until_ms: AtomicU32,
    confirmed: AtomicU32,
}

impl Marks {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// A copy of all.
    pub fn bits(&self) -> Bits {
        core::array::from_fn(|word| self.bits[word].load(Relaxed))
    }

    /// Whether that page is marked.
    pub fn has(&self, index: usize) -> bool {
        self.any() && self.bits[index / 64].load(Relaxed) >> (index % 64) & 1 != 0
    }

    /// Whether it is time to look again whether they are true.
    pub fn are_due(&self, now_ms: u32) -> bool {
        self.any() && (self.until_ms.load(Relaxed).wrapping_sub(now_ms) as i32) <= 0
    }

    /// They were found true: they count for longer.
    pub fn confirm(&self, now_ms: u32) {
        let times = self.confirmed.load(Relaxed);
        self.confirmed.store((times + 1).min(DOUBLINGS), Relaxed);
        self.until_ms.store(now_ms.wrapping_add(SHORTEST_MS << times), Relaxed);
    }

    /// Adds some. Returns those that are new.
    fn add(&self, more: &Bits, now_ms: u32) -> Bits {
        if !self.any() {
            self.until_ms.store(now_ms.wrapping_add(SHORTEST_MS), Relaxed);
        }
        let new = core::array::from_fn(|word| more[word] & !self.bits[word].fetch_or(more[word], Relaxed));
        self.count.fetch_add(count(&new) as u32, Relaxed);
        new
    }

    /// Takes all away but `keep`. Returns how many that were.
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

/// The bits of so many pages from an index on.
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

/// Whether that bit is.
pub fn has(bits: &Bits, index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 != 0
}

/// Milliseconds of a clock that wraps.
pub fn now_ms() -> u32 {
    (sys::now_ns() / 1_000_000) as u32
}

/// What came of putting pages back.
pub enum Back {
    /// So many are at their place.
    Done(usize),
    /// Not now: an event is on its way, or there is no memory.
    Later,
    /// This one can't go back: it is to be kept otherwise.
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

    /// Of a block's marks, only those of `keep` are true.
    pub fn unmark_all_but(&self, block: &Block, keep: &Bits) {
        if block.marks.any() {
            self.pages.incompressible.fetch_sub(i64::from(block.marks.keep(keep)), Relaxed);
        }
    }

    /// Takes the marks of a range away: it holds something else now, or nothing.
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

    /// Puts pages back to where they came from that lie side by side in a slot from
    /// `index` on and whose owners do too, `count` at most, and marks them.
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
            // The kernel would copy over a guard.
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
        // SAFETY: the entries say that the program's pages are these, on standby, and the order lock keeps
        // that so.
        let done = match unsafe { self.uffd().copy(page, from as *const u8, run * PAGE) } {
            Ok(bytes) if bytes >= PAGE => bytes / PAGE,
            // In a forked child a page may be present although its entry says otherwise: the page is the truth.
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
        // Those that are new begin anew.
        marks.keep(&[0; PAGES / 64]);
        marks.add(&bits_of(7, 1), now);
        assert!(!marks.are_due(now.wrapping_add(499)) && marks.are_due(now.wrapping_add(500)));
    }
}
