//! `setrlimit` and `prlimit`: before the program limits its own memory, the runtime frees memory that it has
//! merely reserved (see `limits.rs`).

use core::ffi::c_int;

use crate::interpose::desk;
use crate::interpose::next::{Next, is_managed_here, keeping_errno};
use crate::kernel::rlimit::ADDRESS_SPACE;
use crate::kernel::sys;

#[cfg(target_arch = "x86_64")]
const SETRLIMIT: usize = 160;
#[cfg(target_arch = "aarch64")]
const SETRLIMIT: usize = 164;

static SET: Next = Next::call_of(c"setrlimit", SETRLIMIT);
static SET64: Next = Next::call_of(c"setrlimit64", SETRLIMIT);
static PROCESS: Next = Next::call_of(c"prlimit", sys::nr::PRLIMIT64);
static PROCESS64: Next = Next::call_of(c"prlimit64", sys::nr::PRLIMIT64);

/// All functions interposed here.
pub static ALL: [&Next; 4] = [&SET, &SET64, &PROCESS, &PROCESS64];

/// Called before a limit of a process is set; 0 is this process.
///
/// # Safety
/// `limits` must be null or point to two numbers.
pub unsafe fn before(pid: usize, which: usize, limits: *const u64) {
    let own = pid as u32 == 0 || pid as u32 == sys::getpid();
    if which as u32 as usize == ADDRESS_SPACE && own && !limits.is_null() {
        // SAFETY: the caller upholds the contract.
        let soft = unsafe { limits.read() };
        // A child of vfork limits itself, and has the parent's memory only until it executes a program.
        if soft != u64::MAX && is_managed_here() {
            keeping_errno(|| desk::make_way(soft as usize));
        }
    }
}

/// Defines functions that set a limit of this process.
macro_rules! sets {
    ($($name:ident is $next:ident;)+) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(which: usize, limits: *const u64) -> c_int {
                // SAFETY: the caller upholds the contract.
                unsafe {
                    before(0, which, limits);
                    $next.call([which, limits as usize]) as c_int
                }
            }
        )+
    };
}

sets! {
    setrlimit is SET;
    setrlimit64 is SET64;
}

/// Defines functions that set or read a limit of any process.
macro_rules! sets_for_process {
    ($($name:ident is $next:ident;)+) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(pid: usize, which: usize, new: *const u64, old: *mut u64) -> c_int {
                // SAFETY: the caller upholds the contract.
                unsafe {
                    before(pid, which, new);
                    $next.call([pid, which, new as usize, old as usize]) as c_int
                }
            }
        )+
    };
}

sets_for_process! {
    prlimit is PROCESS;
    prlimit64 is PROCESS64;
}
