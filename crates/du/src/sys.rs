//! Functions of the system and of the C library that have no safe wrapper, each behind a safe function.

use std::ffi::CStr;

/// Whether a name matches a shell pattern. The program's locale (LC_CTYPE) determines what a character is.
pub fn matches(pattern: &CStr, text: &CStr) -> bool {
    // SAFETY: both are strings that end with zero and live during the call, which changes neither. Several
    // threads may call it at once, as long as none changes the locale: the program does that before it starts
    // other threads, or not at all.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
}
