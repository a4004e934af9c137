//! Reads files that a program under `memfold run --show` sees with other numbers. The preload library stands
//! before the C library's functions that open files, not before the system call.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The contents of a file, as the kernel writes them.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero and outlives the call.
    let file = unsafe {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC)
    };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened, and nothing else has it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(file as i32) });
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}
