//! The system's memory, in builds with `std`.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

mod huge;

/// Memory straight from the system, bypassing the program's allocator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemMemory;

impl SystemMemory {
    /// The same as `SystemMemory`.
    pub const fn new() -> Self {
        SystemMemory
    }

    /// Makes the program's own memory at these addresses resident, as far as the system can; its content
    /// stays.
    pub fn fill_in(self, addresses: core::ops::Range<usize>) {
        os::fill_in(addresses);
    }

    /// How many bytes of the program's own memory at these addresses are resident, and not only promised; all
    /// of them if the system does not say.
    pub fn resident_bytes(self, addresses: core::ops::Range<usize>) -> usize {
        let all = addresses.len();
        os::resident_bytes(addresses).map_or(all, |resident| resident.min(all))
    }
}

/// Writes a zero to each page, which makes it resident: the fallback if the system has no call for it.
///
/// # Safety
///
/// The pages are writable, and belong to the caller.
unsafe fn touch(start: core::ptr::NonNull<u8>, bytes: usize, page: usize) {
    for offset in (0..bytes).step_by(page) {
        // SAFETY: within the range; volatile so that it is not optimised away.
        unsafe { start.as_ptr().add(offset).write_volatile(0) };
    }
}
