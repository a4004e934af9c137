//! Mounts of file systems that may pin the reader's memory although nobody
//! asked for direct I/O: a FUSE server decides that for each file (`direct_io`),
//! 9p and SMB do it when mounted without a cache.
//!
//! Which mounts those are is read from `mountinfo`. To ask a file system for
//! its type could wait for its server, and the keeper may wait for nobody.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use crate::maps::decimal;
use crate::sys::{self, Fd, PollFd, o};

/// Types of such file systems; a subtype may follow after a dot.
const TYPES: [&[u8]; 6] = [b"fuse", b"fuseblk", b"virtiofs", b"9p", b"cifs", b"smb3"];
/// Such mounts that are told apart. With more, every file may pin.
const PINNING: usize = 64;
/// Other mounts that are known. Files of those that are not may pin.
const ORDINARY: usize = 1024;
const POLL_CHANGED: i16 = 2 | 8;

/// Ids of the mounts that may pin: written by the keeper, read by all.
pub struct PinningMounts {
    ids: [AtomicU64; PINNING],
    count: AtomicUsize,
}

impl PinningMounts {
    /// None.
    pub const fn new() -> Self {
        PinningMounts { ids: [const { AtomicU64::new(0) }; PINNING], count: AtomicUsize::new(0) }
    }

    /// Whether there are any.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.count.load(Acquire) != 0
    }

    /// Whether files of this mount may pin.
    pub fn has(&self, mount: u64) -> bool {
        let count = self.count.load(Acquire);
        count > PINNING || self.ids[..count].iter().any(|id| id.load(Relaxed) == mount)
    }

    /// Whether this open file of the calling thread may pin.
    pub fn holds(&self, file: Fd) -> bool {
        match sys::file_info(file, c"") {
            // Before Linux 5.8 the mount is not told.
            Ok(info) => info.is_regular && info.mount.is_none_or(|mount| self.has(mount)),
            Err(_) => false,
        }
    }
}

/// The keeper's list of all mounts that it can see.
pub struct Mounts {
    file: Option<Fd>,
    read: bool,
    ordinary: [u32; ORDINARY],
    count: usize,
}

impl Mounts {
    /// Opens the list. If that fails every file may pin.
    pub fn open() -> Self {
        let file = sys::open_own(c"/proc/thread-self/mountinfo", o::RDONLY).ok();
        Mounts { file, read: false, ordinary: [0; ORDINARY], count: 0 }
    }

    /// Reads the list if it has changed.
    pub fn refresh(&mut self, pinning: &PinningMounts) {
        let Some(file) = self.file else { return };
        let mut fds = [PollFd { fd: file, events: POLL_CHANGED, revents: 0 }];
        let changed = sys::poll(&mut fds, Some(0)).is_ok_and(|count| count > 0);
        if self.read && !changed {
            return;
        }
        self.read = true;
        self.count = 0;
        let mut found = 0;
        let mut buffer = [0u8; 8 << 10];
        let (mut offset, mut filled) = (0u64, 0);
        while let Ok(got) = sys::pread(file, &mut buffer[filled..], offset) {
            offset += got as u64;
            let end = filled + got;
            let mut at = 0;
            while let Some(length) = buffer[at..end].iter().position(|byte| *byte == b'\n') {
                match parse(&buffer[at..at + length]) {
                    Some((id, true)) => {
                        if let Some(place) = pinning.ids.get(found) {
                            place.store(id, Relaxed);
                        }
                        found += 1;
                    }
                    Some((id, false)) if self.count < ORDINARY => {
                        self.ordinary[self.count] = id as u32;
                        self.count += 1;
                    }
                    _ => {}
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
        pinning.count.store(found.min(PINNING + 1), Release);
    }

    /// Whether this mount is known and pins only for direct I/O.
    pub fn is_ordinary(&self, mount: u64) -> bool {
        self.ordinary[..self.count].iter().any(|id| u64::from(*id) == mount)
    }
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
        let (mut mounts, pinning) = (Mounts::open(), PinningMounts::new());
        mounts.refresh(&pinning);
        let file = sys::open(c"/proc/self/maps", o::RDONLY).unwrap();
        let info = sys::file_info(file, c"").unwrap();
        assert!(info.is_regular);
        if let Some(mount) = info.mount {
            assert!(mounts.is_ordinary(mount));
            assert!(!pinning.has(mount));
        }
        assert!(!pinning.holds(file));
        sys::close(file);
        assert!(!mounts.is_ordinary(u64::MAX));
    }
}
