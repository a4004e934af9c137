//! What AddressSanitizer is told: libdeflate compiles a file for each set of
//! instructions, and the same constant in each is no error.

use std::ffi::c_char;

#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const c_char {
    c"detect_odr_violation=0".as_ptr()
}
