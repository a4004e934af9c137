//! Raw system calls. Only the code that makes threads (`process/thread.rs`) and the doors (`process/door`)
//! enter the kernel without this module.
//!
//! The C library is not used: its wrappers set the `errno` of the program's thread and may take the library's
//! locks, and the program may interpose them. The functions here return `Err(Errno)` instead.

pub mod aio;
mod files;
mod memory;
mod process;
pub mod socket;
mod text;

use core::arch::asm;

pub use files::*;
pub use memfold_shared::calls::nr;
pub use memory::*;
pub use process::*;
pub use text::Text;

/// An error number of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Error numbers that the code handles by name.
#[allow(missing_docs)]
impl Errno {
    pub const PERM: Errno = Errno(1);
    pub const NOENT: Errno = Errno(2);
    pub const SRCH: Errno = Errno(3);
    pub const AGAIN: Errno = Errno(11);
    /// ETIMEDOUT
    pub const TIMEDOUT: Errno = Errno(110);
    pub const NOMEM: Errno = Errno(12);
    pub const FAULT: Errno = Errno(14);
    pub const BUSY: Errno = Errno(16);
    pub const EXIST: Errno = Errno(17);
    pub const INVAL: Errno = Errno(22);
    pub const MFILE: Errno = Errno(24);
    pub const NOSYS: Errno = Errno(38);
    /// EOPNOTSUPP
    pub const NOTSUP: Errno = Errno(95);
}

/// Result of a system call.
pub type Result<T> = core::result::Result<T, Errno>;

/// Makes a system call.
///
/// # Safety
/// The contract is that of the call itself: the arguments must be valid, and the effects on memory must be
/// sound.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn syscall(number: usize, a: [usize; 6]) -> Result<usize> {
    let result: isize;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; the caller is responsible for the
    // call's effects.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    decode(result)
}

/// Makes a system call.
///
/// # Safety
/// The contract is that of the call itself: the arguments must be valid, and the effects on memory must be
/// sound.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn syscall(number: usize, a: [usize; 6]) -> Result<usize> {
    let result: isize;
    // SAFETY: the kernel preserves all registers but x0; the caller is responsible for the call's effects.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    decode(result)
}

#[inline(always)]
fn decode(result: isize) -> Result<usize> {
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Size of a page in bytes.
pub const PAGE: usize = 4096;

/// A file descriptor. It is not closed on drop, because most descriptors of the runtime stay open as long as
/// the process lives. Its holder closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fd(pub i32);

/// An ioctl whose argument is a structure.
///
/// # Safety
/// `T` must be the structure that `request` expects, and the effects of the ioctl must be sound.
pub unsafe fn ioctl<T>(fd: Fd, request: usize, argument: &mut T) -> Result<usize> {
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(nr::IOCTL, [fd.0 as usize, request, argument as *mut T as usize, 0, 0, 0]) }
}
