//! Some namespaces can be changed only by a process with a single thread, or by one that shares its working
//! directory with no other process. The runtime's threads count like any others. So when the kernel refuses,
//! the runtime ends, and the call is repeated: its result then applies to the program alone.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use super::credentials;
use crate::interpose::next::{Next, errno, is_managed_here, set_errno};
use crate::kernel::sched;
use crate::kernel::sys::{self, Errno};
use crate::memory::patience::Patience;
use crate::process::door;
use crate::runtime::RUNTIME;

const CLONE_NEWTIME: usize = 0x80;
const CLONE_VM: usize = 0x100;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;
const CLONE_NEWNS: usize = 0x2_0000;
const CLONE_NEWUSER: usize = 0x1000_0000;
const USERS: Errno = Errno(87);
/// A thread that ends is gone after this time, in ns ...
const LEAVE_NS: u64 = 100_000_000;
/// ... or, on a busy machine, when it has got a CPU, which is waited for no longer than this.
const LONGEST_NS: u64 = 10_000_000_000;

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const UNSHARE: usize = 272;
    pub const SETNS: usize = 308;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const UNSHARE: usize = 97;
    pub const SETNS: usize = 268;
}

static UNSHARE: Next = Next::call_of(c"unshare", nr::UNSHARE);
static SETNS: Next = Next::call_of(c"setns", nr::SETNS);

/// All functions interposed here.
pub static ALL: [&Next; 2] = [&UNSHARE, &SETNS];

fn try_alone(change: impl Fn() -> isize, minds_threads: impl FnOnce() -> bool) -> c_int {
    let before = errno();
    let first = change() as c_int;
    if first == 0 || !matches!(errno(), Errno::INVAL | USERS) || !is_managed_here() {
        return first;
    }
    // Without a keeper the kernel counts only threads of the program.
    if RUNTIME.process.stopped.load(Acquire) || !door::has_keeper() {
        return first;
    }
    let refusal = errno();
    if !minds_threads() {
        set_errno(refusal.0);
        return first;
    }
    RUNTIME.stop(
        "the program changes its namespaces, which the kernel allows only in single-threaded processes",
    );
    // The runtime's threads have announced their end; the kernel counts them until they are gone.
    let (mut usual, mut longest) = (Patience::new(LEAVE_NS), Patience::new(LONGEST_NS));
    loop {
        // If none is left, threads of the program are the reason.
        let was_last = usual.is_over() && (credentials::count() == 0 || longest.is_over());
        set_errno(before.0);
        let again = change() as c_int;
        if again == 0 || errno() != refusal || was_last {
            return again;
        }
        sched::sleep(20_000);
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    let flags = flags as u32 as usize;
    // SAFETY: the caller upholds the contract.
    let change = || unsafe { UNSHARE.call([flags]) };
    try_alone(change, || flags & (CLONE_NEWUSER | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD) != 0)
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(file: c_int, kinds: c_int) -> c_int {
    const GET_KIND: usize = 0xb703;
    let kinds = kinds as u32 as usize;
    // SAFETY: the caller upholds the contract.
    let change = || unsafe { SETNS.call([file as usize, kinds]) };
    try_alone(change, || {
        let kinds = match kinds {
            // The file itself says what it is.
            // SAFETY: the ioctl takes no argument and changes nothing.
            0 => unsafe { sys::syscall(sys::nr::IOCTL, [file as usize, GET_KIND, 0, 0, 0, 0]) }.unwrap_or(0),
            given => given,
        };
        kinds & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME) != 0
    })
}
