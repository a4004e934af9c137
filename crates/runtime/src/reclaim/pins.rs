//! Whether a writer may write to pages of the program in a way that eviction would not notice.
//!
//! A device or another process may write to a page at any time, through its physical address. If the page is
//! evicted and a copy of it is restored, later writes are lost. UFFDIO_MOVE (Linux 6.8) refuses pages that
//! are pinned for that, so with it only those file systems are dangerous whose direct I/O does not pin
//! (`mounts.rs`). Before 6.8 everything that pins is dangerous: direct I/O, io_uring, asynchronous I/O, and
//! files of mounts that may do direct I/O by themselves. Once such a danger has been seen in a process,
//! nothing more is evicted from it.

use core::ffi::CStr;
use core::sync::atomic::Ordering::*;

use crate::kernel::Kernel;
use crate::kernel::maps::decimal;
use crate::kernel::mounts::{Mounts, Notices, Risk};
use crate::kernel::sys::{self, Fd, o};
use crate::runtime::Runtime;

/// Prefixes of the names of files that the kernel keeps in memory.
const INTERNAL: [&[u8]; 6] =
    [b"/memfd:", b"/dev/zero (deleted)", b"/anon_hugepage", b"/SYSV", b"/dmabuf:", b"/[aio]"];

/// Maximum number of descriptors to look at in one go; beyond that, only the first ones are.
const LOOK_AT: usize = 4096;

impl Kernel {
    /// Whether the file of this descriptor may hold on to pages unnoticed.
    fn may_hold_pages(&self, directory: Fd, name: &CStr) -> bool {
        let mut target = [0u8; 64];
        let Ok(length) = sys::readlink_at(directory, name, &mut target) else { return false };
        let pins_are_noticed = self.mounts.notices() != Notices::Nothing;
        if target[..length].starts_with(b"anon_inode:[io_uring]") {
            return !pins_are_noticed;
        }
        // Sockets and pipes have no direct mode that pins the reader's memory.
        if target[0] != b'/' {
            return false;
        }
        let number = name.to_bytes();
        let mut path = [0u8; 40];
        let prefix = b"/proc/self/fdinfo/";
        if prefix.len() + number.len() >= path.len() {
            return false;
        }
        path[..prefix.len()].copy_from_slice(prefix);
        path[prefix.len()..prefix.len() + number.len()].copy_from_slice(number);
        let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
        let Ok(info) = sys::open(path, o::RDONLY | o::CLOEXEC) else { return false };
        let mut text = [0u8; 128];
        let length = sys::read(info, &mut text).unwrap_or(0);
        sys::close(info);
        let Some((flags, mount)) = parse(&text[..length]) else { return false };
        let direct = flags & o::DIRECT as u32 != 0;
        if direct && !pins_are_noticed {
            return true;
        }
        let risk = self.mounts.risk(mount);
        // The kernel's own files have no mount in the list. Other files may come from places that this
        // process cannot see.
        let internal = INTERNAL.iter().any(|start| target.starts_with(start));
        (risk == Risk::Always || risk == Risk::Direct && direct)
            && !internal
            && sys::file_info(directory, name).is_ok_and(|info| info.is_regular)
    }
}

impl Runtime {
    /// Whether evicted pages may be written unnoticed: then nothing more is evicted. In programs far from
    /// their limit, pins are seen before it is known whether they matter.
    pub fn may_write_late(&self) -> bool {
        self.pages.holds_seen.load(Acquire)
            || self.pages.pins_seen.load(Acquire) && self.kernel.mounts.notices() == Notices::Nothing
    }

    /// Records that this may happen, now that it is known which writers eviction notices.
    pub fn note_late_writer(&self) {
        let pins = self.kernel.mounts.notices() == Notices::Nothing;
        let seen = if pins { &self.pages.pins_seen } else { &self.pages.holds_seen };
        seen.store(true, SeqCst);
    }

    /// Looks for descriptors that are such a danger. Once one was seen, the danger counts for ever.
    pub fn look_for_pins(&self, mounts: &mut Mounts) {
        if self.may_write_late() {
            return;
        }
        mounts.refresh(&self.kernel.mounts);
        if self.kernel.mounts.are_harmless() {
            return;
        }
        let flags = o::RDONLY | o::CLOEXEC | o::DIRECTORY;
        let Ok(directory) = sys::open(c"/proc/self/fd", flags) else {
            // It is unknown which files are open: for instance where there is no /proc (`chroot`).
            return self.note_late_writer();
        };
        let mut buffer = [0u8; 4096];
        let mut seen = 0;
        while let Ok(length) = sys::read_directory(directory, &mut buffer) {
            if length == 0 || seen >= LOOK_AT {
                break;
            }
            let mut at = 0;
            while at + 19 <= length {
                let record = u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]) as usize;
                if let Ok(name) = CStr::from_bytes_until_nul(&buffer[at + 19..at + record]) {
                    seen += 1;
                    if name.to_bytes()[0] != b'.' && self.kernel.may_hold_pages(directory, name) {
                        self.note_late_writer();
                    }
                }
                at += record.max(24);
            }
        }
        sys::close(directory);
    }
}

/// `flags` (octal) and `mnt_id` of a descriptor.
fn parse(text: &[u8]) -> Option<(u32, u64)> {
    let mut flags = None;
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(value) = line.strip_prefix(b"flags:") {
            flags = u32::from_str_radix(core::str::from_utf8(value).ok()?.trim(), 8).ok();
        } else if let Some(value) = line.strip_prefix(b"mnt_id:") {
            return Some((flags?, decimal(value.trim_ascii())?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::RUNTIME;

    #[test]
    fn direct_files_are_noticed() {
        assert_eq!(parse(b"pos:\t0\nflags:\t0140002\nmnt_id:\t9\nino:\t1\n"), Some((0o140002, 9)));
        assert_eq!(parse(b"nothing"), None);
        let mut mounts = Mounts::open();
        RUNTIME.look_for_pins(&mut mounts);
        assert!(!RUNTIME.pages.pins_seen.load(Relaxed));
        // Not every file system supports direct I/O; where it is supported, it must be seen.
        let path = std::ffi::CString::new(std::env::current_exe().unwrap().to_str().unwrap()).unwrap();
        if let Ok(fd) = sys::open(&path, o::RDONLY | o::DIRECT) {
            RUNTIME.look_for_pins(&mut mounts);
            assert!(RUNTIME.pages.pins_seen.load(Relaxed));
            sys::close(fd);
            RUNTIME.pages.pins_seen.store(false, Relaxed);
        }
    }
}
