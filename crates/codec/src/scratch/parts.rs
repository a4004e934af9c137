//! Divides the bytes of a scratch into slices of numbers.
//!
//! ```text
//! +---------------+------+----------------+------+---
//! | first, n * T  | pad  | second, m * U  | pad  | ...     each from a multiple of 64
//! +---------------+------+----------------+------+---
//! ```
//!
//! The content is arbitrary: fill a part before reading it.

use crate::Scratch;

/// Number types for which every bit pattern is valid.
///
/// # Safety
/// The type has no padding, no invalid pattern, and needs no alignment above
/// [`Scratch::ALIGN`].
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers have neither padding nor invalid patterns.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}

/// Bytes that a part of `count` numbers takes.
pub(crate) const fn part<T: Plain>(count: usize) -> usize {
    (count * size_of::<T>()).next_multiple_of(Scratch::ALIGN)
}

/// Consecutive parts of some bytes.
pub(crate) struct Parts<'a> {
    rest: &'a mut [u8],
}

impl<'a> Parts<'a> {
    /// The parts of `bytes`, which must begin at a multiple of [`Scratch::ALIGN`].
    ///
    /// # Panics
    /// If `bytes` begins elsewhere.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        assert!(
            bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(Scratch::ALIGN),
            "parts are not aligned"
        );
        Parts { rest: bytes }
    }

    /// The next part.
    ///
    /// # Panics
    /// If fewer than `part::<T>(count)` bytes are left.
    pub(crate) fn take<T: Plain>(&mut self, count: usize) -> &'a mut [T] {
        let (taken, rest) = core::mem::take(&mut self.rest).split_at_mut(part::<T>(count));
        self.rest = rest;
        // SAFETY: `taken` has at least `count` times the size of T. It begins at
        // a multiple of 64, since the first part does and all lengths are
        // multiples. Any bytes are a T, and any T is bytes.
        unsafe { core::slice::from_raw_parts_mut(taken.as_mut_ptr().cast::<T>(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        #[repr(align(64))]
        struct Aligned([u8; 512]);
        let mut memory = Aligned([0; 512]);
        let size = part::<u8>(3) + part::<u16>(0) + part::<u32>(17) + part::<u64>(8);
        assert_eq!(size, 64 + 128 + 64);
        let mut parts = Parts::new(&mut memory.0[..size]);
        let (a, b) = (parts.take::<u8>(3), parts.take::<u16>(0));
        let (c, d) = (parts.take::<u32>(17), parts.take::<u64>(8));
        a.fill(1);
        c.fill(2);
        d.fill(3);
        assert!(a.iter().all(|&n| n == 1) && b.is_empty() && c.iter().all(|&n| n == 2));
        assert!(d.iter().all(|&n| n == 3) && memory.0[size..].iter().all(|&n| n == 0));
    }
}
