//! The bytes of a block, as several threads see them.
//!
//! A thread that changes a block has the right to, but readers hold no lock: they read headers, check that
//! nothing has changed meanwhile, and discard what they read if something has. So all bytes that a reader may
//! read while another thread writes them are read and written by atomic operations. These are relaxed, since
//! the stripes of the frame provide the order (`residency/frames`).
//!
//! Offsets come from the bytes themselves, and a C program may have written past its node, so none is
//! trusted. An offset outside the block is [`Damaged`].

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU64,
    Ordering::{Relaxed, Release},
};

/// The block's own bookkeeping contradicts itself: something wrote past a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// The bytes of a block in a frame.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an image is only a reference to memory; its users settle who may change that memory.
unsafe impl Send for Image {}

impl Image {
    /// No bytes.
    pub const NOTHING: Self = Image { base: NonNull::dangling(), len: 0 };

    /// The `len` bytes at `base`.
    ///
    /// # Safety
    /// For as long as the image is used, the bytes are readable and writable memory; `base` is aligned to 64,
    /// and plain writes to bytes that are read here happen only where the reader discards what it read.
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        debug_assert!(base.as_ptr().addr().is_multiple_of(64));
        Image { base, len }
    }

    /// The number of bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// A part of the bytes, which begins at a multiple of eight.
    pub fn part(self, range: Range<usize>) -> Result<Self, Damaged> {
        debug_assert!(range.start.is_multiple_of(8));
        let base = self.place(range.start, range.len())?;
        Ok(Image { base, len: range.len() })
    }

    /// Copies all bytes.
    ///
    /// # Safety
    /// Nobody writes to them meanwhile.
    pub unsafe fn copy_to(self, to: &mut [u8]) -> Result<(), Damaged> {
        if to.len() != self.len {
            return Err(Damaged);
        }
        // SAFETY: both ranges have that length, and the borrow guarantees that they are distinct; the caller
        // guarantees that nobody writes.
        unsafe { self.base.copy_to_nonoverlapping(NonNull::from(to).cast(), self.len) };
        Ok(())
    }

    /// Overwrites all bytes. They belong to nobody else, and the caller holds the block's lock.
    pub fn copy_from(self, from: &[u8]) -> Result<(), Damaged> {
        if from.len() != self.len {
            return Err(Damaged);
        }
        // SAFETY: as above; readers that still read them discard the result.
        unsafe { self.base.copy_from_nonoverlapping(NonNull::from(from).cast(), self.len) };
        Ok(())
    }

    /// The address of the `len` bytes from `at`, which are the block's.
    pub fn place(self, at: usize, len: usize) -> Result<NonNull<u8>, Damaged> {
        if at > self.len || len > self.len - at {
            return Err(Damaged);
        }
        // SAFETY: within the image.
        Ok(unsafe { self.base.add(at) })
    }

    fn word(&self, at: usize) -> Result<&AtomicU64, Damaged> {
        debug_assert!(at.is_multiple_of(8));
        // SAFETY: as for `get16`.
        self.place(at & !7, 8).map(|place| unsafe { place.cast().as_ref() })
    }

    /// Two bytes.
    #[inline]
    pub fn get16(self, at: usize) -> Result<u16, Damaged> {
        let place = self.place(at, 2)?;
        if at.is_multiple_of(2) {
            // SAFETY: two bytes within the image, at an even address; all accesses that may run at the same
            // time are atomic.
            return Ok(unsafe { place.cast::<AtomicU16>().as_ref() }.load(Relaxed).to_le());
        }
        Ok(u16::from_le_bytes([self.get8(at)?, self.get8(at + 1)?]))
    }

    /// Writes two bytes. At an odd offset, readers may see one of them before the other.
    #[inline]
    pub fn set16(self, at: usize, value: u16) -> Result<(), Damaged> {
        let place = self.place(at, 2)?;
        if at.is_multiple_of(2) {
            // SAFETY: as for `get16`.
            unsafe { place.cast::<AtomicU16>().as_ref() }.store(value.to_le(), Relaxed);
            return Ok(());
        }
        let [low, high] = value.to_le_bytes();
        self.set8(at, low)?;
        self.set8(at + 1, high)
    }

    /// Eight bytes at an offset divisible by eight.
    #[inline]
    pub fn get64(self, at: usize) -> Result<u64, Damaged> {
        Ok(self.word(at)?.load(Relaxed))
    }

    /// Writes eight bytes at an offset divisible by eight. Whoever reads them may rely on what was written to
    /// the image before.
    #[inline]
    pub fn set64(self, at: usize, value: u64) -> Result<(), Damaged> {
        self.word(at)?.store(value, Release);
        Ok(())
    }

    /// One byte.
    #[inline]
    pub fn get8(self, at: usize) -> Result<u8, Damaged> {
        // SAFETY: as for `get16`.
        let byte: &AtomicU8 = self.place(at, 1).map(|place| unsafe { place.cast().as_ref() })?;
        Ok(byte.load(Relaxed))
    }

    /// Writes one byte.
    #[inline]
    pub fn set8(self, at: usize, value: u8) -> Result<(), Damaged> {
        // SAFETY: as for `get16`.
        let byte: &AtomicU8 = self.place(at, 1).map(|place| unsafe { place.cast().as_ref() })?;
        byte.store(value, Relaxed);
        Ok(())
    }

    /// Zeroes `len` bytes that belong to no node.
    pub fn zero(self, at: usize, len: usize) -> Result<(), Damaged> {
        let place = self.place(at, len)?;
        // SAFETY: within the image; the caller holds the block's lock, and the bytes belong to no node.
        unsafe { place.write_bytes(0, len) };
        Ok(())
    }
}
