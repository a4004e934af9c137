//! Placing pages: from standby, from the store, or fresh ones.
//!
//! Contents are read without a lock. They are placed under the order lock, and only if the page's entry has
//! not changed since. The kernel refuses (`EAGAIN`) while a message about a changed mapping has not been
//! read.

use core::sync::atomic::Ordering::*;

use memfold::probe;

use super::run::{Placing, Run};
use super::{Placed, Server};
use crate::faults::delivery::Delivery;
use crate::kernel::addresses::RUN;
use crate::kernel::addresses::{PAGES, page_number};
use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{Errno, Fd, PAGE};
use crate::kernel::uffd::Touch;
use crate::memory::lock::Guard;
use crate::pages::events::order::{Fault, Order};
use crate::pages::table::State;

/// Number of pages from this one to the end of its block.
fn left_in_block(page: usize) -> usize {
    PAGES - page / PAGE % PAGES
}

impl Server {
    /// How many of `count` pages may be filled: those before the first guard page. The kernel would overwrite
    /// a guard (kernels before 6.13 have none). The caller holds the order lock, so no page is moved
    /// meanwhile.
    fn before_guard(&self, page: usize, count: usize) -> usize {
        let fd = self.runtime.kernel.pagemap.load(Relaxed);
        if fd < 0 || !self.runtime.kernel.knows_guards.load(Relaxed) {
            return count;
        }
        let first = Pagemap::of(Fd(fd)).first_swapped(page, page + count * PAGE);
        first.map_or(count, |(guard, _)| (guard - page) / PAGE)
    }

    /// Copies pages back from standby. Also returns how many. `asked` tells whether a thread waits for the
    /// first.
    pub(super) fn rescue(&mut self, fault: Fault, run: usize, asked: bool) -> (Placed, usize) {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        if order.forking {
            return (self.fault_again(fault), 0);
        }
        let mut done = 0;
        let mut run = run.min(RUN).min(left_in_block(fault.page));
        if run > 1 {
            run = self.before_guard(fault.page, run).max(1);
        }
        let Some(block) = runtime.pages.table.block(fault.page) else { return (Placed::Retry, 0) };
        while done < run {
            let page = fault.page + done * PAGE;
            let entry = &block.entries[page / PAGE % PAGES];
            let State::Standby(id) = entry.load() else { break };
            let from = runtime.pages.standby.page_address(id) as *const u8;
            let mut is_clean = fault.touch == Touch::Read && runtime.is_clean_on_standby(page);
            // SAFETY: the entry says that the page on standby is the program's page.
            match unsafe { runtime.delivery().place(page, from, PAGE, is_clean) } {
                Ok(_) => {}
                Err(Errno::EXIST) => is_clean = false,
                // This mapping is not registered for write protection.
                Err(Errno::INVAL) if is_clean => {
                    runtime.forget_blob(page);
                    continue;
                }
                Err(error) if done == 0 => return (self.refused(&mut order, page, error), 0),
                Err(_) => break,
            }
            if is_clean {
                runtime.blob_from_standby(page);
            } else {
                runtime.forget_blob(page);
            }
            entry.rescue();
            block.evicted.fetch_sub(1, Relaxed);
            runtime.pages.standby.forget(id);
            runtime.pages.standby.slot(id >> 9).rescued.fetch_add(1, Relaxed);
            done += 1;
        }
        drop(order);
        if done == 0 {
            return (Placed::Retry, 0);
        }
        runtime.slot().counters.pages_rescued.fetch_add(done as u64, Relaxed);
        probe!(runtime_rescue, fault.page, done);
        runtime.reclaim.change_debt((done * PAGE) as i64);
        runtime.delivery().resume(fault.page, done * PAGE);
        if asked {
            self.streams.expect_next(fault.page, done);
        }
        (Placed::Done, done)
    }

    /// Decompresses pages and places them. Also returns how many. `asked` tells whether a thread waits for
    /// the first.
    pub(super) fn restore(&mut self, fault: Fault, run: usize, asked: bool) -> (Placed, usize) {
        let runtime = self.runtime;
        let mut found = [State::Empty; RUN];
        let wanted = run.min(RUN).min(left_in_block(fault.page));
        runtime.stored.set_reading(self.worker.number, true);
        let mut count = 0;
        while count < wanted {
            let Some(state) = self.load(fault.page + count * PAGE, count) else { break };
            found[count] = state;
            count += 1;
        }
        runtime.stored.set_reading(self.worker.number, false);
        if count == 0 {
            return (Placed::Retry, 0);
        }
        self.place(fault, &found[..count], None, asked)
    }

    /// Decompresses a page into the worker's page `index`, and pins it: `place` removes the pin. `None` if
    /// the page is not in the store. The worker must have announced that it reads.
    pub(crate) fn load(&mut self, page: usize, index: usize) -> Option<State> {
        let runtime = self.runtime;
        let entry = runtime.pages.table.entry(page)?;
        let state = entry.load();
        let into = &mut self.worker.pages[index * PAGE..(index + 1) * PAGE];
        match state {
            State::Zero => into.fill(0),
            State::Stored(name) if entry.pin(name) => {
                // SAFETY: the blob is pinned, and this worker has announced that it reads.
                let loaded =
                    unsafe { runtime.store().load(name, page_number(page), into, &mut self.worker.decode) };
                if loaded.is_err() {
                    runtime.fail_corrupt();
                }
            }
            _ => return None,
        }
        Some(state)
    }

    /// Places decompressed pages if they are unchanged. `batch` is the batch in which they were spilled.
    pub(crate) fn place(
        &mut self,
        fault: Fault,
        found: &[State],
        batch: Option<u64>,
        asked: bool,
    ) -> (Placed, usize) {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        let run = Run {
            page: fault.page,
            found,
            batch,
            block: runtime.pages.table.block(fault.page),
            forks: runtime.forks.generation.load(Relaxed),
        };
        let mut placing = Placing { answer: Placed::Retry, done: 0, keeps: false };
        if order.forking {
            placing.answer = self.fault_again(fault);
        } else {
            let intact = self.intact(&run);
            let may_keep = asked && intact > 0 && fault.touch == Touch::Read && runtime.keeps_clean();
            let kept = if may_keep { run.kept_clean(runtime, intact) } else { None };
            placing.keeps = kept.is_some();
            self.copy_in(&mut order, &run, kept.map_or(intact, |kept| kept), &mut placing);
        }
        let settled = run.settle_entries(runtime, &placing);
        let Placing { answer, done, keeps } = placing;
        if keeps && done > 0 {
            runtime.exchange_clean(&mut order, fault.page, done);
        }
        drop(order);
        runtime.pages.zero_pages.fetch_sub(settled.zeros, Relaxed);
        settled.freed.iter().flatten().for_each(|(name, owner)| runtime.free(*name, *owner));
        // Resume all of them: threads that saw one of our pins wait, too.
        runtime.delivery().resume(fault.page, found.len() * PAGE);
        if done > 0 {
            self.note_placed(fault.page, done, settled.fetched, asked);
            // For spilled pages the handler has already noted this.
            if asked && batch.is_none() {
                self.streams.expect_next(fault.page, done);
            }
        }
        (answer, done)
    }

    /// How many of the pages, counted from the first, are unchanged since they were found, with no guard
    /// among them.
    fn intact(&self, run: &Run<'_>) -> usize {
        let intact = (0..run.found.len()).take_while(|index| run.is_still(self.runtime, *index)).count();
        if intact > 1 { self.before_guard(run.page, intact).max(1) } else { intact }
    }

    /// Copies the first `intact` of the worker's pages to the program's.
    fn copy_in(&self, order: &mut Guard<'_, Order>, run: &Run<'_>, intact: usize, placing: &mut Placing) {
        while placing.done < intact {
            let (page, bytes) = (run.page + placing.done * PAGE, (intact - placing.done) * PAGE);
            let from = self.worker.pages[placing.done * PAGE..].as_ptr();
            // SAFETY: the entries say that these are the program's pages, decompressed.
            match unsafe { self.runtime.delivery().place(page, from, bytes, placing.keeps) } {
                Ok(copied) => {
                    placing.done += copied / PAGE;
                    placing.answer = Placed::Done;
                }
                // This mapping was registered before the process forked, without write protection.
                Err(Errno::INVAL) if placing.keeps && placing.done == 0 => placing.keeps = false,
                Err(Errno::NOENT) if bytes > PAGE && placing.done == 0 => {
                    // The run extends beyond the mapping: place only the page that was touched.
                    // SAFETY: as above.
                    match unsafe { self.runtime.delivery().place(page, from, PAGE, placing.keeps) } {
                        Ok(_) => (placing.done, placing.answer) = (1, Placed::Done),
                        Err(error) => placing.answer = self.refused(order, page, error),
                    }
                    break;
                }
                Err(Errno::EXIST) if placing.done == 0 => {
                    // In a forked child a page may be present although its entry says otherwise (see
                    // `journal.rs`): the page is right.
                    *placing = Placing { answer: Placed::Done, done: 1, keeps: false };
                    break;
                }
                Err(error) => {
                    if placing.done == 0 {
                        placing.answer = self.refused(order, page, error);
                    }
                    break;
                }
            }
        }
    }

    /// Counts pages that were placed.
    fn note_placed(&self, page: usize, done: usize, fetched: u64, asked: bool) {
        let counters = &self.runtime.slot().counters;
        let faulted = u64::from(asked);
        counters.pages_fetched.fetch_add(fetched, Relaxed);
        counters.pages_faulted.fetch_add(faulted, Relaxed);
        counters.pages_prefetched.fetch_add(done as u64 - faulted, Relaxed);
        probe!(runtime_restore, page, done);
        if fetched > 0 {
            probe!(runtime_fetch, page, fetched);
        }
        self.runtime.reclaim.change_debt((done * PAGE) as i64);
    }

    /// Gives the program fresh pages: a run of them for a stream of touches. A read gets the kernel's zero
    /// page. A write gets pages of the program's own: to replace the zero page later, the kernel would
    /// interrupt all CPUs for each page.
    pub(super) fn give_zeros(&mut self, fault: Fault, run: usize) -> Placed {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        if order.forking {
            return self.fault_again(fault);
        }
        let empty =
            |page: usize| runtime.pages.table.entry(page).is_none_or(|entry| entry.load() == State::Empty);
        let run = if fault.touch == Touch::Write { run.min(RUN) } else { run };
        let count =
            (0..run.min(left_in_block(fault.page))).take_while(|i| empty(fault.page + i * PAGE)).count();
        if count == 0 {
            return Placed::Retry;
        }
        let count = self.before_guard(fault.page, count);
        if count == 0 {
            // It became a guard page meanwhile: the thread finds out when it touches it again.
            runtime.delivery().resume_at(fault.page);
            return Placed::Done;
        }
        if fault.touch == Touch::Write {
            self.worker.pages[..count * PAGE].fill(0);
        }
        // The kernel may have dropped a page that was marked as no longer needed (`MADV_FREE`).
        (0..count).for_each(|index| runtime.forget_blob(fault.page + index * PAGE));
        let mut done = 0;
        for pages in [count, 1] {
            // SAFETY: nothing is kept of these pages, under the lock: they are fresh or discarded.
            let given = unsafe {
                if fault.touch == Touch::Write {
                    runtime.delivery().place(fault.page, self.worker.pages.as_ptr(), pages * PAGE, false)
                } else {
                    runtime.delivery().place_zeros(fault.page, pages * PAGE)
                }
            };
            match given {
                Ok(bytes) => {
                    done = bytes / PAGE;
                    break;
                }
                Err(Errno::NOENT | Errno::EXIST) if pages > 1 => {}
                Err(error) => return self.refused(&mut order, fault.page, error),
            }
        }
        drop(order);
        probe!(runtime_zero, fault.page, done);
        if fault.touch == Touch::Write {
            runtime.reclaim.change_debt((done * PAGE) as i64);
        }
        runtime.delivery().resume(fault.page, done * PAGE);
        self.streams.expect_next(fault.page, done);
        Placed::Done
    }

    /// A fork began after the fault was read: the table may be out of date, and only the journal is right.
    #[cold]
    fn fault_again(&self, fault: Fault) -> Placed {
        self.runtime.delivery().resume_at(fault.page);
        Placed::Done
    }

    /// The kernel refused to place a page.
    fn refused(&self, order: &mut Guard<'_, Order>, page: usize, error: Errno) -> Placed {
        let runtime = self.runtime;
        match error {
            Errno::AGAIN => {
                runtime.drain(order);
                Placed::Retry
            }
            // The hard memory limit of this process's cgroup is reached: eviction makes room.
            Errno::NOMEM => {
                runtime.reclaim.change_debt(PAGE as i64 * 16);
                Placed::Retry
            }
            // A page is resident already, or the mapping is gone: the thread finds out when it touches the
            // page again.
            _ => {
                runtime.delivery().resume_at(page);
                Placed::Done
            }
        }
    }
}
