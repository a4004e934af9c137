//! Open directories and their ancestors.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Statx, StatxAttributes, StatxFlags, makedev, openat, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::entry::{Extended, Kind};
use crate::tree::OwnEntry;

/// How directories are opened: anything that has taken a directory's place, such as a link or a pipe, is
/// refused, and does not block.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// A directory that is being read, or in which subdirectories wait.
#[derive(Debug)]
pub struct Open {
    /// May be closed if too many files are open.
    file: Mutex<Option<Arc<OwnedFd>>>,
    above: Option<Arc<Open>>,
    /// Its name in the parent; the root's is its path.
    name: CString,
    /// Its number in the tree.
    pub number: u32,
    pub device: u64,
    inode: u64,
    /// Whether something is mounted here, if the system tells.
    mounted: Option<bool>,
    /// It had to be opened again, and the stack does not know this yet.
    is_again: AtomicBool,
}

fn device(stat: &Statx) -> u64 {
    makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

fn look(file: &OwnedFd) -> Result<Statx, Errno> {
    statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_SYNC_AS_STAT, StatxFlags::BASIC_STATS)
}

/// Whether something is mounted there; unknown before Linux 5.8.
pub fn mounted(stat: &Statx) -> Option<bool> {
    let has = |attributes: StatxAttributes| attributes.contains(StatxAttributes::MOUNT_ROOT);
    has(stat.stx_attributes_mask).then(|| has(stat.stx_attributes))
}

/// Whether something is mounted at a name. A different device does not prove that, because files of an
/// overlay are on other devices, too.
pub fn is_mount(directory: &OwnedFd, name: &CStr) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_SYNC_AS_STAT;
    statx(directory, name, flags, StatxFlags::TYPE).is_ok_and(|stat| mounted(&stat).unwrap_or(true))
}

/// Whether a link's target is on a mount other than its directory's. Before Linux 5.8 this is unknown and
/// assumed to be so. Devices do not suffice: files of an overlay are on the devices of its layers.
pub fn leads_elsewhere(directory: &OwnedFd, name: &CStr) -> bool {
    let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_SYNC_AS_STAT;
    let mount = |name: &CStr, flags| {
        let stat = statx(directory, name, flags, StatxFlags::MNT_ID).ok()?;
        (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
    };
    let here = mount(c"", flags | AtFlags::EMPTY_PATH);
    here.is_none() || mount(name, flags) != here
}

/// A directory's own attributes.
fn entry(stat: &Statx, extended: bool) -> OwnEntry {
    OwnEntry {
        name: Vec::new(),
        kind: Kind::Directory(0),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        link: None,
        followed: None,
        extended: extended.then_some(Extended {
            modified: stat.stx_mtime.tv_sec,
            user: stat.stx_uid,
            group: stat.stx_gid,
            mode: stat.stx_mode,
        }),
    }
}

impl Open {
    /// Its current own entry, without a name.
    pub fn entry(&self, extended: bool) -> Result<OwnEntry, Errno> {
        Ok(entry(&look(&*self.file()?)?, extended))
    }

    /// Opens the root. Links are followed, because the user named it.
    pub fn root(path: &Path, extended: bool) -> io::Result<(Open, OwnEntry)> {
        let file = openat(CWD, path, FLAGS.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let stat = look(&file)?;
        let name = CString::new(path.as_os_str().as_bytes())?;
        let entry = OwnEntry { name: name.to_bytes().to_vec(), ..entry(&stat, extended) };
        let open = Open {
            file: Mutex::new(Some(Arc::new(file))),
            above: None,
            name,
            number: 0,
            device: device(&stat),
            inode: stat.stx_ino,
            mounted: Some(true),
            is_again: AtomicBool::new(false),
        };
        Ok((open, entry))
    }

    /// Opens one of its subdirectories.
    pub fn below(self: &Arc<Self>, name: CString, number: u32) -> Result<Open, Errno> {
        let file = openat(self.file()?.as_fd(), &name, FLAGS, Mode::empty())?;
        let stat = look(&file)?;
        Ok(Open {
            file: Mutex::new(Some(Arc::new(file))),
            above: Some(self.clone()),
            name,
            number,
            device: device(&stat),
            inode: stat.stx_ino,
            mounted: mounted(&stat),
            is_again: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same directory.
    pub fn is(&self, other: &Open) -> bool {
        self.identity() == other.identity()
    }

    /// Its file system and inode: its identity, whatever its name.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether something may be mounted here.
    pub fn may_be_mounted(&self) -> bool {
        self.mounted.unwrap_or(true)
    }

    /// Whether something is mounted here. If the system does not report this, a device other than the
    /// parent's counts as a mount.
    pub fn is_mounted(&self) -> bool {
        self.mounted.unwrap_or_else(|| self.above.as_ref().is_none_or(|above| above.device != self.device))
    }

    /// Its ancestors.
    pub fn above(&self) -> impl Iterator<Item = &Open> {
        std::iter::successors(self.above.as_deref(), |open| open.above.as_deref())
    }

    /// Its path, beginning with the root's.
    pub fn path(&self) -> Vec<u8> {
        let mut names: Vec<&CStr> = self.above().map(|open| &*open.name).collect();
        names.reverse();
        let mut path = Vec::new();
        for name in names.into_iter().chain([&*self.name]) {
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
        }
        path
    }

    /// Its descriptor. If it had to be closed, it is opened again from the nearest open ancestor.
    pub fn file(&self) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(file) = &*self.lock() {
            return Ok(file.clone());
        }
        let mut closed = vec![self];
        let mut file = loop {
            let Some(open) = closed[closed.len() - 1].above.as_deref() else { return Err(Errno::STALE) };
            if let Some(file) = &*open.lock() {
                break file.clone();
            }
            closed.push(open);
        };
        for open in closed.into_iter().rev() {
            file = Arc::new(openat(file.as_fd(), &open.name, FLAGS, Mode::empty())?);
            open.must_be(&file)?;
        }
        *self.lock() = Some(file.clone());
        self.is_again.store(true, Relaxed);
        Ok(file)
    }

    fn must_be(&self, file: &OwnedFd) -> Result<(), Errno> {
        let stat = look(file)?;
        let is_same = (device(&stat), stat.stx_ino) == self.identity();
        if is_same { Ok(()) } else { Err(Errno::STALE) }
    }

    /// Closes it, unless it is the root. Current users keep it open until they are done. It is opened again
    /// when needed.
    pub fn close(&self) {
        if self.above.is_some() {
            *self.lock() = None;
        }
    }

    /// Whether it was opened again since the last call.
    pub fn was_opened_again(&self) -> bool {
        self.is_again.swap(false, Relaxed)
    }

    /// Deletes it; it must be empty.
    pub fn remove(&self) -> Result<(), Errno> {
        let above = self.above.as_ref().ok_or(Errno::BUSY)?;
        unlinkat(above.file()?.as_fd(), &self.name, AtFlags::REMOVEDIR)
    }

    /// To be called before it is dropped: opens the parent if that had to be closed, because the parent is
    /// one step from here. Returns the parent if it was opened.
    pub fn leave(&self) -> Option<Arc<Open>> {
        let (above, file) = (self.above.as_ref()?, self.lock().clone()?);
        if above.lock().is_some() {
            return None;
        }
        let up = openat(file.as_fd(), c"..", FLAGS, Mode::empty()).ok()?;
        above.must_be(&up).ok()?;
        *above.lock() = Some(Arc::new(up));
        Some(above.clone())
    }
}

/// How many files the process may have open.
fn files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many directories may be open in addition to those in use.
pub fn most() -> usize {
    const MOST: u64 = 200;
    (files() / 4).clamp(2, MOST) as usize
}

/// How many threads may work: each opens a directory, its parent, and the entry that it examines.
pub fn most_threads() -> usize {
    usize::try_from(files() / 8).unwrap_or(usize::MAX).max(1)
}

impl Drop for Open {
    fn drop(&mut self) {
        // A chain of ancestors may be of any length, so it is dropped in a loop, not recursively.
        let mut above = self.above.take();
        while let Some(mut open) = above.and_then(Arc::into_inner) {
            above = open.above.take();
        }
    }
}
