//! Frames: memory for blocks while they are uncompressed.
//!
//! ```text
//!   frame   | image of the block | room for its marks |      `stride` bytes, in reservations of many
//! ```
//!
//! A frame's memory stays readable for as long as the heap lives, whatever it holds: readers take no lock. They remember the state of their
//! block and the sequence of a stripe, look, and look again whether both are the same; if not, what they read is worth nothing.
//!
//! A **stripe** stands for the nodes at one in [`STRIPES`] places. Its sequence is odd while one of them is written or freed, or the block
//! leaves, and it is another afterwards. So writers of different nodes mostly don't wait for each other, and a block leaves only
//! when nobody writes to it.

use std::cell::UnsafeCell;
use std::hint;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::vec::Vec;

use super::layout::image::Image;
use super::layout::mixed::Bins;
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

/// Where things lie in a block, for readers: offsets in bytes from the frame's beginning.
///
/// A reader may see parts of one and parts of another, if the block leaves meanwhile: nothing of this is believed before it is known to lie in the frame.
#[derive(Debug, Default)]
pub struct Geometry {
    /// Node n lies at `first + n * stride`.
    pub first: AtomicU32,
    pub stride: AtomicU32,
    /// Bytes of each node; 0 if the header before it says that.
    pub len: AtomicU32,
    pub places: AtomicU32,
    /// Bits that say where nodes are.
    pub starts: AtomicU32,
    /// A byte for each place; 0 if there are none.
    pub checks: AtomicU32,
    /// In the lowest byte.
    pub incarnation: AtomicU32,
}

/// One frame. Its number is that in [`Frames`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Frame {
    stripes: [AtomicU32; STRIPES],
    base: AtomicPtr<u8>,
    /// Whose block is in it; 0 if none is.
    pub block: AtomicU32,
    pub geometry: Geometry,
    /// Uses, by the heap's clock: the last, and how many times of the clock had one.
    last: AtomicU32,
    count: AtomicU32,
    /// It was changed since the store has a copy.
    pub dirty: AtomicBool,
    /// Whether `bins` are the block's.
    listed: AtomicBool,
    /// Free extents of the block; for who has its lock.
    bins: UnsafeCell<Bins>,
}

// SAFETY: all is atomic but for `bins`, which is reached only through `bins()`, whose callers hold the block's lock.
unsafe impl Sync for Frame {}

impl Frame {
    fn new() -> Self {
        Frame {
            stripes: [const { AtomicU32::new(0) }; STRIPES],
            base: AtomicPtr::new(ptr::null_mut()),
            block: AtomicU32::new(0),
            geometry: Geometry::default(),
            last: AtomicU32::new(0),
            count: AtomicU32::new(0),
            dirty: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            bins: UnsafeCell::new(Bins::new()),
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
        // an odd stripe, or where no node lives.
        unsafe { Image::new(self.base(), len) }
    }

    /// The lists of free extents, and whether they are the block's already; from now on they are.
    ///
    /// # Safety
    /// The caller holds the block's lock for as long as it uses them.
    #[expect(clippy::mut_from_ref, reason = "the block's lock makes it the only one")]
    pub unsafe fn bins(&self) -> (&mut Bins, bool) {
        let listed = self.listed.swap(true, Relaxed);
        // SAFETY: the caller's promise.
        (unsafe { &mut *self.bins.get() }, listed)
    }

    /// A block comes: what the frame says of itself is of another one.
    pub fn begin(&self, block: u32, now: u32) {
        self.block.store(block, Relaxed);
        self.last.store(now, Relaxed);
        self.count.store(1, Relaxed);
        self.listed.store(false, Relaxed);
    }

    /// The block was used.
    #[inline]
    pub fn touch(&self, now: u32) {
        // Written once for each time of the clock: readers on two processors do not take the line from each other.
        if self.last.load(Relaxed) != now {
            self.last.store(now, Relaxed);
            self.count.store(self.count.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    #[inline]
    fn stripe(&self, place: u16) -> &AtomicU32 {
        &self.stripes[usize::from(place) % STRIPES]
    }

    /// The sequence of the node's stripe, if nobody writes.
    #[inline]
    pub fn sequence(&self, place: u16) -> Option<u32> {
        let sequence = self.stripe(place).load(Acquire);
        (sequence & 1 == 0).then_some(sequence)
    }

    /// Whether the stripe is as it was; what was read before is read before this.
    #[inline]
    pub fn is_still(&self, place: u16, sequence: u32) -> bool {
        std::sync::atomic::fence(Acquire);
        self.stripe(place).load(Relaxed) == sequence
    }

    /// Takes the node's stripe if nobody has it.
    #[inline]
    pub fn try_hold(&self, place: u16) -> bool {
        let stripe = self.stripe(place);
        let sequence = stripe.load(Relaxed);
        let held =
            sequence & 1 == 0 && stripe.compare_exchange(sequence, sequence + 1, Acquire, Relaxed).is_ok();
        if held {
            // Writes come after the odd sequence.
            std::sync::atomic::fence(Release);
        }
        held
    }

    /// Lets go of the node's stripe.
    #[inline]
    pub fn release(&self, place: u16) {
        let stripe = self.stripe(place);
        stripe.store(stripe.load(Relaxed).wrapping_add(1), Release);
    }

    /// Takes all stripes, or none.
    pub fn try_hold_all(&self) -> bool {
        for place in 0..STRIPES as u16 {
            if !self.try_hold(place) {
                (0..place).for_each(|held| self.release(held));
                return false;
            }
        }
        true
    }

    /// Lets go of all stripes.
    pub fn release_all(&self) {
        (0..STRIPES as u16).for_each(|place| self.release(place));
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
        Frames { list: Segments::new(), stride, made: Mutex::default() }
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

    /// One more; `None` if the system has no memory.
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
        if end > made.committed {
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
        self.get(frame).map_or(0, |frame| frame.count.load(Relaxed))
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
