//! What `/proc` says of this process, and of its threads.
//!
//! The process's own directory is empty once its first thread has ended: what is opened there later, and what tells of
//! now (`statm`), says nothing. Then the directory of the thread that asks is taken. Not before: what was looked
//! at there, the kernel throws away when that thread ends, and on a busy machine whoever waits for the process
//! spins until that is done (5 ms for each compiler of a build, Linux 6.18).

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::maps;
use crate::sys::{self, Fd, Result, o};

static FIRST_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Looks whether the first thread has ended. Returns an open `statm` of the process.
pub fn open_statm() -> Result<Fd> {
    let own = sys::open_own(c"/proc/self/statm", o::RDONLY)?;
    if maps::anonymous_pages(own).is_ok_and(|pages| pages > 0) {
        FIRST_IS_GONE.store(false, Relaxed);
        return Ok(own);
    }
    FIRST_IS_GONE.store(true, Relaxed);
    sys::close(own);
    sys::open_own(c"/proc/thread-self/statm", o::RDONLY)
}

/// Opens one of these files of the process: the first name, or the second if the first thread has ended.
pub fn open(of_process: &CStr, of_thread: &CStr) -> Result<Fd> {
    sys::open_own(if FIRST_IS_GONE.load(Relaxed) { of_thread } else { of_process }, o::RDONLY)
}

const BEFORE: &[u8] = b"/proc/self/task/";
const DIGITS: usize = 10;

/// Reads the beginning of a file of this thread. `None` if there is no such thread, or no such file for us.
pub fn read<'a>(tid: u32, name: &str, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0u8; 64];
    let digits = tid.checked_ilog10().unwrap_or(0) as usize + 1;
    let (name_at, mut rest) = (BEFORE.len() + digits + 1, tid);
    path[..BEFORE.len()].copy_from_slice(BEFORE);
    for digit in path[BEFORE.len()..BEFORE.len() + digits.min(DIGITS)].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    path[name_at - 1] = b'/';
    path.get_mut(name_at..name_at + name.len())?.copy_from_slice(name.as_bytes());
    let file = sys::open_own(CStr::from_bytes_until_nul(&path).ok()?, o::RDONLY).ok()?;
    let length = sys::read(file, into);
    sys::close(file);
    Some(&into[..length.ok()?])
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
}
