//! Files that were just opened by name (`opening.rs`).

use core::ffi::{CStr, c_char, c_int};

use super::text::{Contents, Kind, MOST_BYTES};
use crate::interpose::next::{keeping_errno, shown};
use crate::kernel::filters;
use crate::kernel::sys::{self, Fd, Result, o};

/// A file was opened, or was not: shows other contents if it is one of ours, opened only for reading.
///
/// # Safety
/// If there is such a file, `path` is a text.
pub unsafe fn opened(file: c_int, path: usize, flags: c_int) {
    if file < 0 || flags & (o::WRONLY | o::RDWR | o::PATH) != 0 {
        return;
    }
    // SAFETY: the caller upholds the contract.
    let path = unsafe { CStr::from_ptr(path as *const c_char) };
    if let Some(kind) = Kind::of(path.to_bytes()) {
        // If this fails, the program sees the kernel's numbers.
        let _ = keeping_errno(|| replace(Fd(file), kind, flags));
    }
}

/// Puts a memory file with the shown contents behind the descriptor.
#[cold]
#[inline(never)]
fn replace(file: Fd, kind: Kind, flags: c_int) -> Result<()> {
    const FILE_SIZE: usize = 1;
    // The kernel would send SIGXFSZ. And a program with filters of its own may not make these calls.
    let may_write = sys::resource_limit(FILE_SIZE)?[0] >= MOST_BYTES as u64 && filters::may_show();
    if !may_write || !kind.is_in(sys::file_system(file)?) {
        return Ok(());
    }
    let Some(shown) = shown() else { return Ok(()) };
    let (mut buffer, mut length) = ([0; MOST_BYTES], 0);
    while length < buffer.len() {
        match sys::pread(file, &mut buffer[length..], length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    let mut contents = Contents::new();
    if length == buffer.len() || kind.show(&buffer[..length], shown, &mut contents).is_none() {
        return Ok(());
    }
    let other = sys::memory_file(c"memfold-shown")?;
    let done = sys::pwrite(other, contents.bytes(), 0)
        .and_then(|_| sys::duplicate_as(other, file, flags & o::CLOEXEC));
    sys::close(other);
    done
}
