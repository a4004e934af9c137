//! Taking blocks away: `mremap` moves a block's pages to a standby slot and
//! leaves the mapping behind, empty and registered.
//!
//! The order of steps is what makes it safe (see also `order.rs`):
//!
//! 1. Under the order lock: register the range, make sure that no event is on
//!    its way, and announce the range, so that faults in it wait.
//! 2. Without the lock: move. The kernel tells the handlers of the move. That
//!    message is the proof that the source was registered; without it somebody
//!    has replaced the mapping in the last microsecond, and it is moved back.
//! 3. Without the lock: see which pages there are.
//! 4. Under the lock: write the entries, except of pages that an event has made
//!    void meanwhile, and wake who waits.

use core::sync::atomic::Ordering::*;

use crate::order::Evicting;
use crate::runtime::Runtime;
use crate::standby::page_id;
use crate::pagemap::Pagemap;
use crate::sys::{self, Errno, PAGE, prot};
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
            Ok(()) => self.take(pagemap, start, end, slot, to),
            Err(refusal) => refusal,
        };
        match taken {
            Taken::Pages(_) => self.standby.enqueue(slot),
            _ => self.standby.give_back(slot),
        }
        taken
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
        if self.table.make_block(start, &self.arena, &mut order.spare).is_none() {
            return Err(Taken::Nothing);
        }
        order.evicting = Some(Evicting { start, end, to, move_seen: false, void: [0; PAGES / 64] });
        Ok(())
    }

    fn take(&self, pagemap: &Pagemap, start: usize, end: usize, slot: u32, to: usize) -> Taken {
        let bytes = end - start;
        // SAFETY: the target is a free slot of ours; touches of the source are
        // faults now, which the handlers serve from what the entries say.
        let moved = unsafe { sys::mremap_to(start, bytes, to, true) };
        if moved.is_err() {
            self.order.lock().evicting = None;
            self.uffd().wake(start, bytes);
            return if moved == Err(Errno::FAULT) { Taken::Stale } else { Taken::Nothing };
        }
        let seen = self.order.lock().evicting.as_ref().is_some_and(|e| e.move_seen);
        let _ = self.uffd().unregister(to, bytes);
        // Compressors must be able to read it, whatever the program allowed itself.
        // SAFETY: nobody uses the slot yet.
        let readable = unsafe { self.make_readable(to, bytes) };
        let found = pagemap.present(to, bytes / PAGE, index_in_block(start));
        let Some(present) = found.filter(|_| seen && readable) else {
            self.put_back(start, bytes, to);
            return Taken::Stale;
        };
        self.write_entries(start, end, slot, &present.bits)
    }

    /// # Safety
    /// The range must be a slot that nobody else uses.
    unsafe fn make_readable(&self, at: usize, bytes: usize) -> bool {
        // Protection key 0 is one that this thread may use.
        let args = [at, bytes, prot::READ | prot::WRITE, 0, 0, 0];
        // SAFETY: passed on to the caller.
        unsafe { sys::syscall(sys::nr::PKEY_MPROTECT, args).is_ok() || sys::mprotect(at, bytes, args[2]).is_ok() }
    }

    fn put_back(&self, start: usize, bytes: usize, to: usize) {
        // SAFETY: the pages return to where they came from a moment ago.
        if unsafe { sys::mremap_to(to, bytes, start, false) }.is_err() {
            self.fail("a block that was taken away from a mapping that changed meanwhile could not be put back");
        }
        self.order.lock().evicting = None;
        self.uffd().wake(start, bytes);
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
