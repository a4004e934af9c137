//! Locked memory: it stays where it is.
//!
//! Before the kernel locks a range, the range is kept out, and evictions that began earlier are awaited. (A
//! locked mapping that is moved away takes its lock along to the standby area.) The lock itself restores
//! pages that were evicted before: the kernel touches every page.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use crate::interpose::desk;
use crate::interpose::mappings::ranges::PROGRAM_LOCKED;
use crate::interpose::next::{Next, is_managed, is_paging, keeping_errno};
use crate::kernel::maps;
use crate::kernel::sys::{self, Fd, PAGE};
use crate::runtime::RUNTIME;

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

/// All functions interposed here. `munlockall` is not among them: `mlockall` has ended the paging, and ranges
/// locked by `mlock` before that may stay kept out.
pub static ALL: [&Next; 4] = [&MLOCK, &MLOCK2, &MUNLOCK, &MLOCKALL];

/// The pages that the kernel locks when given this range.
fn pages(start: usize, bytes: usize) -> (usize, usize) {
    let end = start.saturating_add(bytes).min(crate::kernel::addresses::END);
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
    // If it fails, some pages may be locked nevertheless: the range stays kept out.
    lock() as c_int
}

/// Records a mapping that was locked from the beginning (MAP_LOCKED).
#[cold]
pub fn note(start: usize, bytes: usize) {
    let (from, to) = pages(start, bytes);
    PROGRAM_LOCKED.add(from, to);
    if is_paging() {
        desk::let_evictions_end();
        RUNTIME.restore_range(from, to);
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(start: usize, bytes: usize) -> c_int {
    // SAFETY: the caller upholds the contract.
    locking(start, bytes, || unsafe { MLOCK.call([start, bytes]) })
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(start: usize, bytes: usize, flags: usize) -> c_int {
    // SAFETY: the caller upholds the contract.
    locking(start, bytes, || unsafe { MLOCK2.call([start, bytes, flags]) })
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlock(start: usize, bytes: usize) -> c_int {
    // SAFETY: the caller upholds the contract.
    let result = unsafe { MUNLOCK.call([start, bytes]) } as c_int;
    if result == 0 && is_managed() {
        let (from, to) = pages(start, bytes);
        PROGRAM_LOCKED.remove(from, to);
    }
    result
}

/// Replaces the C library's function. The runtime cannot page memory that must always be resident, so it
/// restores everything and ends.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: usize) -> c_int {
    const CURRENT: usize = 1;
    const FUTURE: usize = 2;
    const ONFAULT: usize = 4;
    if is_managed() {
        keeping_errno(|| RUNTIME.stop("the program locks all of its memory (mlockall)"));
    }
    let call = |flags| {
        // SAFETY: locking changes no contents.
        unsafe { MLOCKALL.call([flags]) as c_int }
    };
    if flags & (CURRENT | ONFAULT) != CURRENT || RUNTIME.process.pid.load(Relaxed) == 0 {
        return call(flags);
    }
    // The kernel would make all of the runtime's own memory resident, tens of MiB that are otherwise never
    // touched. So this first locks all mappings without making them resident, and then locks each mapping of
    // the program. `mlockall` ignores errors there.
    let Ok(maps) = sys::open_own(c"/proc/thread-self/maps", sys::o::RDONLY) else { return call(flags) };
    let result = call(CURRENT | ONFAULT);
    if result == 0 {
        if flags & FUTURE != 0 {
            call(FUTURE);
        }
        keeping_errno(|| lock_each(maps));
    }
    sys::close(maps);
    result
}

/// Locks each mapping and makes it resident. Mappings that contain memory of the runtime's own stay as they
/// are: the program's pages there are resident and locked once they are touched.
fn lock_each(maps: Fd) {
    let mut buffer = [0u8; 8192];
    let _ = maps::for_each(maps, &mut buffer, |mapping| {
        let (start, end) = (mapping.start, mapping.end);
        let is_own = RUNTIME.arena.overlaps(start, end) || RUNTIME.pages.standby.overlaps(start, end);
        if !is_own {
            // SAFETY: this changes no contents.
            let _ = unsafe { sys::syscall(nr::MLOCK, [start, end - start, 0, 0, 0, 0]) };
        }
    });
}
