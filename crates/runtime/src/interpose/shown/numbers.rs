//! The functions that return amounts of memory. Inside of the C library they ask the kernel by one that is not
//! replaced, so each has to be.

use core::ffi::{c_int, c_long};

use crate::interpose::next::{Next, shown};
use crate::kernel::sys::{PAGE, nr};

static SYSINFO: Next = Next::call_of(c"sysinfo", nr::SYSINFO);
static SYSCONF: Next = Next::library(c"sysconf");
static ALL_PAGES: Next = Next::library(c"get_phys_pages");
static FREE_PAGES: Next = Next::library(c"get_avphys_pages");

/// All functions interposed here.
pub static ALL: [&Next; 4] = [&SYSINFO, &SYSCONF, &ALL_PAGES, &FREE_PAGES];

/// The kernel's structure.
#[repr(C)]
pub struct SystemInfo {
    uptime: u64,
    loads: [u64; 3],
    total: u64,
    free: u64,
    shared: u64,
    buffers: u64,
    swap: [u64; 2],
    processes: u16,
    high: [u64; 2],
    unit: u32,
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysinfo(info: *mut SystemInfo) -> c_int {
    // SAFETY: the caller upholds the contract.
    let done = unsafe { SYSINFO.call([info as usize]) as c_int };
    if done == 0
        && let Some(shown) = shown()
    {
        // SAFETY: the kernel has just written it.
        let info = unsafe { &mut *info };
        let unit = u64::from(info.unit.max(1));
        info.total = shown.total / unit;
        info.free = shown.free / unit;
        info.buffers = 0;
        info.high = [0; 2];
    }
    done
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    const PHYS_PAGES: c_int = 85;
    const AVPHYS_PAGES: c_int = 86;
    match name {
        PHYS_PAGES | AVPHYS_PAGES => {
            if let Some(shown) = shown() {
                return pages(if name == PHYS_PAGES { shown.total } else { shown.free });
            }
        }
        _ => {}
    }
    // SAFETY: the caller upholds the contract.
    unsafe { SYSCONF.call([name as usize]) as c_long }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_phys_pages() -> c_long {
    // SAFETY: the caller upholds the contract.
    shown().map_or_else(|| unsafe { ALL_PAGES.call([]) as c_long }, |shown| pages(shown.total))
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_avphys_pages() -> c_long {
    // SAFETY: the caller upholds the contract.
    shown().map_or_else(|| unsafe { FREE_PAGES.call([]) as c_long }, |shown| pages(shown.free))
}

fn pages(bytes: u64) -> c_long {
    (bytes / PAGE as u64) as c_long
}
