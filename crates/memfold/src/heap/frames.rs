//! Frames: memory for blocks while they are uncompressed.
//!
//! ```text
//!   frame   | image of the block | room for its marks |      `stride` bytes, in reservations of many
//! ```
//!
//! A frame has memory for as much of that as its blocks need: of a block without marks, or whose one node fills it, nothing behind its image.
//!
//! A frame's memory stays readable for as long as the heap lives, whatever it holds: readers take no lock. They remember the frame's
//! tenancy and the sequence of a stripe, look, and look again whether both are the same; if not, what they read is worth nothing.
//!
//! The **tenancy** is another one whenever a block comes or goes, gets another owner or other marks: odd while a block is there, even while
//! none is. What was found out about a block in a tenancy holds as long as it is the same.
//!
//! The **owner** is the session that may change the block without its lock, see `claim.rs`.
//!
//! A **stripe** stands for the nodes at one in [`STRIPES`] places. Its sequence is odd while one of them is written or freed, and another
//! afterwards. So writers of different nodes mostly don't wait for each other. Only who has the right to change the block takes one.

use std::hint;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*, fence,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::vec::Vec;

use super::layout::image::Image;
use super::policy::Uses;
use super::segments::Segments;
use crate::SystemMemory;
use crate::store::Memory;

/// Stripes of a frame.
pub const STRIPES: usize = 8;
/// Bytes of a reservation at least.
const RESERVATION: usize = 4 << 20;
/// How often a waiter looks before it lets others run.
const SPINS: u32 = 200;

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
    /// How often the owner was another one.
    pub owners: AtomicU8,
    /// Pages from the first on that it has memory for, if it is one of whole pages.
    pages: AtomicU16,
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
            pages: AtomicU16::new(0),
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

/// All frames of a heap.
pub struct Frames {
    list: Segments<Frame>,
    stride: usize,
    page: usize,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    count: u32,
    /// Address and bytes of each reservation; frames of one follow each other.
    reservations: Vec<(usize, usize)>,
    /// Bytes of the last one that have become frames, and that are committed.
    used: usize,
    committed: usize,
    /// In all.
    total_committed: u64,
}

impl Frames {
    /// None yet; each will have `bytes`.
    pub fn new(bytes: usize) -> Self {
        let page = SystemMemory.page_size();
        // Frames of whole pages can be given back one by one.
        let stride = if bytes > page { bytes.next_multiple_of(page) } else { bytes.next_multiple_of(64) };
        Frames { list: Segments::new(), stride, page, made: Mutex::default() }
    }

    /// Bytes of a frame.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The frame with that number, which was given out by [`Frames::make`].
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Frame> {
        self.list.get(number)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, without memory yet if it is one of whole pages; `None` if the system has none.
    pub fn make(&self) -> Option<u32> {
        let page = SystemMemory.page_size();
        let mut made = self.made();
        let number = made.count;
        let frame = self.list.make(number, Frame::new)?;
        if made.reservations.last().is_none_or(|&(_, bytes)| bytes - made.used < self.stride) {
            let bytes = RESERVATION.max(self.stride).next_multiple_of(page);
            let start = SystemMemory.reserve(bytes)?;
            made.reservations.push((start.as_ptr().expose_provenance(), bytes));
            (made.used, made.committed) = (0, 0);
        }
        let start = made.reservations.last()?.0;
        let end = (made.used + self.stride).next_multiple_of(page);
        if end > made.committed && !self.can_shrink() {
            let from = NonNull::new(ptr::with_exposed_provenance_mut(start + made.committed))?;
            // SAFETY: pages of our reservation that are not committed yet.
            if !unsafe { SystemMemory.commit(from, end - made.committed) } {
                return None;
            }
            made.total_committed += (end - made.committed) as u64;
            made.committed = end;
        }
        frame.base.store(ptr::with_exposed_provenance_mut(start + made.used), Release);
        made.used += self.stride;
        made.count += 1;
        Some(number)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.made().count
    }

    /// Whether memory of single frames can be given back.
    pub fn can_shrink(&self) -> bool {
        self.stride.is_multiple_of(self.page)
    }

    /// Sees to it that a frame has memory for so many bytes; false if the system has none. For who has the frame for himself, or its block's lock.
    #[inline]
    pub fn provide(&self, frame: &Frame, bytes: usize) -> bool {
        bytes <= usize::from(frame.pages.load(Relaxed)) * self.page
            || !self.can_shrink()
            || self.commit(frame, bytes)
    }

    #[cold]
    fn commit(&self, frame: &Frame, bytes: usize) -> bool {
        let has = usize::from(frame.pages.load(Relaxed)) * self.page;
        let bytes = bytes.next_multiple_of(self.page);
        let Ok(pages) = u16::try_from(bytes / self.page) else { return false };
        debug_assert!(bytes <= self.stride);
        let mut made = self.made();
        // SAFETY: pages of a reservation that have no memory yet, or were given back.
        let done = unsafe { SystemMemory.commit(frame.base().add(has), bytes - has) };
        if done {
            frame.pages.store(pages, Relaxed);
            made.total_committed += (bytes - has) as u64;
        }
        done
    }

    /// Bytes of a frame that have memory.
    pub fn provided(&self, frame: &Frame) -> usize {
        if self.can_shrink() { usize::from(frame.pages.load(Relaxed)) * self.page } else { self.stride }
    }

    /// Gives the memory of a frame without a block back to the system.
    pub fn shrink(&self, number: u32) {
        let mut made = self.made();
        if let Some(frame) = self.get(number) {
            let bytes = usize::from(frame.pages.swap(0, Relaxed)) * self.page;
            // SAFETY: whole pages of a reservation; readers who look nevertheless throw away what they see.
            unsafe { SystemMemory.release(frame.base(), bytes) };
            made.total_committed -= bytes as u64;
        }
    }

    /// Bytes of memory: frames, and what describes them.
    pub fn bytes(&self) -> u64 {
        self.made().total_committed + self.list.bytes()
    }
}

impl Uses for Frames {
    fn last(&self, frame: u32) -> u32 {
        self.get(frame).map_or(0, |frame| frame.last.load(Relaxed))
    }

    fn count(&self, frame: u32) -> u32 {
        self.get(frame).map_or(0, |frame| frame.count.load(Relaxed).into())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        for &(start, bytes) in &made.reservations {
            if let Some(start) = NonNull::new(ptr::with_exposed_provenance_mut(start)) {
                // SAFETY: a whole reservation; the heap is gone, and sessions borrow it.
                unsafe { SystemMemory.unreserve(start, bytes) };
            }
        }
    }
}
