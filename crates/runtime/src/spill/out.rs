//! Spilling: compressors gather blocks into batches, and free the blobs that the tier has acknowledged.
//!
//! The hand goes round and round over the page table, as the clock hand does over the mappings. It takes
//! large blobs: a large blob costs as much to restore as a small one, and makes more room (Cao and Irani
//! 1997, GreedyDual-Size, section 4). The size threshold depends on what the hand finds: it rises after a
//! round that found much, and falls after a round that found nothing. Neighbouring pages lie side by side in
//! a batch, so they are restored together.
//!
//! Until the answer arrives the store keeps its copy. The page may meanwhile be touched, changed or unmapped:
//! then its block in the batch belongs to no entry.

use super::outgoing::{Item, Outgoing, Sent};
use super::posts::{fill, free_request_slot, send_request};
use crate::kernel::sys::PAGE;
use crate::pages::table::State;
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;
use crate::spill::state::Spill;
use core::sync::atomic::Ordering::*;
use memfold::probe;
use memfold_codec::CodecId;
use memfold_shared::page;
use memfold_shared::spill::{self as area, Area, For, POSTS, answer, kind};
use memfold_spill::Batch;

/// Maximum number of rounds for one batch: from the highest threshold down to the lowest.
pub const ROUNDS: usize = 24;
/// Number of table blocks to look at in vain for one batch before the compressor does something else.
pub const LOOKS: usize = 512;

impl Spill {
    /// Reports batches that are no longer needed.
    fn report_dead(&self, area: &'static Area, out: &mut Outgoing) -> bool {
        if let Some((post, taken)) = out.released {
            let now = area.posts[post % POSTS].load();
            if [area::state::ASKED, area::state::BUSY].map(|state| taken.with(state)).contains(&now) {
                return false;
            }
        }
        let Some((post, taken)) = area.take(self.pid(), For::Put) else { return false };
        let buffer = area.buffer(post) as *mut u64;
        let count = self.batches.remove_dead(area::SMALLEST_BATCH / 8, |index, number| {
            // SAFETY: within the buffer of the request slot, which was taken for this.
            unsafe { buffer.add(index).write(number.to_le()) };
        });
        fill(&area.posts[post], kind::RELEASE, 0, 0, count * 8);
        send_request(area, post, taken);
        out.released = Some((post, taken));
        true
    }
}

impl Runtime {
    /// Whether it is time to spill: memory is owed, and the store takes most of it.
    pub fn should_spill(&self) -> bool {
        let paranoid = self.shared().flags.load(Relaxed) & page::flags::PARANOID != 0;
        paranoid
            || self.reclaim.squeeze.load(Relaxed)
            || self.is_tight() && self.reclaim.debt.load(Relaxed) > -self.reclaim.margin.load(Relaxed)
    }

    /// Whether it is time to spill, and possible.
    fn wants_spill(&self) -> bool {
        self.spill.is_open() && self.should_spill()
    }

    /// Does a compressor's share of the spilling. Returns whether anything was done.
    pub fn spill_some(&self, worker: &mut Worker) -> bool {
        let Some(area) = self.spill.area() else { return false };
        let Some(mut out) = self.spill.out.try_lock() else { return false };
        self.spill.count_unheard(&mut out.looked_ns, self.should_spill());
        self.spill.look_at_unspillable(self.slot().payload.load(Relaxed));
        let mut worked = false;
        for (sent, still) in out.sent.iter_mut().zip(&self.spill.still).filter(|(sent, _)| sent.is_used) {
            if self.take_answer(area, sent) {
                still.set(u64::MAX, 0);
                worked = true;
            }
        }
        worked |= self.spill.batches.has_dead() && self.spill.report_dead(area, &mut out);
        if self.forks.pause.load(Relaxed) == 0 {
            // With hardly any room on the tier, no new data are sent until there is some again.
            let may_send = !out.sparse.is_reading() || area.scarce.load(Relaxed) != area::scarce::VERY;
            let wanted = self.wants_spill() && may_send || out.sparse.is_answered(area);
            if let Some(number) = out.sent.iter().position(|sent| wanted && !sent.is_used) {
                worked |= self.send(area, &mut out, number, worker);
            }
            worked |= self.ask_for_sparse(area, &mut out.sparse);
        }
        let in_flight =
            out.sent.iter().filter(|sent| sent.is_used).count() + usize::from(out.sparse.is_reading());
        self.spill.in_flight.store(in_flight as u32, Relaxed);
        worked
    }

    /// Fills a batch and asks the supervisor to keep it.
    fn send(&self, area: &'static Area, out: &mut Outgoing, number: usize, worker: &mut Worker) -> bool {
        if !area.has_free(For::Put) {
            return false;
        }
        let batch = area.next_batch.fetch_add(1, Relaxed);
        let Some(index) = self.spill.batches.add(batch, &self.arena) else { return false };
        let room = (area.batch_bytes.load(Relaxed) as usize).min(area::BUFFER);
        // SAFETY: memory of this batch's own, as large as a buffer, reached only through the lock.
        let buffer = unsafe { core::slice::from_raw_parts_mut(out.sent[number].room, room) };
        let mut batch = Batch::new(batch, buffer);
        let wraps = self.store().store().wraps();
        self.spill.still[number].set(0, u64::MAX);
        let (mut count, mut from) = (0, None);
        if out.sparse.is_answered(area) {
            let Outgoing { sent, sparse, .. } = out;
            (count, from) = self.move_sparse(area, sparse, &mut batch, sent[number].items(), worker);
        }
        let moved = count;
        if self.wants_spill() {
            count = self.gather(&mut batch, out, number, count, worker);
        }
        let pages = out.sent[number].items()[moved..count].iter().map(|item| item.page);
        let (first, last) =
            pages.fold((u64::MAX, 0), |(first, last), page| (first.min(page), last.max(page)));
        self.spill.still[number].set(first, last);
        // The slot is not taken earlier, because a process that is stopped between taking a slot and asking
        // keeps it from others.
        let taken = if count > 0 { area.take(self.spill.pid(), For::Put) } else { None };
        let Some((post, taken)) = taken else {
            self.spill.batches.release(index);
            if let Some(from) = from {
                self.spill.leave_sparse(from, false);
            }
            return false;
        };
        let bytes = batch.len();
        // SAFETY: the request slot's buffer, within the mapping and as large; the slot was taken, so no
        // process that follows the rules uses it.
        unsafe { core::ptr::copy_nonoverlapping(batch.bytes().as_ptr(), area.buffer(post), bytes) };
        let sent = &mut out.sent[number];
        (sent.wraps, sent.bytes, sent.from) = (wraps, bytes, from);
        (sent.post, sent.taken, sent.batch, sent.count, sent.is_used) = (post, taken, index, count, true);
        probe!(runtime_spill_begin, batch.number(), count, bytes);
        fill(&area.posts[post], kind::PUT, batch.number(), 0, bytes);
        send_request(area, post, taken);
        true
    }

    /// Checks whether a batch was kept, and if so frees its blobs. Returns whether there was an answer.
    fn take_answer(&self, area: &'static Area, sent: &mut Sent) -> bool {
        let post = &area.posts[sent.post % POSTS];
        let (now, answered) = (post.load(), sent.taken.with(area::state::ANSWERED));
        let on_its_way = [area::state::ASKED, area::state::BUSY].map(|state| sent.taken.with(state));
        if on_its_way.contains(&now) && area.server.load(Relaxed) != 0 {
            return false;
        }
        let is_young = self.store().store().wraps() == sent.wraps;
        let is_done = now == answered && post.answer.load(Relaxed) == answer::DONE;
        let unit = post.from.load(Relaxed);
        // If the request slot has been taken away, the supervisor has forgotten the batch.
        let is_own = free_request_slot(area, sent.post, answered);
        let kept = is_own && is_done && is_young;
        sent.is_used = false;
        let (batch, count, from) = (sent.batch, sent.count, sent.from.take());
        let mut spilled = 0;
        if kept {
            self.spill.unheard_ns.store(0, Relaxed);
            self.spill.batches.keep(batch, count, sent.bytes, unit);
            spilled = self.spill_stored(batch, &sent.items()[..count]);
            self.place_moved(batch, &sent.items()[..count]);
        }
        probe!(runtime_spill, self.spill.batches.number(batch).unwrap_or(0), spilled, kept);
        self.spill.batches.release(batch);
        if let Some(from) = from {
            self.spill.leave_sparse(from, kept);
        }
        true
    }

    /// Called when a batch is on the tier: frees those of its blobs whose entries are unchanged. Returns how
    /// many.
    fn spill_stored(&self, batch: u32, items: &[Item]) -> u64 {
        let mut spilled = 0;
        for item in items {
            let State::Stored(name) = State::from_bits(item.was) else { continue };
            let Some(entry) = self.pages.table.entry(item.page as usize * PAGE) else { continue };
            let spot = item.spot(batch);
            // Counted first: the page may be touched and restored at once.
            self.spill.batches.need(batch);
            self.spill.pages.fetch_add(1, Relaxed);
            if entry.spill(name, spot) {
                self.free(name, item.page);
                spilled += 1;
            } else {
                self.spill.release_location(spot);
            }
        }
        self.slot().counters.pages_spilled.fetch_add(spilled, Relaxed);
        self.reclaim.given_back.fetch_add(u32::from(spilled > 0), Relaxed);
        spilled
    }
}

/// The tag of blocks that consist of one repeated word.
pub(super) const SAME: u8 = 0;

/// The codec that a tag stands for.
pub(super) fn codec_of(tag: u8) -> Option<CodecId> {
    (tag != SAME).then_some(CodecId(tag))
}
