//! Incompressible pages: they stay where they are.
//!
//! Keeping such a page in the store would free nothing: the store would hold a copy as large as the page,
//! with a header, and a hole once the page is touched. So a page that no codec makes noticeably smaller goes
//! back from standby to its place, and is marked. The hand skips marked pages for a while, and then tests one
//! of them: if it still does not compress, they are skipped for twice as long. Blocks that were never evicted
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

use core::sync::atomic::Ordering::*;

use memfold_shared::trail;

use crate::kernel::addresses::PAGES;
use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{Errno, Fd, PAGE};
use crate::memory::lock::Guard;
use crate::pages::Pages;
use crate::pages::events::order::Order;
use crate::pages::marks::{Bits, bits_of, count, now_ms};
use crate::pages::standby::page_id;
use crate::pages::table::{Block, State};
use crate::runtime::Runtime;
use crate::spill::state::Spill;

/// Pages that compress to more than this many 64ths of a page stay as they are.
pub const THRESHOLD: u8 = 56;
/// The result of putting pages back.
pub enum Back {
    /// This many are back at their places.
    Done(usize),
    /// Not now: an event is on its way, or there is no memory.
    Later,
    /// This page cannot go back: it must be kept in another way.
    Never,
}

impl Spill {
    /// Whether pages that do not get smaller stay where they are.
    pub fn leaves_incompressible(&self) -> bool {
        !self.is_open()
    }
}

impl Pages {
    /// Removes all marks of a block except `keep`.
    pub fn unmark_all_but(&self, block: &Block, keep: &Bits) {
        if block.marks.any() {
            self.incompressible.fetch_sub(i64::from(block.marks.keep(keep)), Relaxed);
        }
    }

    /// Removes the marks of a range: it has other contents now, or none.
    pub fn forget_marks(&self, start: usize, end: usize) {
        if self.incompressible.load(Relaxed) == 0 {
            return;
        }
        self.table.for_each_block(start, end, |base, block| {
            let (from, to) = (start.max(base), end.min(base + PAGES * PAGE));
            let gone = bits_of((from - base) / PAGE, (to - from).div_ceil(PAGE));
            self.unmark_all_but(block, &gone.map(|word| !word));
        });
    }
}

impl Runtime {
    /// Marks pages of a block.
    pub fn mark_incompressible(&self, block: &Block, pages: &Bits) {
        let new = block.marks.add(pages, now_ms());
        self.pages.incompressible.fetch_add(count(&new) as i64, Relaxed);
        self.slot().counters.pages_incompressible.fetch_add(count(&new) as u64, Relaxed);
        if let Some(trail) = self.shared().trail() {
            trail.sizes[trail::size_class(PAGE)].fetch_add(count(&new) as u64, Relaxed);
        }
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
