//! Spilling: compressors gather blocks into batches, and free the blobs that the tier has acknowledged.
//!
//! The hand goes round and round over the page table, as the clock hand does over the mappings. It takes
//! large blobs: a large blob costs as much to restore as a small one, and makes more room (Cao and Irani
//! 1997, GreedyDual-Size, section 4). The threshold for large depends on what the hand finds: after a round
//! that found much it rises, after a round that found nothing it falls. Neighbouring pages lie side by side
//! in a batch, so they are restored together.
//!
//! Until the answer arrives the store keeps its copy, and the page may be touched, change or go: then its
//! block in the batch belongs to no entry.

use core::sync::atomic::Ordering::*;

use memfold::probe;
use memfold_codec::CodecId;
use memfold_shared::page;
use memfold_shared::spill::{self as area, Area, For, POSTS, Word, answer, kind};
use memfold_spill::Batch;

use super::posts::{fill, free_request_slot, send_request};
use super::sparse::Sparse;
use super::{Batches, SpillLocation};
use crate::kernel::sys::{self, PAGE};
use crate::memory::arena::Arena;
use crate::pages::table::State;
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;

/// Maximum number of a process's batches on their way at the same time.
pub(super) const BATCHES: usize = 2;
/// Maximum number of blocks in a batch.
pub(super) const BLOCKS: usize = 1024;
/// The threshold for large blobs at the beginning, and its maximum, in bytes: such pages do not compress.
pub const LARGEST: usize = PAGE / 4 * 3;
/// A round has found much if it has found this fraction of the store.
pub const MUCH: u64 = 64;
/// Maximum number of rounds for one batch: from the highest threshold down to the lowest.
pub const ROUNDS: usize = 24;
/// Number of table blocks to look at in vain for one batch before the compressor does something else.
pub const LOOKS: usize = 512;

/// A block in a batch.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Item {
    pub page: u64,
    /// The state of its entry as a number: stored, or spilled to another place.
    pub was: u64,
    pub offset: u32,
    pub len: u32,
}

impl Item {
    /// Its location in that batch.
    pub fn spot(&self, batch: u32) -> SpillLocation {
        SpillLocation { batch, offset: self.offset, len: self.len }
    }
}

/// A batch on its way.
pub struct Sent {
    post: usize,
    /// The store's [`wraps`](memfold::store::Store::wraps) when the batch was begun: if it has changed, a
    /// reference may stand for another blob, and the answer is not trusted.
    wraps: u64,
    /// The state of the request slot when it was taken.
    taken: Word,
    /// Where the batch is sealed: bytes that other processes could change before they are sealed would count
    /// as right.
    room: *mut u8,
    /// Its index among [`super::Batches`].
    batch: u32,
    pub count: usize,
    items: *mut Item,
    /// Its length in bytes, and the batch from which some of its blocks come, which is held meanwhile.
    bytes: usize,
    from: Option<u32>,
    is_used: bool,
}

/// See the module.
pub struct Outgoing {
    pub sent: [Sent; BATCHES],
    /// The minimum size of blobs in this round of the hand, in bytes, and how many bytes it has found.
    pub least: usize,
    pub found: u64,
    sparse: Sparse,
    /// The last release that was reported, one at a time: the only answer is that its request slot is free.
    released: Option<(usize, Word)>,
    /// When a compressor was last here.
    looked_ns: u64,
}

// SAFETY: the items are reached only through the lock around this.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// No batches.
    pub const fn new() -> Self {
        Outgoing {
            sent: [const { Sent::none() }; BATCHES],
            least: LARGEST,
            found: 0,
            sparse: Sparse::new(),
            released: None,
            looked_ns: 0,
        }
    }

    /// Reserves the memory for lists, and to seal batches in; once.
    pub fn prepare(&mut self, arena: &Arena) -> sys::Result<()> {
        for sent in &mut self.sent {
            if sent.items.is_null() {
                let place = arena.reserve(BLOCKS * size_of::<Item>(), 64).ok_or(sys::Errno::NOMEM)?;
                sent.items = place as *mut Item;
                sent.room = arena.reserve(area::BUFFER, 4096).ok_or(sys::Errno::NOMEM)?;
            }
        }
        Ok(())
    }

    /// The request slot of the last release, if it may not have been handled yet.
    pub fn released(&self) -> Option<(usize, Word)> {
        self.released
    }

    /// The hand has finished a round: sets the threshold for the next one. Returns whether there was nothing
    /// at all.
    pub fn end_round(&mut self, store: u64) -> bool {
        let (least, found) = (self.least, core::mem::take(&mut self.found));
        if found == 0 {
            // Lower by at least one, down to 0.
            self.least = (least / 4 * 3).min(least.saturating_sub(1));
        } else if found > store / MUCH {
            self.least = (least / 3 * 4 + 4).min(LARGEST);
        }
        found == 0 && least == 0
    }

    /// In a forked child: batches on their way are the parent's.
    pub fn forget(&mut self, batches: &Batches) {
        for sent in self.sent.iter_mut().filter(|sent| sent.is_used) {
            sent.is_used = false;
            batches.release(sent.batch);
            sent.from.take().into_iter().for_each(|from| batches.release(from));
        }
        self.released = None;
        self.sparse.forget().into_iter().for_each(|batch| batches.release(batch));
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::new()
    }
}

impl Sent {
    const fn none() -> Self {
        Sent {
            post: 0,
            wraps: 0,
            taken: Word::NONE,
            room: core::ptr::null_mut(),
            batch: 0,
            count: 0,
            items: core::ptr::null_mut(),
            bytes: 0,
            from: None,
            is_used: false,
        }
    }

    pub fn items(&mut self) -> &mut [Item] {
        // SAFETY: memory for this many items, initially zeroed, made by `prepare` and reached only through
        // the lock.
        unsafe { core::slice::from_raw_parts_mut(self.items, BLOCKS) }
    }
}

impl Runtime {
    /// Whether it is time to spill: memory is owed, and the store takes most of it.
    fn should_spill(&self) -> bool {
        let paranoid = self.shared().flags.load(Relaxed) & page::flags::PARANOID != 0;
        paranoid
            || self.reclaim.squeeze.load(Relaxed)
            || self.is_tight() && self.reclaim.debt.load(Relaxed) > -self.reclaim.margin.load(Relaxed)
    }

    /// Whether it is time to spill, and possible.
    fn wants_spill(&self) -> bool {
        self.spill.is_open() && self.should_spill()
    }

    /// A compressor's share of the work. Returns whether anything was done.
    pub fn spill_some(&self, worker: &mut Worker) -> bool {
        let Some(area) = self.spill.area() else { return false };
        let Some(mut out) = self.spill.out.try_lock() else { return false };
        self.count_unheard(&mut out.looked_ns, self.should_spill());
        let mut worked = false;
        for (sent, still) in out.sent.iter_mut().zip(&self.spill.still).filter(|(sent, _)| sent.is_used) {
            if self.take_answer(area, sent) {
                still.set(u64::MAX, 0);
                worked = true;
            }
        }
        worked |= self.spill.batches.has_dead() && self.report_dead(area, &mut out);
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
        // Not earlier: a process that is stopped while it has a request slot without having asked keeps the
        // slot from others.
        let taken = if count > 0 { area.take(self.spill.pid(), For::Put) } else { None };
        let Some((post, taken)) = taken else {
            self.spill.batches.release(index);
            if let Some(from) = from {
                self.leave_sparse(from, false);
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

    /// Checks whether a batch was kept; then its blobs are freed. Returns whether there was an answer.
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
        // If the request slot was taken away by now, the supervisor has forgotten the batch.
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
            self.leave_sparse(from, kept);
        }
        true
    }

    /// A batch is on the tier: frees those of its blobs whose entries are unchanged. Returns how many.
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
                self.release_location(spot);
            }
        }
        self.slot().counters.pages_spilled.fetch_add(spilled, Relaxed);
        self.reclaim.given_back.fetch_add(u32::from(spilled > 0), Relaxed);
        spilled
    }

    /// Reports batches that are no longer needed.
    fn report_dead(&self, area: &'static Area, out: &mut Outgoing) -> bool {
        if let Some((post, taken)) = out.released {
            let now = area.posts[post % POSTS].load();
            if [area::state::ASKED, area::state::BUSY].map(|state| taken.with(state)).contains(&now) {
                return false;
            }
        }
        let Some((post, taken)) = area.take(self.spill.pid(), For::Put) else { return false };
        let buffer = area.buffer(post) as *mut u64;
        let count = self.spill.batches.remove_dead(area::SMALLEST_BATCH / 8, |index, number| {
            // SAFETY: within the buffer of the request slot, which was taken for this.
            unsafe { buffer.add(index).write(number.to_le()) };
        });
        fill(&area.posts[post], kind::RELEASE, 0, 0, count * 8);
        send_request(area, post, taken);
        out.released = Some((post, taken));
        true
    }
}

/// The tag of blocks that consist of one repeated word.
pub(super) const SAME: u8 = 0;

/// The codec that a tag stands for.
pub(super) fn codec_of(tag: u8) -> Option<CodecId> {
    (tag != SAME).then_some(CodecId(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_follows_from_what_is_found() {
        let mut out = Outgoing::new();
        let rounds = (1..=ROUNDS).find(|_| out.end_round(1 << 20));
        assert!(rounds.is_some() && out.least == 0);
        out.found = 1 << 14;
        assert!(!out.end_round(1 << 20) && out.least == 0, "that was just enough");
        for _ in 0..ROUNDS {
            out.found = 1 << 18;
            assert!(!out.end_round(1 << 20));
        }
        assert_eq!(out.least, LARGEST);
    }
}
