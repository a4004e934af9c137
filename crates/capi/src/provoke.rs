//! A fault of the library's own, for a test of what then happens in the library as it is built. `link.sh` takes it out of what is installed.

use std::ffi::c_int;

use crate::session::{in_session, memfold_session};

/// Panics while it does something with a session.
#[unsafe(no_mangle)]
pub extern "C" fn capi_test_panic(session: *mut memfold_session) -> c_int {
    in_session(session, |_| panic!("as the test wants it"))
}
