//! Compaction, which keeps the store dense: the last blobs of a class move into its lowest holes, and the
//! pages at the end are returned to the system.
//!
//! Nothing here runs on its own: the user's background thread calls [`Store::maintain_to`] with a budget when
//! the [`Pacer`](super::Pacer) says so. Work begins when holes and unused tails exceed a share of what the
//! store holds, and leaves a class only when its holes are few. So a burst of deletions costs one sweep over
//! the rest, not a move for each deletion. Freeing helps only when a class consists mostly of holes. So even
//! without maintenance a class takes no more than about five times what it holds ([`Tuning::help_share`]).
//!
//! A move holds the class's lock and no other: copy, then [`Owners::relocate`], then the old slot is free. If
//! the owner refuses (the blob is pinned, or its slot holds something else by now), the copy is dropped and
//! nothing has changed. The class is then left alone until the next call: pins are short. The cache lines
//! that a move touches are probably not cached, so a few moves are planned together and their lines are
//! prefetched before the first move begins.

mod moves;
pub(super) mod pacer;

use core::sync::atomic::Ordering;

use super::class::Locked;
use super::memory::Memory;
use super::{Owners, Store, Tuning};
use crate::probe;

/// About this many bytes are moved with the lock held: a few microseconds.
const HOLD: usize = 16 * 1024;
/// Groups searched with the lock held.
const HOLD_GROUPS: usize = 64;
/// Nothing is done if that would return fewer bytes than this.
const FLOOR: u64 = if cfg!(test) { 0 } else { 256 * 1024 };

/// Freeing helps in classes whose holes exceed `HELP_FLOOR` bytes, and moves about `HELP` bytes.
const HELP_FLOOR: u64 = if cfg!(test) { 16 * 1024 } else { 1024 * 1024 };
const HELP: usize = 1024;

/// The result of [`Store::maintain`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Blobs moved.
    pub moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Bytes returned to the system.
    pub released_bytes: u64,
    /// Moves that an owner refused.
    pub refused: u64,
    /// The budget was used up before the work was done: call again.
    pub more: bool,
}

/// The work that [`Store::maintain`] would have to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Debt {
    /// Holes and unused tails exceed what is allowed, and returning them is worth it.
    pub due: bool,
    /// Bytes of the slots that hold something.
    pub held_bytes: u64,
    /// Bytes committed for them.
    pub resident_bytes: u64,
    /// The part of `resident_bytes` that stays as reserve in any case.
    pub kept_bytes: u64,
    /// [`Tuning::loose_share`](super::Tuning).
    pub loose_share: u8,
}

impl Debt {
    /// The bytes that may be committed for `held` bytes.
    pub(super) fn allowed(&self, held: u64) -> u64 {
        held + held / 256 * u64::from(self.loose_share)
    }

    /// The goal at which the store takes no more than is allowed for `held` bytes.
    pub(super) fn goal(&self, held: u64) -> Goal {
        let holes = self.allowed(held).saturating_sub(self.held_bytes + self.kept_bytes);
        let share = u128::from(holes) * 1024 / u128::from(self.held_bytes.max(1));
        Goal { holes_left: (share as u64).max(Goal::DENSE.holes_left) }
    }
}

/// How dense [`Store::maintain_to`] makes the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// A class is left alone when its holes are at most this many 1024ths of its blobs.
    holes_left: u64,
}

impl Goal {
    /// As dense as is reasonable: filling further holes costs one move each, and the next deletion makes the
    /// next hole.
    pub const DENSE: Goal = Goal { holes_left: 32 };
    /// No hole is left, whatever that costs.
    pub const FULL: Goal = Goal { holes_left: 0 };
}

enum Step {
    Moved,
    /// Only negligible holes are left.
    Dense,
    /// The last blob cannot be moved now.
    Stuck,
    /// Nothing found so far: continue the search.
    Searching,
}

impl<M: Memory> Store<M> {
    /// How much there is to do.
    pub fn debt(&self) -> Debt {
        let tuning = self.tuning();
        let mut debt = Debt { loose_share: tuning.loose_share, ..Debt::default() };
        let mut worth = 0;
        for (_, class) in self.classes.iter() {
            let locked = class.lock(&self.memory);
            let (slot, tail) = (u64::from(class.slot), locked.long_tail(tuning) as u64);
            debt.held_bytes += locked.live * slot;
            debt.resident_bytes += locked.committed as u64;
            debt.kept_bytes += locked.committed as u64 - locked.top * slot - tail;
            worth += tail;
            if !locked.is_dense(Goal::DENSE) {
                worth += locked.holes() * slot;
            }
        }
        debt.due = worth > FLOOR && debt.resident_bytes > debt.allowed(debt.held_bytes);
        debt
    }

    /// Moves blobs into holes and returns memory, until the store is dense or about `budget` bytes have been
    /// moved or returned.
    pub fn maintain(&self, owners: &impl Owners, budget: usize) -> Maintained {
        if self.debt().due { self.maintain_to(Goal::DENSE, owners, budget) } else { Maintained::default() }
    }

    /// As `maintain`, but whether or not work is due, and only as far as `goal`.
    pub fn maintain_to(&self, goal: Goal, owners: &impl Owners, budget: usize) -> Maintained {
        let mut done = Maintained::default();
        let mut left = budget;
        // Continues where the last call ran out of budget, so that all classes get their turn.
        let begin = self.cursor.load(Ordering::Relaxed);
        for (number, class) in self.classes.iter_from(begin) {
            if left == 0 {
                self.cursor.store(number, Ordering::Relaxed);
                break;
            }
            let mut more = true;
            while more && left > 0 {
                let mut hold = HOLD.min(left);
                left -= hold;
                more = class.lock(&self.memory).compact(number, goal, owners, &mut hold, &mut done);
                left += hold;
                class.yield_to_waiters();
            }
            more = true;
            while more && left > 0 {
                let given = class.trim(&self.memory, left, self.tuning());
                done.released_bytes += given as u64;
                left = left.saturating_sub(given);
                more = given > 0;
            }
        }
        // The class in which the budget ran out may have more, even if it was the last.
        done.more = left == 0;
        if done.moved > 0 || done.released_bytes > 0 {
            probe!(store_compact, done.moved, done.moved_bytes, done.released_bytes);
        }
        done
    }

    /// Releases even the memory that classes reserve for their next blobs. Meant for a store that has not
    /// changed for a while, since the next put in each class has to request memory. Returns the number of
    /// bytes released.
    pub fn release_reserve(&self) -> u64 {
        let tuning = self.tuning();
        self.classes.iter().map(|(_, class)| class.release_reserve(&self.memory, tuning) as u64).sum()
    }
}

impl<M: Memory> Locked<'_, M> {
    /// Whether the class is so sparse that freeing has to help: fewer than [`Tuning::help_share`] 64ths of
    /// its slots are in use.
    pub(super) fn needs_help(&self, tuning: Tuning) -> bool {
        self.live * 64 < self.top * u64::from(tuning.help_share)
            && self.holes() * u64::from(self.class.slot) > HELP_FLOOR
    }

    fn is_dense(&self, goal: Goal) -> bool {
        self.holes() <= self.live * goal.holes_left / 1024
    }

    /// Moves a few blobs on behalf of a caller that only frees one.
    pub(super) fn help(&mut self, class: usize, owners: &impl Owners) {
        self.compact(class, Goal::DENSE, owners, &mut { HELP }, &mut Maintained::default());
    }

    /// Moves about `hold` bytes of blobs. True if there is more to do.
    fn compact(
        &mut self,
        class: usize,
        goal: Goal,
        owners: &impl Owners,
        hold: &mut usize,
        done: &mut Maintained,
    ) -> bool {
        while *hold > 0 {
            let before = done.moved;
            match self.step(class, goal, owners, done) {
                Step::Moved => {
                    let moved = (done.moved - before) as usize;
                    *hold = hold.saturating_sub(moved * self.class.slot as usize);
                }
                Step::Searching => *hold = hold.saturating_sub(16 * HOLD_GROUPS),
                Step::Dense | Step::Stuck => return false,
            }
            // Some work is done, so waiting threads need not wait longer.
            if self.class.is_wanted() {
                break;
            }
        }
        true
    }

    fn step(&mut self, class: usize, goal: Goal, owners: &impl Owners, done: &mut Maintained) -> Step {
        if !self.lower_top(HOLD_GROUPS) {
            return Step::Searching;
        }
        if self.is_dense(goal) {
            return Step::Dense;
        }
        let Some(hole) = self.lowest_hole(HOLD_GROUPS) else {
            return if self.low < self.groups() { Step::Searching } else { Step::Dense };
        };
        if self.move_some(class, hole, owners, done) { Step::Moved } else { Step::Stuck }
    }
}
