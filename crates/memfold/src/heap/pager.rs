//! Blocks into frames and out of them.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::*, fence};
use std::vec;

use super::blocks::{Block, Place};
use super::core::{Core, Pool, Shape, locked};
use super::error::Error;
use super::frames::{Frame, Frames, pause};
use super::grouping::{AS_IT_IS, grouped_len};
use super::layout::image::Damaged;
use super::layout::mixed::Mixed;

/// Copies are put into the store and taken out so often before it is asked whether it wants to be compacted, and bytes that are moved then.
const UPKEEP: u64 = 64;
const UPKEEP_BYTES: usize = 1 << 20;

/// What came of an attempt to evict.
enum Evicted {
    /// The frame is free.
    Done,
    /// Somebody is at the block just now.
    Busy,
    /// A session has pinned it.
    Pinned,
}

/// What came of trying all frames.
enum Round {
    /// This one is free, and the caller's.
    Frame(u32),
    /// The policy knows of none.
    Nothing,
    Busy,
    Pinned,
}

/// Rounds over all frames, and chances for other threads, before a heap without a free frame gives up.
const ROUNDS: u32 = 20_000;

impl Core {
    /// A frame without a block, which is the caller's. Evicts if need be.
    pub fn take_frame(&self, me: u16) -> Result<u32, Error> {
        let allowed = self.frames_allowed();
        let mut pool = locked(&self.pool);
        if let Some(frame) = pool.free.pop() {
            self.tell_taken(pool.free.len(), allowed);
            return Ok(frame);
        }
        if pool.made < allowed {
            return self.make_frame(&mut pool);
        }
        // What is allowed has become less.
        let kept = self.frames_kept(allowed);
        while pool.made > kept && self.frames.can_shrink() {
            let round = self.evict_one(me, pool);
            pool = locked(&self.pool);
            match round {
                Ok(Round::Frame(frame)) => self.give_frame_to(&mut pool, frame, kept),
                _ => break,
            }
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
                // Other threads are about to fill all that there are: one more than allowed is better than waiting for each other.
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

    /// One more frame.
    fn make_frame(&self, pool: &mut Pool) -> Result<u32, Error> {
        let frame = match pool.empty.pop() {
            Some(frame) => frame,
            None => self.frames.make().ok_or(Error::OutOfMemory)?,
        };
        pool.made += 1;
        Ok(frame)
    }

    /// Tries frame after frame until one is free. Those whose blocks stay are left chosen meanwhile, so that each is tried once.
    fn evict_one<'a>(&'a self, me: u16, mut pool: MutexGuard<'a, Pool>) -> Result<Round, Error> {
        let mut rejected = vec![];
        let mut round = Ok(Round::Nothing);
        while let Some(frame) = pool.choose(&self.frames) {
            drop(pool);
            let evicted = self.evict(me, frame);
            pool = locked(&self.pool);
            round = match evicted {
                Ok(Evicted::Done) => {
                    pool.has_gone(frame);
                    Ok(Round::Frame(frame))
                }
                Ok(kept) => {
                    rejected.push(frame);
                    let all_pinned = matches!(kept, Evicted::Pinned)
                        && matches!(round, Ok(Round::Nothing | Round::Pinned));
                    Ok(if all_pinned { Round::Pinned } else { Round::Busy })
                }
                Err(error) => {
                    rejected.push(frame);
                    Err(error)
                }
            };
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

    /// When a block comes. In a paranoid heap that is always before now: the first use is noticed, and all is evicted after it.
    pub fn now(&self) -> u32 {
        self.clock.load(Relaxed).wrapping_sub(self.options.paranoid.into())
    }

    /// Gives a frame back without a block.
    pub fn give_frame(&self, frame: u32) {
        let kept = self.frames_kept(self.frames_allowed());
        self.give_frame_to(&mut locked(&self.pool), frame, kept);
    }

    /// The frame is free, or, if there are more than may stay, gives its memory back.
    fn give_frame_to(&self, pool: &mut Pool, frame: u32, kept: u32) {
        if pool.made > kept && self.frames.can_shrink() {
            self.frames.shrink(frame);
            pool.empty.push(frame);
            pool.made -= 1;
        } else {
            pool.free.push(frame);
        }
    }

    /// The block is in the frame: it may be evicted from now on.
    pub fn came(&self, frame: u32) {
        locked(&self.pool).policy.came(frame, &self.frames);
    }

    /// Makes a block absent and its frame free.
    fn evict(&self, me: u16, number: u32) -> Result<Evicted, Error> {
        let Some(frame) = self.frames.get(number) else { return Ok(Evicted::Busy) };
        let owner = frame.block.load(Acquire);
        let Some(block) = self.blocks.get(owner).filter(|_| owner != 0) else { return Ok(Evicted::Busy) };
        let Some(_lock) = block.try_lock() else { return Ok(Evicted::Busy) };
        if block.state().place() != Place::Resident(number) || frame.is_held() {
            return Ok(Evicted::Busy);
        }
        self.end(me, frame);
        let kept = if self.seats.have_pinned(owner) {
            Ok(Evicted::Pinned)
        } else if frame.is_held() {
            Ok(Evicted::Busy)
        } else if frame.dirty.load(Relaxed) || !block.has_copy() {
            self.keep(owner, block, frame).map(|()| Evicted::Done)
        } else {
            Ok(Evicted::Done)
        };
        if matches!(kept, Ok(Evicted::Done)) {
            block.set_absent();
            frame.block.store(0, Relaxed);
            self.note_evicted(block);
        } else {
            frame.change();
        }
        kept
    }

    /// Ends the tenancy of a frame, and waits until nobody changes its block any more; for who has the block's lock.
    pub fn end(&self, me: u16, frame: &Frame) {
        frame.end();
        self.seats.tell_others(me.into());
        let owner = frame.owner.load(Relaxed);
        if owner != 0 && owner != me {
            self.seats.wait_for(owner.into());
        }
    }

    /// Bytes of a block with its marks.
    pub fn stored_len(&self, block: &Block) -> Result<(Shape, usize), Error> {
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        let size = self.options.block_size;
        Ok((shape, if block.marked.load(Relaxed) { shape.marks(size).end() } else { shape.image(size) }))
    }

    /// Puts a copy of a block into the store.
    pub fn keep(&self, owner: u32, block: &Block, frame: &Frame) -> Result<(), Error> {
        let (shape, len) = self.stored_len(block)?;
        if let Shape::Mixed(mixed) = shape
            && block.pending.load(Relaxed) > 0
        {
            // A damaged block is kept as it is.
            let _ = Mixed::new(self.image(frame, shape), mixed).clear();
        }
        // SAFETY: the frame's memory; the tenancy has ended, so nobody writes.
        let bytes = unsafe { std::slice::from_raw_parts(frame.base().as_ptr(), len) };
        let copy =
            self.with_work(|work, spare, fields| self.put(owner, block, bytes, work, spare, fields))??;
        block.set_copy(copy);
        frame.dirty.store(false, Relaxed);
        self.counts.compressions.fetch_add(1, Relaxed);
        self.upkeep();
        Ok(())
    }

    /// From time to time, lets the store close the holes that blobs left which are gone.
    pub fn upkeep(&self) {
        if self.counts.moves.fetch_add(1, Relaxed) % UPKEEP == UPKEEP - 1 {
            self.store.store().maintain(&self.blocks, UPKEEP_BYTES);
        }
    }

    /// Decompresses a block's copy to the beginning of `to`; for who has its lock.
    pub fn load(&self, number: u32, block: &Block, to: &mut [u8]) -> Result<(), Error> {
        let (shape, len) = self.stored_len(block)?;
        let to = to.get_mut(..len).ok_or(Error::Damaged)?;
        let grouping = block.grouping.load(Relaxed);
        self.with_work(|work, spare, fields| {
            // SAFETY: the copy is pinned, and who frees it has the block's lock.
            let mut load = |to: &mut [u8]| unsafe {
                let load = |copy| self.store.load(copy, number.into(), to, &mut work.decode);
                block.with_copy(load).ok_or(Error::Damaged)?.map_err(Error::from)
            };
            if grouping == AS_IT_IS {
                return load(to);
            }
            let grouped = spare.get_mut(..grouped_len(grouping, shape, len)).ok_or(Error::Damaged)?;
            load(grouped)?;
            self.ungroup(number, block, grouped, to, fields)
        })?
    }

    /// The block's frame, into which it is brought if it is not there; for who has its lock.
    pub fn resident(&self, me: u16, number: u32, block: &Block) -> Result<(u32, &Frame), Error> {
        match block.state().place() {
            Place::Vacant => return Err(Error::Stale),
            Place::Resident(frame) => return Ok((frame, self.frames.get(frame).ok_or(Error::Damaged)?)),
            Place::Absent => {}
        }
        let (shape, stored) = self.stored_len(block)?;
        self.note_came(Some(block));
        let (taken, frame) = self.frame_for(me, stored.max(self.needed(shape)))?;
        // What readers of the block that was in this frame look at comes after they could see that it left.
        fence(Release);
        // SAFETY: the frame's memory; it is this thread's until the state says that the block is there.
        let bytes = unsafe { std::slice::from_raw_parts_mut(frame.base().as_ptr(), self.frames.stride()) };
        let mut loaded = self.load(number, block, bytes);
        if loaded.is_ok() && !block.marked.load(Relaxed) {
            loaded = self.find_starts(frame, shape).map_err(Error::from);
        }
        if loaded.is_ok() && block.unverified.load(Relaxed) {
            let image = self.image(frame, shape);
            loaded = self.verify(block, shape, image).map_err(Error::from);
        }
        if let Err(error) = loaded {
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
        Ok((taken, frame))
    }

    /// A frame without a block, which is the caller's, with memory for so many bytes.
    pub fn frame_for(&self, me: u16, bytes: usize) -> Result<(u32, &Frame), Error> {
        let taken = self.take_frame(me)?;
        let frame = self.frames.get(taken).ok_or(Error::Damaged)?;
        if self.frames.provide(frame, bytes) {
            return Ok((taken, frame));
        }
        self.give_frame(taken);
        Err(Error::OutOfMemory)
    }

    /// Bytes that a block without checks needs of its frame: itself, and where its nodes begin.
    pub fn needed(&self, shape: Shape) -> usize {
        let size = self.options.block_size;
        if let Shape::Mixed(_) = shape { shape.marks(size).checks_at() } else { shape.image(size) }
    }

    /// Notes where the nodes of a block begin.
    fn find_starts(&self, frame: &Frame, shape: Shape) -> Result<(), Damaged> {
        let Shape::Mixed(mixed) = shape else { return Ok(()) };
        let (image, marks) = (self.image(frame, shape), shape.marks(self.options.block_size));
        marks.clear_starts(image)?;
        for extent in Mixed::new(image, mixed).extents() {
            let extent = extent?;
            if extent.node.is_some() {
                marks.set_start(image, mixed.unit(extent.place), true)?;
            }
        }
        Ok(())
    }

    /// Makes one more frame free; false if that can't be done now.
    pub fn evict_to_free(&self, pool: MutexGuard<'_, Pool>) -> bool {
        let round = self.evict_one(0, pool);
        if let Ok(Round::Frame(frame)) = round {
            self.give_frame(frame);
        }
        matches!(round, Ok(Round::Frame(_)))
    }

    /// Evicts all that can be evicted.
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

    /// The block that was in this chosen frame is evicted; the frame is nobody's.
    fn has_gone(&mut self, frame: u32) {
        // The block for which it was chosen was vacated meanwhile, and it was another one that went.
        if !self.unchoose(frame) {
            self.policy.left(frame);
            self.free.retain(|&other| other != frame);
        }
    }

    /// The block of this frame is no more.
    pub fn vacated(&mut self, frame: u32) {
        if !self.unchoose(frame) {
            self.policy.left(frame);
        }
    }
}
