//! Mounts of file systems that may pin the reader's memory although nobody
//! asked for direct I/O: a FUSE server decides that for each file (`direct_io`),
//! 9p and SMB do it when mounted without a cache.
//!
//! Which mounts those are is read from `mountinfo`. To ask a file system for
//! its type could wait for its server, and the keeper may wait for nobody.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use crate::maps::decimal;
use crate::sched;
use crate::sys::{self, Fd, PollFd, o};

/// Types of such file systems; a subtype may follow after a dot. ZFS does direct I/O unasked if so set (`direct`).
const TYPES: [&[u8]; 7] = [b"fuse", b"fuseblk", b"virtiofs", b"9p", b"cifs", b"smb3", b"zfs"];
/// Other mounts that are known at most. Files of those that are not may pin.
const ORDINARY: usize = 1024;
/// Looks at a list that is just being written before a mount is taken for unknown.
const PATIENCE: usize = 1000;
const POLL_CHANGED: i16 = 2 | 8;

/// The mounts whose files pin only for direct I/O: written by the keeper, read by all.
pub struct OrdinaryMounts {
    ids: [AtomicU32; ORDINARY],
    count: AtomicUsize,
    /// Odd while the list is being written.
    version: AtomicU32,
    /// There are others too.
    others: AtomicBool,
}

impl OrdinaryMounts {
    /// None.
    pub const fn new() -> Self {
        OrdinaryMounts {
            ids: [const { AtomicU32::new(0) }; ORDINARY],
            count: AtomicUsize::new(0),
            version: AtomicU32::new(0),
            others: AtomicBool::new(false),
        }
    }

    /// Whether this mount is one of them. A mount that has appeared since the list was read is not.
    pub fn has(&self, mount: u64) -> bool {
        for _ in 0..PATIENCE {
            let version = self.version.load(Acquire);
            let used = &self.ids[..self.count.load(Relaxed).min(ORDINARY)];
            if used.iter().any(|id| u64::from(id.load(Relaxed)) == mount) {
                return true;
            }
            core::sync::atomic::fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                return false;
            }
            sched::yield_now();
        }
        false
    }

    /// Whether this open file of the calling thread may pin.
    pub fn may_pin(&self, file: Fd) -> bool {
        match sys::file_info(file, c"") {
            Ok(info) if info.is_regular => match info.mount {
                Some(mount) => !self.has(mount),
                // Before Linux 5.8 the mount is not told.
                None => self.others.load(Relaxed),
            },
            _ => false,
        }
    }
}

/// The keeper's view of the mounts.
pub struct Mounts {
    file: Option<Fd>,
    read: bool,
}

impl Mounts {
    /// Opens the list. If that fails every file may pin.
    pub fn open() -> Self {
        let file = sys::open_own(c"/proc/thread-self/mountinfo", o::RDONLY).ok();
        Mounts { file, read: false }
    }

    /// Reads the list if it has changed.
    pub fn refresh(&mut self, ordinary: &OrdinaryMounts) {
        let Some(file) = self.file else { return };
        let mut fds = [PollFd { fd: file, events: POLL_CHANGED, revents: 0 }];
        let changed = sys::poll(&mut fds, Some(0)).is_ok_and(|count| count > 0);
        if self.read && !changed {
            return;
        }
        self.read = true;
        ordinary.version.fetch_add(1, AcqRel);
        read_list(file, ordinary);
        ordinary.version.fetch_add(1, Release);
    }
}

fn read_list(file: Fd, ordinary: &OrdinaryMounts) {
    let (mut count, mut others) = (0, false);
    let mut buffer = [0u8; 8 << 10];
    let (mut offset, mut filled) = (0u64, 0);
    while let Ok(got) = sys::pread(file, &mut buffer[filled..], offset) {
        offset += got as u64;
        let end = filled + got;
        let mut at = 0;
        while let Some(length) = buffer[at..end].iter().position(|byte| *byte == b'\n') {
            match parse(&buffer[at..at + length]) {
                Some((id, false)) if count < ORDINARY => {
                    ordinary.ids[count].store(id as u32, Relaxed);
                    count += 1;
                }
                _ => others = true,
            }
            at += length + 1;
        }
        buffer.copy_within(at..end, 0);
        filled = end - at;
        if got == 0 {
            break;
        }
        if filled == buffer.len() {
            // Longer than any line may be: what is not known may pin.
            filled = 0;
        }
    }
    ordinary.count.store(count, Relaxed);
    ordinary.others.store(others, Relaxed);
}

/// Id of a mount, and whether it may pin: `ID PARENT DEVICE ROOT POINT OPTIONS TAGS... - TYPE SOURCE OPTIONS`.
fn parse(line: &[u8]) -> Option<(u64, bool)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = decimal(fields.next()?)?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let kind = kind.split(|byte| *byte == b'.').next()?;
    Some((id, TYPES.contains(&kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        assert_eq!(parse(line), Some((36, false)));
        assert_eq!(
            parse(b"62 28 0:54 / /run/user/1000/doc rw - fuse.portal portal rw,user_id=0"),
            Some((62, true))
        );
        assert_eq!(parse(b"63 28 0:55 / /a\\040b rw - fuse x rw"), Some((63, true)));
        assert_eq!(parse(b"64 28 0:56 / /c rw - 9p host rw,trans=virtio"), Some((64, true)));
        assert_eq!(
            parse(b"65 28 0:57 / /sys/fs/fuse/connections rw - fusectl fusectl rw"),
            Some((65, false))
        );
        assert_eq!(parse(b"65 28 0:57 / /x rw"), None);
    }

    #[test]
    fn own_files_are_on_ordinary_mounts() {
        let (mut mounts, ordinary) = (Mounts::open(), OrdinaryMounts::new());
        mounts.refresh(&ordinary);
        let file = sys::open(c"/proc/self/maps", o::RDONLY).unwrap();
        let info = sys::file_info(file, c"").unwrap();
        assert!(info.is_regular);
        assert!(info.mount.is_none_or(|mount| ordinary.has(mount)));
        assert!(!ordinary.may_pin(file));
        assert!(info.mount.is_none() || OrdinaryMounts::new().may_pin(file));
        sys::close(file);
        assert!(!ordinary.has(u64::MAX));
    }
}
