//! How many frames a heap may have if its limit follows free memory: [`Limit::Free`] and [`Limit::All`].
//!
//! ```text
//!   free memory  |<-- reserve -->|<-------------- may be frames -------------->|
//!                |..floor|         Free: half of this, or up to 3/4 if needed; All: all of it
//! ```
//!
//! At least an eighth of free memory may always be frames. With Free, each block that is faulted in soon
//! after its eviction raises the number of frames above half (`budget.rs`).
//!
//! Each bound (the machine, and each limited cgroup above the process) tells how much is free
//! (`memfold_proc::memory::rooms`). The strictest one decides. Existing frames count as free, so the result
//! does not depend on how many there are.
//!
//! **Who looks.** A thread that is about to take a frame looks, unless another has within [`REST`]. A heap
//! that takes no frames does not grow, and does not look; its background thread, if it has one, looks every
//! [`BACKGROUND`], so that it gives memory back to others.
//!
//! **Between looks** compressed blocks and tables grow and shrink. Their growth since the last look is
//! subtracted from the frames, and no block is made that could reach into the floor, not even when what other
//! threads are about to take (`pledge.rs`), and the blocks that sessions are filling, are counted. So the heap
//! always stops before it reaches the limit of a container.
//!
//! **Several heaps of a process** share what is free, or lacking, in proportion to what each already has.
//! They count as one heap: otherwise each would take half of what the others have left.
//!
//! If free memory can't be determined, the limit is [`Limit::Share`] from then on.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use memfold_proc::memory::Room;

use crate::heap::core::Core;
use crate::heap::error::Error;
use crate::heap::options::Limit;
use crate::heap::residency::budget::LEAST_RESIDENT;
use crate::heap::residency::frames::pause;
use crate::heap::residency::machine::{frame_bytes, left, most_frame_bytes, now};
use crate::heap::residency::pledge::Pledge;
use crate::heap::sync::locked;
use crate::store::Goal;

/// Time between looks: of a single heap; of one among several, which grow into free memory step by step; and
/// of a background thread.
const REST: Duration = Duration::from_millis(20);
const REST_OF_SEVERAL: Duration = Duration::from_millis(2);
pub const BACKGROUND: Duration = Duration::from_secs(1);
/// Looking takes no more than one part in this many of the time.
const COST: u32 = 64;

/// At least this many frames are allowed: existing nodes have to stay readable.
const LEAST_FRAMES: u32 = 2;
/// The number of frames is raised only if it can grow by more than one in this many. Taking memory that is
/// free only for a moment, and soon compressing again, gains nothing.
const STEP: u32 = 16;
/// How many times a session looks whether others have taken what they had pledged.
const PATIENCE: u32 = 256;
/// When free memory is divided, each heap counts as having this many more bytes of frames than it has.
const LEAST_WEIGHT: u64 = 1 << 20;

impl Core {
    /// How many frames are allowed by the last look at free memory.
    pub fn frames_of_free(&self) -> u32 {
        self.frames_and(self.counts.extra_frames.load(Relaxed))
    }

    /// How many frames would be allowed if use had earned as many as it can.
    pub fn most_frames_of_free(&self) -> u32 {
        self.frames_and(u32::MAX)
    }

    /// The frames that are allowed if use has earned `extra` more.
    fn frames_and(&self, extra: u32) -> u32 {
        let head = &self.headroom;
        let grown = self.bytes_without_frames().saturating_sub(head.beside.load(Relaxed));
        let fewer = u32::try_from(grown / self.frames.most_bytes() as u64).unwrap_or(u32::MAX);
        let frames = head.frames.load(Relaxed).saturating_add(extra.min(head.more.load(Relaxed)));
        frames.saturating_sub(fewer).max(self.least_of_free())
    }

    /// The frames that are allowed however little memory is free: [`LEAST_RESIDENT`], or fewer if blocks are
    /// so large that these, and two more blocks to compress, would reach into the floor.
    fn least_of_free(&self) -> u32 {
        let bytes = self.headroom.most.load(Relaxed).saturating_sub(self.bytes_without_frames());
        let fit = bytes / self.frames.most_bytes() as u64;
        fit.saturating_sub(2).clamp(LEAST_FRAMES.into(), LEAST_RESIDENT.into()) as u32
    }

    /// Looks at free memory, if the limit follows it and a look is due.
    pub fn follow_free(&self) {
        if self.limit().follows_free() && now() >= self.headroom.due.load(Relaxed) {
            // Otherwise another thread is looking.
            if let Ok(mut counted) = self.headroom.counted.try_lock() {
                self.look_at_free(&mut counted);
            }
        }
    }

    /// Looks at free memory; the caller holds the lock of `counted`.
    #[cold]
    fn look_at_free(&self, counted: &mut Option<u64>) {
        let head = &self.headroom;
        let (begin, limit) = (Instant::now(), self.limit());
        if !limit.follows_free() {
            return;
        }
        let Some(rooms) = (head.machine.rooms)() else {
            self.limit.store(Limit::Share.to_bits(), Relaxed);
            head.count(counted, None);
            return;
        };
        let (own, beside, made) = (self.frames.bytes(), self.bytes_without_frames(), locked(&self.pool).made);
        head.count(counted, Some(own));
        let heaps = head.machine.heaps.load(Relaxed).max(1);
        let all = head.machine.frame_bytes.load(Relaxed).max(own);

        // This heap's part of what is free or lacking.
        let (weight, weights) = (own + LEAST_WEIGHT, all + heaps * LEAST_WEIGHT);
        let frames = |bytes: fn(Limit, &Room, u64) -> u64| {
            let wanted = rooms.iter().map(|room| bytes(limit, room, all)).min().unwrap_or(0);
            let change = i128::from(wanted) - i128::from(all);
            let change = change * i128::from(weight) / i128::from(weights) / self.frames.most_bytes() as i128;
            (i128::from(made) + change).clamp(0, u32::MAX.into()) as u32
        };
        let (next, most) = (frames(frame_bytes), frames(most_frame_bytes));

        let before = self.frames_and(0);
        let is_step = next < before || next - before > before / STEP;
        let next = if is_step { next } else { before };
        head.frames.store(next, Relaxed);
        head.more.store(most.saturating_sub(next), Relaxed);
        head.beside.store(beside, Relaxed);
        let left = rooms.iter().map(left).min().unwrap_or(0);
        head.most.store(own + beside + left, Relaxed);
        let rest = if heaps == 1 { REST } else { REST_OF_SEVERAL }.max(begin.elapsed() * COST);
        head.due.store(now() + rest.as_micros() as u64, Relaxed);
    }

    /// Bytes that may still be taken, beside those pledged, without reaching into the floor.
    pub fn bytes_left(&self, pledged: u64) -> u64 {
        let taken = self.frames.bytes() + self.bytes_without_frames() + pledged;
        self.headroom.most.load(Relaxed).saturating_sub(taken)
    }

    /// Whether what is pledged, at least a block, can't reach into the floor. Nor may the blocks that sessions
    /// are filling: without a frame, such a block takes only what its copy takes so far.
    pub fn has_room(&self, pledged: u64) -> bool {
        let filled = u64::from(self.counts.held.load(Relaxed)) * self.frames.most_bytes() as u64;
        self.bytes_left(pledged) > filled
    }

    /// An error if memory is so short that what is pledged is not allowed. Looks again before it returns the
    /// error.
    pub fn is_free(&self) -> Result<(), Error> {
        self.follow_free();
        let has_room = || self.has_room(self.pledged());
        if has_room() {
            return Ok(());
        }
        self.look_at_free(&mut locked(&self.headroom.counted));
        // The limit may have changed.
        if has_room() || !self.limit().follows_free() { Ok(()) } else { Err(Error::Limit) }
    }

    /// Waits until others have pledged so little that a further block is allowed, within [`PATIENCE`].
    fn wait_for_pledges(&self, turn: &mut u32) {
        loop {
            pause(turn);
            if *turn >= PATIENCE || self.allows(self.pledged() + self.bytes_per_block()) {
                break;
            }
        }
    }

    /// As `may_grow`, for a session: before a further block is refused, it waits for what others have pledged,
    /// the store returns its free memory, and, if the limit follows free memory, frames are given back, about an
    /// eighth of them at a time.
    pub fn make_way(&self, me: u16) -> Result<Pledge<'_>, Error> {
        let (mut is_closed, mut turn) = (false, 0);
        loop {
            let refused = match self.may_grow() {
                Err(error @ Error::Limit) => error,
                result => return result,
            };
            // Others may take less than they have pledged.
            if turn < PATIENCE && self.may_grow_alone() {
                self.wait_for_pledges(&mut turn);
                continue;
            }
            if !std::mem::replace(&mut is_closed, true) {
                let closed = self.store.store().maintain_to(Goal::DENSE, &self.blocks, usize::MAX);
                if closed.released_bytes > 0 {
                    continue;
                }
            }
            if !self.limit().follows_free() || self.options.paranoid {
                return Err(refused);
            }
            let pool = locked(&self.pool);
            let made = pool.made;
            if made <= self.least_of_free() {
                return Err(refused);
            }
            if self.shrink(me, pool, made - made.div_ceil(LEAST_RESIDENT)).made == made {
                return Err(refused);
            }
        }
    }
}
