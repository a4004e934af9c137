//! Filters of system calls. A filter does not know what the runtime needs, and the kernel ends a process that
//! makes a forbidden call. So everything is restored and the runtime ends before a filter takes effect. A
//! program that the process executes later may be managed again if the filter is harmless to the runtime: the
//! filter is read before it is installed (`filters.rs`).
//!
//! Filters are installed by `prctl`, or by `syscall`, for which the C library has no separate function. This
//! module also handles other relevant calls through `syscall`.

use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::interpose::bare;
use crate::interpose::futex;
use crate::interpose::mappings::growth;
use crate::interpose::mappings::own_uffd;
use crate::interpose::mappings::pins;
use crate::interpose::mappings::remap;
use crate::interpose::next::{Next, is_managed_here, keeping_errno, result};
use crate::interpose::rights::limits;
use crate::kernel::filters::{Harmless, MOST_STEPS};
use crate::kernel::sys::{self, Errno, PAGE};
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
    /// This architecture has no such call.
    pub const FORK: usize = usize::MAX;
}
const IO_URING_SETUP: usize = 425;

static PRCTL: Next = Next::call_of(c"prctl", sys::nr::PRCTL);

/// All functions interposed here, except `syscall`, which does not call the C library's.
pub static ALL: [&Next; 1] = [&PRCTL];

/// Called before a filter takes effect; in mode `MODE_FILTER`, `program` is its `sock_fprog`. Returns what to
/// record once the filter is installed.
#[cold]
fn stop(program: Option<usize>) -> Option<Harmless> {
    // A filter of a child of vfork affects only the child.
    if !is_managed_here() {
        return None;
    }
    keeping_errno(|| {
        // A filter belongs to one thread: with several threads it would be unknown which of them made a child
        // process.
        let read = program.filter(|_| !RUNTIME.is_threaded());
        let harmless = read.and_then(|program| Harmless::read(program, place()?));
        crate::kernel::filters::comes();
        RUNTIME.stop("the program restricts its own system calls (seccomp)");
        harmless
    })
}

/// The buffer into which the program's only thread reads a filter.
fn place() -> Option<&'static mut [usize]> {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    let mut place = PLACE.load(Relaxed);
    if place == 0 {
        place = RUNTIME.arena.reserve(MOST_STEPS * size_of::<usize>(), PAGE)? as usize;
        PLACE.store(place, Relaxed);
    }
    // SAFETY: the runtime's own memory, of that size, and otherwise unused: there is no other thread, and a
    // signal handler that installed a filter in the middle of this would install filters in the wrong order.
    Some(unsafe { core::slice::from_raw_parts_mut(place as *mut usize, MOST_STEPS) })
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function. Its variable arguments are declared as fixed ones: they are
/// passed in the same registers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, b: usize, c: usize, d: usize, e: usize) -> c_int {
    // Programs test whether filters are supported by passing a null pointer.
    let harmless = if option == PR_SET_SECCOMP && (b == MODE_STRICT || b == MODE_FILTER && c != 0) {
        stop((b == MODE_FILTER).then_some(c))
    } else {
        None
    };
    // SAFETY: the caller upholds the contract.
    let result = unsafe { PRCTL.call([option as usize, b, c, d, e]) as c_int };
    if let Some(harmless) = harmless.filter(|_| result == 0) {
        harmless.installed(RUNTIME.slot());
    }
    result
}

/// Replaces the C library's function: makes a system call.
///
/// # Safety
/// The same as for the system call.
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
        // SAFETY: the caller upholds the contract.
        let harmless = unsafe { before(number, a, b, c) };
        // SAFETY: the caller upholds the contract.
        let answer = unsafe { sys::syscall(number, [a, b, c, d, e, f]) };
        if let Some(harmless) = harmless.filter(|_| answer.is_ok()) {
            harmless.installed(RUNTIME.slot());
        }
        return result(answer) as c_long;
    }
    if matches!(number, nr::FORK | sys::nr::CLONE | sys::nr::CLONE3 | sys::nr::EXIT) {
        // SAFETY: the caller upholds the contract.
        if let Some(made) = unsafe { bare::by_number(number, [a, b, c, d, e, f]) } {
            return made as c_long;
        }
    }
    let plainly = |number: usize, given: [usize; 6]| {
        // SAFETY: the caller upholds the contract.
        result(unsafe { sys::syscall(number, given) })
    };
    if number == sys::nr::MMAP {
        // SAFETY: the caller upholds the contract.
        return unsafe { growth::map([a, b, c, d, e, f], |given| plainly(number, given) as usize) } as c_long;
    }
    if number == sys::nr::MREMAP {
        // SAFETY: the caller upholds the contract.
        return unsafe {
            remap::remap([a, b, c, d, e], |[a, b, c, d, e]| plainly(number, [a, b, c, d, e, 0]) as usize)
        } as c_long;
    }
    // SAFETY: the caller upholds the contract.
    let mut answer = unsafe { sys::syscall(number, [a, b, c, d, e, f]) };
    if number == sys::nr::FUTEX && answer == Err(Errno::FAULT) {
        // SAFETY: the caller upholds the contract.
        answer = unsafe { futex::after_fault([a, b, c, d, e, f]) };
    }
    result(answer) as c_long
}

/// # Safety
/// The same as for the system call.
#[cold]
#[inline(never)]
unsafe fn before(number: usize, a: usize, b: usize, c: usize) -> Option<Harmless> {
    match number {
        nr::SECCOMP if a == SET_MODE_STRICT || a == SET_MODE_FILTER && c != 0 => {
            return stop((a == SET_MODE_FILTER).then_some(c));
        }
        nr::SECCOMP => {}
        // SAFETY: the caller upholds the contract.
        nr::SETRLIMIT => unsafe { limits::before(0, a, b as *const u64) },
        // SAFETY: the caller upholds the contract.
        sys::nr::PRLIMIT64 => unsafe { limits::before(a, b, c as *const u64) },
        sys::nr::IOCTL if b == own_uffd::REGISTER => own_uffd::registers(),
        sys::nr::IOCTL => {}
        _ => pins::note(),
    }
    None
}
