//! Evicting blocks of the program to standby.
//!
//! All of this happens under the order lock (see `order.rs`), in this order:
//!
//! 1. Register the mapping and make sure that no event is on its way. From then on a thread that unmaps or
//!    discards part of it waits for us.
//! 2. Move the pages to a standby slot: by `UFFDIO_MOVE` (`moved.rs`), before Linux 6.8 by `mremap`
//!    (`remapped.rs`).
//! 3. Find out which pages are there, and write their entries.
//! 4. Apply the events that arrived meanwhile.

mod moved;
mod remapped;

use core::sync::atomic::Ordering::*;

use memfold::probe;

use crate::interpose::mappings::ranges;
use crate::kernel::addresses::{BLOCK, PAGES, index_in_block, page_number};
use crate::kernel::maps;
use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{self, Fd, PAGE, advice};
use crate::kernel::uffd::Probe;
use crate::memory::lock::Guard;
use crate::pages::events::order::Order;
use crate::pages::standby::page_id;
use crate::pages::table::State;
use crate::process::fork::state::Forks;
use crate::runtime::Runtime;
use moved::Moved;

/// The result of trying to evict a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// This many pages are on standby now.
    Pages(u32),
    /// No pages worth evicting are there, or they cannot be evicted.
    Nothing,
    /// Events are on their way: try again soon.
    Busy,
    /// The mapping has changed since the mappings were listed.
    Stale,
}

/// A range that is being evicted.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    bytes: usize,
    /// The address it moves to ...
    to: usize,
    /// ... which lies in this slot.
    slot: u32,
}

impl Range {
    fn pages(&self) -> usize {
        self.bytes / PAGE
    }

    /// Index of the first page in the block.
    fn first(&self) -> usize {
        index_in_block(self.start)
    }
}

/// Which pages of a range to evict.
#[derive(Clone, Copy)]
struct Choice {
    /// Those that only this process has.
    own: bool,
    /// Those that another process shares.
    shared: bool,
}

/// Fires the probe `runtime_evict`, from one place.
#[inline(never)]
fn tell_evicted(start: usize, bytes: usize, pages: u32, slot: u32) {
    probe!(runtime_evict, start, bytes, pages, slot);
}

impl Forks {
    /// Where no thread fills a child that the runtime does not prepare (see `gate.rs`): marks a mapping as
    /// not inherited. Such a child then crashes, instead of reading zeros in place of data.
    pub fn keep_out_of_children(&self, start: usize, end: usize) {
        if self.gate.is_there() {
            return;
        }
        // SAFETY: this advice loses no data; `fork` reverts it around every fork that it knows of.
        let _ = unsafe { sys::madvise(start, end - start, advice::DONTFORK) };
    }
}

impl Runtime {
    /// Evicts a range, which lies in one block and in one mapping, if at least `worth` of its pages are
    /// present. Pages that other processes share are evicted only if `shared_too`.
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
        let Some(present) = pagemap.present(start, pages, first) else { return Taken::Stale };
        let present = present.count as usize;
        let shared = if self.forks.has_forked.load(Relaxed) {
            present - (pagemap.exclusive(start, pages, first).count as usize).min(present)
        } else {
            0
        };
        // Shared memory is freed only when the last process has given it up, and by then each process has its
        // own copy in its store.
        let (own, shared_too) = (present - shared, shared_too && shared >= worth);
        let choice = Choice { own: own >= worth || shared_too && own > 0, shared: shared_too };
        if !choice.own && !choice.shared {
            return Taken::Nothing;
        }
        probe!(runtime_evict_begin, start, end - start);
        let taken = self.evict_now(maps, pagemap, (start, end), choice);
        if !matches!(taken, Taken::Pages(pages) if pages > 0) {
            tell_evicted(start, end - start, 0, 0);
        }
        taken
    }

    fn evict_now(&self, maps: Fd, pagemap: &Pagemap, (start, end): (usize, usize), choice: Choice) -> Taken {
        let mut order = self.pages.order.lock();
        // Checked again, since the range was chosen a while ago: a thread may have started there meanwhile.
        if ranges::is_kept_now(start, end) || self.pages.keep_out.first_in(start, end).is_some() {
            return Taken::Busy;
        }
        if order.forking
            || self.may_write_late()
            || order.was_removed_lately(start, self.pages.discarding.load(SeqCst))
        {
            return Taken::Nothing;
        }
        if let Err(taken) = self.register_mapping(&mut order, maps, start, end) {
            return taken;
        }
        let Some(block) = self.pages.table.make_block(start, &self.arena, &mut order.spare) else {
            return Taken::Nothing;
        };
        block.stale.store(false, Relaxed);
        // Protection is lifted only under the order lock, so this holds until the pages are on standby.
        self.keep_protected_only(pagemap, start, end);
        if self.kernel.can_move.load(Relaxed) {
            self.evict_by_move(&mut order, pagemap, (start, end), choice)
        } else {
            self.with_slot((start, end), choice.shared, |range| {
                self.take(&mut order, pagemap, range, |order, bits| self.write_entries(order, range, &bits))
            })
        }
    }

    fn evict_by_move(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: &Pagemap,
        at: (usize, usize),
        choice: Choice,
    ) -> Taken {
        let mut taken = Taken::Nothing;
        if choice.own {
            let mut unmovable = false;
            taken =
                self.with_slot(at, false, |range| match self.evict_private_by_move(order, pagemap, range) {
                    Moved::Pages(pages) => Taken::Pages(pages),
                    Moved::NotThisMapping => {
                        unmovable = true;
                        Taken::Nothing
                    }
                });
            // It would be in vain to wait for pages that are pinned for long: see `evict_unmovable`.
            if unmovable && !self.may_lose_addresses() && !self.pages.pins_seen.load(Acquire) {
                return self.with_slot(at, false, |range| {
                    self.with_slot(at, false, |check| self.evict_unmovable(order, pagemap, range, check))
                });
            }
        }
        if choice.shared && !self.may_lose_addresses() {
            let shared = self.with_slot(at, true, |range| self.evict_shared(order, pagemap, range));
            taken = match (taken, shared) {
                (Taken::Pages(one), Taken::Pages(other)) => Taken::Pages(one + other),
                (Taken::Pages(one), _) => Taken::Pages(one),
                (_, other) => other,
            };
        }
        taken
    }

    /// Lets `fill` use a free slot, and queues the slot if it holds pages afterwards.
    fn with_slot(
        &self,
        (start, end): (usize, usize),
        shared: bool,
        fill: impl FnOnce(Range) -> Taken,
    ) -> Taken {
        let Some(slot) = self.pages.standby.take_free() else { return Taken::Nothing };
        let held = self.pages.standby.slot(slot);
        held.shared.store(shared, Relaxed);
        held.taken.store(0, Relaxed);
        let to = self.pages.standby.address(slot) + (start & (BLOCK - 1));
        let taken = fill(Range { start, bytes: end - start, to, slot });
        let pages = held.taken.load(Relaxed);
        if pages > 0 {
            tell_evicted(start, end - start, pages, slot);
            self.pages.standby.enqueue(slot);
        } else {
            self.pages.standby.give_back(slot);
        }
        taken
    }

    /// Registers the one mapping that contains a range. When this succeeds, every later change of the range
    /// is reported.
    fn register_mapping(
        &self,
        order: &mut Guard<'_, Order>,
        maps: Fd,
        start: usize,
        end: usize,
    ) -> Result<(), Taken> {
        // The mapping as it is now: it may have grown since it was listed, or be another one.
        let one_mapping = || maps::private_anonymous_at(maps, start).filter(|now| end <= now.1);
        let Some(mapping) = one_mapping() else { return Err(Taken::Stale) };
        // Nothing is registered while a message about an earlier mapping may be on its way: see `late.rs`.
        if self.uffd().probe(start) == Probe::Changing {
            return Err(Taken::Busy);
        }
        // The whole mapping is registered: registering a part would split it, and system calls like mremap
        // that need a single mapping would fail for the program.
        if self.register(mapping.0, mapping.1 - mapping.0).is_err() {
            return Err(Taken::Stale);
        }
        self.forks.keep_out_of_children(mapping.0, mapping.1);
        // Check again that it is one mapping: before it was registered it may have changed without a message,
        // and a part of the range may be new. If it is one mapping, and registered, every later change is
        // reported.
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

    /// Registers a mapping from which nothing is evicted yet, so that its growth is noticed. Failure does no
    /// harm.
    pub fn register_fresh(&self, maps: Fd, start: usize, end: usize) {
        let mut order = self.pages.order.lock();
        if !order.forking && self.register_mapping(&mut order, maps, start, end).is_ok() {
            self.pages.table.for_each_block(start, end, |_, block| block.stale.store(false, Relaxed));
        }
    }

    /// Writes the entries of the pages that are on standby now. Returns their number.
    fn write_entries(&self, order: &mut Guard<'_, Order>, range: Range, present: &[u64; PAGES / 64]) -> u32 {
        let Some(block) = self.pages.table.make_block(range.start, &self.arena, &mut order.spare) else {
            self.fail("no memory is left for the page table");
        };
        let held = self.pages.standby.slot(range.slot);
        let mut live = 0;
        for (word, present) in present.iter().enumerate() {
            held.present[word].store(*present, Relaxed);
            let mut bits = *present;
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let page = (range.start & !(BLOCK - 1)) + index * PAGE;
                if block.entries[index].load() != State::Empty {
                    // In a forked child a page may be present although its entry says otherwise (see
                    // `journal.rs`): the page is right. The same goes for a blob that was kept with that
                    // entry.
                    self.forget_blob(page);
                    self.drop_page(block, page);
                }
                self.blob_to_standby(page);
                held.owners[index].store(page_number(page), Relaxed);
                block.entries[index].evict(page_id(range.slot, index));
                live += 1;
            }
        }
        block.evicted.fetch_add(live, Relaxed);
        held.live.store(live, Relaxed);
        held.home.store(range.start & !(BLOCK - 1), Relaxed);
        held.taken.store(live, Relaxed);
        held.rescued.store(0, Relaxed);
        self.pages.standby.pages.fetch_add(u64::from(live), Relaxed);
        self.slot().counters.blocks_evicted.fetch_add(1, Relaxed);
        live
    }
}
