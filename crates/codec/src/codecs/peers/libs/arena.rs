//! An allocator for C-like libraries: it hands out consecutive pieces of a scratch, none of which is freed
//! before the call ends.

use core::ffi::c_void;

/// The memory that is left.
pub(super) struct Arena {
    next: *mut u8,
    left: usize,
}

/// The alignment of each piece.
pub(super) const ALIGN: usize = 64;

impl Arena {
    /// An arena in memory that must stay borrowed while the pieces are used. It begins at a multiple of
    /// [`ALIGN`].
    pub(super) fn new(memory: &mut [u8]) -> Self {
        Arena { next: memory.as_mut_ptr(), left: memory.len() }
    }

    /// The `opaque` pointer for the library.
    pub(super) fn opaque(&mut self) -> *mut c_void {
        (self as *mut Arena).cast()
    }

    /// A piece, or null.
    pub(super) fn piece(&mut self, count: usize, size: usize) -> *mut c_void {
        let Some(size) = count.checked_mul(size).and_then(|size| size.checked_next_multiple_of(ALIGN)) else {
            return core::ptr::null_mut();
        };
        if size > self.left {
            return core::ptr::null_mut();
        }
        let piece = self.next;
        self.next = self.next.wrapping_add(size);
        self.left -= size;
        piece.cast()
    }
}
