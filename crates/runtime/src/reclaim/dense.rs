//! The dense tier: cold pages are compressed again, smaller and slower, while there is nothing more urgent to
//! do.
//!
//! A compressor pins one blob at a time, makes a denser one of it, and installs that with one
//! compare-exchange of the entry. A thread that touches the page meanwhile finds the pin and is woken
//! afterwards.
//!
//! A denser store leaves room for more resident pages, but each page that is evicted and restored costs three
//! times as much. What more room would be worth can be seen on standby, which is such room: it is the share
//! of touched pages that are still found there. With random touches, this share equals the fraction of all
//! pages that standby holds, and the fast codec is better; real programs find a twentieth to half there.

use core::ops::ControlFlow;
use core::sync::atomic::Ordering::*;

use memfold::probe;
use memfold::store::Tier;

use crate::kernel::addresses::{BLOCK, END, PAGES, page_number};
use crate::kernel::sys::PAGE;
use crate::pages::Pages;
use crate::pages::table::{Block, State};
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;

/// Number of pages after which threads that wait for room are told of progress.
const PROGRESS: usize = 32;

impl Pages {
    /// Whether a block that was found some time ago still contains the entry of this page.
    pub fn is_block_at(&self, page: usize, block: &Block) -> bool {
        self.table.block(page).is_some_and(|now| core::ptr::eq(now, block))
    }
}

impl Runtime {
    /// Whether the dense tier may still gain room.
    pub fn can_densify(&self) -> bool {
        self.reclaim.fast_left.load(Relaxed) && self.store().has_dense()
    }

    /// The tier for pages that are compressed now; `shared` if other processes share them. When compressed
    /// pages take a large part of the available memory, room is worth more than time. The same holds when
    /// several processes each make a copy of shared pages before the first page is free.
    pub fn tier(&self, shared: bool) -> Tier {
        if shared || self.is_short() { Tier::Dense } else { Tier::Fast }
    }

    /// Whether the store takes more than 3/4 of what the process may have; or half of it, when a little more
    /// room would avoid many faults.
    pub fn is_tight(&self) -> bool {
        let slot = self.slot();
        let store = slot.payload.load(Relaxed) + slot.overhead.load(Relaxed);
        let may_have = (slot.resident.load(Relaxed) as i64 - self.reclaim.debt.load(Relaxed)).max(0) as u64;
        let share = if self.reclaim.room_pays.load(Relaxed) { 2 } else { 3 };
        store * 4 > may_have * share
    }

    /// Whether room is worth more than time: the store is large, or nothing else can be gained.
    fn is_short(&self) -> bool {
        self.is_tight() || self.reclaim.squeeze.load(Relaxed)
    }

    /// Whether stored pages may be made denser: room is worth the time, or there is time to spare.
    fn may_densify(&self) -> bool {
        self.is_short() || self.reclaim.leisure.load(Relaxed)
    }

    /// Recompresses the remaining fast-tier pages of one block. `false` if there are none.
    pub fn densify_some(&self, worker: &mut Worker) -> bool {
        if !self.reclaim.fast_left.load(Relaxed) || !self.may_densify() {
            return false;
        }
        let from = self.reclaim.dense_at.load(Relaxed);
        if from == 0 {
            // Pages that arrive from now on are for the next round.
            self.reclaim.fast_left.store(false, Relaxed);
        }
        let mut found = None;
        let _ = self.pages.table.visit_blocks(from, END, |base, block| {
            if block.fast.load(Relaxed) == 0 {
                return ControlFlow::Continue(());
            }
            found = Some((base, block));
            ControlFlow::Break(())
        });
        let Some((base, block)) = found else {
            self.reclaim.dense_at.store(0, Relaxed);
            return self.reclaim.fast_left.load(Relaxed);
        };
        self.reclaim.fast_left.store(true, Relaxed);
        self.reclaim.dense_at.store(base + BLOCK, Relaxed);
        block.fast.store(0, Relaxed);
        self.densify_block(worker, base, block);
        true
    }

    fn densify_block(&self, worker: &mut Worker, base: usize, block: &Block) {
        for index in 0..PAGES {
            let urgent = self.reclaim.debt.load(Relaxed) > 0 && self.pages.standby.queued() > 0;
            if self.forks.pause.load(Relaxed) != 0 || urgent && !self.reclaim.squeeze.load(Relaxed) {
                block.fast.fetch_add(1, Relaxed);
                return;
            }
            self.densify_page(worker, base + index * PAGE, block, index);
            if index % PROGRESS == 0 {
                self.reclaim.given_back.fetch_add(1, Relaxed);
            }
        }
    }

    fn densify_page(&self, worker: &mut Worker, page: usize, block: &Block, index: usize) {
        let entry = &block.entries[index];
        let state = entry.load();
        let State::Stored(name) = state else { return };
        // Relatives share this blob; a denser one would be an additional copy.
        if self.keeps_clean() && block.is_inherited(index, self.forks.generation.load(Relaxed)) {
            return;
        }
        let owner = page_number(page);
        self.stored.set_reading(worker.number, true);
        if !entry.pin(name) {
            self.stored.set_reading(worker.number, false);
            return;
        }
        if !self.pages.is_block_at(page, block) {
            // The block was detached meanwhile, and may stand for other addresses by now.
            self.stored.set_reading(worker.number, false);
            entry.unpin(name);
            self.uffd().wake_all();
            return;
        }
        // SAFETY: the blob is pinned, and this worker has announced that it reads.
        let denser = unsafe { self.store().densify(name, owner, PAGE, &mut worker.space) };
        self.stored.set_reading(worker.number, false);
        let Ok(denser) = denser else { self.fail_corrupt() };
        // An event may have emptied the entry, and then it has freed the old blob.
        let swapped = entry.densify(name, denser.unwrap_or(name));
        if swapped && denser.is_some() {
            block.set_own(index, self.forks.generation.load(Relaxed));
        }
        if let Some(new) = denser {
            self.free(if swapped { name } else { new }, owner);
        }
        probe!(runtime_densify, page, swapped && denser.is_some());
        if swapped && denser.is_some() {
            self.slot().counters.pages_densified.fetch_add(1, Relaxed);
        }
        self.uffd().wake(page, PAGE);
        self.reclaim.let_others_run();
    }
}
