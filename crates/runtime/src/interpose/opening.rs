//! Functions that open files. Two parts want to know: I/O may pin pages (`mappings/pins.rs`), and some files are
//! shown with other contents (`shown/files.rs`).
//!
//! They are cancellation points: if a thread is cancelled there, their frame is unwound, and nothing in it has to
//! be undone.

use core::ffi::{CStr, c_char, c_int};

use crate::interpose::mappings::pins;
use crate::interpose::next::{Next, is_paging, is_showing, keeping_errno};
use crate::interpose::shown::files;
use crate::kernel::sys::{self, o};

#[cfg(target_arch = "x86_64")]
const fn open_of(name: &'static CStr) -> Next {
    const OPEN: usize = 2;
    Next::call_of(name, OPEN)
}
/// This architecture has no system call `open`, so an unbound function is looked up.
#[cfg(target_arch = "aarch64")]
const fn open_of(name: &'static CStr) -> Next {
    Next::library(name)
}

const fn openat_of(name: &'static CStr) -> Next {
    Next::call_of(name, sys::nr::OPENAT)
}

/// Defines functions that open files.
macro_rules! opens {
    ($($count:literal: $name:ident($($at:ident)? / $path:ident, $flags:ident $(, $mode:ident)?) is $next:ident $made:expr;)+) => {
        $(
            static $next: Next = $made;

            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function. A variable argument is declared as a fixed one: it
            /// is passed in the same register.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($at: usize,)? $path: usize, $flags: c_int $(, $mode: usize)?) -> c_int {
                let direct = $flags & o::DIRECT != 0;
                if direct {
                    pins::note();
                }
                // SAFETY: the caller upholds the contract.
                let file = unsafe { $next.call([$($at,)? $path, $flags as usize $(, $mode)?]) as c_int };
                if is_paging() {
                    keeping_errno(|| pins::opened(file, direct));
                }
                if is_showing() {
                    // SAFETY: the kernel has read the path if it has opened the file.
                    unsafe { files::opened(file, $path, $flags) };
                }
                file
            }
        )+
        /// All functions interposed here.
        pub static ALL: [&Next; 5 $(+ $count)+] =
            [&FOPEN, &FOPEN64, &FREOPEN, &FREOPEN64, &FILENO $(, &$next)+];
    };
}

opens! {
    1: open(/ path, flags, mode) is OPEN open_of(c"open");
    1: open64(/ path, flags, mode) is OPEN64 open_of(c"open64");
    1: __open_2(/ path, flags) is OPEN_2 open_of(c"__open_2");
    1: __open64_2(/ path, flags) is OPEN64_2 open_of(c"__open64_2");
    1: openat(at / path, flags, mode) is OPENAT openat_of(c"openat");
    1: openat64(at / path, flags, mode) is OPENAT64 openat_of(c"openat64");
    1: __openat_2(at / path, flags) is OPENAT_2 openat_of(c"__openat_2");
    1: __openat64_2(at / path, flags) is OPENAT64_2 openat_of(c"__openat64_2");
}

static FOPEN: Next = Next::library(c"fopen");
static FOPEN64: Next = Next::library(c"fopen64");
static FREOPEN: Next = Next::library(c"freopen");
static FREOPEN64: Next = Next::library(c"freopen64");
static FILENO: Next = Next::library(c"fileno");

/// Defines functions that open streams.
macro_rules! streams {
    ($($name:ident($path:ident, $mode:ident $(, $old:ident)?) is $next:ident;)+) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($path: usize, $mode: usize $(, $old: usize)?) -> usize {
                // SAFETY: the caller upholds the contract.
                let stream = unsafe { $next.call([$path, $mode $(, $old)?]) as usize };
                if stream != 0 && (is_paging() || is_showing()) {
                    // SAFETY: the stream was just opened, and the C library has read the texts. A path may be
                    // missing: then `freopen` changes only the mode.
                    keeping_errno(|| unsafe { stream_opened(stream, $path, $mode) });
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

/// # Safety
/// `stream` is one of the C library's, `mode` a text, and `path` a text or 0.
#[cold]
unsafe fn stream_opened(stream: usize, path: usize, mode: usize) {
    // SAFETY: the caller upholds the contract.
    unsafe {
        let file = FILENO.call([stream]) as c_int;
        if is_paging() {
            pins::opened(file, false);
        }
        let mode = CStr::from_ptr(mode as *const c_char).to_bytes();
        let only_reads = mode.first() == Some(&b'r') && !mode.contains(&b'+');
        if path != 0 && only_reads && is_showing() {
            files::opened(file, path, if mode.contains(&b'e') { o::CLOEXEC } else { 0 });
        }
    }
}
