//! Whether the program runs inside of another one that makes its system calls
//! for it: valgrind, DynamoRIO, rr, qemu's user mode. Such know of threads what the C
//! library tells them, and end the program at a `clone` of another kind; and memory that
//! comes and goes by itself is nothing that they could follow. The library
//! does nothing there.
//!
//! They show themselves in `LD_PRELOAD`, where they put a library of their own, or by this:
//! they answer in the program's name what its file is when it asks by the usual
//! name, and the kernel answers when it asks by another.

use core::ffi::{CStr, c_char};

use crate::kernel::sys::{self, Fd};

/// What their libraries are called.
const LIBRARIES: [&[u8]; 4] = [b"vgpreload", b"libdynamorio", b"libdrpreload", b"librrpreload"];

/// Whether it does.
///
/// # Safety
/// As for `find`.
pub unsafe fn is_around(environment: *const *const c_char) -> bool {
    // SAFETY: passed on to the caller.
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
