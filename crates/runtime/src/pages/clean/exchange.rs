//! Direct reclaim: a handler that restores clean pages while there is no room first evicts as many older
//! ones.
//!
//! This needs no other thread, and only a few microseconds for 64 pages: nothing is compressed, and no search
//! is needed. Keepers alone are too slow where several processes read more than fits, because each keeper
//! scans everything that its process has, and gets only a small part of a CPU (4 % with eight workers on two
//! CPUs).
//!
//! The pages are moved to a free standby slot by `UFFDIO_MOVE`, and discarded there. Discarding them in place
//! would send a message, and this thread would have to wait until it is read.

use crate::interpose::mappings::ranges;
use crate::kernel::addresses::RUN;
use crate::kernel::addresses::{PAGES, index_in_block};
use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{self, Fd, PAGE, advice, prot};
use crate::memory::lock::Guard;
use crate::pages::events::order::Order;
use crate::pages::table::State;
use crate::runtime::Runtime;
use core::sync::atomic::Ordering::*;

/// Number of pages evicted at once.
const BATCH: usize = 64;
/// How many of the most recent pages stay resident: the program is about to read them.
const LAST: usize = 2 * RUN;

const _: () = assert!(RUN < PAGE && BATCH + RUN <= PAGES);

impl Runtime {
    /// Records that a run of clean pages was restored. Over the limit, it evicts as many older ones; far over
    /// it, twice as many.
    pub fn exchange_clean(&self, order: &mut Guard<'_, Order>, start: usize, pages: usize) {
        if !self.kernel.can_move.load(Relaxed) || self.may_write_late() {
            order.recent.forget();
            return;
        }
        order.recent.push(start, pages);
        if self.reclaim.debt.load(Relaxed) <= self.reclaim.margin.load(Relaxed) / 2 {
            order.recent.owed = 0;
            return;
        }
        order.recent.owed += if self.reclaim.is_far_over() { 2 * pages } else { pages };
        if order.recent.owed < BATCH || order.recent.pages < BATCH + LAST {
            return;
        }
        order.recent.owed = 0;
        let given = self.evict_clean(order);
        self.reclaim.change_debt(-((given * PAGE) as i64));
        self.slot().counters.pages_clean.fetch_add(given as u64, Relaxed);
        if given > 0 {
            self.reclaim.given_back.fetch_add(1, Relaxed);
        }
    }

    /// Whether there are clean pages that can be evicted in exchange. Then no fault needs to wait for room.
    pub fn can_exchange_clean(&self, order: &Guard<'_, Order>) -> bool {
        order.recent.pages >= BATCH + LAST
    }

    fn evict_clean(&self, order: &mut Guard<'_, Order>) -> usize {
        let fd = self.kernel.pagemap.load(Relaxed);
        if fd < 0 {
            return 0;
        }
        let Some(slot) = self.pages.standby.take_free() else { return 0 };
        let to = self.pages.standby.address(slot);
        let mut moved = 0;
        // SAFETY: the range lies in a free slot of ours.
        let opened = unsafe { sys::map_over(to, PAGES * PAGE, prot::READ | prot::WRITE) }
            .and_then(|()| self.uffd().register(to, PAGES * PAGE));
        if opened.is_ok() {
            while moved < BATCH && order.recent.pages > LAST {
                let Some((start, pages)) = order.recent.pop() else { break };
                moved += self.move_clean(order, Pagemap::of(Fd(fd)), (start, pages), to + moved * PAGE);
            }
        }
        let _ = self.uffd().unregister(to, PAGES * PAGE);
        // SAFETY: the slot is ours, and holds only copies of data in the store.
        let _ = unsafe { sys::madvise(to, PAGES * PAGE, advice::DONTNEED) };
        self.pages.standby.give_back(slot);
        moved
    }

    /// Moves the clean pages of a run, and writes their entries. Returns the number of pages.
    fn move_clean(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: Pagemap,
        (start, pages): (usize, usize),
        to: usize,
    ) -> usize {
        let end = start + pages * PAGE;
        let Some(block) = self.pages.table.block(start) else { return 0 };
        // The same checks as in `Runtime::evict_now`.
        if ranges::is_kept_now(start, end)
            || self.pages.keep_out.first_in(start, end).is_some()
            || order.was_removed_lately(start, self.pages.discarding.load(SeqCst))
            || !self.keep_protected_only(&pagemap, start, end)
        {
            return 0;
        }
        let (first, mut moved, mut index) = (index_in_block(start), 0, 0);
        let is_takable = |index: usize| {
            block.entries[first + index].load() == State::Empty && self.is_clean(start + index * PAGE)
        };
        while index < pages {
            let run = (index..pages).take_while(|index| is_takable(*index)).count();
            if run == 0 {
                index += 1;
                continue;
            }
            let (from, to) = (start + index * PAGE, to + moved * PAGE);
            // SAFETY: the pages are clean; from now on a touch of one is a fault, and waits for the order
            // lock. The target is a free slot of ours.
            let done = unsafe { self.uffd().move_pages(to, from, run * PAGE, false) }.unwrap_or(0) / PAGE;
            for page in (from..from + done * PAGE).step_by(PAGE) {
                let Some(name) = self.take_blob(page) else {
                    self.fail("a clean page was evicted whose blob is gone")
                };
                block.entries[index_in_block(page)].evict_clean(name);
                block.evicted.fetch_add(1, Relaxed);
            }
            moved += done;
            // A page that the kernel refuses to move is shared since a fork.
            index += done.max(1);
        }
        moved
    }
}
