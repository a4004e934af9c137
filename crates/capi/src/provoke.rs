//! A deliberate bug, to test how the library as built handles one. `link.sh` removes it from what is installed.

use std::ffi::c_int;

use crate::session::{in_session, memfold_session};

/// Panics while it uses a session.
#[unsafe(no_mangle)]
pub extern "C" fn capi_test_panic(session: *mut memfold_session) -> c_int {
    in_session(session, |_| panic!("as the test wants it"))
}
