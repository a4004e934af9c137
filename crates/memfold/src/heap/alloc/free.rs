//! Freeing and resizing nodes under a claim. Frees without a claim are in `access/session.rs`.

use std::sync::atomic::Ordering::*;

use crate::heap::access::bytes::NodeBytes;
use crate::heap::access::translation::{Freed, Translation};
use crate::heap::block::handle::Handle;
use crate::heap::block::layout::mixed::Mixed;
use crate::heap::block::table::{add, subtract};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::residency::frames::{PATIENCE, pause};
use crate::heap::sync::claim::Claim;

/// The right to change a node: the claim, the translation of its block, its bytes, and its stripe's sequence.
pub type Claimed<'c> = (Claim<'c>, Translation<'c>, NodeBytes, u32);

impl Core {
    /// Claims a node that is live and not held by a guard.
    pub fn claim_node(&self, me: u16, handle: Handle) -> Result<Claimed<'_>, Error> {
        self.claim_within(me, handle, PATIENCE)
    }

    /// The same, with at most `patience` turns of waiting.
    fn claim_within(&self, me: u16, handle: Handle, patience: u32) -> Result<Claimed<'_>, Error> {
        let mut turn = 0;
        loop {
            let claim = self.claim(me, handle.block(), handle.incarnation())?;
            let translation = self.translation_of(me, handle)?;
            if let Some(sequence) = claim.frame.stripe(handle.place()).sequence() {
                let spot = translation.find(handle).ok_or_else(|| self.why_not(&translation, handle))?;
                return Ok((claim, translation, spot, sequence));
            }
            drop(claim);
            if turn >= patience {
                return Err(Error::Busy);
            }
            pause(&mut turn);
        }
    }

    /// Why a valid translation did not find a node.
    #[cold]
    pub fn why_not(&self, translation: &Translation<'_>, handle: Handle) -> Error {
        let starts = translation.places_have(handle);
        if starts { Error::Damaged } else { Error::Stale }
    }

    /// Frees a node, even if its block is lost.
    pub fn free(&self, me: u16, handle: Handle) -> Result<(), Error> {
        self.free_within(me, handle, PATIENCE)
    }

    /// The same, with at most `patience` turns of waiting.
    pub fn free_within(&self, me: u16, handle: Handle, patience: u32) -> Result<(), Error> {
        let (claim, translation, ..) = match self.claim_within(me, handle, patience) {
            Err(Error::Lost) => return self.free_lost(me, handle),
            claimed => claimed?,
        };
        let Claim { number, block, frame, .. } = claim;
        self.changed(number, frame);
        let freed = translation.free(handle, true).unwrap_or(Freed::Damaged);
        if freed == Freed::Damaged {
            return Err(Error::Damaged);
        }
        if block.allocator.load(Relaxed) == 0 {
            if block.live.load(Relaxed) == 0 {
                self.vacate(me, number, block, claim.lock);
            } else if freed == Freed::ToList {
                self.list_by_free_space(number, block);
            }
        }
        Ok(())
    }

    /// Lists a block by its room, after a node was freed there without a claim.
    pub fn list_freed(&self, number: u32, incarnation: u8) {
        if let Some(block) = self.blocks.get(number) {
            let _lock = block.lock();
            if block.incarnation.load(Relaxed) == incarnation && block.live.load(Relaxed) > 0 {
                self.list_by_free_space(number, block);
            }
        }
    }

    /// Resizes a node without moving it; false if that is not possible.
    pub fn resize(&self, me: u16, handle: Handle, len: usize) -> Result<bool, Error> {
        let (claim, _, spot, sequence) = self.claim_node(me, handle)?;
        let Claim { number, block, frame, .. } = claim;
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        let Shape::Mixed(mixed) = shape else { return Ok(spot.len == len) };
        if len > mixed.longest() {
            return Ok(false);
        }
        self.changed(number, frame);
        let at = mixed.place(handle.place()).ok_or(Error::Damaged)?;
        let stripe = frame.stripe(handle.place());
        stripe.hold(sequence);
        let resized = Mixed::new(self.image(frame, shape), mixed).resize(at, len);
        stripe.release();
        let Some(more) = resized? else { return Ok(false) };
        // The allocating session's lists of free extents are no longer valid.
        frame.change();
        add(&block.bytes, (len as u32).wrapping_sub(spot.len as u32));
        subtract(&block.free, more as u32);
        if more < 0 {
            add(&block.pending, more.unsigned_abs() as u32);
            block.longest.fetch_max(more.unsigned_abs() as u32, Relaxed);
            self.list_by_free_space(number, block);
        }
        Ok(true)
    }
}
