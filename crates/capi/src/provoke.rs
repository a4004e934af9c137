//! A fault of the library's own, for tests of what then happens.

use std::ffi::c_int;

use crate::session::{in_session, memfold_session};

/// Panics while it does something with a session.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_provoke_panic(session: *mut memfold_session) -> c_int {
    in_session(session, |_| panic!("as the test wants it"))
}
