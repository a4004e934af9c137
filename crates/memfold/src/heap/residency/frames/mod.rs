//! Frames: memory for blocks while they are uncompressed.
//!
//! A frame's memory (`residency/frames/memory.rs`) stays readable as long as the heap lives, with any
//! content: readers take no lock. A reader notes the frame's tenancy and the sequence of a stripe, reads, and
//! then checks that both are unchanged; if not, it discards what it read.
//!
//! The **tenancy** changes whenever a block enters or leaves the frame, or gets another owner or other marks.
//! It is odd while a block is there, even while none is. Knowledge about a block from one tenancy is valid
//! until the tenancy changes.
//!
//! The **owner** is the session that may change the block without its lock, see `sync/claim.rs`.
//!
//! A **stripe** stands for the nodes at one in [`STRIPES`] places. Its sequence is odd while one of these
//! nodes is written or freed, and has a new even value afterwards. So writers of different nodes seldom wait
//! for each other. Only a thread with the right to change the block takes a stripe.

mod area;
mod memory;
#[cfg(test)]
mod tests;

use std::hint;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*, fence,
};
use std::thread;

pub use self::memory::Frames;
use crate::heap::block::layout::image::Image;

/// Stripes of a frame.
pub const STRIPES: usize = 8;
/// How often a waiter spins before it yields.
const SPINS: u32 = 200;
/// How often a block can get another owner before it is shared.
const MOST_OWNERS: u8 = 4;
/// After this many claims in a row by one session, a shared block becomes its own: a revocation costs as much
/// as some tens of claims.
const IN_A_ROW: u8 = 64;

/// One frame, a cache line. Its number is its place in [`Frames`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Frame {
    tenancy: AtomicU64,
    stripes: [AtomicU32; STRIPES],
    base: AtomicPtr<u8>,
    /// The block in it; 0 for none.
    pub block: AtomicU32,
    /// Uses, by the heap's clock: the last one, and the number of clock values with a use.
    last: AtomicU32,
    count: AtomicU16,
    /// The session that may change the block without its lock; 0 for none.
    pub owner: AtomicU16,
    /// The block has changed since the store got a copy.
    pub dirty: AtomicBool,
    /// How often the owner changed. For a shared block: [`MOST_OWNERS`] plus the number of times in a row
    /// that one session has claimed it.
    owners: AtomicU8,
    /// The low byte of that session's number.
    claimer: AtomicU8,
    /// Which memory it has, see `residency/frames/memory.rs`.
    has: AtomicU8,
}

const _: () = assert!(size_of::<Frame>() == 64);

impl Frame {
    /// A frame without memory.
    pub fn new() -> Self {
        Frame {
            tenancy: AtomicU64::new(0),
            stripes: [const { AtomicU32::new(0) }; STRIPES],
            base: AtomicPtr::new(ptr::null_mut()),
            block: AtomicU32::new(0),
            last: AtomicU32::new(0),
            count: AtomicU16::new(0),
            owner: AtomicU16::new(0),
            dirty: AtomicBool::new(false),
            owners: AtomicU8::new(0),
            claimer: AtomicU8::new(0),
            has: AtomicU8::new(0),
        }
    }

    /// The frame's memory.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        let base = self.base.load(Relaxed);
        debug_assert!(!base.is_null());
        // SAFETY: set before the frame's number is given out, and never changed.
        unsafe { NonNull::new_unchecked(base) }
    }

    /// The first `len` bytes of the frame's memory.
    #[inline]
    pub fn image(&self, len: usize) -> Image {
        // SAFETY: a frame's memory lives as long as the heap and begins at a multiple of 64; plain writes
        // happen under an odd stripe, where no node lives, or while no block is there.
        unsafe { Image::new(self.base(), len) }
    }

    /// The tenancy, if a block is there.
    #[inline]
    pub fn tenancy(&self) -> Option<u64> {
        let tenancy = self.tenancy.load(Acquire);
        (tenancy & 1 != 0).then_some(tenancy)
    }

    /// Whether the tenancy is this one.
    #[inline(always)]
    pub fn is_tenancy(&self, tenancy: u64) -> bool {
        self.tenancy.load(Relaxed) == tenancy
    }

    /// Begins a tenancy: the block is there, and ready. The caller holds the block's lock.
    pub fn begin(&self, block: u32, owner: u16, dirty: bool, now: u32) {
        self.block.store(block, Relaxed);
        self.owner.store(owner, Relaxed);
        self.owners.store(0, Relaxed);
        self.dirty.store(dirty, Relaxed);
        self.last.store(now, Relaxed);
        self.count.store(1, Relaxed);
        self.advance(true);
    }

    /// Changes the tenancy: something about the block is different from now on. The caller holds its lock.
    pub fn change(&self) {
        self.advance(true);
    }

    /// Ends the tenancy: the block is about to be evicted. Later writes to the frame are ordered after this.
    /// The caller holds its lock.
    pub fn end(&self) {
        self.advance(false);
        fence(SeqCst);
    }

    fn advance(&self, there: bool) {
        let tenancy = self.tenancy.load(Relaxed);
        let next = (tenancy + 1) | 1;
        self.tenancy.store(next + u64::from(!there), Release);
    }

    /// Notes that a session claims a block that another owns. Returns the next owner, 0 for none. The caller
    /// holds its lock.
    pub fn note_owner(&self, me: u16) -> u16 {
        let owners = self.owners.load(Relaxed) + 1;
        self.owners.store(owners, Relaxed);
        self.claimer.store(me as u8, Relaxed);
        if owners <= MOST_OWNERS { me } else { 0 }
    }

    /// As `note_owner`, for a block without an owner.
    pub fn note_claim(&self, me: u16) -> u16 {
        let owners = self.owners.load(Relaxed);
        if owners <= MOST_OWNERS {
            return self.note_owner(me);
        }
        let is_same = self.claimer.swap(me as u8, Relaxed) == me as u8;
        let in_a_row = if is_same { owners - MOST_OWNERS + 1 } else { 1 };
        let is_its_own = in_a_row > IN_A_ROW;
        self.owners.store(MOST_OWNERS + if is_its_own { 0 } else { in_a_row }, Relaxed);
        if is_its_own { me } else { 0 }
    }

    /// When it was last used, by the clock.
    #[inline]
    pub fn last(&self) -> u32 {
        self.last.load(Relaxed)
    }

    /// Notes a use of the block. The frame is written once for each value of the clock, so readers on two
    /// processors do not take the cache line from each other.
    #[inline]
    pub fn touch(&self, now: u32) {
        if self.last.load(Relaxed) != now {
            self.last.store(now, Relaxed);
            self.count.store(self.count.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// The stripe of a place.
    #[inline(always)]
    pub fn stripe(&self, place: u16) -> Stripe<'_> {
        Stripe(&self.stripes[usize::from(place) % STRIPES])
    }

    /// Releases stripes that forgotten guards hold; the caller knows that there are no guards.
    pub fn let_go(&self) {
        let held = |stripe: &&AtomicU32| stripe.load(Relaxed) & 1 != 0;
        self.stripes.iter().filter(held).for_each(|stripe| Stripe(stripe).release());
    }

    /// Whether a guard holds one of the stripes.
    pub fn is_held(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.load(Acquire) & 1 != 0)
    }
}

/// Stands for some nodes of a block: see the module.
#[derive(Debug, Clone, Copy)]
pub struct Stripe<'f>(&'f AtomicU32);

impl Stripe<'_> {
    /// The sequence, if the stripe is not held.
    #[inline(always)]
    pub fn sequence(self) -> Option<u32> {
        let sequence = self.0.load(Acquire);
        (sequence & 1 == 0).then_some(sequence)
    }

    /// The sequence, or, if the stripe is held, an earlier value, so that a later `is_still` fails.
    #[inline(always)]
    pub fn sequence_or_past(self) -> u32 {
        self.0.load(Acquire) & !1
    }

    /// Whether the sequence is unchanged. Loads before this call are not moved after it, nor later ones
    /// before it.
    #[inline(always)]
    pub fn is_still(self, sequence: u32) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == sequence
    }

    /// Takes the stripe; the caller has the right to change the block, and found the stripe free.
    #[inline(always)]
    pub fn hold(self, sequence: u32) {
        self.0.store(sequence.wrapping_add(1), Relaxed);
        // Writes are ordered after the odd sequence.
        fence(Release);
    }

    /// Releases the stripe, which the caller holds.
    #[inline(always)]
    pub fn release(self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Release);
    }

    /// As `release`, if the caller knows the sequence from before it was taken.
    #[inline(always)]
    pub fn release_from(self, sequence: u32) {
        self.0.store(sequence.wrapping_add(2), Release);
    }
}

/// Turns of waiting for a guard to be dropped, most of which yield to other threads: a fraction of a second.
pub const PATIENCE: u32 = 100_000;

/// Waits a little, and longer each time.
pub fn pause(turn: &mut u32) {
    *turn += 1;
    if *turn < SPINS {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
}
