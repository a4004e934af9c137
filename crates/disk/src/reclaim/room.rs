//! Making room at the limit: a thread that needs memory makes room itself, one thread at a time.
//!
//! First, uncompressed copies are dropped. Then holes of the store are closed. Then blocks are made denser
//! or, if that is not possible and there is a backing device, spilled: first those that were not used
//! recently, finally all. The device is full only when nothing can be made smaller any more. Making room may
//! use the budget's reserve, and closes holes afterwards until the reserve is there again.

use std::sync::atomic::Ordering::*;

use memfold::store::Goal;

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Entry, PAGES};
use crate::index::stripes::leaf_of;
use crate::io::Kept;
use crate::locked;
use crate::memory::budget::Budget;
use crate::memory::works::Work;
use crate::reclaim::making::Making;
use crate::reclaim::merge::Merged;

/// The room to gain before other threads continue.
const ENOUGH: usize = 256 << 10;
/// The bytes that the store moves at a time.
const MOVES: usize = 8 << 20;

impl Disk {
    /// Makes room, or waits while another thread does. The caller then tries again.
    pub(crate) fn make_room(&self) -> Result<(), Error> {
        self.count_works();
        let before = self.budget().used();
        let mut making = locked(&self.making);
        if self.budget().used() + (ENOUGH as u64) < before {
            return Ok(());
        }
        let changes = self.counts.changes.load(Relaxed);
        if making.exhausted == Some(changes) {
            return Err(Error::Full);
        }
        let gained = Budget::making_room(|| self.gain(&mut making));
        if gained {
            making.rounds += 1;
            making.exhausted = None;
            return Ok(());
        }
        making.exhausted = Some(changes);
        Err(Error::Full)
    }

    /// Changes an existing page although there is no room; returns the outcome. When a page of a block
    /// changes, the block's old form stays until the block is merged again; for that time the change may use
    /// half of the reserve.
    pub(crate) fn change_in_reserve(
        &self,
        page: u64,
        change: impl Fn(&mut Work) -> Result<Kept, Error>,
    ) -> Result<Kept, Error> {
        let mut making = locked(&self.making);
        let is_there = {
            let (stripe, number, place) = self.lock(page);
            stripe
                .get(number)
                .is_some_and(|leaf| matches!(leaf.entry(place), Some(Entry::Joined | Entry::Page(_))))
        };
        let has_reserve = || self.budget().has_reserve();
        if !is_there || !(has_reserve() || self.tighten(&mut making) && has_reserve()) {
            return Ok(Kept::Full);
        }
        let mut kept = Budget::making_room(|| change(making.work()))?;
        if kept == Kept::Full && self.tighten(&mut making) {
            kept = Budget::making_room(|| change(making.work()))?;
        }
        if kept != Kept::Full {
            let (number, place) = leaf_of(page);
            Budget::making_room(|| self.merge_block(number, self.layout.first(place), true, making.work()));
        }
        Ok(kept)
    }

    fn gain(&self, making: &mut Making) -> bool {
        if self.resident.clear(self.budget()) > 0 || self.compact(MOVES) {
            return true;
        }
        for even_hot in [false, true] {
            let gained = self.gain_by_blocks(making, even_hot);
            if gained > 0 {
                self.compact(MOVES);
                self.restore_reserve();
                return true;
            }
        }
        false
    }

    /// Closes all holes in the store and releases what it keeps for its next blobs. For new pages, no more
    /// holes are closed than the reserve needs, so changes of existing data find more room. Returns whether
    /// anything was released.
    fn tighten(&self, making: &mut Making) -> bool {
        let changes = self.counts.changes.load(Relaxed);
        if making.tight == Some(changes) {
            return false;
        }
        let store = self.store.store();
        let moved = store.maintain_to(Goal::FULL, self, usize::MAX).released_bytes;
        let kept = if self.is_for_swap() { 0 } else { store.release_reserve() };
        making.tight = (moved + kept == 0).then_some(changes);
        moved + kept > 0
    }

    /// Closes holes until the reserve is there again. The new forms of blocks have taken from it, and what
    /// they replaced are holes, which new pages would fill.
    fn restore_reserve(&self) {
        let budget = self.budget();
        while budget.used() > budget.open()
            && self.store.store().maintain_to(Goal::FULL, self, MOVES).released_bytes > 0
        {}
    }

    /// Makes blocks denser, or spills those that cannot be made denser, until enough is gained or all have
    /// had their turn.
    fn gain_by_blocks(&self, making: &mut Making, even_hot: bool) -> usize {
        let begin = making.next;
        let (mut number, mut around, mut gained) = (begin, false, 0);
        loop {
            match self.stripes.next(number) {
                Some(leaf) if !around || leaf < begin => {
                    let mut full = false;
                    for first in (0..PAGES).step_by(self.layout.pages()) {
                        let merged = self.merge_block(leaf, first, even_hot, &mut making.work);
                        full |= merged == Merged::Full;
                        gained += match merged {
                            Merged::Gained(bytes) => bytes,
                            Merged::Hot => 0,
                            _ => self.spill_block(leaf, first, true, &mut making.work),
                        };
                    }
                    // The blocks that shrank have left holes, and closing them makes room for the others: the
                    // next call begins with this leaf again.
                    if full && gained > 0 {
                        number = leaf;
                        break;
                    }
                    number = leaf + 1;
                }
                _ if !around => (number, around) = (0, true),
                _ => break,
            }
            if gained >= ENOUGH {
                break;
            }
        }
        making.next = number;
        gained
    }
}
