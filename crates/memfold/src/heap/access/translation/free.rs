//! Freeing a node by a translation of its block.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::*};

use super::{NodeBytes, ODD, SHORT, Translation};
use crate::heap::block::handle::Handle;
use crate::heap::block::layout::image::Image;
use crate::heap::block::layout::mixed::{self, FREE, HEADER, Mixed, UNITS, USED};
use crate::heap::block::table::{add, subtract};

/// What is known of a node that is about to be freed.
struct Live<'c> {
    sequence: u32,
    /// The word with the bit of its place, and its value without that bit.
    word: &'c AtomicU64,
    others: u64,
    /// Live nodes of the block.
    live: u32,
}

/// The result of freeing a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    Done,
    /// Freed. So much of the block is free now that it has to be listed by its room.
    ToList,
    /// The block's own bookkeeping was overwritten.
    Damaged,
}

impl Translation<'_> {
    /// Whether all nodes have one size, which is a small number of words.
    #[inline(always)]
    pub fn is_short(&self) -> bool {
        self.shape & SHORT != 0
    }

    /// Frees the live node of a handle whose place is in the translated block. `None` if there is none or its
    /// stripe is held; also if it is the block's only node, unless it may be the `last`. The caller has the
    /// right to change the block while the translation is valid.
    #[inline(always)]
    pub fn free(&self, handle: Handle, last: bool) -> Option<Freed> {
        if self.is_short() {
            return self.free_short(handle, last);
        }
        let (stripe, block) = (self.frame.stripe(handle.place()), self.block);
        let Live { sequence, word, others, live } = self.live(handle, last)?;
        let at = self.offset(handle.place());
        let spot = if self.is_equal() { self.equal_node(at) } else { self.mixed_node(at)? };
        stripe.hold(sequence);
        word.store(others, Relaxed);
        block.live.store(live.wrapping_sub(1), Relaxed);
        if self.is_equal() {
            // SAFETY: the node's bytes, whose stripe is held.
            unsafe { spot.bytes.write_bytes(0, spot.len) };
            stripe.release_from(sequence);
            add(&block.pending, 1);
            return Some(self.freed(live == self.part));
        }
        let taken = self.free_extent(spot);
        stripe.release_from(sequence);
        let pending = block.pending.load(Relaxed);
        let now = pending.wrapping_add(taken);
        block.pending.store(now, Relaxed);
        add(&block.free, taken);
        // So much is free in one piece.
        if taken > block.longest.load(Relaxed) {
            block.longest.store(taken, Relaxed);
        }
        subtract(&block.bytes, spot.len as u32);
        Some(if taken == 0 { Freed::Damaged } else { self.freed((pending ^ now) >> self.part != 0) })
    }

    /// As `free`, for short nodes.
    #[inline(always)]
    pub fn free_short(&self, handle: Handle, last: bool) -> Option<Freed> {
        let (stripe, block) = (self.frame.stripe(handle.place()), self.block);
        let Live { sequence, word, others, live } = self.live(handle, last)?;
        stripe.hold(sequence);
        word.store(others, Relaxed);
        let node = self.at(self.offset(handle.place())).cast::<u64>();
        // SAFETY: aligned and within the node, whose stripe is held. Volatile, so that it does not become a
        // call.
        let zero = |i| unsafe { node.add(i).write_volatile(0) };
        // Most nodes have no words between the first and the last.
        let words = self.len() / 8;
        zero(0);
        zero(words - 1);
        if words > 2 {
            (1..words - 1).for_each(zero);
        }
        stripe.release_from(sequence);
        block.live.store(live.wrapping_sub(1), Relaxed);
        add(&block.pending, 1);
        Some(self.freed(live == self.part))
    }

    /// A live node that is about to be freed.
    #[inline(always)]
    fn live(&self, handle: Handle, last: bool) -> Option<Live<'_>> {
        let sequence = self.frame.stripe(handle.place()).sequence()?;
        let (word, bit) = self.start(handle.place());
        let starts = word.load(Relaxed);
        let live = self.block.live.load(Relaxed);
        if starts & bit == 0 || (live <= 1 && !last) {
            return None;
        }
        Some(Live { sequence, word, others: starts & !bit, live })
    }

    /// The result; `part` says whether so much is free that another session should be offered the block.
    #[inline(always)]
    fn freed(&self, part: bool) -> Freed {
        if part && self.block.allocator.load(Relaxed) == 0 { Freed::ToList } else { Freed::Done }
    }

    /// In a block of nodes of different sizes, makes a node a free extent, as [`Mixed::free`] does. Returns
    /// the bytes that it took, or 0 if the block is damaged.
    #[inline(always)]
    fn free_extent(&self, spot: NodeBytes) -> u32 {
        let stride = self.stride();
        let taken = (spot.len + HEADER + stride - 1) & !(stride - 1);
        let units = taken >> stride.trailing_zeros();
        if self.shape & ODD != 0 || units >= UNITS.into() {
            let place = spot.bytes.addr().get() - self.nodes.addr().get();
            return self.mixed().free(place, spot.len).unwrap_or(0) as u32;
        }
        // SAFETY: the node's header, at an even address since nodes lie at even ones.
        let header: &AtomicU16 = unsafe { spot.bytes.sub(HEADER).cast().as_ref() };
        header.store((FREE | USED | units as u16).to_le(), Relaxed);
        taken as u32
    }

    /// The block of nodes of different sizes.
    #[cold]
    fn mixed(&self) -> Mixed {
        let bytes = self.len();
        // SAFETY: the block's bytes, in a frame.
        let image = unsafe { Image::new(self.nodes, bytes) };
        Mixed::new(image, mixed::Shape::new(bytes, self.stride()))
    }
}
