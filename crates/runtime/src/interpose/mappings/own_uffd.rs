//! A userfaultfd of the program's own. The kernel lets each piece of memory be registered with only one, and
//! near the limit the runtime has registered nearly all memory. So before the program registers memory
//! itself, the runtime stops and unregisters everything. Opening a userfaultfd, and asking what the kernel
//! can do, changes nothing yet.

use core::ffi::c_int;

use crate::interpose::next::{Next, is_managed_here, keeping_errno};
use crate::kernel::sys;
use crate::runtime::RUNTIME;

/// UFFDIO_REGISTER.
pub const REGISTER: usize = 0xc020_aa00;

static IOCTL: Next = Next::call_of(c"ioctl", sys::nr::IOCTL);

/// All functions interposed here; `syscall` is in `seccomp.rs`.
pub static ALL: [&Next; 1] = [&IOCTL];

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function. The variable argument is declared as a fixed one: it is passed
/// in the same register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(file: c_int, request: usize, argument: usize) -> c_int {
    // Some callers declare the request as an `int`.
    if request as u32 as usize == REGISTER {
        registers();
    }
    // SAFETY: the caller upholds the contract.
    unsafe { IOCTL.call([file as usize, request, argument]) as c_int }
}

/// The program registers memory.
#[cold]
#[inline(never)]
pub fn registers() {
    if is_managed_here() {
        keeping_errno(|| {
            RUNTIME.stop("the program registers memory with a userfaultfd of its own, and the kernel allows only one per page")
        });
    }
}
