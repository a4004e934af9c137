//! Whether the program runs inside another program that makes its system calls for it: valgrind, DynamoRIO,
//! rr, qemu's user mode. Such programs know only the threads that the C library reports, and end the program
//! at a `clone` of another kind; and they could not follow memory that changes by itself. Inside them the
//! library does nothing.
//!
//! They can be recognised in `LD_PRELOAD`, where they put a library of their own, or by their answers about
//! the program's own file: under its usual name they answer for the kernel, under another name the kernel
//! answers.

use core::ffi::{CStr, c_char};

use crate::kernel::sys::{self, Fd};

/// The names of their libraries.
const LIBRARIES: [&[u8]; 4] = [b"vgpreload", b"libdynamorio", b"libdrpreload", b"librrpreload"];

/// Whether the program runs in an emulator.
///
/// # Safety
/// The same as for `find`.
pub unsafe fn is_around(environment: *const *const c_char) -> bool {
    // SAFETY: the caller upholds the contract.
    let preloaded = unsafe { super::find(environment, "LD_PRELOAD") }.map_or(&b""[..], CStr::to_bytes);
    let names_one = |name: &&[u8]| preloaded.windows(name.len()).any(|window| window == *name);
    LIBRARIES.iter().any(names_one) || answers_for_the_kernel()
}

fn answers_for_the_kernel() -> bool {
    const HERE: Fd = Fd(-100);
    let mut texts = [[0u8; 512]; 2];
    let [said, true_one] = &mut texts;
    let lengths = (
        sys::readlink_at(HERE, c"/proc/self/exe", said),
        sys::readlink_at(HERE, c"/proc/thread-self/exe", true_one),
    );
    matches!(lengths, (Ok(a), Ok(b)) if said[..a] != true_one[..b])
}
