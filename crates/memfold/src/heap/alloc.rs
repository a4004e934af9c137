//! Nodes come and go.

use super::blocks::{Block, Info};
use super::core::{Core, Shape, locked};
use super::error::Error;
use super::frames::{Frame, pause};
use super::handle::{Handle, Parts};
use super::layout::equal::Equal;
use super::layout::mixed::Mixed;
use super::rooms::{NOWHERE, list_of};

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::*, fence};

/// A block that is not resident is brought back to allocate from only if this part of it is free.
const WORTH: usize = 4;
/// Blocks that are looked at for one that is resident.
const LOOKED_AT: usize = 4;

/// What allocating in a block came to.
pub enum Tried {
    /// There it is.
    Node(Handle),
    /// There is no room for it; take another block.
    Full,
}

impl Core {
    /// A block of that kind without nodes, owned by who asks.
    pub fn new_block(&self, kind: u32) -> Result<u32, Error> {
        let number = locked(&self.rooms).take_number().ok_or(Error::Limit)?;
        self.format(number, kind).inspect_err(|_| locked(&self.rooms).give_number(number))?;
        Ok(number)
    }

    fn format(&self, number: u32, kind: u32) -> Result<(), Error> {
        let block = {
            // Pieces of the table are made by one thread at a time.
            let _rooms = locked(&self.rooms);
            self.blocks.make(number).ok_or(Error::OutOfMemory)?
        };
        let mut info = block.lock();
        let shape = self.shape_of(kind).ok_or(Error::Damaged)?;
        let taken = self.take_frame()?;
        let frame = self.frames.get(taken).ok_or(Error::Damaged)?;
        fence(Release);
        let image = self.image(frame, shape);
        let image_bytes = shape.image(self.options.block_size);
        let cleared = shape.marks(self.options.block_size).clear_starts(image);
        let formatted = cleared.and_then(|()| image.zero(0, image_bytes)).and_then(|()| match shape {
            // SAFETY: the block's lock is held.
            Shape::Mixed(shape) => Mixed::format(image, shape, unsafe { frame.bins() }.0).map(|_| ()),
            Shape::Equal(_) => Ok(()),
        });
        if formatted.is_err() {
            self.give_frame(taken);
            return Err(Error::Damaged);
        }
        let incarnation = info.incarnation;
        *info = Info { kind, incarnation, owned: true, ..Info::default() };
        self.settle(frame, number, &info, self.clock.load(Relaxed))?;
        if let Shape::Mixed(_) = shape {
            // SAFETY: as above; the lists that `format` made are the block's.
            let _ = unsafe { frame.bins() };
        }
        frame.dirty.store(true, Relaxed);
        block.set_resident(taken);
        self.came(taken);
        Ok(())
    }

    /// Puts a node of `len` bytes into the block, if it has the kind, is of this incarnation if one is given, and has room.
    pub fn alloc_in(
        &self,
        number: u32,
        kind: u32,
        incarnation: Option<u8>,
        len: usize,
    ) -> Result<Tried, Error> {
        let Some(block) = self.blocks.get(number) else { return Ok(Tried::Full) };
        let mut info = block.lock();
        if info.kind != kind || info.retired || incarnation.is_some_and(|wanted| wanted != info.incarnation) {
            return Ok(Tried::Full);
        }
        let frame = match self.resident(number, block, &info) {
            Ok((_, frame)) => frame,
            Err(Error::Stale) => return Ok(Tried::Full),
            Err(error) => return Err(error),
        };
        self.alloc_at(number, &mut info, frame, len)
    }

    fn alloc_at(&self, number: u32, info: &mut Info, frame: &Frame, len: usize) -> Result<Tried, Error> {
        self.changed(number, frame);
        self.touch(frame);
        let kind = info.kind;
        let node = match self.shape_of(kind).ok_or(Error::Damaged)? {
            Shape::Mixed(shape) => {
                let image = self.image(frame, Shape::Mixed(shape));
                let mut mixed = self.mixed(frame, shape, image)?;
                let found = mixed.alloc(len)?;
                let room = mixed.surely_fits();
                let node = match found {
                    Some(at) => {
                        let again = at < info.fresh as usize;
                        info.fresh = info.fresh.max((at + shape.stride(len)) as u32);
                        Some((shape.unit(at), again))
                    }
                    None => None,
                };
                if !info.owned {
                    let list = list_of(room);
                    self.relist(number, info, list);
                }
                node
            }
            Shape::Equal(shape) => {
                let image = self.image(frame, Shape::Equal(shape));
                let from = info.hint;
                let found = if info.live as usize == shape.nodes() {
                    None
                } else {
                    Equal::new(image, shape).alloc(from)?
                };
                if let Some(place) = found {
                    info.hint = place;
                    let again = u32::from(place) < info.fresh;
                    info.fresh = info.fresh.max(u32::from(place) + 1);
                    Some((place, again))
                } else {
                    None
                }
            }
        };
        let Some((place, again)) = node else { return Ok(Tried::Full) };
        let check = self.mark(frame, info, place, again)?;
        info.live += 1;
        info.bytes += len as u32;
        let parts = Parts { check, incarnation: info.incarnation, block: number, place };
        Ok(Tried::Node(Handle::new(parts)))
    }

    fn mixed<'a>(
        &self,
        frame: &'a Frame,
        shape: super::layout::mixed::Shape,
        image: super::layout::image::Image,
    ) -> Result<Mixed<'a>, Error> {
        // SAFETY: every caller holds the lock of the block that is in the frame.
        let (bins, listed) = unsafe { frame.bins() };
        Ok(if listed { Mixed::new(image, shape, bins) } else { Mixed::listed(image, shape, bins)? })
    }

    /// Notes a new node in the block's marks; its check. `again`: at a place where one may have been before.
    fn mark(&self, frame: &Frame, info: &mut Info, place: u16, again: bool) -> Result<u8, Error> {
        let shape = self.shape_of(info.kind).ok_or(Error::Damaged)?;
        let (image, marks) = (self.image(frame, shape), shape.marks(self.options.block_size));
        debug_assert!(info.marked || !again);
        let check = if again { marks.count(image, place)? } else { 0 };
        if self.options.paranoid && check == u8::MAX {
            info.retired = true;
        }
        if let Shape::Mixed(_) = shape {
            marks.set_start(image, place, true)?;
        }
        Ok(check)
    }

    /// Gives the block checks, if it has none: before the first of its nodes goes.
    fn make_checks(&self, frame: &Frame, info: &mut Info) -> Result<(), Error> {
        if !info.marked {
            let shape = self.shape_of(info.kind).ok_or(Error::Damaged)?;
            let marks = shape.marks(self.options.block_size);
            marks.clear_checks(self.image(frame, shape))?;
            info.marked = true;
            // Who sees this sees the checks.
            frame.geometry.checks.store(marks.checks_at() as u32, Release);
        }
        Ok(())
    }

    /// Finds a block that others left, with room for a node of `len` bytes.
    pub fn find_room(&self, len: usize) -> Option<u32> {
        let rooms = locked(&self.rooms);
        let is_resident = |number: u32| {
            let block = self.blocks.get(number);
            block.is_some_and(|block| matches!(block.state().place(), super::blocks::Place::Resident(_)))
        };
        let resident = rooms
            .candidates(len)
            .take(LOOKED_AT)
            .map(|(number, _)| number)
            .find(|&number| is_resident(number));
        resident.or_else(|| {
            let (number, list) = rooms.candidates(len).next_back()?;
            (list >= list_of(self.options.block_size / WORTH)).then_some(number)
        })
    }

    /// Lets a session allocate from this block alone; false if another does, or it is gone.
    pub fn own(&self, number: u32, kind: u32) -> bool {
        let Some(block) = self.blocks.get(number) else { return false };
        let mut info = block.lock();
        let free = !info.owned && info.kind == kind && info.live > 0;
        if free {
            self.relist(number, &mut info, NOWHERE);
            info.owned = true;
        }
        free
    }

    /// A session is done with a block: others may allocate from what is left.
    pub fn disown(&self, number: u32, incarnation: u8) -> Result<(), Error> {
        let Some(block) = self.blocks.get(number) else { return Ok(()) };
        let mut info = block.lock();
        if !info.owned || info.incarnation != incarnation {
            return Ok(());
        }
        info.owned = false;
        self.list_by_room(number, block, &mut info)
    }

    /// As `disown`, of whatever incarnation.
    pub fn disown_any(&self, number: u32) -> Result<(), Error> {
        let Some(block) = self.blocks.get(number) else { return Ok(()) };
        let mut info = block.lock();
        info.owned = false;
        self.list_by_room(number, block, &mut info)
    }

    fn list_by_room(&self, number: u32, block: &Block, info: &mut Info) -> Result<(), Error> {
        if info.retired || info.owned {
            return Ok(());
        }
        let super::blocks::Place::Resident(frame) = block.state().place() else { return Ok(()) };
        let frame = self.frames.get(frame).ok_or(Error::Damaged)?;
        let room = match self.shape_of(info.kind).ok_or(Error::Damaged)? {
            Shape::Mixed(shape) => {
                let image = self.image(frame, Shape::Mixed(shape));
                self.mixed(frame, shape, image)?.surely_fits()
            }
            // These are found by their kind.
            Shape::Equal(_) => 0,
        };
        self.relist(number, info, list_of(room));
        Ok(())
    }

    /// The kind of a block.
    pub fn kind_of(&self, number: u32) -> Result<u32, Error> {
        Ok(self.blocks.get(number).ok_or(Error::Stale)?.lock().kind)
    }

    /// Makes a node longer or shorter where it is; false if it can't be.
    pub fn resize(&self, handle: Handle, len: usize) -> Result<bool, Error> {
        let parts = handle.parts();
        let block = self.blocks.get(parts.block).ok_or(Error::Stale)?;
        let mut info = block.lock();
        let (_, frame) = self.resident(parts.block, block, &info)?;
        let held = Held::new(frame, parts.place)?;
        let spot = self.look(frame, parts)?.ok_or(Error::Stale)?;
        let Shape::Mixed(shape) = self.shape_of(info.kind).ok_or(Error::Damaged)? else {
            return Ok(spot.len == len);
        };
        self.changed(parts.block, frame);
        // What a shorter node leaves may become another one's.
        self.make_checks(frame, &mut info)?;
        let resized = self.mixed(frame, shape, spot.image)?.resize(spot.at, len)?;
        drop(held);
        if resized {
            info.fresh = info.fresh.max((spot.at + shape.stride(len)) as u32);
            info.bytes = info.bytes + len as u32 - spot.len as u32;
            self.list_by_room(parts.block, block, &mut info)?;
        }
        Ok(resized)
    }

    /// Frees a node.
    pub fn free(&self, handle: Handle) -> Result<(), Error> {
        let parts = handle.parts();
        let block = self.blocks.get(parts.block).ok_or(Error::Stale)?;
        let mut info = block.lock();
        let (_, frame) = self.resident(parts.block, block, &info)?;
        let held = Held::new(frame, parts.place)?;
        self.free_held(parts, &mut info, frame)?;
        drop(held);
        if info.live == 0 {
            self.vacate(parts.block, block, info);
            return Ok(());
        }
        self.touch(frame);
        self.list_by_room(parts.block, block, &mut info)
    }

    fn free_held(&self, parts: Parts, info: &mut Info, frame: &Frame) -> Result<(), Error> {
        let spot = self.look(frame, parts)?.ok_or(Error::Stale)?;
        self.changed(parts.block, frame);
        self.make_checks(frame, info)?;
        let shape = self.shape_of(info.kind).ok_or(Error::Damaged)?;
        match shape {
            Shape::Mixed(mixed) => {
                shape.marks(self.options.block_size).set_start(spot.image, parts.place, false)?;
                let shape = mixed;
                self.mixed(frame, shape, spot.image)?.free(spot.at)?;
            }
            Shape::Equal(shape) => {
                Equal::new(spot.image, shape).free(parts.place)?;
                info.hint = info.hint.min(parts.place);
            }
        }
        info.live -= 1;
        info.bytes -= spot.len as u32;
        Ok(())
    }

    /// Gives a block without nodes back.
    fn vacate(&self, number: u32, block: &Block, mut info: MutexGuard<'_, Info>) {
        self.relist(number, &mut info, NOWHERE);
        let super::blocks::Place::Resident(taken) = block.state().place() else { return };
        let Some(frame) = self.frames.get(taken) else { return };
        // Who holds a stripe finds its node gone and lets go.
        let mut turn = 0;
        while !frame.try_hold_all() {
            pause(&mut turn);
        }
        block.set_vacant();
        frame.block.store(0, Relaxed);
        frame.release_all();
        self.drop_copy(number);
        let retire = self.options.paranoid && info.incarnation == u8::MAX;
        let incarnation = info.incarnation.wrapping_add(1);
        *info = Info { incarnation, ..Info::default() };
        drop(info);
        locked(&self.pool).vacated(taken);
        if !retire {
            locked(&self.rooms).give_number(number);
        }
    }
}

/// The stripe of a node, held until this is dropped.
struct Held<'a>(&'a Frame, u16);

/// Turns of waiting for a guard to go; who waits has the block's lock.
const PATIENCE: u32 = 100_000;

impl<'a> Held<'a> {
    fn new(frame: &'a Frame, place: u16) -> Result<Self, Error> {
        let mut turn = 0;
        while !frame.try_hold(place) {
            if turn > PATIENCE {
                return Err(Error::Busy);
            }
            pause(&mut turn);
        }
        Ok(Held(frame, place))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release(self.1);
    }
}
