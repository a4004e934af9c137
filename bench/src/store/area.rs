//! Arrays that do not use any of the measured allocators.

use std::ops::{Deref, DerefMut};

/// `n` zeroed values in a separate mapping.
pub struct Area<T> {
    start: *mut T,
    n: usize,
}

// SAFETY: an area owns its values as a boxed slice does.
unsafe impl<T: Send> Send for Area<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Area<T> {}

impl<T> Area<T> {
    /// # Safety
    ///
    /// Zeroed memory is a `T`, and a `T` needs no drop.
    pub unsafe fn new(n: usize) -> Self {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), n * size_of::<T>(), protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Area { start: start.cast(), n }
    }
}

impl<T> Drop for Area<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.start.cast(), self.n * size_of::<T>()) };
    }
}

impl<T> Deref for Area<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `n` values.
        unsafe { std::slice::from_raw_parts(self.start, self.n) }
    }
}

impl<T> DerefMut for Area<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.n) }
    }
}
