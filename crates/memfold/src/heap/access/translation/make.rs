//! Making a translation of a block, and what it holds.

use std::sync::atomic::{Ordering::*, fence};

use super::{HEADERS, ODD, OWN, SHORT, SHORT_BYTES, STRIDE_AT, Translation, WORDS};
use crate::heap::alloc::current::PART;
use crate::heap::block::handle::Handle;
use crate::heap::block::table::{Block, Residency};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;

impl Core {
    /// Makes a translation of a block, which is faulted in if necessary.
    pub fn translation_of(&self, me: u16, handle: Handle) -> Result<Translation<'_>, Error> {
        let number = handle.block();
        let block = self.blocks.get(number).ok_or(Error::Stale)?;
        loop {
            let state = block.state();
            let (at, frame) = match state.residency() {
                Residency::Resident(at) => (at, self.frames.get(at).ok_or(Error::Damaged)?),
                Residency::Vacant => return Err(Error::Stale),
                Residency::Absent => {
                    self.bring(me, handle)?;
                    continue;
                }
            };
            let Some(tenancy) = frame.tenancy() else {
                // The block is about to be evicted: `bring` waits for its lock.
                self.bring(me, handle)?;
                continue;
            };
            let translation = self.translation(me, number, tenancy, (at, frame), block);
            fence(Acquire);
            if block.is_still(state) && frame.is_tenancy(tenancy) {
                return translation;
            }
        }
    }

    /// A translation of a block in this frame; valid only if the tenancy is the same afterwards.
    fn translation<'c>(
        &'c self,
        me: u16,
        number: u32,
        tenancy: u64,
        (at, frame): (u32, &'c Frame),
        block: &'c Block,
    ) -> Result<Translation<'c>, Error> {
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        let marks = self.marks(at, block, shape);
        // The offset of place 0.
        let (begin, stride, len, headers) = match shape {
            Shape::Mixed(shape) => {
                let align = shape.align();
                (0, align, shape.total_units() * align, HEADERS)
            }
            Shape::Equal(shape) => (shape.first(), shape.stride(), shape.len as usize, 0),
        };
        let places = shape.places();
        // SAFETY: the first place is within the block.
        let nodes = unsafe { frame.base().add(begin) };
        let starts =
            if headers == 0 { frame.base() } else { marks.starts().place(0, places.div_ceil(64) * 8)? };
        let checks = marks.checks();
        let checks = if checks.len() > 0 { Some(checks.place(0, places)?.cast()) } else { None };
        let has_words = stride.is_multiple_of(8) && begin.is_multiple_of(8);
        let is_short = headers == 0 && has_words && len <= SHORT_BYTES && len.is_multiple_of(8);
        // In a paranoid heap every change is made with a claim. A dirty block stays dirty until its tenancy
        // ends.
        let is_own =
            me != 0 && frame.owner.load(Relaxed) == me && frame.dirty.load(Relaxed) && !self.options.paranoid;
        let flags = [(is_own, OWN), (stride == 1, ODD), (has_words, WORDS), (is_short, SHORT)];
        let flags = flags.iter().fold(headers, |all, &(is, flag)| all | if is { flag } else { 0 });
        let part = match shape {
            Shape::Mixed(_) => (self.options.block_size as u32 / PART).ilog2(),
            Shape::Equal(_) => places as u32 + 1 - (places as u32 / PART).max(1),
        };
        let last = Handle::first_bits(number, block.incarnation.load(Relaxed)) + (places as u64 - 1);
        debug_assert!(stride < 1 << 24 && len <= u32::MAX as usize);
        Ok(Translation {
            simple: if checks.is_none() && has_words { last } else { 0 },
            frame,
            starts: starts.cast(),
            nodes,
            shape: flags | (stride as u64) << STRIDE_AT | len as u64,
            tenancy,
            last,
            block,
            checks,
            part,
        })
    }

    #[cold]
    fn bring(&self, me: u16, handle: Handle) -> Result<(), Error> {
        let block = self.blocks.get(handle.block()).ok_or(Error::Stale)?;
        {
            let _lock = block.lock();
            self.resident(me, handle.block(), block)?;
        }
        self.tell_fault(handle);
        Ok(())
    }
}
