//! What `/proc` says of a thread of this process.

use core::ffi::CStr;

use crate::sys::{self, o};

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
