//! The batches in which this process has blocks.
//!
//! ```text
//! directory: 1024 x -> chunk: 4096 x { number, needed blocks, next of its list, its blocks and bytes, place }
//!
//! free ──> in use: blocks come and go ──> dead: none is needed ── reported to the supervisor ──> free
//! ```
//!
//! While a batch is on its way to the tier, it counts one extra block that belongs to no page: the batch
//! cannot die before its outcome is known.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use memfold_shared::spill::NOWHERE;

use crate::memory::arena::Arena;
use crate::memory::lock::Lock;

const CHUNK: usize = 4096;
const CHUNKS: usize = 1024;
/// No batch; marks the end of a list.
const NONE: u32 = u32::MAX;

/// The location of a spilled block, in 59 bits of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillLocation {
    /// The index of its batch in the table.
    pub batch: u32,
    /// Offset in the batch in bytes, less than 2^18.
    pub offset: u32,
    /// Length of the sealed block in bytes: not 0, less than 2^13.
    pub len: u32,
}

const OFFSET_BITS: u32 = 18;
const LEN_BITS: u32 = 13;
const _: () = assert!(memfold_shared::spill::BUFFER <= 1 << OFFSET_BITS);

impl SpillLocation {
    /// As a number, not 0.
    pub fn to_bits(self) -> u64 {
        u64::from(self.batch) << (OFFSET_BITS + LEN_BITS)
            | u64::from(self.offset) << LEN_BITS
            | u64::from(self.len)
    }

    /// `None` if the number is not a location.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let spot = SpillLocation {
            batch: (bits >> (OFFSET_BITS + LEN_BITS)) as u32,
            offset: (bits >> LEN_BITS) as u32 & ((1 << OFFSET_BITS) - 1),
            len: bits as u32 & ((1 << LEN_BITS) - 1),
        };
        (spot.len != 0).then_some(spot)
    }

    /// The offset at which it ends.
    pub fn end(self) -> u32 {
        self.offset + self.len
    }
}

const _: () = assert!((CHUNK * CHUNKS) as u64 <= 1 << 28);
const _: () = assert!(crate::kernel::sys::PAGE + memfold_spill::Batch::OVERHEAD < 1 << LEN_BITS);

#[repr(C)]
struct Known {
    number: AtomicU64,
    needed: AtomicU32,
    next: AtomicU32,
    /// 0 until it is on the tier.
    blocks: AtomicU32,
    bytes: AtomicU32,
    /// Its unit of the tier's file, or [`NOWHERE`].
    unit: AtomicU32,
}

/// A batch that counts as needed until it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its index in the table.
    pub index: u32,
    /// Its number.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u32,
}

#[repr(C)]
struct Chunk([Known; CHUNK]);

struct Lists {
    /// Number of indexes that were ever used.
    high: u32,
    in_use: u32,
    free: u32,
    dead: u32,
}

/// See the module.
pub struct Batches {
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    lists: Lock<Lists>,
    /// Number of blocks in all batches that are on the tier and not dead.
    blocks: AtomicU64,
}

impl Batches {
    /// No batches.
    pub const fn new() -> Self {
        Batches {
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS],
            lists: Lock::new(Lists { high: 0, in_use: 0, free: NONE, dead: NONE }),
            blocks: AtomicU64::new(0),
        }
    }

    fn known(&self, index: u32) -> Option<&'static Known> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(Acquire);
        // SAFETY: chunks are made zeroed from the arena and never unmapped.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk.0[index as usize % CHUNK])
    }

    /// Adds a batch, with its extra block. `None` if there is no room for more.
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
        known.blocks.store(0, Relaxed);
        known.unit.store(NOWHERE, Relaxed);
        known.needed.store(1, Release);
        Some(index)
    }

    /// Records that the batch is on the tier, with this many blocks and bytes, at this unit of the tier's
    /// file. Called by the thread that added it, while its extra block still counts.
    pub fn keep(&self, index: u32, blocks: usize, bytes: usize, unit: u32) {
        if let Some(known) = self.known(index) {
            known.unit.store(unit, Relaxed);
            known.bytes.store(bytes as u32, Relaxed);
            known.blocks.store(blocks as u32, Relaxed);
            self.blocks.fetch_add(blocks as u64, Relaxed);
        }
    }

    /// Records that no more blocks can be moved out of the batch: the blocks needed now count as all of its
    /// blocks, so the batch is not sparse. Called by the thread that holds it.
    pub fn count_as_full(&self, index: u32) {
        if let Some(known) = self.known(index) {
            // Not counting the hold itself.
            let needed = known.needed.load(Relaxed).saturating_sub(1);
            let before = known.blocks.fetch_min(needed, Relaxed);
            self.blocks.fetch_sub(u64::from(before.saturating_sub(needed)), Relaxed);
        }
    }

    /// Number of blocks in all batches on the tier, needed or not.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Of the next `looks` batches from the hand on, the one with the smallest share of needed blocks, if
    /// that share is less than `part`, a numerator and a denominator. It is held until it is released. The
    /// caller ensures that no batch is added or removed meanwhile.
    pub fn hold_sparsest(&self, hand: &mut u32, looks: u32, part: (u64, u64)) -> Option<Held> {
        let high = self.lists.lock().high;
        let mut best: Option<(u64, u32)> = None;
        for _ in 0..looks.min(high) {
            *hand = if *hand + 1 < high { *hand + 1 } else { 0 };
            let known = self.known(*hand)?;
            let needed = u64::from(known.needed.load(Relaxed));
            let blocks = u64::from(known.blocks.load(Relaxed));
            if needed == 0 || blocks == 0 || needed * part.1 >= blocks * part.0 {
                continue;
            }
            let share = needed * 1024 / blocks;
            if best.is_none_or(|(least, _)| share < least) {
                best = Some((share, *hand));
            }
        }
        let (_, index) = best?;
        let known = self.known(index)?;
        // The batch may have died meanwhile, but it is still in its place: the caller holds a lock that
        // threads need to add or remove batches.
        known.needed.fetch_update(AcqRel, Relaxed, |needed| (needed > 0).then_some(needed + 1)).ok()?;
        Some(Held { index, number: known.number.load(Relaxed), bytes: known.bytes.load(Relaxed) })
    }

    /// The number of a batch, while blocks of it are needed.
    pub fn number(&self, index: u32) -> Option<u64> {
        let known = self.known(index)?;
        let number = known.number.load(Acquire);
        (known.needed.load(Acquire) > 0).then_some(number)
    }

    /// The place of a batch in the tier's file, if it may be read there.
    pub fn unit(&self, index: u32) -> Option<u32> {
        self.known(index).map(|known| known.unit.load(Relaxed)).filter(|unit| *unit != NOWHERE)
    }

    /// One more block is needed.
    pub fn need(&self, index: u32) {
        if let Some(known) = self.known(index) {
            known.needed.fetch_add(1, AcqRel);
        }
    }

    /// One block is no longer needed.
    pub fn release(&self, index: u32) {
        let Some(known) = self.known(index) else { return };
        if known.needed.fetch_sub(1, AcqRel) == 1 {
            let mut lists = self.lists.lock();
            self.blocks.fetch_sub(known.blocks.swap(0, Relaxed).into(), Relaxed);
            known.next.store(lists.dead, Relaxed);
            lists.dead = index;
        }
    }

    /// Whether there is any batch.
    pub fn any(&self) -> bool {
        self.lists.lock().in_use > 0
    }

    /// Whether there are dead batches; a hint.
    pub fn has_dead(&self) -> bool {
        self.lists.try_lock().is_some_and(|lists| lists.dead != NONE)
    }

    /// Removes up to `most` dead batches from the table, and passes their numbers to `visit`. Returns how
    /// many.
    pub fn remove_dead(&self, most: usize, mut visit: impl FnMut(usize, u64)) -> usize {
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

    /// Releases the lock in a forked child.
    ///
    /// # Safety
    /// No thread may have been changing the lists at the fork.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller upholds the contract.
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
            SpillLocation { batch: 0, offset: 0, len: 28 },
            SpillLocation { batch: (1 << 28) - 1, offset: (1 << 18) - 1, len: (1 << 13) - 1 },
        ] {
            assert!(spot.to_bits() < 1 << 59);
            assert_eq!(SpillLocation::from_bits(spot.to_bits()), Some(spot));
        }
        assert_eq!(SpillLocation::from_bits(5 << 13), None);
    }

    #[test]
    fn batches_die_when_nothing_of_them_is_needed() {
        let (arena, batches) = (Arena::new(), Batches::new());
        let indexes: Vec<u32> = (0..5000).map(|number| batches.add(number + 1, &arena).unwrap()).collect();
        let buried = || {
            let mut numbers = Vec::new();
            batches.remove_dead(3, |_, number| numbers.push(number));
            numbers.sort();
            numbers
        };
        batches.need(indexes[7]);
        batches.release(indexes[7]);
        assert_eq!(batches.number(indexes[7]), Some(8));
        assert!(!batches.has_dead() && buried().is_empty());
        for index in &indexes[7..11] {
            batches.release(*index);
        }
        assert_eq!(batches.number(indexes[7]), None);
        assert_eq!((buried(), buried(), buried()), (std::vec![9, 10, 11], std::vec![8], std::vec![]));
        // Their indexes are used again.
        let again = batches.add(77, &arena).unwrap();
        assert!(indexes[7..11].contains(&again));
        assert_eq!(batches.number(again), Some(77));
        assert!(batches.any());
    }
    #[test]
    fn the_sparsest_is_found_and_held() {
        let (arena, batches) = (Arena::new(), Batches::new());
        // Of 100 blocks in each batch, 100, 90, 80, .. are needed.
        let indexes: Vec<u32> = (0..10).map(|number| batches.add(number + 1, &arena).unwrap()).collect();
        let mut hand = 0;
        assert_eq!(batches.hold_sparsest(&mut hand, 100, (1, 1)), None, "none is on the tier");
        for (missing, index) in indexes.iter().enumerate() {
            batches.keep(*index, 100, 1000 + missing, NOWHERE);
            (0..100).for_each(|_| batches.need(*index));
            batches.release(*index);
            (0..missing * 10).for_each(|_| batches.release(*index));
        }
        assert_eq!(batches.blocks(), 1000);
        let last = Held { index: indexes[9], number: 10, bytes: 1009 };
        assert_eq!(batches.hold_sparsest(&mut hand, 100, (1, 2)), Some(last));
        // The batch lives on without any block, until it is released.
        (0..10).for_each(|_| batches.release(last.index));
        assert_eq!((batches.has_dead(), batches.number(last.index)), (false, Some(10)));
        batches.count_as_full(last.index);
        batches.release(last.index);
        assert_eq!((batches.has_dead(), batches.blocks()), (true, 900));
        // A batch of which no more can be moved is not found again.
        let held = batches.hold_sparsest(&mut hand, 100, (1, 2)).unwrap();
        assert_eq!(held.index, indexes[8]);
        batches.count_as_full(held.index);
        batches.release(held.index);
        assert_eq!(batches.blocks(), 820);
        assert_eq!(batches.hold_sparsest(&mut hand, 100, (1, 2)).map(|held| held.index), Some(indexes[7]));
        assert_eq!(batches.hold_sparsest(&mut hand, 100, (1, 10)), None);
        // Only this many are looked at.
        hand = indexes[1];
        assert_eq!(batches.hold_sparsest(&mut hand, 2, (1, 1)).map(|held| held.index), Some(indexes[3]));
    }
}
