//! Sparse batches: the blocks that are still needed move to a new batch, so that the old one can be deleted.
//!
//! ```text
//!   old batch   │ a │ . │ . │ b │ . │      . is not needed: its page was restored, or is gone
//!                 │           │
//!   new batch   │ a │ b │ pages that gather.rs adds ──
//! ```
//!
//! This works like the cleaning of segments in a log-structured file system (Rosenblum and Ousterhout 1992,
//! section 3). A batch names the pages of its blocks, so memory holds nothing for this but the page table.
//! Blocks are opened and sealed again, but not decompressed.
//!
//! Invariants:
//! - An old batch is held from before it is read until its blocks are in place in the new one: no other batch
//!   can take its place in the table meanwhile.
//! - An entry changes from one place on the tier to another only under the order lock: while a thread holds
//!   that lock, spilled pages stay where they are.

use super::batches::Held;
use super::batches::SpillLocation;
use super::outgoing::{BLOCKS, Item};
use super::posts::{fill, free_request_slot, send_request};
use super::sparse::{Reading, Sparse};
use crate::kernel::addresses::END;
use crate::kernel::sys::PAGE;
use crate::pages::table::State;
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;
use crate::spill::state::Spill;
use core::sync::atomic::Ordering::*;
use memfold_shared::page;
use memfold_shared::spill::{self as area, Area, For, POSTS, answer, kind, scarce};
use memfold_spill::{Batch, blocks};

/// Unneeded blocks on the tier may outnumber needed ones by this many. If room there is scarce, only a
/// fraction of that number of unneeded blocks is allowed.
const SPARE: u64 = 1024;
/// Number of batches among which the sparsest is chosen.
const LOOKS: u32 = 1024;

impl Spill {
    /// Releases a batch that was held. `is_done`: whether every block that could be moved out of it was
    /// moved.
    pub(super) fn leave_sparse(&self, batch: u32, is_done: bool) {
        if is_done {
            self.batches.count_as_full(batch);
        }
        self.batches.release(batch);
    }
}

impl Runtime {
    /// Requests a sparse batch from the tier, if too many blocks there are unneeded. Returns whether it did.
    pub(super) fn ask_for_sparse(&self, area: &'static Area, sparse: &mut Sparse) -> bool {
        if sparse.is_reading() || !self.spill.is_open() {
            return false;
        }
        let batches = &self.spill.batches;
        let (needed, all) = (self.spill.pages.load(Relaxed).max(0) as u64, batches.blocks());
        let (most, part) = if self.shared().flags.load(Relaxed) & page::flags::PARANOID != 0 {
            (needed, (1, 1))
        } else {
            let share = match area.scarce.load(Relaxed) {
                scarce::NOT => 1,
                scarce::RATHER => 4,
                _ => 8,
            };
            (needed + (needed + SPARE) / share, (needed, all))
        };
        if all <= most {
            return false;
        }
        let Some((post, taken)) = area.take(self.spill.pid(), For::Put) else { return false };
        let Some(batch) = batches.hold_sparsest(&mut sparse.hand, LOOKS, part) else {
            free_request_slot(area, post, taken);
            return false;
        };
        let bytes = (batch.bytes as usize).min(area::BUFFER);
        fill(&area.posts[post % POSTS], kind::TRY, batch.number, 0, bytes);
        send_request(area, post, taken);
        sparse.reading = Some(Reading { post, taken, batch });
        true
    }

    /// Moves the needed blocks of the batch that was read into `to`, which is empty. Returns their number
    /// and, unless it is zero, the old batch, which stays held.
    pub(super) fn move_sparse(
        &self,
        area: &'static Area,
        sparse: &mut Sparse,
        to: &mut Batch<'_>,
        items: &mut [Item],
        worker: &mut Worker,
    ) -> (usize, Option<u32>) {
        let Some(Reading { post, taken, batch }) = sparse.reading.take() else { return (0, None) };
        let (answered, bytes) = (taken.with(area::state::ANSWERED), (batch.bytes as usize).min(area::BUFFER));
        let is_answered = area.posts[post % POSTS].load() == answered;
        let what = if is_answered { area.posts[post % POSTS].answer.load(Relaxed) } else { answer::AWAY };
        let mut count = 0;
        if what == answer::DONE {
            // SAFETY: the buffer of the request slot is mapped, and at least as long. Other processes of the
            // tree could write there: any bytes are valid.
            let read = unsafe { core::slice::from_raw_parts(area.buffer(post), bytes) };
            count = self.move_blocks(batch, read, to, items, worker);
        }
        let is_own = free_request_slot(area, post, answered);
        if count > 0 {
            return (count, Some(batch.index));
        }
        // The batch may be tried again if the tier did not answer, if the request slot was taken away, or if
        // a fork is under way.
        let again = !is_own || what == answer::AWAY || self.forks.pause.load(Relaxed) != 0;
        self.spill.leave_sparse(batch.index, !again);
        (0, None)
    }

    /// Called when a batch with moved blocks is on the tier: makes unchanged entries refer to it.
    pub(super) fn place_moved(&self, batch: u32, items: &[Item]) {
        let is_moved = |item: &&Item| matches!(State::from_bits(item.was), State::Spilled(_));
        if !items.iter().any(|item| is_moved(&item)) {
            return;
        }
        // Unlike a handler, this thread must not read messages while it waits for the lock: it has no code
        // that serves faults.
        let order = self.pages.order.lock();
        if order.forking {
            return;
        }
        for item in items.iter().filter(is_moved) {
            let (was, spot) = (State::from_bits(item.was), item.spot(batch));
            let State::Spilled(old) = was else { continue };
            let Some(entry) = self.pages.table.entry(item.page as usize * PAGE) else { continue };
            if entry.load() == was {
                self.spill.batches.need(batch);
                entry.respill(spot);
                self.spill.batches.release(old.batch);
            }
        }
    }

    fn move_blocks(
        &self,
        batch: Held,
        read: &[u8],
        to: &mut Batch<'_>,
        items: &mut [Item],
        worker: &mut Worker,
    ) -> usize {
        let Some(sealer) = self.spill.sealer() else { return 0 };
        let mut count = 0;
        for place in blocks(read, 0) {
            let len = place.len as usize;
            if count == BLOCKS || self.forks.pause.load(Relaxed) != 0 {
                break;
            }
            let Some(sealed) = worker.sealed.get_mut(..len) else { break };
            sealed.copy_from_slice(&read[place.offset as usize..][..len]);
            // A block that does not open stays where it is: the thread that needs it will find out.
            let Ok((block, _)) = sealer.open_first(batch.number, place.offset, sealed) else { break };
            let spot = SpillLocation { batch: batch.index, offset: place.offset, len: place.len };
            let page = block.owner;
            // If the program has moved the page to another address, its block stays where it is, too.
            let entry =
                (page < (END / PAGE) as u64).then(|| self.pages.table.entry(page as usize * PAGE)).flatten();
            if entry.is_none_or(|entry| entry.load() != State::Spilled(spot)) {
                continue;
            }
            let Some(place) = to.add(sealer, page, block.tag, block.payload) else { break };
            let was = State::Spilled(spot).to_bits();
            items[count] = Item { page, was, offset: place.offset, len: place.len };
            count += 1;
        }
        count
    }
}
