//! A block that a session allocates from.
//!
//! No other session allocates from it, so the free space that the session found is its own: listed extents,
//! or numbers of nodes of one size. That knowledge, and everything else noted here, is valid while the
//! tenancy of the block's frame is the same. After an eviction, or a change by another session, it is
//! gathered again. Space that is freed meanwhile is not used until the session looks again, which begins a
//! new generation (`block/marks.rs`).

use std::sync::atomic::Ordering::*;

use crate::heap::alloc::free_space;
use crate::heap::block::handle::{Handle, Parts};
use crate::heap::block::layout::equal;
use crate::heap::block::layout::image::Image;
use crate::heap::block::layout::mixed::{Extents, Mixed};
use crate::heap::block::marks::Marks;
use crate::heap::block::table::{Block, add, subtract};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;

/// The free space of a block is listed anew if the freed bytes are at least this part of the block.
pub const PART: u32 = 8;

/// A tenancy that no frame ever has.
const NEVER: u64 = u64::MAX;

/// See the module.
pub struct Current<'c> {
    pub number: u32,
    pub incarnation: u8,
    pub block: &'c Block,
    frame: &'c Frame,
    /// The fields below are valid in this tenancy,
    tenancy: u64,
    /// or, if the block is shared (`sync/claim.rs`), in this one, for the holder of the block's lock.
    shared: u64,
    image: Image,
    shape: Shape,
    marks: Marks,
    /// The block's generation, and whether it has checks.
    generation: u8,
    marked: bool,
    /// For nodes of different sizes: the free extents.
    extents: Extents,
    /// For nodes of one size: the word of live bits that was examined last, and the nodes that were free then
    /// and are not used yet.
    word: usize,
    free: u64,
}

impl<'c> Current<'c> {
    /// A block of which the session is the allocator; its free space is not known yet.
    pub fn new(core: &'c Core, number: u32, block: &'c Block) -> Option<Self> {
        let kind = block.kind.load(Relaxed);
        let shape = core.shape_of(kind)?;
        let (frame, _) = core.nowhere();
        Some(Current {
            number,
            incarnation: block.incarnation.load(Relaxed),

            block,
            frame,
            tenancy: NEVER,
            shared: NEVER,
            image: Image::NOTHING,
            shape,
            marks: Marks::NONE,
            generation: 0,
            marked: false,
            extents: Extents::new(),
            word: 0,
            free: 0,
        })
    }

    /// Bytes of the nodes, if all have one size.
    pub fn len(&self) -> Option<usize> {
        match self.shape {
            Shape::Mixed(_) => None,
            Shape::Equal(shape) => Some(shape.len as usize),
        }
    }

    /// The frame, valid while `is_good`.
    pub fn frame(&self) -> &'c Frame {
        self.frame
    }

    /// Whether the knowledge is still valid; checked while the session is busy.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        self.frame.is_tenancy(self.tenancy)
    }

    /// Faults the block in if necessary, and gathers the knowledge anew; false if the session can't allocate
    /// from it.
    pub fn renew(&mut self, core: &'c Core, me: u16) -> Result<bool, Error> {
        let claim = match core.claim(me, self.number, self.incarnation) {
            Ok(claim) => claim,
            Err(Error::Stale) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.frame = claim.frame;
        (self.tenancy, self.shared) = (NEVER, NEVER);
        core.changed(self.number, self.frame);
        let at = claim.at;
        self.image = core.image(self.frame, self.shape);
        self.marked = self.block.marked.load(Relaxed);
        self.marks = core.marks(at, self.block, self.shape);
        if !self.begin(core.options.paranoid)? {
            return Ok(false);
        }
        if self.generation != 0 && !self.marked {
            if !core.frames.provide(at, matches!(self.shape, Shape::Mixed(_)), true) {
                return Err(Error::OutOfMemory);
            }
            self.marks = core.frames.marks(at, self.shape, true);
            self.marks.clear_checks()?;
            self.block.marked.store(true, Release);
            self.marked = true;
            // Translations of the block don't include the checks yet.
            self.frame.change();
        }
        let is_its_own = self.frame.owner.load(Relaxed) == me;
        let known = if is_its_own { &mut self.tenancy } else { &mut self.shared };
        *known = self.frame.tenancy().unwrap_or(NEVER);
        Ok(true)
    }

    /// Allocates a node of `len` bytes in a shared block, under a claim, if there is room. `Err(Stale)` if
    /// the block is not shared, or the knowledge of it is out of date.
    pub fn alloc_shared(&mut self, core: &Core, me: u16, len: usize) -> Result<Option<Handle>, Error> {
        if !self.frame.is_tenancy(self.shared) {
            return Err(Error::Stale);
        }
        let _claim = core.claim(me, self.number, self.incarnation)?;
        if !self.frame.is_tenancy(self.shared) {
            return Err(Error::Stale);
        }
        core.changed(self.number, self.frame);
        match self.alloc(len)? {
            None if self.look_again(core)? => self.alloc(len),
            node => Ok(node),
        }
    }

    /// Finds what is free, and begins a new generation if something was freed; false if nothing can be free.
    /// The caller has the right to change the block.
    fn begin(&mut self, paranoid: bool) -> Result<bool, Error> {
        self.generation = self.block.generation.load(Relaxed);
        if self.block.pending.load(Relaxed) > 0 {
            if paranoid && self.generation == u8::MAX {
                self.block.retired.store(true, Relaxed);
                return Ok(false);
            }
            self.generation = self.generation.wrapping_add(1);
            self.block.generation.store(self.generation, Relaxed);
            self.block.pending.store(0, Relaxed);
        }
        match self.shape {
            Shape::Mixed(shape) => {
                let longest = Mixed::new(self.image, shape).list(&mut self.extents)?;
                self.block.longest.store(longest as u32, Relaxed);
            }
            Shape::Equal(shape) => (self.word, self.free) = (0, shape.block(self.image).free(0)?),
        }
        Ok(true)
    }

    /// Notes how long a node may be that fits, if the knowledge is still valid.
    pub fn note_longest(&self) {
        let Shape::Mixed(shape) = self.shape else { return };
        if self.frame.is_tenancy(self.tenancy) || self.frame.is_tenancy(self.shared) {
            let longest = Mixed::new(self.image, shape).longest(&self.extents) as u32;
            self.block.longest.fetch_min(longest, Relaxed);
        }
    }

    /// Notes that a node of `len` bytes found no room, so that the block is not listed with those that may
    /// have. Only what was freed since the last look may be longer.
    pub fn has_no_room_for(&self, len: usize) {
        if let Shape::Mixed(shape) = self.shape {
            let shorter = (free_space::below(shape.stride(len)) as u32).max(self.block.pending.load(Relaxed));
            self.block.longest.fetch_min(shorter.min(self.block.free.load(Relaxed)), Relaxed);
        }
    }

    /// Looks again for free space, if enough was freed; returns whether it did. `Err(Stale)` if that requires
    /// a claim. The session is busy, and the knowledge is valid.
    pub fn look_again(&mut self, core: &Core) -> Result<bool, Error> {
        let part = match self.shape {
            Shape::Mixed(_) => core.options.block_size as u32 / PART,
            Shape::Equal(shape) => (shape.nodes() as u32 / PART).max(1),
        };
        if self.block.pending.load(Relaxed) < part {
            return Ok(false);
        }
        if !self.marked || core.options.paranoid || self.generation == u8::MAX {
            return Err(Error::Stale);
        }
        self.begin(false)
    }

    /// Allocates a node of `len` bytes, if there is room. The session is busy, and the knowledge is valid.
    /// The bit that says that a node starts is set last: other sessions may read the place by a stale handle,
    /// and must find the new check once they find the bit (`Translation::find`).
    #[inline(always)]
    pub fn alloc(&mut self, len: usize) -> Result<Option<Handle>, Error> {
        let place = match self.shape {
            Shape::Equal(shape) => {
                if self.free == 0 && !self.next_word(shape)? {
                    return Ok(None);
                }
                let number = (self.word * 64) as u16 + self.free.trailing_zeros() as u16;
                self.free &= self.free - 1;
                self.mark(number)?;
                shape.block(self.image).take(number)?;
                number
            }
            Shape::Mixed(shape) => {
                let Some(at) = Mixed::new(self.image, shape).alloc(&mut self.extents, len)? else {
                    return Ok(None);
                };
                let place = shape.unit(at);
                self.mark(place)?;
                self.marks.set_start(place, true)?;
                add(&self.block.bytes, len as u32);
                subtract(&self.block.free, shape.stride(len) as u32);
                place
            }
        };
        add(&self.block.live, 1);
        let Current { generation: check, incarnation, number: block, .. } = *self;
        Ok(Some(Handle::new(Parts { check, incarnation, block, place })))
    }

    /// Gives a place the check of the node that is about to be made there.
    #[inline(always)]
    fn mark(&self, place: u16) -> Result<(), Error> {
        if self.marked {
            self.marks.set_check(place, self.generation)?;
        }
        Ok(())
    }

    /// Advances to a word of live bits with free nodes.
    fn next_word(&mut self, shape: equal::Shape) -> Result<bool, Error> {
        while self.word + 1 < shape.words() {
            self.word += 1;
            self.free = shape.block(self.image).free(self.word)?;
            if self.free != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
