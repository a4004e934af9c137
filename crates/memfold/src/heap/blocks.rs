//! The table of blocks.
//!
//! ```text
//!   state   63..32 version │ 31..2 frame │ 1..0 vacant, absent or resident
//!   copy    63 pinned │ 59..0 reference in the store, or 0
//! ```
//!
//! Readers look at `state` alone, without a lock. Everything else, and every change of `state`, is for who has the block's lock; only the
//! store moves what `copy` refers to without it, by compare-exchange, unless it is pinned. The **version** counts how often
//! the block came into a frame, so a reader who finds the state as it was knows that the block was there all the time.
//!
//! Numbers begin with 1. A block without nodes is vacant, and its number is used again, for another **incarnation**.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::segments::Segments;
use crate::store::{Owners, Ref};

/// Set in `copy` while the bytes in the store are read.
const PINNED: u64 = 1 << 63;
const VACANT: u64 = 0;
const ABSENT: u64 = 1;
const RESIDENT: u64 = 2;

/// What a state says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// There is no such block.
    Vacant,
    /// In the store.
    Absent,
    /// In this frame.
    Resident(u32),
}

/// A block's state, as it was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// Where the block is.
    #[inline]
    pub fn place(self) -> Place {
        match self.0 & 3 {
            RESIDENT => Place::Resident((self.0 as u32) >> 2),
            ABSENT => Place::Absent,
            _ => Place::Vacant,
        }
    }

    fn version(self) -> u64 {
        self.0 >> 32 << 32
    }
}

/// What is known of a block by who has its lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Info {
    /// 0 for nodes of different sizes, else one more than the number of the shape.
    pub kind: u32,
    /// Live nodes, and their bytes.
    pub live: u32,
    pub bytes: u32,
    /// No node ever lay at this place or behind it: bytes, or a number of nodes.
    pub fresh: u32,
    /// Of nodes of one size, none before this number is free.
    pub hint: u16,
    /// Where it is listed among those with room, see `rooms.rs`.
    pub room: u8,
    /// A session allocates from it.
    pub owned: bool,
    /// It has marks.
    pub marked: bool,
    /// No node is put into it any more: the next check would be one that was given out before.
    pub retired: bool,
    /// Which block of this number it is.
    pub incarnation: u8,
}

/// One block.
#[derive(Debug, Default)]
pub struct Block {
    state: AtomicU64,
    copy: AtomicU64,
    info: Mutex<Info>,
}

impl Block {
    /// Where it is now.
    #[inline]
    pub fn state(&self) -> State {
        State(self.state.load(Acquire))
    }

    /// Whether it was there all the time since `state` was read; what was read before is read before this.
    #[inline]
    pub fn is_still(&self, state: State) -> bool {
        std::sync::atomic::fence(Acquire);
        self.state.load(Relaxed) == state.0
    }

    /// The block's lock.
    pub fn lock(&self) -> MutexGuard<'_, Info> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block's lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Info>> {
        match self.info.try_lock() {
            Ok(info) => Some(info),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// It is in this frame from now on; for who has the lock.
    pub fn set_resident(&self, frame: u32) {
        let version = self.state().version().wrapping_add(1 << 32);
        self.state.store(version | u64::from(frame) << 2 | RESIDENT, Release);
    }

    /// It is not in a frame from now on, and what is written to the frame afterwards is written after that; for who has the lock.
    pub fn set_absent(&self) {
        self.leave(ABSENT);
    }

    /// It is no more; as `set_absent`.
    pub fn set_vacant(&self) {
        self.leave(VACANT);
    }

    fn leave(&self, place: u64) {
        self.state.store(self.state().version() | place, Relaxed);
        // Readers see this if they see what is written next; and either who pins sees it, or the evictor sees the pin.
        std::sync::atomic::fence(SeqCst);
    }

    /// Takes `set_absent` back: nothing has been written to the frame.
    pub fn stay(&self, state: State) {
        self.state.store(state.0, Release);
    }

    /// Whether the store has a copy.
    pub fn has_copy(&self) -> bool {
        Ref::from_bits(self.copy.load(Relaxed)).is_some()
    }

    /// The store has this copy from now on.
    pub fn set_copy(&self, copy: Ref) {
        self.copy.store(copy.to_bits(), Release);
    }

    /// Takes the copy out, to be freed.
    pub fn take_copy(&self) -> Option<Ref> {
        Ref::from_bits(self.copy.swap(0, AcqRel))
    }

    /// Keeps the copy where it is while it is read by `read`; for who has the lock.
    pub fn with_copy<R>(&self, read: impl FnOnce(Ref) -> R) -> Option<R> {
        let copy = Ref::from_bits(self.copy.fetch_or(PINNED, Acquire));
        let result = copy.map(read);
        self.copy.fetch_and(!PINNED, Release);
        result
    }
}

/// All blocks, by their numbers.
pub struct Blocks(Segments<Block>);

impl Blocks {
    /// None.
    pub const fn new() -> Self {
        Blocks(Segments::new())
    }

    /// The block with that number, if there ever was one.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Block> {
        self.0.get(number)
    }

    /// Room for the block with that number.
    pub fn make(&self, number: u32) -> Option<&Block> {
        self.0.make(number, Block::default)
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
