//! Taking blocks away: `mremap` moves a block's pages to a standby slot and
//! leaves the mapping behind, empty and registered.
//!
//! The order of steps is what makes it safe (see also `order.rs`):
//!
//! 1. Under the order lock: register the range, make sure that no event is on
//!    its way, and announce the range, so that faults in it wait.
//! 2. Without the lock: move. The kernel tells the handlers of the move. That
//!    message is the proof that the source was registered; without it somebody
//!    has replaced the mapping in the last microsecond, and pages are put back.
//! 3. Without the lock: see which pages there are.
//! 4. Under the lock: write the entries, except of pages that an event has made
//!    void meanwhile, and wake who waits.

use core::sync::atomic::Ordering::*;

use crate::order::Evicting;
use crate::runtime::Runtime;
use crate::standby::page_id;
use crate::pagemap::Pagemap;
use crate::sys::{self, Errno, PAGE, advice, prot};
use crate::table::{BLOCK, PAGES, State, index_in_block, page_number};
use crate::uffd::Probe;

/// Pages of a range that must be there to make it worth taking.
const WORTH: u32 = 4;

/// What came of trying to take a range away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// This many pages are on standby now.
    Pages(u32),
    /// Nothing worth taking is there, or it can't be taken.
    Nothing,
    /// Events are on their way: try again soon.
    Busy,
    /// The mapping is not what it was when the mappings were listed.
    Stale,
}

impl Runtime {
    /// Takes away `start..end`, which lies in one block and in `mapping`.
    pub fn evict(&self, pagemap: &Pagemap, start: usize, end: usize, mapping: (usize, usize)) -> Taken {
        debug_assert!(start / BLOCK == (end - 1) / BLOCK);
        let (pages, first) = ((end - start) / PAGE, index_in_block(start));
        match pagemap.present(start, pages, first) {
            None => return Taken::Stale,
            Some(present) if present.count < WORTH.min(pages as u32) => return Taken::Nothing,
            Some(_) => {}
        }
        let Some(slot) = self.standby.take_free() else { return Taken::Nothing };
        let to = self.standby.address(slot) + (start & (BLOCK - 1));
        let taken = match self.announce(start, end, to, mapping) {
            Ok(()) if self.pins_seen.load(Acquire) => self.take_unpinned(pagemap, start, end, slot, to),
            Ok(()) => self.take(pagemap, start, end, slot, to),
            Err(refusal) => refusal,
        };
        match taken {
            // After `sort_out` some pages may be there too.
            Taken::Pages(_) | Taken::Stale if self.standby.slot(slot).live.load(Relaxed) > 0 => {
                self.standby.enqueue(slot);
            }
            _ => self.standby.give_back(slot),
        }
        taken
    }

    /// Marks a mapping as not to be inherited: a fork that the runtime does not
    /// know of then ends in a crash, and not in zeros where data was.
    pub fn mark(&self, start: usize, end: usize) {
        // SAFETY: advice that loses nothing; `fork.rs` takes it back around every fork it knows of.
        let _ = unsafe { sys::madvise(start, end - start, advice::DONTFORK) };
    }

    fn announce(&self, start: usize, end: usize, to: usize, mapping: (usize, usize)) -> Result<(), Taken> {
        let mut order = self.order.lock();
        if order.forking || order.was_removed_lately(start, (sys::now_ns() / 1_000_000) as u32) {
            return Err(Taken::Nothing);
        }
        // Only handlers read messages: a fault read here would have nobody to serve it.
        // The whole mapping: registering a part would split it, and system
        // calls like mremap that want one mapping would fail for the program.
        if self.uffd().register(mapping.0, mapping.1 - mapping.0).is_err() {
            return Err(Taken::Stale);
        }
        match self.uffd().probe(start) {
            Probe::Registered => {}
            Probe::Changing => return Err(Taken::Busy),
            Probe::Unregistered => return Err(Taken::Stale),
        }
        self.mark(mapping.0, mapping.1);
        if self.table.make_block(start, &self.arena, &mut order.spare).is_none() {
            return Err(Taken::Nothing);
        }
        order.evicting = Some(Evicting { start, end, to, moved: 0, void: [0; PAGES / 64] });
        Ok(())
    }

    fn take(&self, pagemap: &Pagemap, start: usize, end: usize, slot: u32, to: usize) -> Taken {
        let bytes = end - start;
        // SAFETY: the target is a free slot of ours; touches of the source are
        // faults now, which the handlers serve from what the entries say.
        let result = unsafe { sys::mremap_to(start, bytes, to, true) };
        let moved = self.order.lock().evicting.as_ref().map_or(0, |e| e.moved);
        let _ = self.uffd().unregister(to, bytes);
        // The slot got all properties of the source: a forked child must inherit it.
        self.unmark(to, to + bytes);
        // SAFETY: nobody else uses the slot yet.
        let readable = unsafe { self.make_readable(to, bytes) };
        let present = pagemap.present(to, bytes / PAGE, index_in_block(start));
        match present {
            Some(present) if result.is_ok() && moved == bytes && readable => {
                self.write_entries(start, end, slot, &present.bits)
            }
            _ if result.is_err() && moved == 0 && present.is_none_or(|p| p.count == 0) => {
                self.order.lock().evicting = None;
                self.uffd().wake(start, bytes);
                if result == Err(Errno::FAULT) { Taken::Stale } else { Taken::Nothing }
            }
            _ => self.sort_out(pagemap, start, end, slot, to),
        }
    }

    /// The range was not one registered mapping any more when it was moved:
    /// since Linux 6.17 several mappings may move at once. What came from a
    /// mapping that is not registered, or from a file, goes back at once; the
    /// rest is on standby like any other.
    #[cold]
    fn sort_out(&self, pagemap: &Pagemap, start: usize, end: usize, slot: u32, to: usize) -> Taken {
        let mut bits = [0u64; PAGES / 64];
        for offset in (0..end - start).step_by(PAGE) {
            let (source, target) = (start + offset, to + offset);
            let (file, there) = match pagemap.present(target, 1, 0) {
                None => (true, true),
                Some(present) => (false, present.count == 1),
            };
            if !there {
                continue;
            }
            let _ = self.uffd().unregister(target, PAGE);
            // SAFETY: a page of a slot that nobody else uses yet.
            let readable = !file && unsafe { self.make_readable(target, PAGE) };
            if readable && self.is_registered(source) {
                let index = index_in_block(source);
                bits[index / 64] |= 1 << (index % 64);
                continue;
            }
            // SAFETY: the page returns to where it came from a moment ago.
            if unsafe { sys::mremap_to(target, PAGE, source, false) }.is_err() {
                self.fail("a page that was taken away from a mapping that changed meanwhile could not be put back");
            }
        }
        self.write_entries(start, end, slot, &bits);
        Taken::Stale
    }

    fn is_registered(&self, page: usize) -> bool {
        loop {
            match self.uffd().probe(page) {
                Probe::Registered => return true,
                Probe::Unregistered => return false,
                Probe::Changing => sys::sched_yield(),
            }
        }
    }

    /// As `take`, by UFFDIO_MOVE, which refuses pages that are pinned for I/O.
    fn take_unpinned(&self, pagemap: &Pagemap, start: usize, end: usize, slot: u32, to: usize) -> Taken {
        let bytes = end - start;
        // SAFETY: a free slot of ours.
        let ready = unsafe { sys::map_over(to, bytes, prot::READ | prot::WRITE) }
            .and_then(|()| self.uffd().register(to, bytes));
        let before = pagemap.present(start, bytes / PAGE, index_in_block(start));
        if let (Ok(()), Some(before)) = (ready, before) {
            let mut offset = 0;
            while offset < bytes {
                let there = |at: usize| {
                    let index = index_in_block(start + at);
                    at < bytes && before.bits[index / 64] >> (index % 64) & 1 != 0
                };
                if !there(offset) {
                    offset += PAGE;
                    continue;
                }
                let mut run = PAGE;
                while there(offset + run) {
                    run += PAGE;
                }
                // SAFETY: touches of the source are faults that wait until the entries are
                // written; the target is a free slot of ours.
                match unsafe { self.uffd().move_pages(to + offset, start + offset, run, true) } {
                    Ok(done) => offset += done.max(PAGE),
                    Err(Errno::INVAL | Errno::SRCH | Errno::NOMEM) => break,
                    // Pinned, shared after a fork, or gone meanwhile: it stays.
                    Err(_) => offset += PAGE,
                }
            }
        }
        let _ = self.uffd().unregister(to, bytes);
        match pagemap.present(to, bytes / PAGE, index_in_block(start)) {
            Some(present) => self.write_entries(start, end, slot, &present.bits),
            None => self.fail("what was moved to standby can't be seen there"),
        }
    }

    /// # Safety
    /// The range must be in a slot that nobody else uses.
    unsafe fn make_readable(&self, at: usize, bytes: usize) -> bool {
        // Whatever the program allowed itself. Protection key 0 is one that our threads may use.
        let args = [at, bytes, prot::READ | prot::WRITE, 0, 0, 0];
        // SAFETY: passed on to the caller.
        unsafe { sys::syscall(sys::nr::PKEY_MPROTECT, args).is_ok() || sys::mprotect(at, bytes, args[2]).is_ok() }
    }

    fn write_entries(&self, start: usize, end: usize, slot: u32, present: &[u64; PAGES / 64]) -> Taken {
        let mut order = self.order.lock();
        let void = order.evicting.as_ref().map_or([0; PAGES / 64], |e| e.void);
        let Some(block) = self.table.make_block(start, &self.arena, &mut order.spare) else {
            self.fail("no memory is left for the page table");
        };
        let held = self.standby.slot(slot);
        let mut live = 0;
        for word in 0..PAGES / 64 {
            held.present[word].store(present[word], Relaxed);
            let mut bits = present[word] & !void[word];
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let page = (start & !(BLOCK - 1)) + index * PAGE;
                if block.entries[index].load() != State::Empty {
                    // In a forked child a page may be present although its entry says
                    // otherwise (see `journal.rs`): the page is the truth.
                    self.drop_page(block, page);
                }
                held.owners[index].store(page_number(page), Relaxed);
                block.entries[index].store(State::Standby(page_id(slot, index)));
                live += 1;
            }
        }
        block.evicted.fetch_add(live, Relaxed);
        held.live.store(live, Relaxed);
        self.standby.pages.fetch_add(u64::from(live), Relaxed);
        order.evicting = None;
        drop(order);
        self.uffd().wake(start, end - start);
        self.slot().counters.blocks_evicted.fetch_add(1, Relaxed);
        Taken::Pages(live)
    }
}
