//! The state that each session shows to the others: whether it is busy, and which blocks it has pinned.
//!
//! Only the session itself writes that state, so using the heap writes to no memory that other threads write
//! to. A thread that takes something from sessions (the ownership of a block, or, to evict it, the block
//! itself) first makes that visible and then looks at the participants. A session first shows what it does
//! and then looks whether anything was taken. Each has a fence of `sync/fences.rs` in between. At least one
//! of the two sees the other.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::heap::MOST_SESSIONS;
use crate::heap::block::segments::Segments;
use crate::heap::error::Error;
use crate::heap::residency::frames::pause;
use crate::heap::sync::fences::Fences;

/// Blocks that one session can pin at a time.
pub const SLOTS: usize = 16;

/// The state that one session shows. Its number is its place in [`Participants`], from 1.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Participant {
    busy: AtomicBool,
    taken: AtomicBool,
    blocks: [AtomicU32; SLOTS],
}

impl Participant {
    /// Makes the session busy: until it leaves, it may change blocks of its own without their locks. It must
    /// not wait for anything meanwhile.
    #[inline(always)]
    pub fn enter(&self, fences: Fences) {
        self.busy.store(true, Relaxed);
        fences.light();
    }

    /// Ends `enter`. A thread that sees this also sees all changes before it.
    #[inline(always)]
    pub fn leave(&self) {
        self.busy.store(false, Release);
    }

    /// Pins the block: it is not evicted from now on, provided it is still resident when this returns.
    #[inline]
    pub fn pin(&self, slot: usize, block: u32, fences: Fences) {
        self.blocks[slot].store(block, Relaxed);
        fences.light();
    }

    /// Frees the slot.
    #[inline]
    pub fn unpin(&self, slot: usize) {
        self.blocks[slot].store(0, Release);
    }

    /// The block that the slot pins; 0 for none.
    #[inline]
    pub fn pinned(&self, slot: usize) -> u32 {
        self.blocks[slot].load(Relaxed)
    }
}

/// The participants of all sessions.
pub struct Participants {
    participants: Segments<Participant>,
    /// How many participants were ever made, and how many are taken.
    count: AtomicU32,
    taken: AtomicU32,
    /// Where the search for a free participant begins: the number that was given back or taken last.
    search: AtomicU32,
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
            search: AtomicU32::new(1),
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
        // With many sessions, a search from the first participant would take as many steps for each session.
        let first = self.search.load(Relaxed);
        let all_taken = self.taken.load(Acquire) >= count && count < MOST_SESSIONS;
        let free = match all_taken {
            true => None,
            false => (first..=count).chain(1..first).find(is_free),
        };
        let number = free.unwrap_or(count + 1);
        if number > MOST_SESSIONS {
            return Err(Error::Sessions);
        }
        self.search.store(number, Relaxed);
        let participant =
            self.participants.make(number - 1, Participant::default).ok_or(Error::OutOfMemory)?;
        self.count.store(count.max(number), Release);
        participant.taken.store(true, Relaxed);
        self.taken.fetch_add(1, Relaxed);
        // A thread that revokes something from now on sees that there is one more.
        fence(SeqCst);
        Ok((number, participant))
    }

    /// Releases the participant with this number, of a session that has ended.
    pub fn give(&self, number: u32, participant: &Participant) {
        (0..SLOTS).for_each(|slot| participant.unpin(slot));
        participant.taken.store(false, Release);
        self.search.store(number, Relaxed);
        self.taken.fetch_sub(1, Release);
    }

    /// Releases all participants: no session lives, but forgotten ones may have left theirs taken.
    pub fn give_all(&self) {
        for number in 1..=self.count.load(Acquire) {
            if let Some(participant) = self.get(number)
                && participant.taken.load(Acquire)
            {
                self.give(number, participant);
            }
        }
    }

    /// Prevents new sessions from beginning, provided that there is only one, the caller's.
    pub fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        (self.taken.load(Acquire) == 1).then_some(making)
    }

    /// The heavy fence: every session but `me` sees all earlier writes before it uses a block again.
    pub fn heavy_fence(&self, me: u32) {
        fence(SeqCst);
        if self.has_others(me) {
            self.fences.heavy();
        }
    }

    /// Number of sessions besides one.
    pub fn others(&self) -> u32 {
        self.taken.load(Acquire).saturating_sub(1)
    }

    /// Whether there are sessions other than `me`; 0 is none.
    pub fn has_others(&self, me: u32) -> bool {
        self.taken.load(Acquire) > u32::from(me != 0)
    }

    /// Waits until the session has left; a heavy fence came before.
    pub fn wait_for(&self, number: u32) {
        let mut turn = 0;
        while self.get(number).is_some_and(|participant| participant.busy.load(Acquire)) {
            pause(&mut turn);
        }
    }

    /// Whether a block is pinned; its eviction was published and a heavy fence issued before.
    pub fn is_pinned(&self, block: u32) -> bool {
        let participants = (1..=self.count.load(Acquire)).filter_map(|number| self.get(number));
        participants
            .into_iter()
            .any(|participant| participant.blocks.iter().any(|pinned| pinned.load(Acquire) == block))
    }

    /// Bytes that the first sessions will take, if there were none yet.
    pub fn first_bytes(&self) -> u64 {
        self.participants.first_bytes()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.participants.bytes()
    }
}
