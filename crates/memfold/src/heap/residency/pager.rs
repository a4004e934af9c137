//! Faulting blocks in, and evicting them.

use std::cmp::Reverse;
use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::*, fence};
use std::vec;
use std::vec::Vec;

use crate::heap::block::table::{Block, Residency};
use crate::heap::core::{Core, Pool, Shape};
use crate::heap::error::Error;
use crate::heap::options::Limit;
use crate::heap::residency::frames::{Frame, Frames, pause};
use crate::heap::sync::locked;
use crate::probe;

/// The result of an attempt to evict.
enum Evicted {
    /// The frame is free.
    Done,
    /// Another thread is using the block.
    Busy,
    /// A session has pinned it.
    Pinned,
}

/// A block whose tenancy has ended, and its lock.
struct Evicting<'a> {
    number: u32,
    frame: &'a Frame,
    owner: u32,
    block: &'a Block,
    _lock: MutexGuard<'a, ()>,
}

/// The result of trying all frames.
enum Round {
    /// This frame is free, and the caller's.
    Frame(u32),
    /// The policy knows of no frame.
    Nothing,
    Busy,
    Pinned,
}

/// How many rounds over all frames, with a pause after each, a thread makes before it gives up getting a
/// frame.
const ROUNDS: u32 = 20_000;
/// How many blocks are evicted at once if a heavy fence is needed: one in [`PART_AT_ONCE`] of the frames, but
/// at most this many. If memory is short, or the limit is [`Limit::Bytes`], only one is, unless so many have no
/// more than [`LITTLE`] bytes: the store grows before their frames are given back.
const AT_ONCE: u32 = 16;
const PART_AT_ONCE: u32 = 8;
const LITTLE: u64 = 128 << 10;
/// How many times a thread that takes a frame evicts what no longer fits. If data compress, little is left after
/// the first time.
const SETTLES: u32 = 4;

impl Core {
    /// Takes a frame without a block for the caller. Evicts a block if necessary.
    pub fn take_frame(&self, me: u16) -> Result<u32, Error> {
        self.follow_free();
        let allowed = self.frames_allowed();
        let mut pool = locked(&self.pool);
        // Several blocks may have been evicted at once: what was compressed has grown since.
        if pool.free.len() > 1 && pool.made > allowed {
            pool = self.shrink(me, pool, self.frames_retained(allowed));
        }
        if let Some(frame) = pool.free.pop() {
            self.tell_taken(pool.free.len(), allowed);
            return Ok(frame);
        }
        if pool.made < allowed {
            return self.make_frame(&mut pool);
        }
        // The number of allowed frames has dropped, and drops further as the store grows by what is evicted.
        let mut kept = self.frames_retained(allowed);
        for _ in 0..SETTLES {
            pool = self.shrink(me, pool, kept);
            drop(pool);
            let fit = self.frames_retained(self.frames_allowed());
            pool = locked(&self.pool);
            if fit >= kept {
                break;
            }
            kept = fit;
        }
        let mut turn = 0;
        for _ in 0..ROUNDS {
            if let Some(frame) = pool.free.pop() {
                return Ok(frame);
            }
            let round = self.evict_one(me, pool);
            pool = locked(&self.pool);
            match round? {
                Round::Frame(frame) => return Ok(frame),
                // Other threads are about to fill all frames. One frame more than allowed is better than
                // waiting for each other.
                Round::Nothing if pool.chosen.is_empty() => return self.make_frame(&mut pool),
                Round::Pinned => return Err(Error::Pinned),
                Round::Nothing | Round::Busy => {}
            }
            drop(pool);
            pause(&mut turn);
            pool = locked(&self.pool);
        }
        Err(Error::Pinned)
    }

    /// Evicts until no more than `kept` frames have memory, or no further block can be evicted now.
    pub fn shrink<'a>(&'a self, me: u16, mut pool: MutexGuard<'a, Pool>, kept: u32) -> MutexGuard<'a, Pool> {
        while pool.made > kept {
            if let Some(frame) = pool.free.pop() {
                self.give_frame_to(&mut pool, frame, kept);
                continue;
            }
            let round = self.evict_one(me, pool);
            pool = locked(&self.pool);
            match round {
                Ok(Round::Frame(frame)) => self.give_frame_to(&mut pool, frame, kept),
                _ => break,
            }
        }
        pool
    }

    /// Whether a block can be faulted in without evicting another.
    pub fn has_free_frame(&self) -> bool {
        let allowed = self.frames_allowed();
        let pool = locked(&self.pool);
        !pool.free.is_empty() || pool.made < allowed
    }

    /// Makes one more frame.
    fn make_frame(&self, pool: &mut Pool) -> Result<u32, Error> {
        let frame = match pool.empty.pop() {
            Some(Reverse(frame)) => frame,
            None => self.frames.make().ok_or(Error::OutOfMemory)?,
        };
        pool.made += 1;
        Ok(frame)
    }

    /// Tries frames until one is free. A frame whose block stays remains chosen until the end, so each is
    /// tried once.
    fn evict_one<'a>(&'a self, me: u16, mut pool: MutexGuard<'a, Pool>) -> Result<Round, Error> {
        // The heavy fence interrupts the threads of other sessions, so several blocks are evicted per fence.
        let most = match self.participants.has_others(me.into()) {
            true if self.options.paranoid => AT_ONCE,
            true => self.at_once().min(pool.made / PART_AT_ONCE).max(1),
            false => 1,
        };
        let mut rejected = vec![];
        let mut round = Ok(Round::Nothing);
        loop {
            let chosen: Vec<u32> = (0..most).map_while(|_| pool.choose(&self.frames)).collect();
            if chosen.is_empty() {
                break;
            }
            drop(pool);
            let evicted = self.evict(me, &chosen);
            pool = locked(&self.pool);
            for (frame, evicted) in chosen.into_iter().zip(evicted) {
                let is_freed = matches!(round, Ok(Round::Frame(_)));
                match evicted {
                    Ok(Evicted::Done) => {
                        pool.mark_evicted(frame);
                        if is_freed {
                            pool.free.push(frame);
                        } else {
                            round = Ok(Round::Frame(frame));
                        }
                        continue;
                    }
                    _ if is_freed => {}
                    Ok(kept) => {
                        let all_pinned = matches!(kept, Evicted::Pinned)
                            && matches!(round, Ok(Round::Nothing | Round::Pinned));
                        round = round.map(|_| if all_pinned { Round::Pinned } else { Round::Busy });
                    }
                    Err(error) => round = Err(error),
                }
                rejected.push(frame);
            }
            if matches!(round, Ok(Round::Frame(_)) | Err(_)) {
                break;
            }
            if let Some(frame) = pool.free.pop() {
                round = Ok(Round::Frame(frame));
                break;
            }
        }
        for frame in rejected {
            if pool.unchoose(frame) {
                pool.policy.came(frame, &self.frames);
            }
        }
        round
    }

    /// How many blocks may be evicted at once: see [`AT_ONCE`].
    fn at_once(&self) -> u32 {
        let bytes = u64::from(AT_ONCE) * self.frames.most_bytes() as u64;
        match self.limit() {
            _ if bytes <= LITTLE => AT_ONCE,
            // Frames fill the limit.
            Limit::Bytes(_) => 1,
            _ if self.has_left(2 * bytes) => AT_ONCE,
            _ => 1,
        }
    }

    /// The clock value for a block that is faulted in. In a paranoid heap it lies in the past: the first use
    /// is noticed, and everything is evicted after it.
    pub fn now(&self) -> u32 {
        self.clock.load(Relaxed).wrapping_sub(self.options.paranoid.into())
    }

    /// Gives back a frame without a block.
    pub fn give_frame(&self, frame: u32) {
        let kept = self.frames_retained(self.frames_allowed());
        self.give_frame_to(&mut locked(&self.pool), frame, kept);
    }

    /// Makes the frame free or, if more than `kept` frames have memory, returns its memory to the system.
    fn give_frame_to(&self, pool: &mut Pool, frame: u32, kept: u32) {
        probe!(heap_frame_give, frame, pool.made <= kept);
        if pool.made > kept {
            self.frames.shrink(frame);
            pool.empty.push(Reverse(frame));
            pool.made -= 1;
        } else {
            pool.free.push(frame);
        }
    }

    /// Notes that the block is in the frame and may be evicted from now on.
    pub fn came(&self, frame: u32) {
        locked(&self.pool).policy.came(frame, &self.frames);
    }

    /// Evicts blocks and makes their frames free; a result for each.
    fn evict(&self, me: u16, frames: &[u32]) -> Vec<Result<Evicted, Error>> {
        // This can't deadlock: no thread waits for a block's lock while it holds one of these locks, nor
        // while its session is busy.
        let leaving: Vec<_> = frames.iter().map(|&frame| self.begin_eviction(frame)).collect();
        if leaving.iter().any(Option::is_some) {
            self.participants.heavy_fence(me.into());
        }
        let _growth = self.pledge_copies(leaving.iter().flatten().count());
        let leave =
            |leaving: Option<Evicting<'_>>| leaving.map_or(Ok(Evicted::Busy), |it| self.leave(me, it));
        leaving.into_iter().map(leave).collect()
    }

    /// Ends the tenancy of a frame, unless another thread is using its block.
    fn begin_eviction(&self, number: u32) -> Option<Evicting<'_>> {
        let frame = self.frames.get(number)?;
        let owner = frame.block.load(Acquire);
        let block = self.blocks.get(owner).filter(|_| owner != 0)?;
        let lock = block.try_lock()?;
        if block.state().residency() != Residency::Resident(number) || frame.is_held() {
            return None;
        }
        frame.end();
        Some(Evicting { number, frame, owner, block, _lock: lock })
    }

    /// Evicts a block. Its tenancy has ended, and the heavy fence has made that known.
    fn leave(&self, me: u16, leaving: Evicting<'_>) -> Result<Evicted, Error> {
        let Evicting { number, frame, owner, block, .. } = leaving;
        self.wait_for_owner(me, frame);
        let had_changed = frame.dirty.load(Relaxed) || !block.has_copy();
        let kept = if self.participants.is_pinned(owner) {
            Ok(Evicted::Pinned)
        } else if frame.is_held() {
            Ok(Evicted::Busy)
        } else if had_changed {
            self.keep(owner, number, block, frame).map(|()| Evicted::Done)
        } else {
            Ok(Evicted::Done)
        };
        if matches!(kept, Ok(Evicted::Done)) {
            block.set_absent();
            frame.block.store(0, Relaxed);
            self.note_evicted(block, had_changed);
            probe!(heap_evict, owner, number);
        } else {
            frame.change();
        }
        kept
    }

    /// Ends the tenancy of a frame, and waits until nobody changes its block any more; the caller holds the
    /// block's lock.
    pub fn end(&self, me: u16, frame: &Frame) {
        frame.end();
        self.participants.heavy_fence(me.into());
        self.wait_for_owner(me, frame);
    }

    /// Waits until the session that may change a frame's block is not busy; the heavy fence has told it that
    /// the tenancy is over.
    fn wait_for_owner(&self, me: u16, frame: &Frame) {
        let owner = frame.owner.load(Relaxed);
        if owner != 0 && owner != me {
            self.participants.wait_for(owner.into());
        }
    }

    /// The block's frame; the block is faulted in if it is not resident. The caller holds its lock.
    pub fn resident(&self, me: u16, number: u32, block: &Block) -> Result<(u32, &Frame), Error> {
        match block.state().residency() {
            Residency::Vacant => return Err(Error::Stale),
            Residency::Resident(frame) => return Ok((frame, self.frames.get(frame).ok_or(Error::Damaged)?)),
            Residency::Absent if !block.has_copy() => return Err(Error::Lost),
            Residency::Absent => {}
        }
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        probe!(heap_fault_begin, number);
        self.note_fault(Some(block));
        let (taken, frame) = self.frame_for(me, shape, block.marked.load(Relaxed))?;
        // A reader of the frame's previous block sees that the block has left before it sees any bytes of the
        // new one.
        fence(Release);
        self.frames.is_first_use(taken);
        if let Err(error) = self.fill(number, block, taken, frame, shape) {
            probe!(heap_fault, number, 0, taken);
            self.give_frame(taken);
            if block.unverified.load(Relaxed) {
                self.refuse(number, block);
            }
            return Err(error);
        }
        block.unverified.store(false, Relaxed);
        self.clock.fetch_add(1, Relaxed);
        frame.begin(number, me, false, self.now());
        block.set_resident(taken);
        self.came(taken);
        self.counts.faults.fetch_add(1, Relaxed);
        probe!(heap_fault, number, self.stored_len(block).map_or(0, |(_, len)| len), taken);
        Ok((taken, frame))
    }

    /// Takes a frame without a block for the caller, with memory for a block of this shape, and for its
    /// checks if wanted.
    pub fn frame_for(&self, me: u16, shape: Shape, checks: bool) -> Result<(u32, &Frame), Error> {
        let taken = self.take_frame(me)?;
        let frame = self.frames.get(taken).ok_or(Error::Damaged)?;
        if self.frames.provide(taken, matches!(shape, Shape::Mixed(_)), checks) {
            probe!(heap_frame_take, taken, checks);
            return Ok((taken, frame));
        }
        self.give_frame(taken);
        Err(Error::OutOfMemory)
    }

    /// Frees one more frame; false if that can't be done now.
    pub fn evict_to_free(&self, pool: MutexGuard<'_, Pool>) -> bool {
        let round = self.evict_one(0, pool);
        if let Ok(Round::Frame(frame)) = round {
            self.give_frame(frame);
        }
        matches!(round, Ok(Round::Frame(_)))
    }

    /// Evicts every block that can be evicted.
    pub fn evict_all(&self, me: u16) -> Result<(), Error> {
        let mut freed = vec![];
        let result = loop {
            match self.evict_one(me, locked(&self.pool)) {
                Ok(Round::Frame(frame)) => freed.push(frame),
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        locked(&self.pool).free.append(&mut freed);
        result
    }
}

impl Pool {
    fn choose(&mut self, frames: &Frames) -> Option<u32> {
        let frame = self.policy.choose(frames)?;
        self.chosen.push(frame);
        Some(frame)
    }

    fn unchoose(&mut self, frame: u32) -> bool {
        let found = self.chosen.iter().position(|&chosen| chosen == frame);
        found.map(|at| self.chosen.swap_remove(at)).is_some()
    }

    /// Notes that the block in this chosen frame was evicted, and that the frame belongs to nobody.
    fn mark_evicted(&mut self, frame: u32) {
        // If the frame is no longer chosen, the block for which it was chosen was vacated meanwhile, and
        // another block was evicted from it.
        if !self.unchoose(frame) {
            self.policy.left(frame);
            self.free.retain(|&other| other != frame);
        }
    }

    /// Notes that the block of this frame was vacated.
    pub fn vacated(&mut self, frame: u32) {
        if !self.unchoose(frame) {
            self.policy.left(frame);
        }
    }
}
