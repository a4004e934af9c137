//! Functions that start processes. If the kernel refuses one for lack of tasks (`pids.max`, `ulimit -u`),
//! threads of memfold may be the reason: they end to make way, and the call is repeated (`watch/retire.rs`).
//! `vfork` cannot be wrapped: it returns twice, to the same place on the stack. `system` and `popen` start
//! processes inside the C library, bypassing these functions.

use core::ffi::c_int;

use crate::interpose::next::{Next, errno};
use crate::kernel::sys::Errno;
use crate::reclaim::watch::with_tasks_back;

static FORK: Next = Next::library(c"fork");
static POSIX_SPAWN: Next = Next::library(c"posix_spawn");
static POSIX_SPAWNP: Next = Next::library(c"posix_spawnp");

/// All functions interposed here.
pub static ALL: [&Next; 3] = [&FORK, &POSIX_SPAWN, &POSIX_SPAWNP];

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> c_int {
    // SAFETY: the caller upholds the contract.
    with_tasks_back(|| unsafe { FORK.call([]) as c_int }, |pid| *pid == -1 && errno() == Errno::AGAIN)
}

macro_rules! spawns {
    ($($name:ident $next:ident)*) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                pid: usize,
                program: usize,
                actions: usize,
                attributes: usize,
                words: usize,
                environment: usize,
            ) -> c_int {
                let given = [pid, program, actions, attributes, words, environment];
                // SAFETY: the caller upholds the contract.
                with_tasks_back(|| unsafe { $next.call(given) as c_int }, |error| *error == Errno::AGAIN.0)
            }
        )*
    };
}

spawns! { posix_spawn POSIX_SPAWN posix_spawnp POSIX_SPAWNP }
