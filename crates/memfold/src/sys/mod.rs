//! The system's memory, for programs that have one: everything that this
//! crate asks of an operating system stands here.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

mod huge;

/// Memory straight from the system, past the program's allocator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemMemory;

impl SystemMemory {
    /// The same as `SystemMemory`.
    pub const fn new() -> Self {
        SystemMemory
    }

    /// Lets the program's own memory at these addresses be in memory, as far as the system has it; what it holds stays.
    pub fn fill_in(self, addresses: core::ops::Range<usize>) {
        os::fill_in(addresses);
    }

    /// How many bytes of the program's own memory at these addresses are in memory, and not only promised; all of them where the system does not
    /// tell.
    pub fn resident_bytes(self, addresses: core::ops::Range<usize>) -> usize {
        let all = addresses.len();
        os::resident_bytes(addresses).map_or(all, |resident| resident.min(all))
    }
}

/// Writes a zero to each page, which makes it resident: what is left where
/// the system has no call for it.
///
/// # Safety
///
/// The pages are writable, and the caller's own.
unsafe fn touch(start: core::ptr::NonNull<u8>, bytes: usize, page: usize) {
    for offset in (0..bytes).step_by(page) {
        // SAFETY: within the range; volatile so that it is not left out.
        unsafe { start.as_ptr().add(offset).write_volatile(0) };
    }
}
