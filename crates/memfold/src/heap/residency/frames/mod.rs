//! Frames: memory for blocks while they are uncompressed.
//!
//! A frame's memory (`residency/frames/memory.rs`) stays readable for as long as the heap lives, whatever it holds: readers take no lock. They remember the frame's
//! tenancy and the sequence of a stripe, look, and look again whether both are the same; if not, what they read is worth nothing.
//!
//! The **tenancy** is another one whenever a block comes or goes, gets another owner or other marks: odd while a block is there, even while
//! none is. What was found out about a block in a tenancy holds as long as it is the same.
//!
//! The **owner** is the session that may change the block without its lock, see `sync/claim.rs`.
//!
//! A **stripe** stands for the nodes at one in [`STRIPES`] places. Its sequence is odd while one of them is written or freed, and another
//! afterwards. So writers of different nodes mostly don't wait for each other. Only who has the right to change the block takes one.

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
/// How often a waiter looks before it lets others run.
const SPINS: u32 = 200;
/// How often a block can get another owner before it is shared.
const MOST_OWNERS: u8 = 4;
/// After so many claims in a row by one session a shared block is its own: to take it over costs as much as some
/// tens of claims.
const IN_A_ROW: u8 = 64;

/// One frame, a line of the processor's cache. Its number is that in [`Frames`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Frame {
    tenancy: AtomicU64,
    stripes: [AtomicU32; STRIPES],
    base: AtomicPtr<u8>,
    /// Whose block is in it; 0 if none is.
    pub block: AtomicU32,
    /// Uses, by the heap's clock: the last, and how many times of the clock had one.
    last: AtomicU32,
    count: AtomicU16,
    /// The session that may change the block without its lock; 0 for none.
    pub owner: AtomicU16,
    /// It was changed since the store has a copy.
    pub dirty: AtomicBool,
    /// How often the owner changed; for a shared block, [`MOST_OWNERS`] and how often in a row one session has
    /// claimed it.
    owners: AtomicU8,
    /// The low byte of that session's number.
    claimer: AtomicU8,
    /// What it has memory for, see `residency/frames/memory.rs`.
    has: AtomicU8,
}

const _: () = assert!(size_of::<Frame>() == 64);

impl Frame {
    /// Without memory.
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

    /// Its memory.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        let base = self.base.load(Relaxed);
        debug_assert!(!base.is_null());
        // SAFETY: set before the frame's number is given out, and never changed.
        unsafe { NonNull::new_unchecked(base) }
    }

    /// Its first `len` bytes.
    #[inline]
    pub fn image(&self, len: usize) -> Image {
        // SAFETY: a frame's memory lives as long as the heap and begins at a multiple of 64; plain writes happen under
        // an odd stripe, where no node lives, or while no block is there.
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

    /// A block is there, and ready; for who has its lock.
    pub fn begin(&self, block: u32, owner: u16, dirty: bool, now: u32) {
        self.block.store(block, Relaxed);
        self.owner.store(owner, Relaxed);
        self.owners.store(0, Relaxed);
        self.dirty.store(dirty, Relaxed);
        self.last.store(now, Relaxed);
        self.count.store(1, Relaxed);
        self.advance(true);
    }

    /// Something about the block is another from here on; for who has its lock.
    pub fn change(&self) {
        self.advance(true);
    }

    /// The block is about to leave: what is written to the frame afterwards is written after that; for who has its lock.
    pub fn end(&self) {
        self.advance(false);
        fence(SeqCst);
    }

    fn advance(&self, there: bool) {
        let tenancy = self.tenancy.load(Relaxed);
        let next = (tenancy + 1) | 1;
        self.tenancy.store(next + u64::from(!there), Release);
    }

    /// A session claims a block that another owns. Returns who owns it next, 0 for nobody. For who has its lock.
    pub fn note_owner(&self, me: u16) -> u16 {
        let owners = self.owners.load(Relaxed) + 1;
        self.owners.store(owners, Relaxed);
        self.claimer.store(me as u8, Relaxed);
        if owners <= MOST_OWNERS { me } else { 0 }
    }

    /// The same, of a block without an owner.
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

    /// The block was used. Written once for each time of the clock: readers on two processors do not take the line from each other.
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

    /// Lets go of stripes that guards hold; for who knows that there are no guards.
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
    /// The sequence, if nobody holds the stripe.
    #[inline(always)]
    pub fn sequence(self) -> Option<u32> {
        let sequence = self.0.load(Acquire);
        (sequence & 1 == 0).then_some(sequence)
    }

    /// The sequence, or, if somebody holds the stripe, one that it has no more: then it is not still that afterwards.
    #[inline(always)]
    pub fn sequence_or_past(self) -> u32 {
        self.0.load(Acquire) & !1
    }

    /// Whether the sequence is as it was; what was read before is read before this, and before what is read next.
    #[inline(always)]
    pub fn is_still(self, sequence: u32) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == sequence
    }

    /// Takes it; for who has the right to change the block, and found that nobody holds it.
    #[inline(always)]
    pub fn hold(self, sequence: u32) {
        self.0.store(sequence.wrapping_add(1), Relaxed);
        // Writes come after the odd sequence.
        fence(Release);
    }

    /// Lets go of it; for who has taken it.
    #[inline(always)]
    pub fn release(self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Release);
    }

    /// As `release`, for who knows the sequence that it had before it was taken.
    #[inline(always)]
    pub fn release_from(self, sequence: u32) {
        self.0.store(sequence.wrapping_add(2), Release);
    }
}

/// Waits a little, and longer the more often.
pub fn pause(turn: &mut u32) {
    *turn += 1;
    if *turn < SPINS {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
}
