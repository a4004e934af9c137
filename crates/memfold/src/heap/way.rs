//! How a session gets to the nodes of a block that it used before.
//!
//! A way is what was found out about a block in a tenancy of its frame (`frames.rs`): good as long as the tenancy is the same, which is looked at
//! after everything else. So reading a node is a few comparisons and writes nothing. Where nodes lie comes out of the block's own bytes, which
//! a C program may have spoiled: what leads outside of the block is refused.
//!
//! ```text
//!   frame   | live bits, or nothing | node | node | ..            | marks: starts, checks |
//!                                   ^ nodes: a node lies at nodes + place * stride
//! ```

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::*, fence};

use super::blocks::{Block, Place, add, subtract};
use super::core::{Core, Shape};
use super::error::Error;
use super::frames::Frame;
use super::free::gets_room;
use super::handle::Handle;
use super::layout::image::Image;
use super::layout::mixed::{self, FREE, HEADER, Mixed, UNITS, USED};

/// The session may change the block without its lock.
const OWN: u32 = 1;
/// Nodes have headers that say how long they are.
const HEADERS: u32 = 2;

/// See the module. A line of the processor's cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Way<'c> {
    /// Block and incarnation, as in a handle; no handle has what is here at first.
    key: u64,
    tenancy: u64,
    pub frame: &'c Frame,
    pub block: &'c Block,
    nodes: NonNull<u8>,
    stride: u32,
    /// Bytes of each node, if all have one size, else of all places.
    len: u32,
    places: u32,
    /// From `nodes` on, bytes: a bit for each place, and a byte for each, if there are any.
    starts: i32,
    checks: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Way<'static>>() == 64);

// SAFETY: a pointer into a frame, which lives as long as the heap and is read by atomic operations, whichever thread does it; the session
// that a way belongs to is used by one thread at a time.
unsafe impl Send for Way<'_> {}

/// A live node.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    pub bytes: NonNull<u8>,
    pub len: usize,
}

impl<'c> Way<'c> {
    /// To nowhere.
    pub fn none(core: &'c Core) -> Self {
        let (frame, block) = core.nowhere();
        let nodes = NonNull::dangling();
        Way {
            key: u64::MAX,
            tenancy: 0,
            frame,
            block,
            nodes,
            stride: 0,
            len: 0,
            places: 0,
            starts: 0,
            checks: 0,
            flags: 0,
        }
    }

    /// Whether this is the way to the handle's block.
    #[inline(always)]
    pub fn leads_to(&self, handle: Handle) -> bool {
        self.key == handle.block_key()
    }

    /// Whether all that is known of the block is true now; what was read before is read before this.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        self.frame.is_tenancy(self.tenancy)
    }

    /// Whether the session may change the block without its lock while it is busy.
    #[inline(always)]
    pub fn is_own(&self) -> bool {
        self.flags & OWN != 0
    }

    /// Whether the store has no copy of the block.
    #[inline(always)]
    pub fn is_dirty(&self) -> bool {
        self.frame.dirty.load(Relaxed)
    }

    /// Whether nodes of the block were freed before.
    #[inline(always)]
    pub fn has_checks(&self) -> bool {
        self.checks != 0
    }

    /// Whether all nodes of the block have one size.
    #[inline(always)]
    pub fn is_equal(&self) -> bool {
        self.flags & HEADERS == 0
    }

    /// Memory at so many bytes from the first place.
    #[inline(always)]
    fn at(&self, offset: isize) -> NonNull<u8> {
        // SAFETY: every caller stays within the frame: places are below `places`, and starts and checks have room for as many.
        unsafe { self.nodes.offset(offset) }
    }

    /// The word with the bit that says whether a node starts at a place, and the bit.
    #[inline(always)]
    pub fn start(&self, place: u16) -> (&'c AtomicU64, u64) {
        let at = self.at(self.starts as isize + (usize::from(place) / 64 * 8) as isize);
        // SAFETY: starts begin at a multiple of eight and have a bit for each place.
        (unsafe { at.cast().as_ref() }, 1 << (place % 64))
    }

    /// The check of a place; there are checks.
    #[inline(always)]
    pub fn check(&self, place: u16) -> &'c AtomicU8 {
        // SAFETY: one byte for each place.
        unsafe { self.at(self.checks as isize + usize::from(place) as isize).cast().as_ref() }
    }

    /// As `find`, a node whose stripe nobody holds, and the stripe's sequence.
    #[inline(always)]
    pub fn find_free(&self, handle: Handle) -> Option<(Spot, u32)> {
        let sequence = self.frame.stripe(handle.place()).sequence()?;
        Some((self.find(handle)?, sequence))
    }

    /// A header that may begin at an odd address.
    #[cold]
    fn odd_header(&self, at: usize) -> u16 {
        // SAFETY: both within the block.
        let byte = |i: usize| unsafe { self.at((at + i) as isize).cast::<AtomicU8>().as_ref() }.load(Relaxed);
        u16::from_le_bytes([byte(0), byte(1)])
    }

    /// The live node of a handle that this way leads to, if there is one as far as can be seen: true only if the way is good afterwards, and the node's stripe was free.
    #[inline(always)]
    pub fn find(&self, handle: Handle) -> Option<Spot> {
        let place = handle.place();
        if u32::from(place) >= self.places {
            return None;
        }
        let (word, bit) = self.start(place);
        if word.load(Relaxed) & bit == 0 {
            return None;
        }
        let check = if self.has_checks() { self.check(place).load(Relaxed) } else { 0 };
        if check != handle.check() {
            return None;
        }
        let at = usize::from(place) * self.stride as usize;
        if self.is_equal() {
            return Some(Spot { bytes: self.at(at as isize), len: self.len as usize });
        }
        if at < HEADER {
            return None;
        }
        let header = if self.stride > 1 {
            // SAFETY: within the block, at an even address since nodes lie at even ones.
            unsafe { self.at((at - HEADER) as isize).cast::<AtomicU16>().as_ref() }.load(Relaxed).to_le()
        } else {
            self.odd_header(at - HEADER)
        };
        let len = mixed::node_len(header)?;
        (at + len <= self.len as usize).then(|| Spot { bytes: self.at(at as isize), len })
    }
}

impl Way<'_> {
    /// Whether a node seems to start at the handle's place, with the handle's check.
    pub fn places_have(&self, handle: Handle) -> bool {
        let place = handle.place();
        u32::from(place) < self.places && {
            let (word, bit) = self.start(place);
            let check = if self.has_checks() { self.check(place).load(Relaxed) } else { 0 };
            word.load(Relaxed) & bit != 0 && check == handle.check()
        }
    }

    /// Whether a node of the block remains when one is freed.
    #[inline(always)]
    pub fn has_others(&self) -> bool {
        self.block.live.load(Relaxed) > 1
    }

    /// Frees a live node of the block; whether the block is to be listed by its room. For who has the right to change it.
    #[inline(always)]
    pub fn free(&self, handle: Handle, spot: Spot, sequence: u32, block_size: usize) -> Result<bool, Error> {
        let (place, block) = (handle.place(), self.block);
        let stripe = self.frame.stripe(place);
        stripe.hold(sequence);
        let (word, bit) = self.start(place);
        word.store(word.load(Relaxed) & !bit, Relaxed);
        let (freed, relist);
        if self.is_equal() {
            zero(spot);
            relist = gets_room(block, Some(self.places), block_size, 1);
            add(&block.pending, 1);
            freed = Ok(0);
        } else {
            freed = self.free_extent(spot);
            let taken = freed.unwrap_or(0) as u32;
            relist = gets_room(block, None, block_size, taken);
            add(&block.pending, taken);
            add(&block.free, taken);
            subtract(&block.bytes, spot.len as u32);
        }
        stripe.release();
        subtract(&block.live, 1);
        freed?;
        Ok(relist)
    }

    /// Makes a node of a block of nodes of different sizes a free extent, as [`Mixed::free`] does; what it took.
    #[inline(always)]
    fn free_extent(&self, spot: Spot) -> Result<usize, Error> {
        let taken = (spot.len + HEADER + self.stride as usize - 1) & !(self.stride as usize - 1);
        let units = taken >> self.stride.trailing_zeros();
        if self.stride == 1 || units >= UNITS.into() {
            let place = spot.bytes.addr().get() - self.nodes.addr().get();
            return Ok(self.mixed().free(place, spot.len)?);
        }
        // SAFETY: the node's header, at an even address since nodes lie at even ones.
        let header: &AtomicU16 = unsafe { spot.bytes.sub(HEADER).cast().as_ref() };
        header.store((FREE | USED | units as u16).to_le(), Relaxed);
        Ok(taken)
    }

    /// The block of nodes of different sizes.
    #[cold]
    fn mixed(&self) -> Mixed {
        let bytes = self.len as usize;
        // SAFETY: the block's bytes, in a frame.
        let image = unsafe { Image::new(self.nodes, bytes) };
        Mixed::new(image, mixed::Shape::new(bytes, self.stride as usize))
    }
}

/// Makes a node zeros.
#[inline(always)]
fn zero(spot: Spot) {
    let Spot { bytes, len } = spot;
    // Most are short, and begin at a multiple of eight.
    if len <= 64 && len.is_multiple_of(8) && bytes.addr().get().is_multiple_of(8) {
        for i in (0..len).step_by(8) {
            // SAFETY: aligned and within the node, whose stripe is held. Volatile, lest it becomes a call.
            unsafe { bytes.add(i).cast::<u64>().write_volatile(0) };
        }
    } else {
        // SAFETY: the node's bytes, whose stripe is held.
        unsafe { bytes.write_bytes(0, len) };
    }
}

impl Core {
    /// The way to a block, which is brought back if need be.
    pub fn way_to(&self, me: u16, handle: Handle) -> Result<Way<'_>, Error> {
        let number = handle.block();
        let block = self.blocks.get(number).ok_or(Error::Stale)?;
        loop {
            let state = block.state();
            let frame = match state.place() {
                Place::Resident(frame) => self.frames.get(frame).ok_or(Error::Damaged)?,
                Place::Vacant => return Err(Error::Stale),
                Place::Absent => {
                    self.bring(me, handle)?;
                    continue;
                }
            };
            let Some(tenancy) = frame.tenancy() else {
                // It is about to leave: who waits for its lock knows more.
                self.bring(me, handle)?;
                continue;
            };
            let way = self.way(me, number, tenancy, frame, block);
            fence(Acquire);
            if block.is_still(state) && frame.is_tenancy(tenancy) {
                return way;
            }
        }
    }

    /// The way to a block in this frame; true if the tenancy is the same afterwards.
    fn way<'c>(
        &'c self,
        me: u16,
        number: u32,
        tenancy: u64,
        frame: &'c Frame,
        block: &'c Block,
    ) -> Result<Way<'c>, Error> {
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        let marks = shape.marks(self.options.block_size);
        let (first, stride, len, starts, headers) = match shape {
            Shape::Mixed(shape) => {
                (0, shape.align(), shape.total_units() * shape.align(), marks.starts_at(), HEADERS)
            }
            Shape::Equal(shape) => (shape.first(), shape.stride(), shape.len as usize, 0, 0),
        };
        let checks = if block.marked.load(Relaxed) { (marks.checks_at() - first) as i32 } else { 0 };
        // In a paranoid heap every change is made with a claim.
        let is_own = me != 0 && frame.owner.load(Relaxed) == me && !self.options.paranoid;
        let own = if is_own { OWN } else { 0 };
        Ok(Way {
            key: Handle::key_of(number, block.incarnation.load(Relaxed)),
            tenancy,
            frame,
            block,
            // SAFETY: the first place is within the frame.
            nodes: unsafe { frame.base().add(first) },
            stride: stride as u32,
            len: len as u32,
            places: shape.places() as u32,
            starts: starts as i32 - first as i32,
            checks,
            flags: own | headers,
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
