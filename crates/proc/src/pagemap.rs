//! The kernel's search for resident pages of a process (PAGEMAP_SCAN, Linux 6.7).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A range of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Region {
    /// The address of the first page.
    pub start: u64,
    /// The address after the last page.
    pub end: u64,
    /// The kernel's categories of these pages.
    categories: u64,
}

impl Region {
    /// A range that was found in another way.
    pub fn new(start: u64, end: u64) -> Self {
        Region { start, end, categories: 0 }
    }
}

/// Whether the error means that this kernel has no such search.
pub fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL))
}

/// The argument of the kernel's search for pages (`struct pm_scan_arg`).
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    wanted: u64,
}

/// Searches for pages that are present, do not belong to a file, and are not the zero page. Returns the number of
/// regions found, and where the search ended.
pub fn scan(pagemap: &File, start: u64, end: u64, found: &mut [Region]) -> io::Result<(usize, u64)> {
    const SCAN: std::ffi::c_ulong = 0xC060_6610;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const ZERO: u64 = 1 << 5;
    let mut argument = Scan {
        size: size_of::<Scan>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        regions: found.as_mut_ptr() as u64,
        regions_len: found.len() as u64,
        max_pages: 0,
        inverted: FILE | ZERO,
        mask: FILE | PRESENT | ZERO,
        any_of: 0,
        wanted: PRESENT,
    };
    // SAFETY: the structure is that of the call, and gives the length of the array that the kernel fills.
    let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), SCAN as _, &mut argument) };
    let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
    Ok((count.min(found.len()), argument.walk_end))
}
