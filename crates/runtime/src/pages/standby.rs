//! Standby: where evicted blocks lie, still uncompressed. A page that is touched is copied back from here;
//! pages that stay untouched are compressed, oldest slot first.
//!
//! ```text
//! base + 0      2 MiB     4 MiB     6 MiB ...
//!      | slot 0 | slot 1  | slot 2  |            each slot in use is one mapping
//! ```
//!
//! A page keeps its offset in the block when it moves to a slot; `owners` names the page it belongs to, even
//! after the program has moved the mapping.
//!
//! Invariants:
//! - A slot in use belongs to the evictor (while it is filled), to the queue, or to one compressor. Only
//!   its holder frees its pages.
//! - `owners`, and the entries that name a slot, change under the order lock.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::kernel::addresses::{BLOCK, PAGES};
use crate::kernel::rlimit;
use crate::kernel::sys::{self, PAGE, Result, advice, prot};
use crate::memory::lock::Lock;

/// Maximum number of slots.
pub const SLOTS: usize = 4096;
/// Where memory is limited, the slots take this fraction of it.
const LIMITED: usize = 16;
/// With fewer slots paging does not work.
const FEWEST: usize = 8;

/// Size in bytes of the array that describes this many slots.
fn array_bytes(count: usize) -> usize {
    (count * size_of::<Slot>()).next_multiple_of(PAGE)
}

/// Number of slots where the program's memory is limited.
fn slots_of(limit: usize) -> usize {
    (limit / LIMITED / BLOCK).clamp(FEWEST, SLOTS)
}

/// Name of a page on standby: slot number and index in the slot.
pub fn page_id(slot: u32, index: usize) -> u32 {
    slot << 9 | index as u32
}

/// Description of a slot.
#[repr(C)]
pub struct Slot {
    /// Page number of each page's owner.
    pub owners: [AtomicU64; PAGES],
    /// Which pages the slot holds, one bit each; written by the holder.
    pub present: [AtomicU64; PAGES / 64],
    /// Number of pages that are still needed.
    pub live: AtomicU32,
    /// The block from which it was evicted. `taken` is the number of its pages, and `rescued` how many of
    /// them were touched since.
    pub home: AtomicUsize,
    /// See `home`.
    pub taken: AtomicU32,
    /// See `home`.
    pub rescued: AtomicU32,
    /// When it was queued.
    pub queued_ns: AtomicU64,
    /// Other processes shared most of its pages: compressing them frees nothing until those processes
    /// compress them, too.
    pub shared: AtomicBool,
}

struct Queue {
    /// Slots in use, oldest first: a ring of `SLOTS`.
    ring: [u16; SLOTS],
    first: usize,
    used: usize,
    free: [u16; SLOTS],
    free_count: usize,
    fresh: usize,
}

/// See the module.
pub struct Standby {
    base: AtomicUsize,
    slots: AtomicUsize,
    /// Number of slots.
    count: AtomicUsize,
    queue: Lock<Queue>,
    /// Number of needed pages in all slots in use.
    pub pages: AtomicU64,
    /// Slots whose addresses may now belong to the program, one bit each.
    lost: [AtomicU64; SLOTS / 64],
}

/// Address space that is only reserved does not belong in a core dump. The kernel's own dumps leave it out
/// anyway; gdb would write gigabytes of zeros.
fn keep_out_of_dumps(start: usize, bytes: usize) {
    // SAFETY: this advice loses no data.
    let _ = unsafe { sys::madvise(start, bytes, advice::DONTDUMP) };
}

impl Standby {
    /// Not yet usable.
    pub const fn new() -> Self {
        let queue = Queue { ring: [0; SLOTS], first: 0, used: 0, free: [0; SLOTS], free_count: 0, fresh: 0 };
        Standby {
            base: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            queue: Lock::new(queue),
            pages: AtomicU64::new(0),
            lost: [const { AtomicU64::new(0) }; SLOTS / 64],
        }
    }

    /// Reserves the addresses, once.
    pub fn init(&self) -> Result<()> {
        if self.base.load(Relaxed) != 0 {
            return Ok(());
        }
        let count = rlimit::memory().map_or(SLOTS, slots_of);
        let slots = sys::map_anonymous(array_bytes(count), prot::READ | prot::WRITE)? as usize;
        // SAFETY: advice about fresh memory of our own; it loses no data.
        unsafe {
            let _ = sys::madvise(slots, array_bytes(count), advice::NOHUGEPAGE);
            let _ = sys::madvise(slots, array_bytes(count), advice::DONTDUMP);
        }
        let raw = sys::map_anonymous((count + 1) * BLOCK, prot::NONE)? as usize;
        let base = raw.next_multiple_of(BLOCK);
        // SAFETY: the ranges before and after the slots are fresh, and unused.
        unsafe {
            if raw < base {
                let _ = sys::munmap(raw, base - raw);
            }
            let _ = sys::munmap(base + count * BLOCK, raw + BLOCK - base);
        }
        keep_out_of_dumps(base, count * BLOCK);
        self.slots.store(slots, Relaxed);
        self.count.store(count, Relaxed);
        self.base.store(base, Release);
        Ok(())
    }

    /// Frees slots that were never used, because the program's memory is now limited to `limit`. Called by
    /// the keeper, the thread that takes slots.
    pub fn shrink(&self, limit: usize) {
        let queue = self.queue.lock();
        let (base, count) = (self.base.load(Acquire), self.count.load(Relaxed));
        let fewer = slots_of(limit).max(queue.fresh);
        if base != 0 && fewer < count {
            self.count.store(fewer, Relaxed);
            let (array, keep) = (self.slots.load(Relaxed), array_bytes(fewer));
            // SAFETY: these slots were never used, and never will be.
            unsafe {
                let _ = sys::munmap(base + fewer * BLOCK, (count - fewer) * BLOCK);
                let _ = sys::munmap(array + keep, array_bytes(count) - keep);
            }
        }
    }

    /// Frees all slots; standby may not be used any more.
    pub fn close(&self) {
        let base = self.base.load(Acquire);
        if base != 0 {
            for slot in (0..self.count.load(Relaxed) as u32).filter(|slot| !self.is_lost(*slot)) {
                // SAFETY: no entry names a page on standby, and no compressor is running.
                let _ = unsafe { sys::map_over(self.address(slot), BLOCK, prot::NONE) };
            }
            keep_out_of_dumps(base, self.bytes());
        }
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> usize {
        self.count.load(Relaxed) * BLOCK
    }

    /// Whether the address lies in a slot.
    pub fn contains(&self, address: usize) -> bool {
        let base = self.base.load(Acquire);
        base != 0
            && (base..base + self.bytes()).contains(&address)
            && !self.is_lost(((address - base) / BLOCK) as u32)
    }

    /// Whether a range overlaps the slots, or the array that describes them.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        let (base, array) = (self.base.load(Acquire), self.slots.load(Acquire));
        let touches = |from: usize, bytes: usize| start < from + bytes && from < end;
        let is_own = |slot: usize| {
            let from = base + slot * BLOCK;
            touches(from, BLOCK) && !self.is_lost(slot as u32)
        };
        let count = self.count.load(Relaxed);
        let near = || {
            let first = start.saturating_sub(base) / BLOCK;
            let last = (end.saturating_sub(base)).div_ceil(BLOCK);
            (first.min(count)..last.min(count)).any(is_own)
        };
        base != 0 && (touches(base, self.bytes()) && near() || touches(array, array_bytes(count)))
    }

    fn is_lost(&self, slot: u32) -> bool {
        self.lost[slot as usize / 64].load(Relaxed) >> (slot % 64) & 1 != 0
    }

    /// The kernel has unmapped this part of a slot and then mapped nothing there. If the addresses cannot be
    /// mapped again, another thread may have been given them, and they are no longer ours.
    #[cold]
    pub fn recover(&self, slot: u32, start: usize, bytes: usize) {
        match sys::map_if_free(start, bytes, prot::NONE) {
            Ok(()) => keep_out_of_dumps(start, bytes),
            Err(_) => _ = self.lost[slot as usize / 64].fetch_or(1 << (slot % 64), Relaxed),
        }
    }

    /// Address of a slot.
    pub fn address(&self, slot: u32) -> usize {
        self.base.load(Relaxed) + slot as usize * BLOCK
    }

    /// Address of a page on standby.
    pub fn page_address(&self, id: u32) -> usize {
        self.base.load(Relaxed) + id as usize * PAGE
    }

    /// The description of a slot.
    pub fn slot(&self, slot: u32) -> &Slot {
        assert!((slot as usize) < self.count.load(Relaxed));
        // SAFETY: the array has `count` zeroed entries and is never freed.
        unsafe { &*(self.slots.load(Acquire) as *const Slot).add(slot as usize) }
    }

    /// Takes an unused slot.
    pub fn take_free(&self) -> Option<u32> {
        let mut queue = self.queue.lock();
        if queue.free_count > 0 {
            queue.free_count -= 1;
            return Some(u32::from(queue.free[queue.free_count]));
        }
        if queue.fresh < self.count.load(Relaxed) {
            queue.fresh += 1;
            return Some(queue.fresh as u32 - 1);
        }
        None
    }

    /// Frees a slot whose pages are no longer needed.
    pub fn give_back(&self, slot: u32) {
        if self.is_lost(slot) {
            return;
        }
        let mut queue = self.queue.lock();
        let at = queue.free_count;
        queue.free[at] = slot as u16;
        queue.free_count += 1;
    }

    /// Puts a filled slot at the end of the queue.
    pub fn enqueue(&self, slot: u32) {
        self.slot(slot).queued_ns.store(sys::now_ns(), Relaxed);
        let mut queue = self.queue.lock();
        let at = (queue.first + queue.used) % SLOTS;
        queue.ring[at] = slot as u16;
        queue.used += 1;
    }

    /// Takes the oldest slot out of the queue, if it was queued before `before_ns`.
    pub fn take_oldest(&self, before_ns: u64) -> Option<u32> {
        let mut queue = self.queue.lock();
        if queue.used == 0 {
            return None;
        }
        let slot = queue.ring[queue.first];
        if self.slot(u32::from(slot)).queued_ns.load(Relaxed) >= before_ns {
            return None;
        }
        queue.first = (queue.first + 1) % SLOTS;
        queue.used -= 1;
        Some(u32::from(slot))
    }

    /// After a fork: another process shares all pages on standby.
    pub fn all_shared(&self) {
        let queue = self.queue.lock();
        for at in 0..queue.used {
            let slot = queue.ring[(queue.first + at) % SLOTS];
            self.slot(u32::from(slot)).shared.store(true, Relaxed);
        }
    }

    /// Number of slots in the queue.
    pub fn queued(&self) -> usize {
        self.queue.lock().used
    }

    /// Whether no page is left to compress, not even one held by a compressor.
    pub fn is_empty(&self) -> bool {
        self.pages.load(Relaxed) == 0
    }

    /// A page on standby is no longer needed. Under the order lock.
    pub fn forget(&self, id: u32) {
        self.slot(id >> 9).live.fetch_sub(1, Relaxed);
        self.pages.fetch_sub(1, Relaxed);
    }

    /// Releases the lock in a forked child.
    ///
    /// # Safety
    /// No thread may have been inside this module at the fork.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.queue.reset_in_child() };
    }
}

impl Default for Standby {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_were_used_stay() {
        let standby = Standby::new();
        standby.init().unwrap();
        let base = standby.address(0);
        let used: usize = 20;
        (0..used).for_each(|_| assert!(standby.take_free().is_some()));
        standby.shrink(FEWEST * BLOCK * LIMITED);
        assert!(standby.contains(base + used * BLOCK - 1) && !standby.contains(base + used * BLOCK));
        assert!(!standby.overlaps(base + used * BLOCK, base + (used + 1) * BLOCK));
        assert_eq!(standby.take_free(), None);
        standby.slot(used as u32 - 1).live.store(1, Relaxed);
        standby.give_back(7);
        assert_eq!(standby.take_free(), Some(7));
        (3..6).for_each(|slot| standby.enqueue(slot));
        assert_eq!(standby.take_oldest(sys::now_ns() - 1_000_000_000), None);
        assert_eq!(standby.take_oldest(u64::MAX), Some(3));
        standby.all_shared();
        assert_eq!(
            [3, 4, 5, 6].map(|slot| standby.slot(slot).shared.load(Relaxed)),
            [false, true, true, false]
        );
    }
}
