//! Blocks to allocate from: new ones, and those that others left with room.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::*, fence};

use crate::heap::alloc::current::{Current, PART};
use crate::heap::alloc::free_space::{self, List};
use crate::heap::block::layout::mixed::Mixed;
use crate::heap::block::table::{Block, Residency};
use crate::heap::core::{Core, Shape, locked};
use crate::heap::error::Error;
use crate::heap::stored::tier::TierHealth;
use crate::probe;

/// A block that is not resident is brought back to allocate from only if this part of it is free.
const WORTH: u32 = 4;
/// Blocks that are looked at for one that is resident.
const LOOKED_AT: usize = 4;
/// Where there are several sessions, no more than this part of the blocks is held by them,
const HELD: u32 = 8;
/// or so many.
const LEAST_HELD: u32 = 8;

impl Core {
    /// A block of that kind without nodes, for this session to allocate from.
    pub fn new_block(&self, me: u16, kind: u32) -> Result<Current<'_>, Error> {
        self.free_one_waiting(me);
        self.make_way(me)?;
        let number = {
            let mut rooms = locked(&self.rooms);
            let number = rooms.take_number()?;
            self.counts.room_bytes.store(rooms.bytes(), Relaxed);
            number
        };
        self.format(me, number, kind).inspect_err(|_| locked(&self.rooms).give_number(number))
    }

    fn format(&self, me: u16, number: u32, kind: u32) -> Result<Current<'_>, Error> {
        let block = {
            // Pieces of the table are made by one thread at a time.
            let _rooms = locked(&self.rooms);
            self.blocks.make(number).ok_or(Error::OutOfMemory)?
        };
        let _lock = block.lock();
        let shape = self.shape_of(kind).ok_or(Error::Damaged)?;
        self.note_came(None);
        let (taken, frame) = self.frame_for(me, shape, false)?;
        fence(Release);
        let image = self.image(frame, shape);
        // What comes from the system is zero; to write it once more would fetch all of it from memory.
        let zero = if self.frames.is_first_use(taken) { 0 } else { image.len() };
        let formatted = image.zero(0, zero).and_then(|()| match shape {
            Shape::Mixed(mixed) => {
                self.frames.marks(taken, shape, false).clear_starts()?;
                Mixed::new(image, mixed).format()
            }
            Shape::Equal(_) => Ok(()),
        });
        if formatted.is_err() {
            self.give_frame(taken);
            return Err(Error::Damaged);
        }
        let free = if let Shape::Mixed(shape) = shape { shape.room() } else { 0 };
        block.begin(kind, free as u32);
        self.set_allocator(block, me);
        frame.begin(number, me, true, self.now());
        block.set_resident(taken);
        self.came(taken);
        self.counts.blocks.fetch_add(1, Relaxed);
        probe!(heap_block_make, number, kind);
        Current::new(self, number, block).ok_or(Error::Damaged)
    }

    /// Makes the session the one that allocates from this block; `None` if another does, or it is gone or of another kind.
    pub fn adopt(&self, me: u16, number: u32, kind: u32) -> Option<Current<'_>> {
        let block = self.blocks.get(number)?;
        let _lock = block.lock();
        let is_free = block.state().residency() != Residency::Vacant
            && block.kind.load(Relaxed) == kind
            && block.allocator.load(Relaxed) == 0
            && !block.retired.load(Relaxed);
        if !is_free {
            return None;
        }
        self.relist(number, block, None);
        self.set_allocator(block, me);
        Current::new(self, number, block)
    }

    /// The session that allocates from a block from now on, or 0; for who has its lock.
    pub fn set_allocator(&self, block: &Block, me: u16) {
        let before = block.allocator.swap(me, Relaxed);
        match (before, me) {
            (0, 1..) => self.counts.held.fetch_add(1, Relaxed),
            (1.., 0) => self.counts.held.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// Whether a session may go on to hold the block that it has just allocated from. If all did, many sessions would
    /// need many more blocks than one, each of them half empty.
    pub fn may_hold(&self, me: u16) -> bool {
        let most = (self.counts.blocks.load(Relaxed) / HELD).max(LEAST_HELD);
        self.counts.held.load(Relaxed) <= most || !self.participants.has_others(me.into())
    }

    /// A session is done with a block: others may allocate from what is left.
    pub fn disown(&self, me: u16, current: &Current<'_>) {
        let Current { number, block, incarnation, .. } = *current;
        let lock = block.lock();
        let is_mine = block.allocator.load(Relaxed) == me && block.incarnation.load(Relaxed) == incarnation;
        if !is_mine || block.state().residency() == Residency::Vacant {
            return;
        }
        self.set_allocator(block, 0);
        if block.live.load(Relaxed) > 0 {
            self.list_by_room(number, block);
        } else {
            self.vacate(me, number, block, lock);
        }
    }

    /// Lists a block by its room, if there is enough and no session allocates from it; for who has its lock.
    pub fn list_by_room(&self, number: u32, block: &Block) {
        if block.allocator.load(Relaxed) != 0 || block.retired.load(Relaxed) {
            return;
        }
        let kind = block.kind.load(Relaxed);
        let list = match self.shape_of(kind) {
            Some(Shape::Mixed(_)) if block.free.load(Relaxed) >= self.options.block_size as u32 / PART => {
                // What was freed lies in pieces; how long they are is seen when they are listed.
                let longest = block.longest.load(Relaxed).max(block.pending.load(Relaxed) / PART);
                free_space::list_of(longest as usize)
            }
            Some(Shape::Equal(shape)) => {
                let free = shape.nodes() as u32 - block.live.load(Relaxed);
                (free >= (shape.nodes() as u32 / PART).max(1)).then_some(List::of_kind(kind))
            }
            _ => None,
        };
        self.relist(number, block, list);
    }

    pub fn relist(&self, number: u32, block: &Block, to: Option<List>) {
        let from = block.list();
        if from != to {
            let mut rooms = locked(&self.rooms);
            rooms.relist(number, from, to);
            self.counts.room_bytes.store(rooms.bytes(), Relaxed);
            block.set_list(to);
        }
    }

    /// Finds a block of this kind that others left, with room for a node of `len` bytes. None that would have to come
    /// from a tier that does not answer.
    pub fn find_room(&self, kind: u32, len: usize) -> Option<u32> {
        let is_away = self.tier_health() == TierHealth::Away;
        let rooms = locked(&self.rooms);
        let may_come = |number: &u32| !is_away || self.blocks.get(*number).is_some_and(Block::is_here);
        let resident = |number: u32| {
            self.blocks
                .get(number)
                .is_some_and(|block| matches!(block.state().residency(), Residency::Resident(_)))
        };
        if kind != 0 {
            return rooms.of_list(List::of_kind(kind)).take(LOOKED_AT).find(may_come);
        }
        let found = rooms.candidates(len).take(LOOKED_AT).find(|&number| resident(number));
        found.or_else(|| {
            let number = rooms.candidates(len).next_back().filter(may_come)?;
            let free = self.blocks.get(number)?.free.load(Relaxed);
            (free >= self.options.block_size as u32 / WORTH).then_some(number)
        })
    }

    /// Gives a block without nodes back that no session allocates from.
    pub fn vacate(&self, me: u16, number: u32, block: &Block, lock: MutexGuard<'_, ()>) {
        debug_assert!(block.live.load(Relaxed) == 0 && block.allocator.load(Relaxed) == 0);
        self.relist(number, block, None);
        let taken = match block.state().residency() {
            Residency::Resident(taken) => Some(taken),
            _ => {
                self.forget_lost(number);
                None
            }
        };
        if let Some(frame) = taken.and_then(|taken| self.frames.get(taken)) {
            self.end(me, frame);
            frame.block.store(0, Relaxed);
        }
        block.set_vacant();
        probe!(heap_block_vacate, number);
        self.drop_copy(number);
        let retire = self.options.paranoid && block.incarnation.load(Relaxed) == u8::MAX;
        block.incarnation.store(block.incarnation.load(Relaxed).wrapping_add(1), Relaxed);
        self.counts.blocks.fetch_sub(1, Relaxed);
        drop(lock);
        if let Some(taken) = taken {
            locked(&self.pool).vacated(taken);
            self.give_frame(taken);
        }
        if !retire {
            locked(&self.rooms).give_number(number);
        }
    }
}
