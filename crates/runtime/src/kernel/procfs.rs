//! Information in `/proc` about this process and its threads.
//!
//! Files are opened in the directory of the process, not in that of a thread. When a thread ends, the kernel
//! discards the directory entries that were looked up for it, and on a busy machine a thread that waits for
//! the process spins until that is done (Linux 6.18: `perf` showed some 5 ms for each compiler of a build).
//!
//! But the directory of the process is empty once its first thread has ended: nothing can be opened there any
//! more, and `statm` says zero. Then the directory of the calling thread is used.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::kernel::maps;
use crate::kernel::sys::{self, Errno, Fd, Result, Text, o};

static FIRST_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Checks whether the first thread has ended, and opens `statm` of the process.
pub fn open_statm() -> Result<Fd> {
    FIRST_IS_GONE.store(false, Relaxed);
    let own = open("statm")?;
    if maps::anonymous_pages(own).is_ok_and(|pages| pages > 0) {
        return Ok(own);
    }
    sys::close(own);
    FIRST_IS_GONE.store(true, Relaxed);
    open("statm")
}

/// Opens a file of the process, in the directory that `open_statm` has determined.
pub fn open(name: &str) -> Result<Fd> {
    let directory = if FIRST_IS_GONE.load(Relaxed) { "thread-self" } else { "self" };
    open_at(format_args!("/proc/{directory}/{name}\0"))
}

/// Whether there is a `/proc` that contains this process. A program's own root directory or mount namespace
/// may have none, or that of another pid namespace.
pub fn is_there() -> bool {
    const HERE: Fd = Fd(-100);
    // A link that every process may read, without a descriptor.
    sys::readlink_at(HERE, c"/proc/self", &mut [0; 16]).is_ok()
}

/// Reads the beginning of a file of a thread. `None` if there is no such thread, or it may not be read.
pub fn read<'a>(tid: u32, name: &str, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = open_at(format_args!("/proc/self/task/{tid}/{name}\0")).ok()?;
    let length = sys::read(file, into);
    sys::close(file);
    Some(&into[..length.ok()?])
}

fn open_at(path: core::fmt::Arguments<'_>) -> Result<Fd> {
    let mut text = Text::new();
    let _ = text.write_fmt(path);
    let path = CStr::from_bytes_until_nul(text.as_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    sys::open_own(path, o::RDONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_its_number() {
        let mut text = [0u8; 64];
        let own = sys::gettid();
        let found = read(own, "stat", &mut text).unwrap();
        assert!(found.starts_with(std::format!("{own} (").as_bytes()));
        assert!(read(own, "no such file", &mut [0; 8]).is_none());
        assert!(read(u32::MAX, "stat", &mut [0; 8]).is_none());
    }

    #[test]
    fn files_of_the_process_are_found() {
        let statm = open_statm().unwrap();
        assert!(maps::anonymous_pages(statm).unwrap() > 0);
        sys::close(statm);
        sys::close(open("maps").unwrap());
        assert!(open("no such file").is_err());
    }
}
