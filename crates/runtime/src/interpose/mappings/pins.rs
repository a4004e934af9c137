//! Pages that the kernel holds on to while a device or another thread reads or writes them. Moving a page
//! away does not end that: data that arrive later go to the moved page. Where the kernel does not refuse to
//! move such pages (`reclaim/pins.rs`, `kernel/mounts.rs`), the runtime must learn that such I/O may happen
//! before it first happens.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use crate::interpose::desk;
use crate::interpose::next::{Next, is_managed, is_paging, keeping_errno};
use crate::kernel::mounts::Notices;
use crate::kernel::sys;
use crate::runtime::RUNTIME;

/// Records that the program is about to do something that pins pages. Where eviction notices pins, this does
/// no harm; before paging begins it is unknown whether it does.
#[cold]
pub fn note() {
    if !RUNTIME.pages.pins_seen.swap(true, SeqCst) && RUNTIME.kernel.mounts.notices() == Notices::Nothing {
        let_evictions_end();
    }
}

/// Evictions that are under way must end first.
fn let_evictions_end() {
    if is_paging() {
        keeping_errno(desk::let_evictions_end);
    }
}

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const OPEN: usize = 2;
    pub const VMSPLICE: usize = 278;
    pub const PROCESS_VM_WRITEV: usize = 311;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const VMSPLICE: usize = 75;
    pub const PROCESS_VM_WRITEV: usize = 271;
}

#[cfg(target_arch = "x86_64")]
const O_DIRECT: c_int = 0o40000;
#[cfg(target_arch = "aarch64")]
const O_DIRECT: c_int = 0o200000;
const F_SETFL: c_int = 4;

#[cfg(target_arch = "x86_64")]
const fn open_of(name: &'static core::ffi::CStr) -> Next {
    Next::call_of(name, nr::OPEN)
}
/// This architecture has no system call `open`, so an unbound function is looked up.
#[cfg(target_arch = "aarch64")]
const fn open_of(name: &'static core::ffi::CStr) -> Next {
    Next::library(name)
}

/// Called when a file was opened or its flags have changed: checks whether reading it may write to pages
/// unnoticed. The keeper checks files opened before paging when paging begins.
#[cold]
fn opened(file: c_int, direct: bool) {
    if file >= 0
        && !RUNTIME.may_write_late()
        && !RUNTIME.kernel.mounts.are_harmless()
        && RUNTIME.kernel.mounts.may_write_late(sys::Fd(file), direct)
    {
        RUNTIME.note_late_writer();
        let_evictions_end();
    }
}

/// Defines functions that open files or change their flags. They are cancellation points: if a thread is
/// cancelled there, their frame is unwound, and nothing in it has to be undone.
macro_rules! opens {
    ($($count:literal: $name:ident($($argument:ident: $type:ty),+) $when:expr, is $next:ident $made:expr;)+) => {
        $(
            static $next: Next = $made;

            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function. A variable argument is declared as a fixed one: it
            /// is passed in the same register.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),+) -> c_int {
                if $when {
                    note();
                }
                // SAFETY: the caller upholds the contract.
                let file = unsafe { $next.call([$($argument as usize),+]) as c_int };
                if is_paging() {
                    keeping_errno(|| opened(file, $when));
                }
                file
            }
        )+
        /// All functions interposed here.
        pub static ALL: [&Next; 10 $(+ $count)+] =
            [&READV, &WRITEV, &VMSPLICE, &FOPEN, &FOPEN64, &FREOPEN, &FREOPEN64, &FILENO, &FCNTL, &FCNTL64 $(, &$next)+];
    };
}

opens! {
    1: open(path: usize, flags: c_int, mode: usize) flags & O_DIRECT != 0, is OPEN open_of(c"open");
    1: open64(path: usize, flags: c_int, mode: usize) flags & O_DIRECT != 0, is OPEN64 open_of(c"open64");
    1: __open_2(path: usize, flags: c_int) flags & O_DIRECT != 0, is OPEN_2 open_of(c"__open_2");
    1: __open64_2(path: usize, flags: c_int) flags & O_DIRECT != 0, is OPEN64_2 open_of(c"__open64_2");
    1: openat(at: usize, path: usize, flags: c_int, mode: usize) flags & O_DIRECT != 0,
        is OPENAT Next::call_of(c"openat", sys::nr::OPENAT);
    1: openat64(at: usize, path: usize, flags: c_int, mode: usize) flags & O_DIRECT != 0,
        is OPENAT64 Next::call_of(c"openat64", sys::nr::OPENAT);
    1: __openat_2(at: usize, path: usize, flags: c_int) flags & O_DIRECT != 0,
        is OPENAT_2 Next::call_of(c"__openat_2", sys::nr::OPENAT);
    1: __openat64_2(at: usize, path: usize, flags: c_int) flags & O_DIRECT != 0,
        is OPENAT64_2 Next::call_of(c"__openat64_2", sys::nr::OPENAT);
}

static FOPEN: Next = Next::library(c"fopen");
static FOPEN64: Next = Next::library(c"fopen64");
static FREOPEN: Next = Next::library(c"freopen");
static FREOPEN64: Next = Next::library(c"freopen64");
static FILENO: Next = Next::library(c"fileno");

/// Defines functions that open streams.
macro_rules! streams {
    ($($name:ident($($argument:ident),+) is $next:ident;)+) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: usize),+) -> usize {
                // SAFETY: the caller upholds the contract.
                let stream = unsafe { $next.call([$($argument),+]) as usize };
                if stream != 0 && is_paging() {
                    // SAFETY: the stream was just opened.
                    keeping_errno(|| opened(unsafe { FILENO.call([stream]) as c_int }, false));
                }
                stream
            }
        )+
    };
}

streams! {
    fopen(path, mode) is FOPEN;
    fopen64(path, mode) is FOPEN64;
    freopen(path, mode, old) is FREOPEN;
    freopen64(path, mode, old) is FREOPEN64;
}

/// Defines functions that change a descriptor's flags.
macro_rules! changes {
    ($($name:ident is $next:ident $text:literal;)+) => {
        $(
            static $next: Next = Next::call_of($text, sys::nr::FCNTL);

            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(file: usize, command: c_int, argument: usize) -> c_int {
                let direct = command == F_SETFL && argument as c_int & O_DIRECT != 0;
                if direct {
                    note();
                }
                // SAFETY: the caller upholds the contract.
                let answer = unsafe { $next.call([file, command as usize, argument]) as c_int };
                if direct && answer >= 0 && is_paging() {
                    keeping_errno(|| opened(file as c_int, true));
                }
                answer
            }
        )+
    };
}

changes! {
    fcntl is FCNTL c"fcntl";
    fcntl64 is FCNTL64 c"fcntl64";
}

static READV: Next = Next::call_of(c"process_vm_readv", sys::nr::PROCESS_VM_READV);
static WRITEV: Next = Next::call_of(c"process_vm_writev", nr::PROCESS_VM_WRITEV);
static VMSPLICE: Next = Next::call_of(c"vmsplice", nr::VMSPLICE);

/// Whether `process` is this process: its id, or the id of one of its threads.
fn is_own(process: c_int) -> bool {
    let own = RUNTIME.process.pid.load(Relaxed);
    is_managed() && (process as u32 == own || process > 0 && sys::thread_exists(own, process as u32))
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_vm_readv(
    process: c_int,
    here: usize,
    here_count: usize,
    there: usize,
    there_count: usize,
    flags: usize,
) -> isize {
    if is_own(process) {
        note();
    }
    // SAFETY: the caller upholds the contract.
    unsafe { READV.call([process as usize, here, here_count, there, there_count, flags]) }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_vm_writev(
    process: c_int,
    here: usize,
    here_count: usize,
    there: usize,
    there_count: usize,
    flags: usize,
) -> isize {
    if is_own(process) {
        note();
    }
    // SAFETY: the caller upholds the contract.
    unsafe { WRITEV.call([process as usize, here, here_count, there, there_count, flags]) }
}

/// Replaces the C library's function: a pipe takes in pages of the program.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmsplice(pipe: usize, pages: usize, count: usize, flags: usize) -> isize {
    note();
    // SAFETY: the caller upholds the contract.
    unsafe { VMSPLICE.call([pipe, pages, count, flags]) }
}
