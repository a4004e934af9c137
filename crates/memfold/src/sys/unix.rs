//! mmap and madvise; futex on Linux.

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU32;
use std::sync::OnceLock;

use super::{SystemMemory, touch};
use crate::store::Memory;

static PAGE: OnceLock<usize> = OnceLock::new();

/// Maps fresh zero pages, at `at` if it is not null.
fn map(at: *mut u8, bytes: usize) -> Option<NonNull<u8>> {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE | fixed;
    // SAFETY: a new mapping, or one that replaces pages of our own.
    let mapped = unsafe { libc::mmap(at.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { None } else { NonNull::new(mapped.cast()) }
}

/// Makes the pages at these addresses resident.
pub fn fill_in(addresses: core::ops::Range<usize>) {
    #[cfg(target_os = "linux")]
    {
        let page = SystemMemory.page_size();
        let start = addresses.start / page * page;
        let bytes = addresses.end.next_multiple_of(page) - start;
        // SAFETY: populating changes no contents, wherever it is.
        unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_POPULATE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = addresses;
}

/// Bytes of the pages at these addresses that are in memory.
pub fn resident_bytes(addresses: core::ops::Range<usize>) -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        let page = SystemMemory.page_size();
        let mut resident = 0;
        let mut pages = [0u8; 256];
        let mut at = addresses.start / page * page;
        while at < addresses.end {
            let bytes = (addresses.end - at).next_multiple_of(page).min(pages.len() * page);
            // SAFETY: the kernel writes a byte for each page; where nothing is mapped it returns an error.
            let failed = unsafe { libc::mincore(at as *mut _, bytes, pages.as_mut_ptr()) } != 0;
            if failed {
                return None;
            }
            resident += pages[..bytes / page].iter().filter(|&&page| page & 1 != 0).count() * page;
            at += bytes;
        }
        Some(resident)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = addresses;
        None
    }
}

// SAFETY: mmap and madvise do what the trait asks for: a private mapping is zeroed, and nobody else uses it.
unsafe impl Memory for SystemMemory {
    fn page_size(&self) -> usize {
        // SAFETY: no preconditions.
        *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.try_into().unwrap_or(4096))
    }

    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        let start = map(ptr::null_mut(), bytes)?;
        // A huge page would make more memory resident than was asked for.
        #[cfg(target_os = "linux")]
        // SAFETY: our own mapping; the call changes no contents.
        let _ = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Some(start)
    }

    // SAFETY: the caller guarantees what `Memory` says; so for the functions below.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: our own pages; populating changes no contents.
            if unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0 {
                return true;
            }
            // Before Linux 5.14 there is no such advice.
            if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
                return false;
            }
        }
        // SAFETY: our own writable pages that hold nothing yet.
        unsafe { touch(start, bytes, self.page_size()) };
        true
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        #[cfg(target_os = "linux")]
        // SAFETY: our own pages; nobody needs their content.
        if unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) } == 0 {
            return;
        }
        // Mapping anew releases the old pages on every system.
        map(start.as_ptr(), bytes);
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: a mapping of our own that is no longer used.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }

    #[cfg(target_os = "linux")]
    fn wait(&self, word: &AtomicU32, value: u32) {
        let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel only reads the word, which outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, value, ptr::null::<libc::timespec>()) };
    }

    #[cfg(target_os = "linux")]
    fn wake(&self, word: &AtomicU32) {
        let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel only takes the word's address.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, 1) };
    }

    #[cfg(not(target_os = "linux"))]
    fn wait(&self, word: &AtomicU32, value: u32) {
        let _ = (word, value);
        std::thread::yield_now();
    }
}
