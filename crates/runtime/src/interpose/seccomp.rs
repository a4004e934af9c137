//! Filters of system calls: a filter does not know what the runtime needs, and
//! the kernel ends a process for what its filter forbids. So everything is
//! brought back and the runtime ends before a filter begins to work.
//!
//! Filters are made by `prctl`, or by `syscall`, for which the C library has
//! no function of its own. What else goes through `syscall` and matters is
//! noted here too.

use core::ffi::{c_int, c_long};

use super::next::{Next, is_managed_here, keeping_errno, result};
use super::{limits, pins};
use crate::runtime::RUNTIME;
use crate::sys;

const PR_SET_SECCOMP: c_int = 22;
const MODE_STRICT: usize = 1;
const MODE_FILTER: usize = 2;
const SET_MODE_STRICT: usize = 0;
const SET_MODE_FILTER: usize = 1;

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const SECCOMP: usize = 317;
    pub const IO_SETUP: usize = 206;
    pub const SETRLIMIT: usize = 160;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const SECCOMP: usize = 277;
    pub const IO_SETUP: usize = 0;
    pub const SETRLIMIT: usize = 164;
}
const IO_URING_SETUP: usize = 425;

static PRCTL: Next = Next::call_of(c"prctl", sys::nr::PRCTL);

/// All of them; `syscall` is made here.
pub static ALL: [&Next; 1] = [&PRCTL];

#[cold]
fn stop() {
    // A filter of a child of vfork is the child's own.
    if is_managed_here() {
        keeping_errno(|| RUNTIME.stop("the program forbids itself system calls (seccomp)"));
    }
}

/// As the C library's.
///
/// # Safety
/// As the C library's. It takes its variable arguments as it would take
/// declared ones: in the same registers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, b: usize, c: usize, d: usize, e: usize) -> c_int {
    // Programs find out whether there are filters by giving none.
    if option == PR_SET_SECCOMP && (b == MODE_STRICT || b == MODE_FILTER && c != 0) {
        stop();
    }
    // SAFETY: passed on to the caller.
    unsafe { PRCTL.call([option as usize, b, c, d, e]) as c_int }
}

/// As the C library's: makes a system call.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let number = number as usize;
    if matches!(number, nr::SECCOMP | nr::IO_SETUP | IO_URING_SETUP | nr::SETRLIMIT | sys::nr::PRLIMIT64) {
        // SAFETY: passed on to the caller.
        unsafe { before(number, a, b, c) };
    }
    // SAFETY: passed on to the caller.
    result(unsafe { sys::syscall(number, [a, b, c, d, e, f]) }) as c_long
}

/// # Safety
/// As the system call.
#[cold]
#[inline(never)]
unsafe fn before(number: usize, a: usize, b: usize, c: usize) {
    match number {
        nr::SECCOMP if a == SET_MODE_STRICT || a == SET_MODE_FILTER && c != 0 => stop(),
        nr::SECCOMP => {}
        // SAFETY: passed on to the caller.
        nr::SETRLIMIT => unsafe { limits::before(0, a, b as *const u64) },
        // SAFETY: passed on to the caller.
        sys::nr::PRLIMIT64 => unsafe { limits::before(a, b, c as *const u64) },
        _ => pins::note(),
    }
}
