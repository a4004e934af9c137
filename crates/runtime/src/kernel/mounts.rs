//! Mounts, and whether reading their files may write to pages of the program in a way that eviction would not
//! notice.
//!
//! Which files may do so depends on the kernel:
//! - Before 6.8: all files that are read with `O_DIRECT`, and any file of FUSE, 9p, SMB and ZFS. Pages are
//!   pinned, and `mremap` moves pinned pages, too. A FUSE server decides about direct I/O for each file, 9p and
//!   SMB do it when mounted without a cache, ZFS if configured so.
//! - 6.8: any file of FUSE, whose direct I/O held pages without pinning them until 6.9.
//! - 6.8 and later: files of the file systems in `HOLD` that are read with `O_DIRECT`. Their direct I/O holds
//!   pages by plain references, which `UFFDIO_MOVE` does not see.
//!
//! `mountinfo` says which mounts those are. Asking a file system for its type could wait for its server, and
//! the keeper must not wait for any process.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::maps::decimal;
use crate::kernel::sched;
use crate::kernel::sys::{self, Fd, PollFd};

/// Types of file systems that may do direct I/O without a request; a subtype may follow after a dot.
const UNASKED: [&[u8]; 7] = [b"fuse", b"fuseblk", b"virtiofs", b"9p", b"cifs", b"smb3", b"zfs"];
/// Those of them that are FUSE.
const FUSE: [&[u8]; 3] = [b"fuse", b"fuseblk", b"virtiofs"];
/// Types whose direct I/O takes plain references (`iov_iter_get_pages`): NFS and Ceph do so in Linux 6.18;
/// the others were not examined.
const HOLD: [&[u8]; 10] =
    [b"nfs", b"nfs4", b"ceph", b"orangefs", b"pvfs2", b"lustre", b"gpfs", b"beegfs", b"panfs", b"wekafs"];

/// Which reads from a mount's files may write to pages after their eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Risk {
    /// None.
    Never,
    /// Those with `O_DIRECT`.
    Direct,
    /// Any.
    Always,
}

/// The kinds of holds on pages that eviction can notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notices {
    /// None: eviction is by `mremap`.
    Nothing,
    /// Pins, but FUSE does not pin.
    PinsButFuse,
    /// Pins.
    Pins,
}

impl Notices {
    /// For the running kernel; `moves` tells whether it has UFFDIO_MOVE.
    pub fn of(moves: bool) -> Self {
        match sys::kernel_version() {
            _ if !moves => Notices::Nothing,
            Some(version) if version >= (6, 9) => Notices::Pins,
            _ => Notices::PinsButFuse,
        }
    }

    fn risk(self, kind: &[u8]) -> Risk {
        match self {
            Notices::Nothing if UNASKED.contains(&kind) => Risk::Always,
            Notices::Nothing => Risk::Direct,
            Notices::PinsButFuse if FUSE.contains(&kind) => Risk::Always,
            _ if HOLD.contains(&kind) => Risk::Direct,
            _ => Risk::Never,
        }
    }

    /// The risk of a mount that is not listed. It may be new, or belong to another namespace.
    fn unknown(self) -> Risk {
        if self == Notices::Nothing { Risk::Always } else { Risk::Direct }
    }
}

/// Maximum number of known mounts.
const KNOWN: usize = 1024;
/// Number of bits of a list entry that contain the risk.
const RISK_BITS: u32 = 2;
/// How many times to look at a list that is being written before a mount counts as unknown.
const PATIENCE: usize = 1000;
const POLL_CHANGED: i16 = 2 | 8;

/// What is known about the mounts: written by the keeper, read by all threads.
pub struct KnownMounts {
    /// Id and risk.
    list: [AtomicU32; KNOWN],
    count: AtomicUsize,
    /// Odd while the list is written.
    version: AtomicU32,
    /// The highest risk of all mounts.
    highest: AtomicU32,
    /// Which holds eviction can notice; see [`Notices`].
    notices: AtomicU32,
}

impl KnownMounts {
    /// No mounts.
    pub const fn new() -> Self {
        KnownMounts {
            list: [const { AtomicU32::new(0) }; KNOWN],
            count: AtomicUsize::new(0),
            version: AtomicU32::new(0),
            highest: AtomicU32::new(Risk::Always as u32),
            notices: AtomicU32::new(Notices::Nothing as u32),
        }
    }

    /// Which holds on pages eviction can notice.
    pub fn notices(&self) -> Notices {
        let all = [Notices::Nothing, Notices::PinsButFuse, Notices::Pins];
        all[self.notices.load(Relaxed).min(2) as usize]
    }

    /// Sets the kinds of holds that eviction can notice. Called before the list is read.
    pub fn set_notices(&self, notices: Notices) {
        self.notices.store(notices as u32, Relaxed);
    }

    /// Whether no file of any mount is a risk.
    pub fn are_harmless(&self) -> bool {
        self.highest.load(Relaxed) == Risk::Never as u32
    }

    /// The risk of a mount's files.
    pub fn risk(&self, mount: u64) -> Risk {
        for _ in 0..PATIENCE {
            let version = self.version.load(Acquire);
            let used = &self.list[..self.count.load(Relaxed).min(KNOWN)];
            let found =
                used.iter().map(|known| known.load(Relaxed)).find(|k| u64::from(k >> RISK_BITS) == mount);
            core::sync::atomic::fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                return found.map_or(self.notices().unknown(), risk_of);
            }
            sched::yield_now();
        }
        self.notices().unknown()
    }

    /// Whether reading from this open file of the calling thread is a risk. `direct` tells whether it may
    /// have been opened with `O_DIRECT`.
    pub fn may_write_late(&self, file: Fd, direct: bool) -> bool {
        match sys::file_info(file, c"") {
            Ok(info) if info.is_regular => {
                // Before Linux 5.8 the mount is not reported.
                let risk =
                    info.mount.map_or_else(|| risk_of(self.highest.load(Relaxed)), |mount| self.risk(mount));
                risk == Risk::Always || direct && risk == Risk::Direct
            }
            // For files that are not regular, direct I/O pins: block devices, and drivers.
            _ => direct && self.notices() == Notices::Nothing,
        }
    }
}

fn risk_of(number: u32) -> Risk {
    match number & ((1 << RISK_BITS) - 1) {
        0 => Risk::Never,
        1 => Risk::Direct,
        _ => Risk::Always,
    }
}

/// The keeper's view of the mounts.
pub struct Mounts {
    file: Option<Fd>,
    read: bool,
}

impl Mounts {
    /// Opens the list. If that fails, every file belongs to an unknown mount.
    pub fn open() -> Self {
        let file = crate::kernel::procfs::open("mountinfo").ok();
        Mounts { file, read: false }
    }

    /// Reads the list if it has changed.
    pub fn refresh(&mut self, known: &KnownMounts) {
        let Some(file) = self.file else { return };
        let mut fds = [PollFd { fd: file, events: POLL_CHANGED, revents: 0 }];
        let changed = sys::poll(&mut fds, Some(0)).is_ok_and(|count| count > 0);
        if self.read && !changed {
            return;
        }
        self.read = true;
        known.version.fetch_add(1, AcqRel);
        read_list(file, known);
        known.version.fetch_add(1, Release);
    }
}

fn read_list(file: Fd, known: &KnownMounts) {
    let (mut count, mut highest) = (0, Risk::Never as u32);
    let mut buffer = [0u8; 8 << 10];
    let (mut offset, mut filled) = (0u64, 0);
    while let Ok(got) = sys::pread(file, &mut buffer[filled..], offset) {
        offset += got as u64;
        let end = filled + got;
        let mut at = 0;
        while let Some(length) = buffer[at..end].iter().position(|byte| *byte == b'\n') {
            let parsed = parse(&buffer[at..at + length], known.notices());
            let risk = parsed.map_or(known.notices().unknown(), |(_, risk)| risk);
            highest = highest.max(risk as u32);
            if let Some((id, risk)) = parsed.filter(|_| count < KNOWN) {
                known.list[count].store((id as u32) << RISK_BITS | risk as u32, Relaxed);
                count += 1;
            }
            at += length + 1;
        }
        buffer.copy_within(at..end, 0);
        filled = end - at;
        if got == 0 {
            break;
        }
        if filled == buffer.len() {
            // The line is longer than any line should be: it counts as an unknown mount.
            highest = highest.max(known.notices().unknown() as u32);
            filled = 0;
        }
    }
    if count == KNOWN {
        highest = highest.max(known.notices().unknown() as u32);
    }
    known.count.store(count, Relaxed);
    known.highest.store(highest, Relaxed);
}

/// The id of a mount, and the risk: `ID PARENT DEVICE ROOT POINT OPTIONS TAGS... - TYPE SOURCE OPTIONS`.
fn parse(line: &[u8], notices: Notices) -> Option<(u64, Risk)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = decimal(fields.next()?)?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let kind = kind.split(|byte| *byte == b'.').next()?;
    Some((id, notices.risk(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::sys::o;

    #[test]
    fn lines_are_understood() {
        use Risk::*;
        let risks = |line: &[u8]| {
            [Notices::Nothing, Notices::PinsButFuse, Notices::Pins]
                .map(|notices| parse(line, notices).map(|(_, risk)| risk))
        };
        let line = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        assert_eq!(parse(line, Notices::Pins), Some((36, Never)));
        assert_eq!(risks(line), [Some(Direct), Some(Never), Some(Never)]);
        assert_eq!(
            risks(b"62 28 0:54 / /run/user/1000/doc rw - fuse.portal portal rw,user_id=0"),
            [Some(Always), Some(Always), Some(Never)]
        );
        assert_eq!(risks(b"63 28 0:55 / /a\\040b rw - fuse x rw"), [Some(Always), Some(Always), Some(Never)]);
        assert_eq!(
            risks(b"64 28 0:56 / /c rw - 9p host rw,trans=virtio"),
            [Some(Always), Some(Never), Some(Never)]
        );
        assert_eq!(risks(b"65 28 0:57 / /d rw - nfs4 host:/ rw,vers=4.2"), [Some(Direct); 3]);
        assert_eq!(
            risks(b"65 28 0:57 / /sys/fs/fuse/connections rw - fusectl fusectl rw"),
            [Some(Direct), Some(Never), Some(Never)]
        );
        assert_eq!(parse(b"65 28 0:57 / /x rw", Notices::Pins), None);
    }

    #[test]
    fn own_files_are_on_known_mounts() {
        for notices in [Notices::Nothing, Notices::Pins] {
            let (mut mounts, known) = (Mounts::open(), KnownMounts::new());
            known.set_notices(notices);
            mounts.refresh(&known);
            let file = sys::open(c"/proc/self/maps", o::RDONLY).unwrap();
            let info = sys::file_info(file, c"").unwrap();
            assert!(info.is_regular);
            assert!(info.mount.is_none_or(|mount| known.risk(mount) == notices.risk(b"proc")));
            assert!(!known.may_write_late(file, false));
            assert_eq!(known.may_write_late(file, true), notices == Notices::Nothing);
            // The risk of mounts that are not listed.
            let none = KnownMounts::new();
            none.set_notices(notices);
            assert!(
                info.mount.is_none() || none.may_write_late(file, false) == (notices == Notices::Nothing)
            );
            assert!(info.mount.is_none() || none.may_write_late(file, true));
            sys::close(file);
            assert!(known.risk(u64::MAX) != Risk::Never);
        }
    }
}
