//! Options for AddressSanitizer: libdeflate compiles a file for each instruction set, and the same constant
//! in each object is not an error.

use std::ffi::c_char;

#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const c_char {
    c"detect_odr_violation=0".as_ptr()
}
