//! Keeping the store dense: the last blob of a class moves into its lowest
//! hole, and the tail's pages go back to the system.
//!
//! Nothing here runs on its own: [`Store::maintain`] does what the user's
//! background thread gives it time for. It begins when holes and unused
//! tails exceed a share of what the store holds, and then leaves a class only
//! when its holes are few, so that a burst of deletions costs one sweep over
//! what is left and not a move for each deletion. As a last resort `free`
//! moves blobs itself, when a class has become mostly holes.
//!
//! A move holds the class's lock and no other: copy, then
//! [`Owners::relocate`], then the old slot is free. If the owner says no (it
//! is pinned, or its slot holds something else by now) the copy is dropped
//! and nothing has changed. The class is then left alone until the next
//! call: who pins a blob does so briefly.

use core::ptr;

use super::blob::{Header, Ref};
use super::class::{GROUP_SLOTS, Locked};
use super::memory::Memory;
use super::{Owners, Store};

/// At most this many bytes are moved, or given back, with the lock held.
const HOLD: usize = 64 * 1024;
/// Groups looked through with the lock held.
const HOLD_GROUPS: usize = 64;
/// A class is left alone when its holes are less than 1/64 of it.
const HOLES_LEFT: u64 = 64;
/// Nothing is done about holes and tails of less than this in all.
const FLOOR: usize = if cfg!(test) { 0 } else { 256 * 1024 };

/// What [`Store::maintain`] has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Blobs moved.
    pub moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Bytes given back to the system.
    pub released_bytes: u64,
    /// Moves that an owner refused.
    pub refused: u64,
    /// The budget ran out before the work did: call again.
    pub more: bool,
}

enum Step {
    Moved,
    /// No holes are left that matter.
    Dense,
    /// The last blob cannot be moved now.
    Stuck,
    /// Nothing found so far: look on.
    Searching,
}

impl<M: Memory> Store<M> {
    /// Moves blobs into holes and gives memory back, until the store is
    /// dense or about `budget` bytes have been moved or given back.
    pub fn maintain(&self, owners: &impl Owners, budget: usize) -> Maintained {
        let mut done = Maintained::default();
        if !self.is_loose() {
            return done;
        }
        let mut left = budget;
        for class in self.classes() {
            if left == 0 {
                done.more = true;
                break;
            }
            let mut stuck = false;
            loop {
                let mut locked = class.1.lock(&self.memory);
                let mut hold = HOLD.min(left);
                let before = hold;
                let mut more = !stuck && locked.compact(class.0, owners, &mut hold, &mut done, &mut stuck);
                if !more {
                    let keep = locked.unit() + locked.reserve(self.tuning());
                    if locked.slack() > 2 * keep || locked.top == 0 {
                        let keep = if locked.top == 0 { 0 } else { keep };
                        let given = locked.trim(keep, hold.max(4096), self.tuning());
                        done.released_bytes += given as u64;
                        hold = hold.saturating_sub(given);
                        more = given != 0;
                    }
                }
                left -= (before - hold).min(left);
                if !more {
                    break;
                }
                if left == 0 {
                    done.more = true;
                    break;
                }
            }
        }
        done
    }
}

impl<M: Memory> Locked<'_, M> {
    /// Moves blobs for about `hold` bytes. True if there is more to do.
    fn compact(
        &mut self,
        class: usize,
        owners: &impl Owners,
        hold: &mut usize,
        done: &mut Maintained,
        stuck: &mut bool,
    ) -> bool {
        while *hold > 0 {
            match self.step(class, owners, done) {
                Step::Moved => *hold = hold.saturating_sub(self.class.slot as usize),
                Step::Searching => *hold = hold.saturating_sub(16 * HOLD_GROUPS),
                Step::Dense => return false,
                Step::Stuck => {
                    *stuck = true;
                    return false;
                }
            }
        }
        true
    }

    fn step(&mut self, class: usize, owners: &impl Owners, done: &mut Maintained) -> Step {
        if !self.lower_top(HOLD_GROUPS) {
            return Step::Searching;
        }
        if self.holes() <= self.live / HOLES_LEFT {
            return Step::Dense;
        }
        let Some(hole) = self.lowest_hole(HOLD_GROUPS) else {
            return if self.low < self.groups() { Step::Searching } else { Step::Dense };
        };
        self.move_last(class, hole, owners, done)
    }

    /// Moves the blob below the top into `hole`.
    fn move_last(&mut self, class: usize, hole: u64, owners: &impl Owners, done: &mut Maintained) -> Step {
        let last = self.top - 1;
        debug_assert!(hole < last && self.is_live(last) && !self.is_live(hole));
        let (from, to) = (self.class.header(last), self.class.header(hole));
        // SAFETY: both are headers of slots below the top, so committed.
        let Some(header) = (unsafe { Header::read(from) }) else {
            // Its writer is not done yet, or the header is damaged.
            return Step::Stuck;
        };
        let Some(payload) = self.class.payload_len(header) else { return Step::Stuck };
        let moved = Header { generation: self.next_generation(), ..header };
        // SAFETY: two different slots of this class, with room for `payload`
        // bytes each. The hole is nobody's while the lock is held; the blob
        // is only read, here as by its readers.
        unsafe {
            ptr::copy_nonoverlapping(self.class.slot(last), self.class.slot(hole), payload);
            moved.write(to);
        }
        let old = Ref::new(class, last, header.generation);
        let new = Ref::new(class, hole, moved.generation);
        if !owners.relocate(header.owner, old, new) {
            // SAFETY: the copy was never anybody's.
            unsafe { Header::withdraw(to) };
            done.refused += 1;
            return Step::Stuck;
        }
        // SAFETY: the owner has the new reference, so the old slot is free.
        unsafe { Header::withdraw(from) };
        let group = hole / GROUP_SLOTS;
        let bits = self.bits(group);
        self.set_bits(group, bits | 1 << (hole % GROUP_SLOTS));
        self.clear(last);
        self.lower_top(1);
        done.moved += 1;
        done.moved_bytes += payload as u64;
        Step::Moved
    }
}

impl<M: Memory> Store<M> {
    /// Whether holes and unused tails are more than they may be.
    fn is_loose(&self) -> bool {
        let (mut loose, mut held) = (0, 0);
        for (_, class) in self.classes() {
            let locked = class.lock(&self.memory);
            loose += locked.holes() as usize * class.slot as usize + locked.slack();
            held += locked.live as usize * class.slot as usize;
        }
        loose > FLOOR && loose > held / 64 * usize::from(self.tuning().loose_share)
    }
}
