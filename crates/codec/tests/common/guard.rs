//! Memory between two inaccessible pages, so that reading or writing one byte outside of it ends the process
//! at once.

use std::ptr::NonNull;

/// Where in its pages the memory lies.
#[derive(Debug, Clone, Copy)]
pub enum Against {
    /// The first byte follows a forbidden page.
    Start,
    /// A forbidden page follows the last byte.
    End,
}

/// Guarded memory of up to `capacity` bytes, reused for many blocks.
pub struct Guarded {
    base: NonNull<u8>,
    page: usize,
    capacity: usize,
}

impl Guarded {
    /// Room for `capacity` bytes, rounded up to whole pages.
    pub fn new(capacity: usize) -> Self {
        // SAFETY: the call returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let capacity = capacity.max(1).next_multiple_of(page);
        // SAFETY: a new private mapping does not affect existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                capacity + 2 * page,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(base != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let base = NonNull::new(base.cast::<u8>()).expect("not at address zero");
        // SAFETY: the pages between the first and the last of this mapping.
        let done = unsafe {
            libc::mprotect(base.as_ptr().add(page).cast(), capacity, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert!(done == 0, "mprotect: {}", std::io::Error::last_os_error());
        Guarded { base, page, capacity }
    }

    /// `len` bytes against one of the forbidden pages.
    pub fn slice(&mut self, len: usize, against: Against) -> &mut [u8] {
        assert!(len <= self.capacity);
        let offset = match against {
            Against::Start => self.page,
            Against::End => self.page + self.capacity - len,
        };
        // SAFETY: inside the accessible pages, which are initialised, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) }
    }

    /// A copy of `bytes` against one of the forbidden pages.
    pub fn copy(&mut self, bytes: &[u8], against: Against) -> &[u8] {
        let slice = self.slice(bytes.len(), against);
        slice.copy_from_slice(bytes);
        slice
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of which nothing is borrowed.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.capacity + 2 * self.page) };
    }
}
