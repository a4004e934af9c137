//! What each session shows to the others: whether it is at work just now, and what it has pinned.
//!
//! Both are written by the session alone, so using the heap writes to no memory that other threads write to. Who takes something away from
//! sessions - a block's owner its ownership, an evictor the block - makes it visible first and looks at the participants then; sessions do it the
//! other way round, with the fences of `sync/fences.rs` between. One of both sees the other.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::heap::MOST_SESSIONS;
use crate::heap::block::segments::Segments;
use crate::heap::error::Error;
use crate::heap::residency::frames::pause;
use crate::heap::sync::fences::Fences;

/// Blocks that one session can pin at a time.
pub const SLOTS: usize = 16;

/// What one session shows. Its number is the place in [`Participants`], from 1.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Participant {
    busy: AtomicBool,
    taken: AtomicBool,
    blocks: [AtomicU32; SLOTS],
}

impl Participant {
    /// From now on the session may change blocks of its own without their locks, until it leaves. It waits for nothing meanwhile.
    #[inline(always)]
    pub fn enter(&self, fences: Fences) {
        self.busy.store(true, Relaxed);
        fences.light();
    }

    /// What was changed is visible to who sees this.
    #[inline(always)]
    pub fn leave(&self) {
        self.busy.store(false, Release);
    }

    /// From now on the block does not leave, if it is still there when this returns.
    #[inline]
    pub fn pin(&self, slot: usize, block: u32, fences: Fences) {
        self.blocks[slot].store(block, Relaxed);
        fences.light();
    }

    /// The slot is free.
    #[inline]
    pub fn unpin(&self, slot: usize) {
        self.blocks[slot].store(0, Release);
    }

    /// What the slot pins; 0 for nothing.
    #[inline]
    pub fn pinned(&self, slot: usize) -> u32 {
        self.blocks[slot].load(Relaxed)
    }
}

/// The participants of all sessions.
pub struct Participants {
    participants: Segments<Participant>,
    /// How many there ever were, and how many are taken.
    count: AtomicU32,
    taken: AtomicU32,
    making: Mutex<()>,
    pub fences: Fences,
}

impl Participants {
    /// No sessions.
    pub fn new() -> Self {
        Participants {
            participants: Segments::new(),
            count: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            making: Mutex::new(()),
            fences: Fences::new(),
        }
    }

    fn get(&self, number: u32) -> Option<&Participant> {
        self.participants.get(number.checked_sub(1)?)
    }

    /// A participant for a new session, and its number.
    pub fn take(&self) -> Result<(u32, &Participant), Error> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Relaxed);
        let is_free =
            |number: &u32| self.get(*number).is_some_and(|participant| !participant.taken.load(Acquire));
        let number = (1..=count).find(is_free).unwrap_or(count + 1);
        if number > MOST_SESSIONS {
            return Err(Error::Sessions);
        }
        let participant =
            self.participants.make(number - 1, Participant::default).ok_or(Error::OutOfMemory)?;
        self.count.store(count.max(number), Release);
        participant.taken.store(true, Relaxed);
        self.taken.fetch_add(1, Relaxed);
        // Who takes something away from now on sees that there is one more.
        fence(SeqCst);
        Ok((number, participant))
    }

    /// The session is over.
    pub fn give(&self, participant: &Participant) {
        (0..SLOTS).for_each(|slot| participant.unpin(slot));
        participant.taken.store(false, Release);
        self.taken.fetch_sub(1, Release);
    }

    /// All sessions are over: there is none, but participants of some that were forgotten may be taken. Whether there
    /// were such.
    pub fn give_all(&self) -> bool {
        let participants = (1..=self.count.load(Acquire)).filter_map(|number| self.get(number));
        let taken = participants.filter(|participant| participant.taken.load(Acquire));
        taken.map(|participant| self.give(participant)).count() > 0
    }

    /// Keeps new sessions from beginning, if there is only one; for who has it.
    pub fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        (self.taken.load(Acquire) == 1).then_some(making)
    }

    /// What was written before is seen by every session but `me` before it uses a block again.
    pub fn heavy_fence(&self, me: u32) {
        fence(SeqCst);
        if self.has_others(me) {
            self.fences.heavy();
        }
    }

    /// Whether there are sessions but `me`; 0 is none.
    pub fn has_others(&self, me: u32) -> bool {
        self.taken.load(Acquire) > u32::from(me != 0)
    }

    /// Waits until a session has left, which has been told before.
    pub fn wait_for(&self, number: u32) {
        let mut turn = 0;
        while self.get(number).is_some_and(|participant| participant.busy.load(Acquire)) {
            pause(&mut turn);
        }
    }

    /// Whether a block is pinned; sessions have been told before that it leaves.
    pub fn is_pinned(&self, block: u32) -> bool {
        let participants = (1..=self.count.load(Acquire)).filter_map(|number| self.get(number));
        participants
            .into_iter()
            .any(|participant| participant.blocks.iter().any(|pinned| pinned.load(Acquire) == block))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.participants.bytes()
    }
}
