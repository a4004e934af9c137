//! Blocks to allocate from: new ones, and those that other sessions left with room.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::*, fence};

use crate::heap::alloc::current::{Current, PART};
use crate::heap::alloc::free_space;
use crate::heap::block::layout::mixed::Mixed;
use crate::heap::block::table::List;
use crate::heap::block::table::{Block, Residency};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::stored::tier::TierHealth;
use crate::heap::sync::locked;
use crate::probe;

/// A block that is not resident is faulted in for allocation only if at least this part of it is free.
const WORTH: u32 = 4;
/// How many blocks are examined to find a resident one.
const LOOKED_AT: usize = 4;
/// How many blocks of the list in which a node may just fit are examined.
const CLOSE: usize = 16;
/// If there are several sessions, they hold no more than this part of the blocks,
const HELD: u32 = 8;
/// or this many: threads that work in a small heap would wait for each other.
const LEAST_HELD: u32 = 4;
/// No more sizes have blocks of their own than one for this many blocks, or this many: the last block of each
/// is half empty.
const PER_SIZE: u32 = 8;
const LEAST_SIZES: u32 = 4;

impl Core {
    /// Makes an empty block of this kind, for this session to allocate from.
    pub fn new_block(&self, me: u16, kind: u32) -> Result<Current<'_>, Error> {
        self.free_one_waiting(me);
        let _pledge = self.make_way(me)?;
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
            // One thread at a time makes pieces of the table.
            let _rooms = locked(&self.rooms);
            self.blocks.make(number).ok_or(Error::OutOfMemory)?
        };
        let _lock = block.lock();
        let shape = self.shape_of(kind).ok_or(Error::Damaged)?;
        self.note_fault(None);
        let (taken, frame) = self.frame_for(me, shape, false)?;
        fence(Release);
        let image = self.image(frame, shape);
        // Fresh memory from the system is zero, and writing zeros would bring all of it into the caches.
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
        self.count_block(kind);
        probe!(heap_block_make, number, kind);
        Current::new(self, number, block).ok_or(Error::Damaged)
    }

    /// Makes the session this block's allocator; `None` if another session is, or the block is gone, retired
    /// or of another kind.
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

    /// Sets the session that allocates from a block, or 0; the caller holds its lock.
    pub fn set_allocator(&self, block: &Block, me: u16) {
        let before = block.allocator.swap(me, Relaxed);
        match (before, me) {
            (0, 1..) => self.counts.held.fetch_add(1, Relaxed),
            (1.., 0) => self.counts.held.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// Whether a session may continue to hold the block that it has just allocated from. If all did, many
    /// sessions would hold many half-empty blocks.
    pub fn may_hold(&self, me: u16) -> bool {
        let most = (self.counts.blocks.load(Relaxed) / HELD).max(LEAST_HELD);
        self.counts.held.load(Relaxed) <= most || !self.participants.has_others(me.into())
    }

    /// The kind of blocks that hold only nodes of this size, if there are such blocks, or may be.
    pub fn kind_for(&self, len: usize) -> Option<u32> {
        let most = (self.counts.blocks.load(Relaxed) / PER_SIZE).max(LEAST_SIZES);
        let may_have = self.counts.sizes.load(Relaxed) < most
            || len == self.longest_alone()
            || self.known_kind(len).is_some_and(|kind| self.has_blocks(kind));
        if may_have { self.equal_kind(len) } else { None }
    }

    /// Releases a block: other sessions may allocate from what is left, if that is worth it.
    pub fn disown(&self, me: u16, current: &Current<'_>) {
        self.release(me, current, false);
    }

    /// Releases a block that the session may not hold. The next node goes there, however little is left:
    /// otherwise an eighth of each block would stay empty.
    pub fn pass_on(&self, me: u16, current: &Current<'_>) {
        self.release(me, current, true);
    }

    fn release(&self, me: u16, current: &Current<'_>, to_be_filled: bool) {
        let Current { number, block, incarnation, .. } = *current;
        let lock = block.lock();
        let is_mine = block.allocator.load(Relaxed) == me && block.incarnation.load(Relaxed) == incarnation;
        if !is_mine || block.state().residency() == Residency::Vacant {
            return;
        }
        self.set_allocator(block, 0);
        current.note_longest();
        if block.live.load(Relaxed) > 0 {
            self.list_if(number, block, to_be_filled);
        } else {
            self.vacate(me, number, block, lock);
        }
    }

    /// Lists a block by its room, if there is enough and no session allocates from it; the caller holds its
    /// lock. A block that is listed stays so until it is full.
    pub fn list_by_free_space(&self, number: u32, block: &Block) {
        self.list_if(number, block, block.list().is_some());
    }

    /// The same; any room is enough if the block is to be filled.
    fn list_if(&self, number: u32, block: &Block, to_be_filled: bool) {
        if block.allocator.load(Relaxed) != 0 || block.retired.load(Relaxed) {
            return;
        }
        let kind = block.kind.load(Relaxed);
        let is_enough = |free: u32, whole: u32| free >= if to_be_filled { 1 } else { (whole / PART).max(1) };
        let list = match self.shape_of(kind) {
            Some(Shape::Mixed(_)) if is_enough(block.free.load(Relaxed), self.options.block_size as u32) => {
                // Freed bytes are in pieces, of which the longest is known, but not which of them are
                // adjacent.
                let longest = block.longest.load(Relaxed).max(block.pending.load(Relaxed) / PART);
                free_space::list_of(longest as usize)
            }
            Some(Shape::Equal(shape)) => {
                let nodes = shape.nodes() as u32;
                is_enough(nodes - block.live.load(Relaxed), nodes).then_some(List::of_kind(kind))
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

    /// Whether a block for nodes of this size has room and is held by no session.
    pub fn has_equal_room(&self, len: usize) -> bool {
        self.known_kind(len).is_some_and(|kind| self.find_free_space(kind, len).is_some())
    }

    /// Finds a block of this kind that no session holds, with room for a node of `len` bytes. Omits blocks on
    /// a tier that does not answer.
    pub fn find_free_space(&self, kind: u32, len: usize) -> Option<u32> {
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
        // Where a node of this size was freed is room for another one.
        let stride = self.shape.stride(len) as u32;
        let fits =
            |number: u32| self.blocks.get(number).is_some_and(|block| block.longest.load(Relaxed) >= stride);
        let close = free_space::list_of(stride as usize).into_iter().flat_map(|list| rooms.of_list(list));
        let found = close.take(CLOSE).find(|&number| fits(number) && resident(number));
        let found = found
            .or_else(|| rooms.candidates(stride as usize).take(LOOKED_AT).find(|&number| resident(number)));
        found.or_else(|| {
            // The block with the longest extent may have little room besides.
            let free = |number: u32| self.blocks.get(number).map_or(0, |block| block.free.load(Relaxed));
            let most =
                rooms.candidates(stride as usize).filter(may_come).max_by_key(|&number| free(number))?;
            (free(most) >= self.options.block_size as u32 / WORTH).then_some(most)
        })
    }

    /// Makes a block without nodes vacant, if no session allocates from it.
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
        self.uncount_block(block.kind.load(Relaxed));
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
