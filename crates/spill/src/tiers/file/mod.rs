//! A file or a block device that nothing else uses.
//!
//! ```text
//!   file    │ batch ────── pad │ batch ─── pad │ hole │ batch ── pad │    each at a multiple of 4096 bytes
//!   memory    number -> first unit, bytes
//! ```
//!
//! A deleted batch becomes a hole, and its space is reused. Up to an eighth of the space in use is instead
//! kept allocated for the next batches, because the file system must allocate blocks to write into a hole,
//! and readers wait meanwhile. The file is read and written with direct I/O where the system allows that;
//! otherwise the page cache is told to drop the data, since they would just stay in memory. Only its owner
//! may read the file (0600), and it is unlinked as soon as it is open, so nothing of it remains, however the
//! process ends. It is never synchronised with the medium, since it ends with the process.

mod extents;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

use extents::{Extent, Kept, SPARE};

use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

const UNIT: usize = 4096;

/// Bytes aligned as direct I/O requires.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Unit([u8; UNIT]);

type Buffer = Vec<Unit>;

/// See the module.
pub struct FileTier {
    file: File,
    name: String,
    is_direct: AtomicBool,
    makes_holes: AtomicBool,
    kept: Mutex<Kept>,
    buffers: Mutex<Vec<Buffer>>,
    /// Held while writing through the page cache: the system reports a failed write only once, and another
    /// writer must not get the report.
    cached: Mutex<()>,
}

impl FileTier {
    /// Opens a new file in a directory, or an unused block device.
    pub fn open(path: &Path, terms: Terms) -> Result<Self, BadTarget> {
        let bad = |why: &dyn std::fmt::Display| BadTarget(format!("{}: {why}", memfold_escape::path(path)));
        let (file, is_direct, room) = match fs::metadata(path) {
            Ok(there) if there.is_dir() => nameless(path).map_err(|error| bad(&error))?,
            Ok(there) if there.file_type().is_block_device() => device(path).map_err(|error| bad(&error))?,
            Ok(_) => return Err(bad(&"it already exists; name a directory or a new file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.is_symlink() {
                    return Err(bad(&"it is a dangling symbolic link; name a directory or a new file"));
                }
                new(path).map_err(|error| bad(&error))?
            }
            Err(error) => return Err(bad(&error)),
        };
        if is_in_memory(&file) {
            return Err(bad(
                &"this file system is itself in memory; name a directory on a disk; in a container, mount one (-v /var/tmp:/spill)",
            ));
        }
        let most = terms.most.unwrap_or(u64::MAX).min(room) / UNIT as u64;
        if most == 0 {
            return Err(bad(&"there is no room"));
        }
        Ok(FileTier {
            file,
            name: memfold_escape::text(path.as_os_str().as_encoded_bytes()).into_owned(),
            is_direct: AtomicBool::new(is_direct),
            makes_holes: AtomicBool::new(true),
            kept: Mutex::new(Kept::new(most)),
            buffers: Mutex::default(),
            cached: Mutex::default(),
        })
    }

    /// Lends a buffer of at least this many bytes.
    fn with_buffer<R>(&self, bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut buffer = locked(&self.buffers).pop().unwrap_or_default();
        let units = bytes.div_ceil(UNIT);
        if buffer.len() < units {
            buffer.resize(units, Unit([0; UNIT]));
        }
        // SAFETY: units are bytes without gaps, initialised, and borrowed exclusively.
        let flat = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<u8>(), units * UNIT) };
        let result = work(flat);
        locked(&self.buffers).push(buffer);
        result
    }

    fn write(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let at = first * UNIT as u64;
        self.with_buffer(bytes.len(), |buffer| {
            buffer[..bytes.len()].copy_from_slice(bytes);
            buffer[bytes.len()..].fill(0);
            let mut alone = (!self.is_direct()).then(|| locked(&self.cached));
            match self.file.write_at(buffer, at) {
                Ok(written) if written == buffer.len() => {}
                // There was space only for a part of the data.
                Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && self.is_direct() => {
                    // A file system may allow opening with direct I/O, and then refuse to perform it.
                    self.stop_direct();
                    alone.get_or_insert_with(|| locked(&self.cached));
                    self.file.write_all_at(buffer, at)?;
                }
                Err(error) => return Err(error),
            }
            self.forget(at, buffer.len(), true)
        })
    }

    fn is_direct(&self) -> bool {
        self.is_direct.load(Relaxed)
    }

    /// Switches to the page cache; from then on it is told to drop the data.
    fn stop_direct(&self) {
        self.is_direct.store(false, Relaxed);
        let fd = self.file.as_raw_fd();
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) & !libc::O_DIRECT) };
    }

    /// Without direct I/O: drops this part from the page cache. Afterwards written data are on the medium,
    /// unless this returns an error.
    fn forget(&self, at: u64, bytes: usize, written: bool) -> io::Result<()> {
        if self.is_direct() {
            return Ok(());
        }
        let (fd, at, bytes) = (self.file.as_raw_fd(), at as i64, bytes as i64);
        if written {
            // Data that are not yet on the medium cannot be dropped.
            let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            // SAFETY: the descriptor is open; no memory is accessed.
            if unsafe { libc::sync_file_range(fd, at, bytes, all) } != 0 {
                let error = io::Error::last_os_error();
                // Not every system can synchronise a part of a file.
                if error.raw_os_error() != Some(libc::ENOSYS) {
                    return Err(error);
                }
                self.file.sync_data()?;
            }
        }
        // SAFETY: as above.
        unsafe { libc::posix_fadvise(fd, at, bytes, libc::POSIX_FADV_DONTNEED) };
        Ok(())
    }

    /// Takes space for a batch; if there is none, it gives back spare extents first.
    fn take(&self, bytes: u32) -> Option<Extent> {
        loop {
            let mut kept = locked(&self.kept);
            if let Some(extent) = kept.take(bytes) {
                return Some(extent);
            }
            let spare = kept.next_spare(0)?;
            drop(kept);
            self.give_back(spare);
        }
    }

    /// Keeps an unneeded extent for the next batches, and gives back spare extents beyond the bound.
    fn free(&self, extent: Extent) {
        let mut kept = locked(&self.kept);
        kept.spare_units += extent.units();
        kept.spare.push_back(extent);
        loop {
            let most = kept.used() / SPARE;
            let Some(spare) = kept.next_spare(most) else { return };
            drop(kept);
            self.give_back(spare);
            kept = locked(&self.kept);
        }
    }

    /// Returns units to the file system, and then to the free space.
    fn give_back(&self, extent: Extent) {
        if self.makes_holes.load(Relaxed) {
            let (at, bytes) = (extent.first as i64 * UNIT as i64, extent.units() as i64 * UNIT as i64);
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: the descriptor is open.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, at, bytes) } != 0 {
                // Other errors may be temporary; then a later attempt makes the hole.
                let never = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL, libc::ENODEV];
                let error = io::Error::last_os_error().raw_os_error();
                if error.is_some_and(|error| never.contains(&error)) {
                    self.makes_holes.store(false, Relaxed);
                }
            }
        }
        locked(&self.kept).space.give_back(extent.first, extent.units());
    }
}

impl Tier for FileTier {
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble> {
        let extent = self.take(bytes.len() as u32).ok_or(Trouble::Full)?;
        if let Err(error) = self.write(extent.first, bytes) {
            // An extent that cannot be written would be the first to be taken again, so it is not freed.
            if error.raw_os_error() != Some(libc::EIO) {
                self.give_back(extent);
            }
            let is_full = error.kind() == io::ErrorKind::StorageFull
                || matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG));
            return Err(if is_full { Trouble::Full } else { Trouble::Away(error.to_string()) });
        }
        let before = locked(&self.kept).batches.insert(batch, extent);
        if let Some(before) = before {
            self.free(before);
        }
        Ok(())
    }

    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        let extent = locked(&self.kept).batches.get(&batch).copied().ok_or(Trouble::Lost)?;
        if (from as usize).checked_add(into.len()).is_none_or(|end| end > extent.bytes as usize) {
            return Err(Trouble::Lost);
        }
        let begin = from as usize / UNIT * UNIT;
        let at = extent.first * UNIT as u64 + begin as u64;
        self.with_buffer(from as usize + into.len() - begin, |buffer| {
            self.file.read_exact_at(buffer, at).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Trouble::Lost,
                _ => Trouble::Away(error.to_string()),
            })?;
            // Data that stay in the page cache are still correct.
            let _ = self.forget(at, buffer.len(), false);
            into.copy_from_slice(&buffer[from as usize - begin..][..into.len()]);
            Ok(())
        })
    }

    fn delete(&self, batches: &[u64]) -> Result<(), Trouble> {
        for batch in batches {
            let extent = locked(&self.kept).batches.remove(batch);
            if let Some(extent) = extent {
                self.free(extent);
            }
        }
        Ok(())
    }

    /// A file has no name any more, so it ends with the process. Data on a device stay there until they are
    /// discarded.
    fn ends_with_process(&self) -> bool {
        self.file.metadata().is_ok_and(|it| it.is_file())
    }

    fn probe(&self) -> Result<(), Trouble> {
        self.file.metadata().map(drop).map_err(|error| Trouble::Away(error.to_string()))
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file).filter(|_| self.is_direct())
    }

    fn place(&self, batch: u64) -> Option<u64> {
        locked(&self.kept).batches.get(&batch).map(|extent| extent.first)
    }

    fn room(&self) -> Room {
        let kept = locked(&self.kept);
        Room { used: kept.used() * UNIT as u64, most: kept.space.most() * UNIT as u64 }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Opens with direct I/O, or without it where it is not available.
fn open(path: &Path, flags: i32, create: bool) -> io::Result<(File, bool)> {
    let open = |flags: i32| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create_new(create);
        options.custom_flags(flags | libc::O_CLOEXEC).open(path)
    };
    match open(flags | libc::O_DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            if create {
                // The file may have been created in spite of the error.
                let _ = fs::remove_file(path);
            }
            open(flags).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

/// An unnamed file, whether it uses direct I/O, and how many bytes it may take.
fn nameless(directory: &Path) -> io::Result<(File, bool, u64)> {
    let (file, is_direct) = match open(directory, libc::O_TMPFILE, false) {
        Ok(opened) => opened,
        // Some file systems cannot create unnamed files.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            return new(&directory.join(format!(".memfold-spill-{}", std::process::id())));
        }
        Err(error) => return Err(error),
    };
    let room = free_bytes(&file)?;
    Ok((file, is_direct, room))
}

fn new(path: &Path) -> io::Result<(File, bool, u64)> {
    let (file, is_direct) = open(path, 0, true)?;
    let room = free_bytes(&file);
    fs::remove_file(path)?;
    Ok((file, is_direct, room?))
}

/// Whether a block device is read-only. Opening it for writing does not show that, because root may do so in
/// any case.
fn is_read_only(device: &File) -> bool {
    const BLKROGET: libc::c_ulong = 0x125e;
    let mut answer: libc::c_int = 0;
    // SAFETY: the kernel writes one number there, or nothing.
    let asked = unsafe { libc::ioctl(device.as_raw_fd(), BLKROGET, &mut answer) };
    asked == 0 && answer != 0
}

fn device(path: &Path) -> io::Result<(File, bool, u64)> {
    // `O_EXCL` refuses a device that is mounted or used for swap.
    let (file, is_direct) = open(path, libc::O_EXCL, false)?;
    if is_read_only(&file) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    let size = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
    Ok((file, is_direct, size))
}

fn statfs(file: &File) -> io::Result<libc::statfs> {
    let mut said = std::mem::MaybeUninit::zeroed();
    // SAFETY: the descriptor is open, and there is room for the result.
    if unsafe { libc::fstatfs(file.as_raw_fd(), said.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeros are a valid value, and the kernel has filled it.
    Ok(unsafe { said.assume_init() })
}

/// The free bytes of the file system, except for a twentieth, which is left to other users.
fn free_bytes(file: &File) -> io::Result<u64> {
    let said = statfs(file)?;
    let (free, all) = (said.f_bavail, said.f_blocks);
    Ok(free.saturating_sub(all / 20).saturating_mul(said.f_bsize as u64))
}

fn is_in_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // A device node is in a file system of device nodes, whose free space says nothing about the device.
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    is_file && statfs(file).is_ok_and(|said| matches!(said.f_type as u64, TMPFS | RAMFS))
}

#[cfg(test)]
mod tests;
