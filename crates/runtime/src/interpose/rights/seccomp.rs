//! Filters of system calls: a filter does not know what the runtime needs, and
//! the kernel ends a process for what its filter forbids. So everything is
//! brought back and the runtime ends before a filter begins to work. What the process
//! executes then may be managed again, if the filter does no harm there: it is read before
//! (`filters.rs`).
//!
//! Filters are made by `prctl`, or by `syscall`, for which the C library has
//! no function of its own. What else goes through `syscall` and matters is
//! noted here too.

use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::interpose::bare;
use crate::interpose::mappings::own_uffd;
use crate::interpose::mappings::pins;
use crate::interpose::next::{Next, is_managed_here, keeping_errno, result};
use crate::interpose::rights::limits;
use crate::kernel::filters::{Harmless, MOST_STEPS};
use crate::kernel::sys::{self, PAGE};
use crate::runtime::RUNTIME;

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
    pub const FORK: usize = 57;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const SECCOMP: usize = 277;
    pub const IO_SETUP: usize = 0;
    pub const SETRLIMIT: usize = 164;
    /// There is none.
    pub const FORK: usize = usize::MAX;
}
const IO_URING_SETUP: usize = 425;

static PRCTL: Next = Next::call_of(c"prctl", sys::nr::PRCTL);

/// All of them; `syscall` is made here.
pub static ALL: [&Next; 1] = [&PRCTL];

/// Before a filter begins to work, in mode `MODE_FILTER` by this `sock_fprog`. What is to be noted if it does.
#[cold]
fn stop(program: Option<usize>) -> Option<Harmless> {
    // A filter of a child of vfork is the child's own.
    if !is_managed_here() {
        return None;
    }
    keeping_errno(|| {
        // A filter is one thread's: with several it would not be known whose child a process is.
        let read = program.filter(|_| !RUNTIME.is_threaded());
        let harmless = read.and_then(|program| Harmless::read(program, place()?));
        crate::kernel::filters::comes();
        RUNTIME.stop("the program forbids itself system calls (seccomp)");
        harmless
    })
}

/// Where a filter is read, in the only thread of the program.
fn place() -> Option<&'static mut [usize]> {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    let mut place = PLACE.load(Relaxed);
    if place == 0 {
        place = RUNTIME.arena.reserve(MOST_STEPS * size_of::<usize>(), PAGE)? as usize;
        PLACE.store(place, Relaxed);
    }
    // SAFETY: memory of the runtime's own, of that size, which nobody else uses: there is no other thread, and
    // signal handlers that install filters in the middle of this would install them in the wrong order.
    Some(unsafe { core::slice::from_raw_parts_mut(place as *mut usize, MOST_STEPS) })
}

/// As the C library's.
///
/// # Safety
/// As the C library's. It takes its variable arguments as it would take
/// declared ones: in the same registers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, b: usize, c: usize, d: usize, e: usize) -> c_int {
    // Programs find out whether there are filters by giving none.
    let harmless = if option == PR_SET_SECCOMP && (b == MODE_STRICT || b == MODE_FILTER && c != 0) {
        stop((b == MODE_FILTER).then_some(c))
    } else {
        None
    };
    // SAFETY: passed on to the caller.
    let result = unsafe { PRCTL.call([option as usize, b, c, d, e]) as c_int };
    if let Some(harmless) = harmless.filter(|_| result == 0) {
        harmless.installed(RUNTIME.slot());
    }
    result
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
    if matches!(
        number,
        nr::SECCOMP | nr::IO_SETUP | IO_URING_SETUP | nr::SETRLIMIT | sys::nr::PRLIMIT64 | sys::nr::IOCTL
    ) {
        // SAFETY: passed on to the caller.
        let harmless = unsafe { before(number, a, b, c) };
        // SAFETY: passed on to the caller.
        let answer = unsafe { sys::syscall(number, [a, b, c, d, e, f]) };
        if let Some(harmless) = harmless.filter(|_| answer.is_ok()) {
            harmless.installed(RUNTIME.slot());
        }
        return result(answer) as c_long;
    }
    if matches!(number, nr::FORK | sys::nr::CLONE | sys::nr::CLONE3 | sys::nr::EXIT) {
        // SAFETY: passed on to the caller.
        if let Some(made) = unsafe { bare::by_number(number, [a, b, c, d, e, f]) } {
            return made as c_long;
        }
    }
    // SAFETY: passed on to the caller.
    result(unsafe { sys::syscall(number, [a, b, c, d, e, f]) }) as c_long
}

/// # Safety
/// As the system call.
#[cold]
#[inline(never)]
unsafe fn before(number: usize, a: usize, b: usize, c: usize) -> Option<Harmless> {
    match number {
        nr::SECCOMP if a == SET_MODE_STRICT || a == SET_MODE_FILTER && c != 0 => {
            return stop((a == SET_MODE_FILTER).then_some(c));
        }
        nr::SECCOMP => {}
        // SAFETY: passed on to the caller.
        nr::SETRLIMIT => unsafe { limits::before(0, a, b as *const u64) },
        // SAFETY: passed on to the caller.
        sys::nr::PRLIMIT64 => unsafe { limits::before(a, b, c as *const u64) },
        sys::nr::IOCTL if b == own_uffd::REGISTER => own_uffd::registers(),
        sys::nr::IOCTL => {}
        _ => pins::note(),
    }
    None
}
