//! A block that a session allocates from.
//!
//! No other session allocates from it, so its lists of free extents are the session's own. They, and all else that is noted here, hold as long as
//! the tenancy of the block's frame is the same: when the block left, or somebody else changed it, they are made anew.

use std::sync::atomic::Ordering::*;

use super::blocks::{Block, add, subtract};
use super::core::{Core, Shape};
use super::error::Error;
use super::frames::Frame;
use super::handle::{Handle, Parts};
use super::layout::image::Image;
use super::layout::mixed::{Extents, Mixed};
use super::marks::Marks;

/// Freed bytes make it worth while to list a block anew if they are this part of it.
pub const PART: u32 = 8;

/// A tenancy that no frame ever has.
const NEVER: u64 = u64::MAX;

/// See the module.
pub struct Current<'c> {
    pub number: u32,
    pub incarnation: u8,
    pub kind: u32,
    pub block: &'c Block,
    frame: &'c Frame,
    /// What follows is known as of this one.
    tenancy: u64,
    image: Image,
    shape: Shape,
    marks: Marks,
    marked: bool,
    extents: Extents,
}

impl<'c> Current<'c> {
    /// A block that the session is the allocator of; nothing is known of it yet.
    pub fn new(core: &'c Core, number: u32, block: &'c Block) -> Option<Self> {
        let kind = block.kind.load(Relaxed);
        let shape = core.shape_of(kind)?;
        let (frame, _) = core.nowhere();
        Some(Current {
            number,
            incarnation: block.incarnation.load(Relaxed),
            kind,
            block,
            frame,
            tenancy: NEVER,
            image: Image::NOTHING,
            shape,
            marks: shape.marks(core.options.block_size),
            marked: false,
            extents: Extents::new(),
        })
    }

    /// Bytes of the nodes, if all have one size.
    pub fn len(&self) -> Option<usize> {
        match self.shape {
            Shape::Mixed(_) => None,
            Shape::Equal(shape) => Some(shape.len as usize),
        }
    }

    /// The frame, while all that is known is true.
    pub fn frame(&self) -> &'c Frame {
        self.frame
    }

    /// Whether all that is known is true; looked at while the session is busy.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        self.frame.is_tenancy(self.tenancy)
    }

    /// Brings the block back if need be, and finds out again what is not known any more; false if the session can't have it for itself.
    pub fn renew(&mut self, core: &'c Core, me: u16) -> Result<bool, Error> {
        let claim = match core.claim(me, self.number, self.incarnation) {
            Ok(claim) => claim,
            Err(Error::Stale) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(tenancy) = claim.frame.tenancy().filter(|_| claim.frame.owner.load(Relaxed) == me) else {
            return Ok(false);
        };
        core.changed(self.number, claim.frame);
        self.frame = claim.frame;
        self.image = core.image(claim.frame, self.shape);
        self.marked = self.block.marked.load(Relaxed);
        self.list()?;
        self.tenancy = tenancy;
        Ok(true)
    }

    /// Lists free extents; for who has the right to change the block.
    fn list(&mut self) -> Result<(), Error> {
        if let Shape::Mixed(shape) = self.shape {
            let longest = Mixed::new(self.image, shape).list(&mut self.extents)?;
            self.block.longest.store(longest as u32, Relaxed);
            self.block.pending.store(0, Relaxed);
        }
        Ok(())
    }

    /// Lists free extents anew if enough was freed since the last time; whether it did. While the session is busy, and what is known is true.
    pub fn relist(&mut self, block_size: usize) -> Result<bool, Error> {
        let worth = self.kind == 0 && self.block.pending.load(Relaxed) >= block_size as u32 / PART;
        if worth {
            self.list()?;
        }
        Ok(worth)
    }

    /// A node of `len` bytes, if there is room. While the session is busy, and what is known is true.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Result<Option<Handle>, Error> {
        let Shape::Mixed(shape) = self.shape else { return self.alloc_equal() };
        let mixed = Mixed::new(self.image, shape);
        let Some(at) = mixed.alloc(&mut self.extents, len)? else { return Ok(None) };
        let place = shape.unit(at);
        self.marks.set_start(self.image, place, true)?;
        add(&self.block.bytes, len as u32);
        subtract(&self.block.free, shape.stride(len) as u32);
        self.handle(place).map(Some)
    }

    #[inline]
    fn alloc_equal(&mut self) -> Result<Option<Handle>, Error> {
        let Shape::Equal(shape) = self.shape else { return Ok(None) };
        let hint = self.block.hint.load(Relaxed);
        let at = usize::from(hint / 64) * 8;
        let live = self.image.get64(at)?;
        let number = usize::from(hint & !63) + live.trailing_ones() as usize;
        if live != !0 && number < shape.nodes() {
            self.image.set64(at, live | 1 << (number % 64))?;
            return self.handle(number as u16).map(Some);
        }
        let Some(number) = shape.block(self.image).alloc(hint)? else { return Ok(None) };
        self.block.hint.store(number, Relaxed);
        self.handle(number).map(Some)
    }

    /// The handle of a new node.
    #[inline]
    fn handle(&self, place: u16) -> Result<Handle, Error> {
        add(&self.block.live, 1);
        let check = if self.marked { self.marks.check(self.image, place)? } else { 0 };
        Ok(Handle::new(Parts { check, incarnation: self.incarnation, block: self.number, place }))
    }
}
