//! The table of blocks.
//!
//! ```text
//!   state   63..32 version │ 31..2 frame │ 1..0 vacant, absent or resident
//!   copy    63 pinned │ 62 spilled │ 59..0 reference in the store, or 31..0 number on the tier, or 0
//! ```
//!
//! Readers read `state` without a lock. Only the holder of the block's lock changes `state`. Only the store
//! changes `copy` without that lock: when it moves a blob, it updates `copy` by compare-exchange, unless
//! `copy` is pinned. The **version** counts how often the block was faulted in, so a reader that finds the
//! state unchanged knows that the block was resident all the time.
//!
//! Every other field is changed only with the right to change the block (`sync/claim.rs`), and read by any
//! thread that can tolerate a stale value.
//!
//! Numbers begin with 1. A block without nodes is vacant, and its number is used again, for another
//! **incarnation**.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::heap::block::segments::Segments;
use crate::store::{Owners, Ref};

/// Set in `copy` while the bytes in the store are read.
const PINNED: u64 = 1 << 63;
/// Set in `copy` if it is a number on the tier.
const SPILLED: u64 = 1 << 62;
const VACANT: u64 = 0;
const ABSENT: u64 = 1;
const RESIDENT: u64 = 2;

/// Lists by room; after them comes one for each kind of blocks with nodes of one size.
pub const LISTS: u32 = 64;

/// A free list, see `alloc/free_space.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List(pub u32);

impl List {
    /// The list of blocks of this kind, with nodes of one size.
    pub fn of_kind(kind: u32) -> Self {
        List(LISTS + kind)
    }
}

/// Where a block is, according to its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// There is no such block.
    Vacant,
    /// In the store.
    Absent,
    /// In this frame.
    Resident(u32),
}

/// Where a block's copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// In the store.
    Stored(Ref),
    /// On the tier, under this number.
    Spilled(u32),
}

impl Copy {
    fn from_bits(bits: u64) -> Option<Self> {
        match bits & SPILLED {
            0 => Ref::from_bits(bits).map(Copy::Stored),
            _ => Some(Copy::Spilled(bits as u32)),
        }
    }
}

/// A block's state, as it was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// Where the block is.
    #[inline]
    pub fn residency(self) -> Residency {
        match self.0 & 3 {
            RESIDENT => Residency::Resident((self.0 as u32) >> 2),
            ABSENT => Residency::Absent,
            _ => Residency::Vacant,
        }
    }

    fn version(self) -> u64 {
        self.0 >> 32 << 32
    }
}

/// One block: a line of the processor's cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Block {
    state: AtomicU64,
    copy: AtomicU64,
    /// Live nodes, and, where their sizes differ, their bytes.
    pub live: AtomicU32,
    pub bytes: AtomicU32,
    /// 0 for nodes of different sizes, otherwise one more than the number of the shape.
    pub kind: AtomicU32,
    /// Bytes freed in this generation; for nodes of one size, the number of nodes.
    pub pending: AtomicU32,
    /// For nodes of different sizes: free bytes, and the longest extent when it was last listed.
    pub free: AtomicU32,
    pub longest: AtomicU32,
    /// The check of new nodes, see `block/marks.rs`.
    pub generation: AtomicU8,
    /// Tells the block from others that had its number.
    pub incarnation: AtomicU8,
    /// The session that allocates from it, or 0.
    pub allocator: AtomicU16,
    /// Whether the nodes of its copy are grouped, see `stored/grouping.rs`.
    pub grouping: AtomicU8,
    /// It has checks (`block/marks.rs`).
    pub marked: AtomicBool,
    /// No node is put into it any more: the block is damaged, or the next check would repeat one that was
    /// given out.
    pub retired: AtomicBool,
    /// Its copy came from a file, and has not been verified yet.
    pub unverified: AtomicBool,
    /// One more than the number of the free list it is in, see `alloc/free_space.rs`; 0 for none.
    room: AtomicU32,
    /// How many blocks had been evicted when this one was evicted.
    pub evicted: AtomicU32,
    lock: Mutex<()>,
}

/// Adds to a number that no other thread changes meanwhile.
#[inline(always)]
pub fn add(number: &AtomicU32, by: u32) {
    number.store(number.load(Relaxed).wrapping_add(by), Relaxed);
}

/// As `add`, but subtracts.
#[inline(always)]
pub fn subtract(number: &AtomicU32, by: u32) {
    number.store(number.load(Relaxed).wrapping_sub(by), Relaxed);
}

impl Block {
    /// The current state.
    #[inline]
    pub fn state(&self) -> State {
        State(self.state.load(Acquire))
    }

    /// Whether the block has been resident all the time since `state` was read. Loads before this call are
    /// not moved after it.
    #[inline]
    pub fn is_still(&self, state: State) -> bool {
        std::sync::atomic::fence(Acquire);
        self.state.load(Relaxed) == state.0
    }

    /// The block's lock.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block's lock, if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self.lock.try_lock() {
            Ok(lock) => Some(lock),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Begins a new block of this kind.
    pub fn begin(&self, kind: u32, free: u32) {
        self.kind.store(kind, Relaxed);
        self.free.store(free, Relaxed);
        for number in [&self.live, &self.bytes, &self.pending, &self.longest] {
            number.store(0, Relaxed);
        }
        self.generation.store(0, Relaxed);
        self.marked.store(false, Relaxed);
        self.retired.store(false, Relaxed);
        self.unverified.store(false, Relaxed);
        self.grouping.store(0, Relaxed);
    }

    /// Sets the block resident in this frame; the caller holds its lock.
    pub fn set_resident(&self, frame: u32) {
        let version = self.state().version().wrapping_add(1 << 32);
        self.state.store(version | u64::from(frame) << 2 | RESIDENT, Release);
    }

    /// Sets the block not resident; the caller holds its lock.
    pub fn set_absent(&self) {
        self.state.store(self.state().version() | ABSENT, Release);
    }

    /// Sets the block vacant; as `set_absent`.
    pub fn set_vacant(&self) {
        self.state.store(self.state().version() | VACANT, Release);
    }

    /// The free list that it is in.
    pub fn list(&self) -> Option<List> {
        self.room.load(Relaxed).checked_sub(1).map(List)
    }

    /// Sets the free list that it is in.
    pub fn set_list(&self, list: Option<List>) {
        self.room.store(list.map_or(0, |List(number)| number + 1), Relaxed);
    }

    /// Whether there is a copy, in the store or on the tier.
    pub fn has_copy(&self) -> bool {
        Copy::from_bits(self.copy.load(Relaxed)).is_some()
    }

    /// Whether it is in a frame or in the store, not on the tier.
    pub fn is_here(&self) -> bool {
        matches!(self.state().residency(), Residency::Resident(_)) || self.copy().is_some()
    }

    /// The reference of the block's copy in the store. Unless the block is locked, the copy may be moved or
    /// freed.
    pub fn copy(&self) -> Option<Ref> {
        match Copy::from_bits(self.copy.load(Relaxed))? {
            Copy::Stored(copy) => Some(copy),
            Copy::Spilled(_) => None,
        }
    }

    /// Replaces the store's copy by this number on the tier; the caller holds the lock. `false` if the store
    /// has moved its copy meanwhile.
    pub fn set_spilled(&self, from: Ref, number: u32) -> bool {
        let to = SPILLED | u64::from(number);
        self.copy.compare_exchange(from.to_bits(), to, AcqRel, Relaxed).is_ok()
    }

    /// Sets the reference of its copy in the store.
    pub fn set_copy(&self, copy: Ref) {
        self.copy.store(copy.to_bits(), Release);
    }

    /// Takes the copy out, for the caller to free.
    pub fn take_copy(&self) -> Option<Copy> {
        Copy::from_bits(self.copy.swap(0, AcqRel))
    }

    /// Pins the copy while `read` reads it; the caller holds the lock.
    pub fn with_copy<R>(&self, read: impl FnOnce(Copy) -> R) -> Option<R> {
        /// Releases the pin, even if `read` panics.
        struct Pin<'b>(&'b AtomicU64);
        impl Drop for Pin<'_> {
            fn drop(&mut self) {
                self.0.fetch_and(!PINNED, Release);
            }
        }
        let copy = Copy::from_bits(self.copy.fetch_or(PINNED, Acquire));
        let _pin = Pin(&self.copy);
        copy.map(read)
    }
}

/// All blocks, by their numbers.
pub struct Blocks(Segments<Block>);

impl Blocks {
    /// No blocks.
    pub const fn new() -> Self {
        Blocks(Segments::new())
    }

    /// The block with that number, if one was ever made.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Block> {
        self.0.get(number)
    }

    /// Makes room for the block with that number.
    pub fn make(&self, number: u32) -> Option<&Block> {
        self.0.make(number, Block::default)
    }

    /// Bytes that the first blocks will take, if there were none yet.
    pub fn first_bytes(&self) -> u64 {
        self.0.first_bytes()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

impl Owners for Blocks {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        let block = u32::try_from(owner).ok().and_then(|number| self.get(number));
        block.is_some_and(|block| {
            block.copy.compare_exchange(from.to_bits(), to.to_bits(), AcqRel, Relaxed).is_ok()
        })
    }
}

const _: () = assert!(size_of::<Block>() == 64);

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;

    #[test]
    fn a_copy_is_not_pinned_after_a_panic() {
        let (block, copy) = (Block::default(), Ref::from_bits(1).unwrap());
        block.set_copy(copy);
        let read = || block.with_copy(|_| -> () { resume_unwind(std::boxed::Box::new(())) });
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        assert!(block.set_spilled(copy, 5));
    }
}
