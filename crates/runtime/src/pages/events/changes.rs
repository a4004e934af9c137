//! Events of the kernel: the page table follows the program's mappings.

use core::sync::atomic::Ordering::*;

use memfold::store::Ref;

use crate::kernel::addresses::{BLOCK, END, PAGES, index_in_block, page_number};
use crate::kernel::sys::{self, PAGE};
use crate::kernel::uffd::Message;
use crate::memory::lock::Guard;
use crate::pages::events::journal::Record;
use crate::pages::events::order::Order;
use crate::pages::standby;
use crate::pages::table::{Block, State};
use crate::runtime::Runtime;

impl Runtime {
    /// After a fork: applies what the journal holds.
    pub fn replay(&self, order: &mut Guard<'_, Order>) {
        order.forking = false;
        order.late.enabled = false;
        let journal = core::mem::take(&mut order.journal);
        journal.replay(|record| match record {
            Record::Event(event) => self.apply_now(order, event),
            Record::Served(page) => {
                self.forget_blob(page);
                if let Some(block) = self.pages.table.block(page) {
                    self.drop_page(block, page);
                }
            }
        });
        order.late.enabled = true;
        order.journal = journal;
        if core::mem::take(&mut order.blobs_void) {
            self.forget_blobs(0, END);
        }
    }

    /// Applies an event to the page table. It may read further events, and leave them to the caller.
    pub fn apply_now(&self, order: &mut Guard<'_, Order>, event: Message) {
        match event {
            Message::Remove { start, end } => {
                order.note_removed(start, end);
                self.pages.forget_marks(start, end);
                self.drop_range(order, start, end);
            }
            Message::Unmap { start, end } => {
                self.pages.unmapped_ns.store(sys::now_ns(), Relaxed);
                self.pages.forget_marks(start, end);
                self.drop_unmapped(order, start, end);
                self.pages.table.for_each_block(start, end, |_, block| block.stale.store(true, Relaxed));
                self.settle_late(order);
            }
            Message::Remap { from, to, bytes } => {
                if self.pages.standby.contains(to) {
                    return;
                }
                self.pages.unmapped_ns.store(sys::now_ns(), Relaxed);
                self.pages.forget_marks(from, from + bytes);
                self.pages.forget_marks(to, to + bytes);
                self.let_late_first(order, to, to + bytes);
                self.drop_range(order, to, to + bytes);
                self.move_range(order, from, to, bytes);
                order.late.note_arrived(to, to + bytes);
                self.settle_late(order);
            }
            Message::Fork { child } => self.handle_child(order, child),
            Message::Fault { .. } | Message::Other => {}
        }
    }

    /// Drops all copies of a range's pages: the contents are void.
    pub fn drop_range(&self, order: &mut Guard<'_, Order>, start: usize, end: usize) {
        self.forget_blobs(start, end);
        self.pages.table.for_each_block(start, end, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            if start <= base && base + BLOCK <= end {
                // The whole block goes out of the table at once, and is freed later.
                if let Some(block) = self.pages.table.detach(base) {
                    block.base.store(base, Relaxed);
                    order.condemned.put_full(block);
                    order.condemned_count += 1;
                }
                return;
            }
            for page in (start.max(base)..end.min(base + BLOCK)).step_by(PAGE) {
                self.drop_page(block, page);
            }
        });
        if order.condemned_count > 0 {
            self.reclaim.work.ring();
        }
    }

    /// Drops the copy of a page: its contents are void, or the page is present.
    pub fn drop_page(&self, block: &Block, page: usize) {
        let entry = &block.entries[index_in_block(page)];
        let state = entry.take();
        match state {
            State::Empty => return,
            State::Standby(id) => self.pages.standby.forget(id),
            State::Zero => {
                self.pages.zero_pages.fetch_sub(1, Relaxed);
            }
            State::Stored(found) => self.free(found, page_number(page)),
            State::Spilled(spot) => self.spill.release_location(spot),
            State::Pinned(found) => {
                self.stored.settle_readers();
                self.free(found, page_number(page));
            }
        }
        block.evicted.fetch_sub(1, Relaxed);
    }

    /// Moves the entries of a range to its new addresses.
    fn move_range(&self, order: &mut Guard<'_, Order>, from: usize, to: usize, bytes: usize) {
        // A page that moves stops being clean: that is simpler, and moves are rare.
        self.forget_blobs(from, from + bytes);
        let another = !crate::interpose::mappings::leaving::leaves_behind(from)
            && self.speaks_of_another(order, from, from + bytes);
        self.pages.table.for_each_block(from, from + bytes, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            for page in (from.max(base)..(from + bytes).min(base + BLOCK)).step_by(PAGE) {
                if another && self.is_there(order, page) {
                    continue;
                }
                let entry = &block.entries[index_in_block(page)];
                let state = entry.take();
                match state {
                    State::Empty => continue,
                    State::Pinned(_) => self.stored.settle_readers(),
                    _ => {}
                }
                block.evicted.fetch_sub(1, Relaxed);
                let new_page = page - from + to;
                let Some(new_block) = self.pages.table.make_block(new_page, &self.arena, &mut order.spare)
                else {
                    self.fail("no memory is left for the page table while the program moves a mapping");
                };
                let new_state = match state {
                    State::Standby(id) => {
                        let slot = self.pages.standby.slot(id >> 9);
                        let owner = page_number(new_page);
                        slot.owners[id as usize % PAGES].store(owner, Relaxed);
                        state
                    }
                    State::Stored(found) | State::Pinned(found) => {
                        State::Stored(self.reown(found, page_number(page), page_number(new_page)))
                    }
                    other => other,
                };
                new_block.entries[index_in_block(new_page)].put(new_state);
                new_block.evicted.fetch_add(1, Relaxed);
            }
        });
    }

    fn reown(&self, found: Ref, old: u64, new: u64) -> Ref {
        match self.store().store().reown(found, old, new) {
            Ok(()) => found,
            Err(_) => self.fail_corrupt(),
        }
    }

    /// Frees the contents of condemned blocks, a few at a time. Returns whether more remain.
    pub fn free_condemned(&self) -> bool {
        let Some(block) = ({
            let mut order = self.pages.order.lock();
            let block = order.condemned.pop();
            order.condemned_count -= usize::from(block.is_some());
            block
        }) else {
            return false;
        };
        // A thread that has read an entry of this block before it was detached may still read the blob.
        self.stored.settle_readers();
        let base = block.base.load(Relaxed);
        {
            let _order = self.pages.order.lock();
            self.forget_condemned(base, block);
        }
        for index in 0..PAGES {
            if let State::Standby(id) = block.entries[index].load() {
                let _order = self.pages.order.lock();
                if block.entries[index].replace(State::Standby(id), State::Empty) {
                    self.pages.standby.forget(id);
                }
            } else {
                self.drop_page(block, base + index * PAGE);
            }
        }
        self.pages.unmark_all_but(block, &[0; PAGES / 64]);
        self.pages.order.lock().spare.put(block);
        true
    }
}

const _: () = assert!(standby::SLOTS * PAGES <= u32::MAX as usize);
