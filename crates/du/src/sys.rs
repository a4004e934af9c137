//! System calls, and those of the C library, for which no safe wrapper exists, each behind a safe function.

use std::ffi::CStr;

/// Whether a name matches a pattern of the shell. What a character is depends on the locale (LC_CTYPE) of
/// the program.
pub fn matches(pattern: &CStr, text: &CStr) -> bool {
    // SAFETY: both are strings that end with zero and live during the call, which changes neither. It may be called by several threads at once, as long as none changes the locale: that is
    // done before there are others, or not at all.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
}
