//! The end of a class's array: committing memory ahead of its use, and returning it.
//!
//! ```text
//!   ... slot slot slot │ slack: committed, unused       │ reserved
//!                      ^ top            ^ soft          ^ committed
//! ```
//!
//! A class grows in units. The next unit is requested as soon as `top` exceeds `soft`, which lies below
//! `committed` by a part of a unit (CRAMES's fill ratio) and, unless slots are large, by at least one slot.
//! So a unit is requested while there are still free slots, and a put during reclaim succeeds even if the
//! system has no memory at that moment.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use super::{Class, GROUP_HEADER, Locked, SEGMENTS};
use crate::store::Tuning;
use crate::store::memory::Memory;

/// A unit is 1/128 of the class's committed memory, rounded down to a power of two, within these bounds.
const UNIT_SHARE: usize = 128;
const UNIT_LEAST: usize = 4096;
const UNIT_MOST: usize = if cfg!(test) { 16384 } else { 262_144 };
/// A class in use whose slots have at most this size keeps one slot in reserve, however small the class is.
const KEPT_SLOT: usize = 16384;

/// The result of growing.
pub(super) enum Grown<T> {
    /// There is room.
    Done(T),
    /// There is no more memory.
    Full,
    /// Another thread is releasing the tail: wait for that, without the lock.
    Busy,
}

impl Class {
    /// Releases about `budget` bytes of the tail, but not the reserve, if the tail is long enough to be worth
    /// it. Returns the number of bytes released.
    pub(in crate::store) fn trim<M: Memory>(&self, memory: &M, budget: usize, tuning: Tuning) -> usize {
        let locked = self.lock(memory);
        let spare = locked.long_tail(tuning);
        self.release_tail(locked, spare.min(budget), tuning)
    }

    /// Releases the whole tail, including the reserve. Returns the number of bytes released.
    pub(in crate::store) fn release_reserve<M: Memory>(&self, memory: &M, tuning: Tuning) -> usize {
        let mut all = 0;
        // Each cut stays within one segment. Memory that others commit meanwhile need not be released.
        for _ in 0..SEGMENTS {
            let locked = self.lock(memory);
            let spare = locked.slack();
            if spare < memory.page_size() {
                break;
            }
            all += self.release_tail(locked, spare, tuning);
        }
        all
    }

    /// Releases about `spare` bytes of the tail, unless another thread is doing so.
    fn release_tail<M: Memory>(&self, mut locked: Locked<'_, M>, spare: usize, tuning: Tuning) -> usize {
        if spare == 0 || !self.tail.try_acquire() {
            return 0;
        }
        let memory = locked.memory;
        let (start, bytes) = locked.cut(spare, tuning);
        // The system call is slow, so other threads may use the class meanwhile.
        drop(locked);
        // SAFETY: the range was committed and holds no slot below the top. It is no longer counted as
        // committed, and is not committed again before the tail's lock is free.
        unsafe { memory.release(start, bytes) };
        self.tail.release(memory);
        bytes
    }
}

impl<M: Memory> Locked<'_, M> {
    /// Bytes of the tail that are worth releasing; zero if they would be needed again after a few puts.
    pub(in crate::store) fn long_tail(&self, tuning: Tuning) -> usize {
        if self.top == 0 {
            return self.committed;
        }
        let (slack, reserve) = (self.slack(), self.reserve(tuning));
        if slack > reserve + 2 * self.unit() { slack - reserve } else { 0 }
    }

    fn unit(&self) -> usize {
        let least = UNIT_LEAST.max(self.memory.page_size());
        let share = (self.committed / UNIT_SHARE).max(1);
        (1 << share.ilog2()).clamp(least, UNIT_MOST)
    }

    /// Bytes to keep in reserve: a part of a unit, and at least the next slot, unless a slot is large and the
    /// class small.
    fn reserve(&self, tuning: Tuning) -> usize {
        let part = self.unit() * 64usize.saturating_sub(tuning.fill_ratio as usize) / 64;
        let slot = self.class.slot as usize + GROUP_HEADER;
        if part > 0 && self.keeps_slot() { part.max(slot) } else { part }
    }

    fn keeps_slot(&self) -> bool {
        let slot = self.class.slot as usize;
        slot <= KEPT_SLOT || slot <= self.committed / 16
    }

    /// Commits one more unit.
    #[cold]
    pub(super) fn grow(&mut self, tuning: Tuning) -> Grown<()> {
        if !self.class.tail.try_acquire() {
            return Grown::Busy;
        }
        let grown = self.commit_unit(tuning);
        self.class.tail.release(self.memory);
        if grown.is_some() { Grown::Done(()) } else { Grown::Full }
    }

    fn commit_unit(&mut self, tuning: Tuning) -> Option<()> {
        let memory = self.memory;
        let (mut segment, mut offset) = (self.segment as usize, self.offset);
        if self.committed != 0 && offset == self.class.segment_bytes(segment, memory) {
            (segment, offset) = (segment + 1, 0);
            if segment == SEGMENTS {
                return None;
            }
        }
        let all = self.class.segment_bytes(segment, memory);
        let mut start = self.class.segments[segment].load(Ordering::Relaxed);
        if start.is_null() {
            start = memory.reserve(all)?.as_ptr();
            self.class.segments[segment].store(start, Ordering::Release);
        }
        let unit = self.unit().min(all - offset);
        // SAFETY: the range lies within the segment and above what is committed; the tail's lock is held, so
        // nobody is returning it.
        if !unsafe { memory.commit(NonNull::new_unchecked(start.add(offset)), unit) } {
            return None;
        }
        self.set_committed(segment, offset + unit, self.committed + unit, tuning);
        Some(())
    }

    fn set_committed(&mut self, segment: usize, offset: usize, committed: usize, tuning: Tuning) {
        (self.segment, self.offset, self.committed) = (segment as u32, offset, committed);
        let ready = self.class.slots_before(segment, offset);
        self.class.ready.store(ready, Ordering::Release);
        let part = self.reserve(tuning);
        self.soft = self.class.slots_before(segment, offset.saturating_sub(part));
        if part > 0 && self.keeps_slot() {
            self.soft = self.soft.min(ready.saturating_sub(1));
        }
    }

    /// Lowers `committed` by about `spare` bytes, in whole pages and within one segment. Returns the range
    /// above it, which the caller must release.
    fn cut(&mut self, spare: usize, tuning: Tuning) -> (NonNull<u8>, usize) {
        let memory = self.memory;
        let page = memory.page_size();
        let bytes = (spare.max(page) / page * page).min(self.offset);
        let (segment, offset) = (self.segment as usize, self.offset - bytes);
        let committed = self.committed - bytes;
        // From here on, readers with stale references do not look beyond the new end.
        if offset == 0 && segment > 0 {
            let whole = self.class.segment_bytes(segment - 1, memory);
            self.set_committed(segment - 1, whole, committed, tuning);
        } else {
            self.set_committed(segment, offset, committed, tuning);
        }
        let start = self.class.segments[segment].load(Ordering::Relaxed);
        // SAFETY: a segment with committed memory is reserved, and has more
        // than `offset` bytes.
        (unsafe { NonNull::new_unchecked(start.add(offset)) }, bytes)
    }

    /// Waits, without the lock, until the tail has been released. Anything read from the class before may be
    /// out of date afterwards.
    #[cold]
    pub(super) fn wait_for_tail(&mut self) {
        self.class.unlock_for(self.memory, || {
            self.class.tail.acquire(self.memory);
            self.class.tail.release(self.memory);
        });
    }
}
