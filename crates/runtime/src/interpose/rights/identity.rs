//! `setuid` and its relatives: the runtime's threads follow.

use core::ffi::c_int;

use crate::interpose::next::{Next, is_managed_here, keeping_errno};
use crate::interpose::rights::credentials;

/// Defines functions that change the identity of all threads.
macro_rules! changes {
    ($($count:literal: $name:ident($($argument:ident),+) is $next:ident $text:literal;)+) => {
        $(
            static $next: Next = Next::library($text);

            /// Replaces the C library's function; the runtime's threads follow.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: usize),+) -> c_int {
                // SAFETY: the caller upholds the contract.
                let result = unsafe { $next.call([$($argument),+]) } as c_int;
                followed(result)
            }
        )+
        /// All functions interposed here.
        pub static ALL: [&Next; 0 $(+ $count)+] = [$(&$next),+];
    };
}

changes! {
    1: setuid(user) is SETUID c"setuid";
    1: seteuid(user) is SETEUID c"seteuid";
    1: setreuid(real, effective) is SETREUID c"setreuid";
    1: setresuid(real, effective, saved) is SETRESUID c"setresuid";
    1: setgid(group) is SETGID c"setgid";
    1: setegid(group) is SETEGID c"setegid";
    1: setregid(real, effective) is SETREGID c"setregid";
    1: setresgid(real, effective, saved) is SETRESGID c"setresgid";
    1: setgroups(count, groups) is SETGROUPS c"setgroups";
    1: initgroups(user, group) is INITGROUPS c"initgroups";
}

fn followed(result: c_int) -> c_int {
    // A child of vfork changes only itself.
    if result == 0 && is_managed_here() {
        keeping_errno(credentials::publish);
    }
    result
}
