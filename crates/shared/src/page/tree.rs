//! Slots and their sums: the memory of the tree.

use core::sync::atomic::Ordering::*;

use super::{LARGEST_LIMIT, SLOTS, Shared, Slot};
use crate::near;

/// Shared pages are write-protected when copies of them would leave less room than this, in bytes.
const COPIES_ROOM: u64 = 24 << 20;

impl Shared {
    /// The tree's resident memory, as last reported by the processes, in bytes.
    pub fn tree_resident(&self) -> u64 {
        self.resident_and_left().0
    }

    /// A lower bound of the tree's resident memory: `tree_resident` counts pages as copied that may still be
    /// shared, and all memory of processes that have ended as shared.
    pub fn tree_resident_certain(&self) -> u64 {
        let copied = self.copied.load(Relaxed).saturating_sub(self.copied_seen.load(Relaxed));
        let (resident, left) = self.resident_and_left();
        resident.saturating_sub(self.doubt.load(Relaxed) + copied + left)
    }

    /// The same, if forked processes whose shared pages were not measured yet have only pages of their
    /// parents.
    pub fn tree_resident_least(&self) -> u64 {
        self.tree_resident_certain().saturating_sub(self.unmeasured.load(Relaxed))
    }

    /// The tree's resident memory, and the part of it that counts because a process that shared memory has left
    /// since the last correction. With the whole correction the tree would look too small until the next one:
    /// the others still have what was shared.
    fn resident_and_left(&self) -> (u64, u64) {
        // In this order: a correction that is older than `left_seen` would be too large.
        let seen = self.left_seen.load(Acquire);
        let correction = self.resident_correction.load(Relaxed);
        let most = self.tree_resident_unshared();
        let left = self.left.load(Acquire).saturating_sub(seen).min(correction.min(0).unsigned_abs());
        let copied = self.copied.load(Relaxed).saturating_sub(self.copied_seen.load(Relaxed));
        let corrected = most.saturating_add_signed(correction.saturating_add_unsigned(left));
        // Not every copy that was allowed is made.
        (corrected.saturating_add(copied).min(corrected.max(most)), left)
    }

    /// What the tree's resident memory would be if no page were shared any more, in bytes.
    pub fn tree_resident_unshared(&self) -> u64 {
        let managed: u64 = self.live_slots().map(|s| s.resident.load(Relaxed)).sum();
        managed + self.unmanaged_resident.load(Relaxed)
    }

    /// Whether writes to memory that processes share since a fork could exceed the limit. The kernel copies
    /// such pages without reporting it.
    pub fn copies_could_exceed(&self) -> bool {
        self.tree_resident_unshared() + COPIES_ROOM > self.limit_bytes.load(Relaxed).min(LARGEST_LIMIT)
    }

    /// Number of processes that have more than this many bytes resident.
    pub fn larger_than(&self, bytes: u64) -> usize {
        self.live_slots().filter(|slot| slot.resident.load(Relaxed) > bytes).count()
    }

    /// The slots that belong to a process.
    pub fn live_slots(&self) -> impl Iterator<Item = &Slot> {
        self.used().iter().filter(|s| s.pid.load(Acquire) != 0)
    }

    /// What each process keeps resident in any case, in bytes: [`near::floor`], or less while the limit cannot be
    /// held with that.
    pub fn floor(&self) -> u64 {
        let usual = near::floor(self.limit_bytes.load(Relaxed));
        match self.low_floor.load(Relaxed) {
            0 => usual,
            low => low.min(usual),
        }
    }

    /// Lowers the floor when the limit's tolerance is nearly used up, until the limit is held (supervisor). Not
    /// before: a build's processes are small, and end before it pays to evict them.
    pub fn look_for_floor(&self) {
        let (tree, limit) = (self.tree_resident_least(), self.limit_bytes.load(Relaxed));
        if tree > limit.saturating_add(near::tolerance(limit) / 4 * 3) {
            let size = |slot: &Slot| {
                let evicted = slot.evicted.load(Relaxed) + slot.spilled.load(Relaxed);
                slot.resident.load(Relaxed) + evicted
            };
            self.low_floor.store(near::floor_among(limit, || self.live_slots().map(size)), Relaxed);
        } else if tree <= limit {
            self.low_floor.store(0, Relaxed);
        }
    }

    /// The memory that a process without threads of memfold must have to get some, in bytes, at a level of
    /// [`near::worth_threads`].
    pub fn least_managed(&self, level: u32) -> u64 {
        self.floor().max(near::worth_threads(self.limit_bytes.load(Relaxed), level))
    }

    /// The slots that were ever used: a prefix of all.
    pub fn used(&self) -> &[Slot] {
        &self.slots[..(self.used_slots.load(Acquire) as usize).min(SLOTS)]
    }

    /// Takes a slot for `pid`: the one that it has had since before an exec, or a free one.
    pub fn take_slot(&self, pid: u32) -> Option<&Slot> {
        if let Some(own) = self.used().iter().find(|s| s.pid.load(Acquire) == pid) {
            self.note_left(own);
            own.reset_gauges();
            return Some(own);
        }
        let is_free = |slot: &Slot| slot.pid.load(Relaxed) == 0;
        let take = |slot: &Slot| is_free(slot) && slot.pid.compare_exchange(0, pid, AcqRel, Relaxed).is_ok();
        let number = self.slots.iter().position(take)?;
        self.used_slots.fetch_max(number as u32 + 1, AcqRel);
        let free = &self.slots[number];
        free.reset_gauges();
        self.processes.fetch_add(1, Relaxed);
        Some(free)
    }

    /// Adds the counters of an ended process to the totals and frees its slot. Returns what `note_freed` does.
    pub fn free_slot(&self, slot: &Slot) -> u64 {
        slot.counters.drain_into(&self.ended);
        let left = self.note_freed(slot);
        slot.reset_gauges();
        slot.filters.store(0, Relaxed);
        slot.pid.store(0, Release);
        left
    }

    /// Counts the memory of a process that has ended as free. Returns by how much `left` has grown.
    pub fn note_freed(&self, slot: &Slot) -> u64 {
        // First, so that the tree never looks too small. Another thread may do the same.
        let left = self.note_left(slot);
        let held = slot.resident.swap(0, AcqRel);
        self.freed.fetch_add(held, Relaxed);
        left
    }

    /// If a process that ends, or executes another program, shares memory, counts all of its memory as shared.
    /// Returns how much that is.
    pub fn note_left(&self, slot: &Slot) -> u64 {
        if slot.shares.swap(0, AcqRel) == 0 {
            return 0;
        }
        let held = slot.resident.load(Relaxed);
        self.left.fetch_add(held, Release);
        held
    }

    /// Raises the peaks to the present values of the slots.
    pub fn note_peaks(&self) {
        let (mut evicted, mut payload, mut overhead, mut spilled) = (0u64, 0u64, 0u64, 0u64);
        // A forked child counts all of its parent's pages until its own are measured, or it executes a program.
        let mut inherited = 0u64;
        for slot in self.live_slots() {
            inherited += slot.inherited.load(Relaxed).min(slot.resident.load(Relaxed));
            spilled += slot.spilled.load(Relaxed);
            evicted += slot.evicted.load(Relaxed);
            payload += slot.payload.load(Relaxed);
            overhead += slot.overhead.load(Relaxed);
        }
        let resident = self.tree_resident().saturating_sub(inherited);
        self.peak_resident.fetch_max(resident, Relaxed);
        self.peak_payload.fetch_max(payload, Relaxed);
        self.peak_overhead.fetch_max(overhead, Relaxed);
        self.peak_logical.fetch_max(resident.saturating_sub(payload + overhead) + evicted + spilled, Relaxed);
        if self.peak_evicted.fetch_max(evicted, Relaxed) < evicted {
            self.payload_at_peak.store(payload, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::*;

    /// A parent and its child share 90 of 100 bytes; until the next correction, what the child held is taken
    /// for what it shared.
    #[test]
    fn pages_that_an_ended_process_shared_are_still_there() {
        // SAFETY: a page of zeros is a page of counters.
        let shared: Box<Shared> = unsafe { Box::new_zeroed().assume_init() };
        let (parent, child) = (shared.take_slot(1).unwrap(), shared.take_slot(2).unwrap());
        let other = shared.take_slot(3).unwrap();
        for slot in [parent, child, other] {
            slot.resident.store(100, Relaxed);
        }
        parent.shares.store(1, Relaxed);
        child.shares.store(1, Relaxed);
        shared.resident_correction.store(-90, Relaxed);
        assert_eq!((shared.tree_resident(), shared.tree_resident_certain()), (210, 210));
        // One that shares nothing leaves nothing.
        assert_eq!(shared.free_slot(other), 0);
        assert_eq!(shared.tree_resident(), 110);
        assert_eq!(shared.free_slot(child), 100);
        assert_eq!((shared.tree_resident(), shared.tree_resident_certain()), (100, 10));
        // The next correction knows of it.
        shared.resident_correction.store(0, Relaxed);
        shared.left_seen.store(100, Relaxed);
        assert_eq!((shared.tree_resident(), shared.tree_resident_certain()), (100, 100));
        // A process that executes another program leaves what it shared, too; a correction that adds stays.
        shared.resident_correction.store(-60, Relaxed);
        assert_eq!(shared.tree_resident(), 40);
        shared.take_slot(1).unwrap().resident.store(10, Relaxed);
        assert_eq!(shared.tree_resident(), 10);
        shared.resident_correction.store(30, Relaxed);
        assert_eq!(shared.tree_resident(), 40);
    }

    #[test]
    fn what_a_child_inherits_is_no_peak() {
        // SAFETY: as above.
        let shared: Box<Shared> = unsafe { Box::new_zeroed().assume_init() };
        let (parent, child) = (shared.take_slot(1).unwrap(), shared.take_slot(2).unwrap());
        parent.resident.store(100, Relaxed);
        child.resident.store(103, Relaxed);
        child.inherited.store(100, Relaxed);
        shared.note_peaks();
        assert_eq!(shared.peak_resident.load(Relaxed), 103);
        child.inherited.store(0, Relaxed);
        shared.note_peaks();
        assert_eq!(shared.peak_resident.load(Relaxed), 203);
    }
}
