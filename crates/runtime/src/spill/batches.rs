//! The batches that this process has blocks in.
//!
//! ```text
//! directory: 1024 x -> chunk: 4096 x { number, blocks that are needed, next of its list }
//!
//! free ──> in use: blocks come and go ──> dead: none is needed ── told to the supervisor ──> free
//! ```
//!
//! While a batch is on its way out, it has one block more, which is nobody's: it can't die before it is known what became of it.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use crate::arena::Arena;
use crate::lock::Lock;

const CHUNK: usize = 4096;
const CHUNKS: usize = 1024;
/// No batch: the end of a list.
const NONE: u32 = u32::MAX;

/// Where a spilled block is, in 59 bits of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Its batch's index in the table.
    pub batch: u32,
    /// Bytes from the batch's beginning, less than 2^18.
    pub offset: u32,
    /// Bytes of the sealed block: not 0, less than 2^13.
    pub len: u32,
}

const OFFSET_BITS: u32 = 18;
const LEN_BITS: u32 = 13;

impl Spot {
    /// As a number, not 0.
    pub fn to_bits(self) -> u64 {
        u64::from(self.batch) << (OFFSET_BITS + LEN_BITS)
            | u64::from(self.offset) << LEN_BITS
            | u64::from(self.len)
    }

    /// `None` if the number is none of a spot.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let spot = Spot {
            batch: (bits >> (OFFSET_BITS + LEN_BITS)) as u32,
            offset: (bits >> LEN_BITS) as u32 & ((1 << OFFSET_BITS) - 1),
            len: bits as u32 & ((1 << LEN_BITS) - 1),
        };
        (spot.len != 0).then_some(spot)
    }

    /// Where it ends.
    pub fn end(self) -> u32 {
        self.offset + self.len
    }
}

const _: () = assert!((CHUNK * CHUNKS) as u64 <= 1 << 28);
const _: () = assert!(crate::sys::PAGE + memfold_spill::Batch::OVERHEAD < 1 << LEN_BITS);

#[repr(C)]
struct Known {
    number: AtomicU64,
    needed: AtomicU32,
    next: AtomicU32,
}

#[repr(C)]
struct Chunk([Known; CHUNK]);

struct Lists {
    /// Indexes that were ever used.
    high: u32,
    in_use: u32,
    free: u32,
    dead: u32,
}

/// See the module.
pub struct Batches {
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    lists: Lock<Lists>,
}

impl Batches {
    /// None.
    pub const fn new() -> Self {
        Batches {
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS],
            lists: Lock::new(Lists { high: 0, in_use: 0, free: NONE, dead: NONE }),
        }
    }

    fn known(&self, index: u32) -> Option<&'static Known> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(Acquire);
        // SAFETY: chunks are made zeroed from the arena and never unmapped.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk.0[index as usize % CHUNK])
    }

    /// Adds a batch, with the block that is nobody's. `None` if there is no room for more.
    pub fn add(&self, number: u64, arena: &Arena) -> Option<u32> {
        let mut lists = self.lists.lock();
        let index = if lists.free != NONE {
            let index = lists.free;
            lists.free = self.known(index)?.next.load(Relaxed);
            index
        } else {
            let index = lists.high;
            let chunk = self.chunks.get(index as usize / CHUNK)?;
            if chunk.load(Relaxed).is_null() {
                // SAFETY: a chunk of numbers is all zeros.
                let made = unsafe { arena.make::<Chunk>() }?;
                chunk.store(made as *const Chunk as *mut Chunk, Release);
            }
            lists.high += 1;
            index
        };
        lists.in_use += 1;
        let known = self.known(index)?;
        known.number.store(number, Relaxed);
        known.needed.store(1, Release);
        Some(index)
    }

    /// The number of a batch, as long as blocks of it are needed.
    pub fn number(&self, index: u32) -> Option<u64> {
        let known = self.known(index)?;
        let number = known.number.load(Acquire);
        (known.needed.load(Acquire) > 0).then_some(number)
    }

    /// One block more is needed.
    pub fn need(&self, index: u32) {
        if let Some(known) = self.known(index) {
            known.needed.fetch_add(1, AcqRel);
        }
    }

    /// One block is not needed any more.
    pub fn release(&self, index: u32) {
        let Some(known) = self.known(index) else { return };
        if known.needed.fetch_sub(1, AcqRel) == 1 {
            let mut lists = self.lists.lock();
            known.next.store(lists.dead, Relaxed);
            lists.dead = index;
        }
    }

    /// Whether there is any.
    pub fn any(&self) -> bool {
        self.lists.lock().in_use > 0
    }

    /// Whether some are dead; a hint.
    pub fn any_dead(&self) -> bool {
        self.lists.try_lock().is_some_and(|lists| lists.dead != NONE)
    }

    /// Takes up to so many dead ones out of the table, and hands out their numbers. Returns how many.
    pub fn bury(&self, most: usize, mut visit: impl FnMut(usize, u64)) -> usize {
        let mut lists = self.lists.lock();
        let mut count = 0;
        while count < most && lists.dead != NONE {
            let index = lists.dead;
            let Some(known) = self.known(index) else { break };
            visit(count, known.number.load(Relaxed));
            lists.dead = known.next.load(Relaxed);
            known.next.store(lists.free, Relaxed);
            lists.free = index;
            lists.in_use -= 1;
            count += 1;
        }
        count
    }

    /// Makes the lock free in a forked child.
    ///
    /// # Safety
    /// No thread may have been changing the lists at the fork.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: passed on to the caller.
        unsafe { self.lists.reset_in_child() };
    }
}

impl Default for Batches {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn spots_are_kept_in_entries() {
        for spot in [
            Spot { batch: 0, offset: 0, len: 28 },
            Spot { batch: (1 << 28) - 1, offset: (1 << 18) - 1, len: (1 << 13) - 1 },
        ] {
            assert!(spot.to_bits() < 1 << 59);
            assert_eq!(Spot::from_bits(spot.to_bits()), Some(spot));
        }
        assert_eq!(Spot::from_bits(5 << 13), None);
    }

    #[test]
    fn batches_die_when_nothing_of_them_is_needed() {
        let (arena, batches) = (Arena::new(), Batches::new());
        let indexes: Vec<u32> = (0..5000).map(|number| batches.add(number + 1, &arena).unwrap()).collect();
        let buried = || {
            let mut numbers = Vec::new();
            batches.bury(3, |_, number| numbers.push(number));
            numbers.sort();
            numbers
        };
        batches.need(indexes[7]);
        batches.release(indexes[7]);
        assert_eq!(batches.number(indexes[7]), Some(8));
        assert!(!batches.any_dead() && buried().is_empty());
        for index in &indexes[7..11] {
            batches.release(*index);
        }
        assert_eq!(batches.number(indexes[7]), None);
        assert_eq!((buried(), buried(), buried()), (std::vec![9, 10, 11], std::vec![8], std::vec![]));
        // Their places are used again.
        let again = batches.add(77, &arena).unwrap();
        assert!(indexes[7..11].contains(&again));
        assert_eq!(batches.number(again), Some(77));
        assert!(batches.any());
    }
}
