//! Taking blocks away: `mremap` moves a block's pages to a standby slot and
//! leaves the mapping behind, empty and registered.
//!
//! All of it happens under the order lock (see `order.rs`), in this order:
//!
//! 1. Register the mapping and make sure that no event is on its way. From
//!    here on a thread that unmaps or discards part of it waits for us.
//! 2. Move. The kernel tells of the move; that message is the proof that the
//!    source was registered.
//! 3. See which pages there are, and write their entries.
//! 4. Apply the events that came meanwhile.
//!
//! Should the range not have been one registered mapping when it was moved,
//! `sort_out` puts back what does not belong on standby.
//!
//! One gap is left between 1 and 2: a thread unmaps the range, another one is
//! given the same addresses by the kernel and writes to them, and only then
//! comes the move, which takes away what is not registered; until it is put
//! back the writer would see zeros. It takes two threads of the program, and
//! one that unmaps. So while a program with threads unmaps managed memory,
//! UFFDIO_MOVE is used instead: the kernel refuses it as long as a message
//! about such a change has not been read. It costs more (all CPUs are told to
//! forget a page for each run of pages), so otherwise `mremap` is. UFFDIO_MOVE
//! also refuses pages that are pinned for I/O: see `pins.rs`.

use core::sync::atomic::Ordering::*;

use memfold::probe;

use crate::interpose::ranges;
use crate::lock::Guard;
use crate::maps;
use crate::order::Order;
use crate::pagemap::{Pagemap, Present};
use crate::runtime::Runtime;
use crate::standby::page_id;
use crate::sys::{self, Errno, Fd, PAGE, advice, prot};
use crate::table::{BLOCK, PAGES, State, index_in_block, page_number};
use crate::uffd::Probe;

/// Pages in a row that may be refused before the rest of a block is left alone.
const REFUSALS: u32 = 8;

/// For so long after managed memory was unmapped, more of that is to be expected.
const UNMAPPED_NS: u64 = 10_000_000_000;

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

/// A range that is being taken away.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    bytes: usize,
    /// Where it goes ...
    to: usize,
    /// ... which is in this slot.
    slot: u32,
}

impl Range {
    fn pages(&self) -> usize {
        self.bytes / PAGE
    }

    /// Index in the block of the first page.
    fn first(&self) -> usize {
        index_in_block(self.start)
    }
}

impl Runtime {
    /// Takes away a range, which lies in one block and in one mapping, if so many
    /// of its pages are there; if another process has most of it too, only if `shared_too`.
    pub fn evict(
        &self,
        maps: Fd,
        pagemap: &Pagemap,
        (start, end): (usize, usize),
        worth: usize,
        shared_too: bool,
    ) -> Taken {
        debug_assert!(start / BLOCK == (end - 1) / BLOCK);
        let (pages, first) = ((end - start) / PAGE, index_in_block(start));
        let mostly_shared;
        match pagemap.present(start, pages, first) {
            None => return Taken::Stale,
            Some(present) if (present.count as usize) < worth => return Taken::Nothing,
            Some(present) => {
                // Memory is free only when the last one has given it up, and then each has its own copy in its store.
                let shared =
                    || present.count - pagemap.exclusive(start, pages, first).count.min(present.count);
                mostly_shared = self.has_forked.load(Relaxed) && shared() * 2 > present.count;
                if mostly_shared && !shared_too {
                    return Taken::Nothing;
                }
            }
        }
        let Some(slot) = self.standby.take_free() else { return Taken::Nothing };
        self.standby.slot(slot).shared.store(mostly_shared, Relaxed);
        let to = self.standby.address(slot) + (start & (BLOCK - 1));
        let range = Range { start, bytes: end - start, to, slot };
        probe!(runtime_evict_begin, start, end - start);
        let taken = self.evict_to(maps, pagemap, range);
        probe!(
            runtime_evict,
            start,
            end - start,
            if let Taken::Pages(pages) = taken { pages } else { 0 },
            slot
        );
        match taken {
            Taken::Pages(pages) if pages > 0 => self.standby.enqueue(slot),
            _ => self.standby.give_back(slot),
        }
        taken
    }

    fn evict_to(&self, maps: Fd, pagemap: &Pagemap, range: Range) -> Taken {
        let mut order = self.order.lock();
        let (from, to) = (range.start, range.start + range.bytes);
        // Again, since it was chosen a while ago: meanwhile a thread may have begun there.
        if ranges::first_kept(from, to).is_some() || self.keep_out.first_in(from, to).is_some() {
            return Taken::Busy;
        }
        if order.forking || order.was_removed_lately(range.start, self.discarding.load(SeqCst)) {
            return Taken::Nothing;
        }
        if let Err(taken) = self.register_mapping(&mut order, maps, range.start, range.start + range.bytes) {
            return taken;
        }
        let Some(block) = self.table.make_block(range.start, &self.arena, &mut order.spare) else {
            return Taken::Nothing;
        };
        block.stale.store(false, Relaxed);
        let refusable = self.can_move.load(Relaxed) && self.may_lose_addresses();
        if self.pins_seen.load(Acquire) || refusable {
            self.take_if_allowed(&mut order, pagemap, range)
        } else {
            self.take(&mut order, pagemap, range)
        }
    }

    /// Registers the one mapping that holds a range. When this returns well,
    /// whatever changes the range from here on has to tell.
    fn register_mapping(
        &self,
        order: &mut Guard<'_, Order>,
        maps: Fd,
        start: usize,
        end: usize,
    ) -> Result<(), Taken> {
        // As it is now: it may have grown since it was listed, or be another one.
        let one_mapping = || maps::private_anonymous_at(maps, start).filter(|now| end <= now.1);
        let Some(mapping) = one_mapping() else { return Err(Taken::Stale) };
        // Nothing is registered while it is not known what was there before: see `late.rs`.
        if self.uffd().probe(start) == Probe::Changing {
            return Err(Taken::Busy);
        }
        // The whole mapping: registering a part would split it, and system
        // calls like mremap that want one mapping would fail for the program.
        if self.register(mapping.0, mapping.1 - mapping.0).is_err() {
            return Err(Taken::Stale);
        }
        self.mark(mapping.0, mapping.1);
        // Still one: what was not registered yet may have changed without a message, and a part of the range
        // may be new. If it is one, and registered, whatever changes it from here on has to tell.
        let still = one_mapping().is_some();
        match self.uffd().probe(start) {
            Probe::Registered if still => Ok(()),
            Probe::Changing => {
                order.late.doubtful = mapping;
                Err(Taken::Busy)
            }
            _ => Err(Taken::Stale),
        }
    }

    /// Registers a mapping of which nothing is to be evicted yet, so that its
    /// growth is noticed. If it can't be done now it is no harm.
    pub fn register_fresh(&self, maps: Fd, start: usize, end: usize) {
        let mut order = self.order.lock();
        if !order.forking && self.register_mapping(&mut order, maps, start, end).is_ok() {
            self.table.for_each_block(start, end, |_, block| block.stale.store(false, Relaxed));
        }
    }

    /// Marks a mapping as not to be inherited: a fork that the runtime does not
    /// know of then ends in a crash, and not in zeros where data was.
    pub fn mark(&self, start: usize, end: usize) {
        // SAFETY: advice that loses nothing; `fork.rs` takes it back around every fork it knows of.
        let _ = unsafe { sys::madvise(start, end - start, advice::DONTFORK) };
    }

    fn take(&self, order: &mut Guard<'_, Order>, pagemap: &Pagemap, range: Range) -> Taken {
        // Where data are limited (`ulimit -d`) what the move needs is allowed now, or not: later its target would be lost.
        // SAFETY: a free slot of ours.
        if unsafe { sys::mprotect(range.to, range.bytes, prot::READ | prot::WRITE) }.is_err() {
            return Taken::Nothing;
        }
        self.move_seen.store(false, Relaxed);
        self.moving_to.store(range.to, SeqCst);
        // Handlers that wait for the lock are wanted as readers.
        self.order.stir();
        // SAFETY: the target is a free slot of ours; touches of the source are
        // faults now, which the handlers serve from what the entries say.
        let result = unsafe { sys::mremap_to(range.start, range.bytes, range.to, true) };
        self.moving_to.store(0, SeqCst);
        if result == Err(Errno::NOMEM) {
            // Nothing has moved, and the target may be unmapped: it is not to be looked at.
            self.standby.recover(range.slot, range.to, range.bytes);
            drop(self.proxy.lock());
            self.take_proxy_messages(order);
            return Taken::Nothing;
        }
        let _ = self.uffd().unregister(range.to, range.bytes);
        // The slot got all properties of the source: a forked child must inherit it.
        self.unmark(range.to, range.to + range.bytes);
        // SAFETY: nobody else uses the slot yet.
        let readable = unsafe { self.make_readable(range.to, range.bytes) };
        let mut present = pagemap.present(range.to, range.pages(), range.first());
        // Whoever read in our place is done once its lock can be had; only then is its word final.
        drop(self.proxy.lock());
        let seen = self.move_seen.load(Acquire);
        let taken = match present {
            Some(ref mut present) if result.is_ok() && seen && readable => {
                if present.swapped_count > 0 {
                    self.sort_out_guards(range, present);
                }
                Taken::Pages(self.write_entries(order, range, &present.all()))
            }
            _ if result.is_err() && present.is_none_or(|present| present.all() == [0; PAGES / 64]) => {
                if result == Err(Errno::FAULT) {
                    Taken::Stale
                } else {
                    Taken::Nothing
                }
            }
            _ => self.sort_out(order, pagemap, range),
        };
        self.take_proxy_messages(order);
        taken
    }

    /// The range was not one registered mapping any more when it was moved:
    /// since Linux 6.17 several mappings may move at once. What came from a
    /// mapping that is not registered, or from a file, goes back at once; the
    /// rest is on standby like any other.
    #[cold]
    fn sort_out(&self, order: &mut Guard<'_, Order>, pagemap: &Pagemap, range: Range) -> Taken {
        let mut bits = [0u64; PAGES / 64];
        for offset in (0..range.bytes).step_by(PAGE) {
            let (source, target) = (range.start + offset, range.to + offset);
            let (file, there) = match pagemap.present(target, 1, 0) {
                None => (true, true),
                Some(present) => (false, present.count + present.swapped_count == 1),
            };
            if !there {
                continue;
            }
            let _ = self.uffd().unregister(target, PAGE);
            self.unmark(target, target + PAGE);
            // SAFETY: a page of a slot that nobody else uses yet.
            let readable = !file && unsafe { self.make_readable(target, PAGE) };
            if readable && self.witness().is_taken(source) {
                let index = index_in_block(source);
                if is_guard(target) {
                    guard_again(self, source);
                } else {
                    bits[index / 64] |= 1 << (index % 64);
                }
                continue;
            }
            self.put_back(target, source);
        }
        match self.write_entries(order, range, &bits) {
            0 => Taken::Stale,
            pages => Taken::Pages(pages),
        }
    }

    /// Takes guard pages out of `present` that the program made after the range
    /// was looked at, and makes them again where they were. Who touches one
    /// meanwhile waits for the order lock. What else is swapped is a page.
    #[cold]
    fn sort_out_guards(&self, range: Range, present: &mut Present) {
        for offset in (0..range.bytes).step_by(PAGE) {
            let (index, target) = (index_in_block(range.start + offset), range.to + offset);
            let bit = 1 << (index % 64);
            if present.swapped[index / 64] & bit != 0 && is_guard(target) {
                present.swapped[index / 64] &= !bit;
                guard_again(self, range.start + offset);
            }
        }
    }

    /// A page that is not on standby yet returns to where it was a moment ago.
    fn put_back(&self, target: usize, source: usize) {
        // What is left behind stays mapped: the kernel must not give a place on standby to the program.
        // SAFETY: the page returns to where it came from.
        if unsafe { sys::mremap_to(target, PAGE, source, true) }.is_err() {
            self.fail(
                "a page that was taken away from a mapping that changed meanwhile could not be put back",
            );
        }
    }

    /// Whether two threads of the program may be at it: see the module.
    fn may_lose_addresses(&self) -> bool {
        let last = self.unmapped_ns.load(Relaxed);
        self.is_threaded() && last != 0 && sys::now_ns().saturating_sub(last) < UNMAPPED_NS
    }

    /// As `take`, by UFFDIO_MOVE.
    fn take_if_allowed(&self, order: &mut Guard<'_, Order>, pagemap: &Pagemap, range: Range) -> Taken {
        // SAFETY: a free slot of ours.
        let ready = unsafe { sys::map_over(range.to, range.bytes, prot::READ | prot::WRITE) }
            .and_then(|()| self.uffd().register(range.to, range.bytes));
        let before = pagemap.present(range.start, range.pages(), range.first());
        if let (Ok(()), Some(before)) = (ready, before) {
            let there = |offset: usize| {
                let index = index_in_block(range.start + offset);
                offset < range.bytes && before.bits[index / 64] >> (index % 64) & 1 != 0
            };
            let (mut offset, mut refused, mut made_own) = (0, 0, 0);
            while offset < range.bytes && refused < REFUSALS {
                let mut run = 0;
                while there(offset + run) {
                    run += PAGE;
                }
                if run == 0 {
                    offset += PAGE;
                    continue;
                }
                // SAFETY: touches of the source are faults that wait for the order
                // lock; the target is a free slot of ours.
                match unsafe { self.uffd().move_pages(range.to + offset, range.start + offset, run, true) } {
                    Ok(done) => {
                        offset += done.max(PAGE);
                        refused = 0;
                    }
                    Err(Errno::INVAL | Errno::SRCH | Errno::NOMEM | Errno::AGAIN) => break,
                    Err(Errno::BUSY) if offset >= made_own && self.has_forked.load(Relaxed) => {
                        made_own = offset + run;
                        self.make_own(pagemap, range.start + offset, run);
                    }
                    // Pinned, shared after a fork, or gone meanwhile: it stays.
                    Err(_) => {
                        offset += PAGE;
                        refused += 1;
                    }
                }
            }
        }
        let _ = self.uffd().unregister(range.to, range.bytes);
        match pagemap.present(range.to, range.pages(), range.first()) {
            // Only pages move this way: what is swapped was swapped there.
            Some(present) => Taken::Pages(self.write_entries(order, range, &present.all())),
            None => self.fail("what was moved to standby can't be seen there"),
        }
    }

    /// Pages that were shared with a forked process that is gone are refused by UFFDIO_MOVE until they are written.
    #[cold]
    fn make_own(&self, pagemap: &Pagemap, start: usize, bytes: usize) {
        let exclusive = pagemap.exclusive(start, bytes / PAGE, 0);
        for index in 0..bytes / PAGE {
            if exclusive.bits[index / 64] >> (index % 64) & 1 != 0 {
                // A refusal says that it stays shared: so it is not moved.
                // Protected it would make this thread wait for a handler, who may wait for this thread.
                let page = start + index * PAGE;
                let _ = self.uffd().protect(page, PAGE, false);
                let _ = sys::write_back_in_place(page);
            }
        }
    }

    /// # Safety
    /// The range must be in a slot that nobody else uses.
    unsafe fn make_readable(&self, at: usize, bytes: usize) -> bool {
        // Whatever the program allowed itself. Protection key 0 is one that our threads may use.
        let args = [at, bytes, prot::READ | prot::WRITE, 0, 0, 0];
        // SAFETY: passed on to the caller.
        unsafe {
            sys::syscall(sys::nr::PKEY_MPROTECT, args).is_ok() || sys::mprotect(at, bytes, args[2]).is_ok()
        }
    }

    /// Writes the entries of the pages that are on standby now. Returns their number.
    fn write_entries(&self, order: &mut Guard<'_, Order>, range: Range, present: &[u64; PAGES / 64]) -> u32 {
        let Some(block) = self.table.make_block(range.start, &self.arena, &mut order.spare) else {
            self.fail("no memory is left for the page table");
        };
        let held = self.standby.slot(range.slot);
        let mut live = 0;
        for (word, present) in present.iter().enumerate() {
            held.present[word].store(*present, Relaxed);
            let mut bits = *present;
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let page = (range.start & !(BLOCK - 1)) + index * PAGE;
                if block.entries[index].load() != State::Empty {
                    // In a forked child a page may be present although its entry says
                    // otherwise (see `journal.rs`): the page is the truth.
                    self.drop_page(block, page);
                }
                held.owners[index].store(page_number(page), Relaxed);
                block.entries[index].store(State::Standby(page_id(range.slot, index)));
                live += 1;
            }
        }
        block.evicted.fetch_add(live, Relaxed);
        held.live.store(live, Relaxed);
        held.home.store(range.start & !(BLOCK - 1), Relaxed);
        held.taken.store(live, Relaxed);
        held.rescued.store(0, Relaxed);
        self.standby.pages.fetch_add(u64::from(live), Relaxed);
        self.slot().counters.blocks_evicted.fetch_add(1, Relaxed);
        live
    }
}

/// Whether a swapped page that this process may read is a guard page: those
/// alone can't be made present. (Kernels that do not know the advice do not know guards.)
fn is_guard(page: usize) -> bool {
    // SAFETY: reading loses nothing.
    let answer = unsafe { sys::madvise(page, PAGE, advice::POPULATE_READ) };
    answer == Err(Errno::FAULT)
}

fn guard_again(runtime: &Runtime, page: usize) {
    // SAFETY: the page is empty: what was there was a guard.
    if unsafe { sys::madvise(page, PAGE, advice::GUARD_INSTALL) }.is_err() {
        runtime.fail("a guard page that was taken away could not be made again");
    }
}
