//! Locked memory: it stays where it is.
//!
//! The range is kept out before the kernel locks it, and evictions that began
//! earlier are waited for. (A locked mapping that is moved away takes its lock
//! along to the standby area.) What was evicted before comes back by the lock
//! itself: the kernel touches every page.

use core::ffi::c_int;

use super::desk;
use super::next::{Next, is_managed, is_paging, keeping_errno};
use super::ranges::PROGRAM_LOCKED;
use crate::runtime::RUNTIME;
use crate::sys::PAGE;
use crate::table;

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const MLOCK: usize = 149;
    pub const MUNLOCK: usize = 150;
    pub const MLOCKALL: usize = 151;
    pub const MLOCK2: usize = 325;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const MLOCK: usize = 228;
    pub const MUNLOCK: usize = 229;
    pub const MLOCKALL: usize = 230;
    pub const MLOCK2: usize = 284;
}

static MLOCK: Next = Next::call_of(c"mlock", nr::MLOCK);
static MLOCK2: Next = Next::call_of(c"mlock2", nr::MLOCK2);
static MUNLOCK: Next = Next::call_of(c"munlock", nr::MUNLOCK);
static MLOCKALL: Next = Next::call_of(c"mlockall", nr::MLOCKALL);

/// All of them. `munlockall` needs nothing: `mlockall` has ended the paging,
/// and what `mlock` has locked before stays kept out, which harms nobody.
pub static ALL: [&Next; 4] = [&MLOCK, &MLOCK2, &MUNLOCK, &MLOCKALL];

/// The pages that the kernel locks when it is given this range.
fn pages(start: usize, bytes: usize) -> (usize, usize) {
    let end = start.saturating_add(bytes).min(table::END);
    (start & !(PAGE - 1), end.next_multiple_of(PAGE))
}

fn locking(start: usize, bytes: usize, lock: impl FnOnce() -> isize) -> c_int {
    let (from, to) = pages(start, bytes);
    if !is_managed() || from >= to {
        return lock() as c_int;
    }
    PROGRAM_LOCKED.add(from, to);
    if is_paging() {
        keeping_errno(desk::let_evictions_end);
    }
    // If it fails, some pages may be locked all the same: the range stays kept out.
    lock() as c_int
}

/// A mapping was made that is locked from the beginning (MAP_LOCKED).
#[cold]
pub fn note(start: usize, bytes: usize) {
    let (from, to) = pages(start, bytes);
    PROGRAM_LOCKED.add(from, to);
    if is_paging() {
        desk::let_evictions_end();
        RUNTIME.bring_back(from, to);
    }
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(start: usize, bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    locking(start, bytes, || unsafe { MLOCK.call([start, bytes]) })
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(start: usize, bytes: usize, flags: usize) -> c_int {
    // SAFETY: passed on to the caller.
    locking(start, bytes, || unsafe { MLOCK2.call([start, bytes, flags]) })
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlock(start: usize, bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    let result = unsafe { MUNLOCK.call([start, bytes]) } as c_int;
    if result == 0 && is_managed() {
        let (from, to) = pages(start, bytes);
        PROGRAM_LOCKED.remove(from, to);
    }
    result
}

/// As the C library's. Memory that may never be away is no use to the
/// runtime: it brings everything back and ends.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: usize) -> c_int {
    if is_managed() {
        keeping_errno(|| RUNTIME.stop("the program locks all of its memory (mlockall)"));
    }
    // SAFETY: passed on to the caller.
    unsafe { MLOCKALL.call([flags]) as c_int }
}
