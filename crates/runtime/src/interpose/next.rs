//! The C library's own functions, which ours replace.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use memfold_shared::page::{Shown, show};

use crate::kernel::sys::{self, Errno};
use crate::runtime::RUNTIME;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;

/// What to call while a function is not bound yet.
enum Before {
    /// This system call: the C library's function does nothing else.
    Call(usize),
    /// The function, looked up on the spot.
    LookUp,
}

/// The next definition of a function after ours.
///
/// All are bound when the loader starts this library. Constructors of other libraries may run before that;
/// and some of those call from inside an allocator, where looking up a function could call that same
/// allocator.
pub struct Next {
    name: &'static CStr,
    before: Before,
    at: AtomicUsize,
}

type Function = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

impl Next {
    /// A function that does nothing but the system call `number`.
    pub const fn call_of(name: &'static CStr, number: usize) -> Self {
        Next { name, before: Before::Call(number), at: AtomicUsize::new(0) }
    }

    /// A function that does more than one system call.
    pub const fn library(name: &'static CStr) -> Self {
        Next { name, before: Before::LookUp, at: AtomicUsize::new(0) }
    }

    /// Looks the function up.
    pub fn bind(&self) -> usize {
        // SAFETY: looks up a function that lives as long as the process.
        let found = unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.at.store(found, Release);
        found
    }

    /// Calls it. If the function returns an `int`, only the low half of the result is valid.
    ///
    /// # Safety
    /// The same as for the C library's function.
    #[inline(always)]
    pub unsafe fn call<const N: usize>(&self, given: [usize; N]) -> isize {
        let at = self.at.load(Acquire);
        let mut a = [0; 6];
        a[..N].copy_from_slice(&given);
        if at == 0 {
            // SAFETY: the caller upholds the contract.
            return unsafe { self.call_before(a) };
        }
        // SAFETY: integers and pointers are passed in registers, six of them on every supported architecture;
        // a function ignores those that it does not take, and variadic functions get theirs the same way.
        let function: Function = unsafe { core::mem::transmute(at) };
        function(a[0], a[1], a[2], a[3], a[4], a[5])
    }

    /// Calls a function that takes up to seven arguments.
    ///
    /// # Safety
    /// The same as for the C library's function.
    pub unsafe fn call_with(&self, a: [usize; 7]) -> isize {
        type Function = extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;
        let at = match self.at.load(Acquire) {
            0 => self.bind(),
            at => at,
        };
        if at == 0 {
            return result(Err(Errno::NOSYS));
        }
        // SAFETY: as in `call`; the seventh argument also lies where a variadic function looks for it.
        let function: Function = unsafe { core::mem::transmute(at) };
        function(a[0], a[1], a[2], a[3], a[4], a[5], a[6])
    }

    /// # Safety
    /// The same as for the C library's function.
    #[cold]
    unsafe fn call_before(&self, a: [usize; 6]) -> isize {
        match self.before {
            // SAFETY: the caller upholds the contract.
            Before::Call(number) => result(unsafe { sys::syscall(number, a) }),
            Before::LookUp => match self.bind() {
                0 => result(Err(Errno::NOSYS)),
                at => {
                    // SAFETY: as in `call`.
                    let function: Function = unsafe { core::mem::transmute(at) };
                    function(a[0], a[1], a[2], a[3], a[4], a[5])
                }
            },
        }
    }
}

/// Converts a result to the C library's convention: -1 and `errno`, or the value.
#[inline(always)]
pub fn result(answer: sys::Result<usize>) -> isize {
    match answer {
        Ok(value) => value as isize,
        Err(error) => failed(error),
    }
}

#[cold]
fn failed(error: Errno) -> isize {
    set_errno(error.0);
    -1
}

/// `errno` of the calling thread, a thread of the program.
pub fn errno() -> Errno {
    // SAFETY: the C library keeps this place for each of its own threads.
    Errno(unsafe { *__errno_location() })
}

/// Sets `errno` of the calling thread.
pub fn set_errno(error: i32) {
    // SAFETY: as above.
    unsafe { *__errno_location() = error };
}

pub use crate::process::here::is_managed;

/// Whether this process is managed, and is not a child of `vfork` that only borrows a managed process's
/// memory.
pub fn is_managed_here() -> bool {
    is_managed() && RUNTIME.process.pid.load(Relaxed) == sys::getpid()
}

/// Whether any of this memory may be evicted now.
#[inline(always)]
pub fn is_paging() -> bool {
    is_managed() && RUNTIME.is_paging()
}

/// Whether programs see other amounts of memory than the kernel's.
#[inline(always)]
pub fn is_showing() -> bool {
    is_managed() && RUNTIME.shared().shown_bytes.load(Relaxed) != show::OFF
}

/// Those amounts.
pub fn shown() -> Option<Shown> {
    if is_showing() { RUNTIME.shared().shown() } else { None }
}

/// Preserves `errno` across the runtime's work after a call.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let done = work();
    set_errno(before.0);
    done
}
