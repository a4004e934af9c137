//! A file, or a block device, that nobody else uses.
//!
//! ```text
//!   file    │ batch ────── pad │ batch ─── pad │ hole │ batch ── pad │      each begins at a multiple of 4096 bytes
//!   memory    number -> first unit, bytes
//! ```
//!
//! What is deleted becomes a hole, and is used again. A part of it, an eighth of what is in use at most, is kept for the next batches as it is: to write to a hole,
//! the file system has to find blocks for it, and lets nobody read meanwhile. The file is read and written past the page cache where the system allows that, and
//! else the page cache is told to forget it: it would be in memory after all. The file is only its owner's to read (0600), and loses its
//! name as soon as it is open: nothing is left of it, however the process ends. It is never synchronised with the medium: it ends with the
//! process.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

use super::space::Space;
use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

const UNIT: usize = 4096;

/// Bytes aligned as direct I/O wants them.
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
    /// Who writes through the page cache: the system tells of a write that came to nothing once, and it must not be told to another.
    cached: Mutex<()>,
}

struct Kept {
    space: Space,
    batches: HashMap<u64, Extent>,
    /// Of the space in use, what no batch has: kept for the next, the oldest first.
    spare: VecDeque<Extent>,
    /// Units of these.
    spare_units: u64,
}

/// Of what batches use, so small a part is kept spare.
const SPARE: u64 = 8;

impl Kept {
    fn new(most: u64) -> Self {
        Kept { space: Space::new(most), batches: HashMap::new(), spare: VecDeque::new(), spare_units: 0 }
    }

    /// Units that batches use.
    fn used(&self) -> u64 {
        self.space.used() - self.spare_units
    }

    /// Takes room for a batch: a spare place of the same size, or other free units.
    fn take(&mut self, bytes: u32) -> Option<Extent> {
        let wanted = Extent { first: 0, bytes };
        let first = match self.spare.iter().position(|spare| spare.units() == wanted.units()) {
            Some(at) => {
                self.spare_units -= wanted.units();
                self.spare.remove(at)?.first
            }
            None => self.space.take(wanted.units())?,
        };
        Some(Extent { first, bytes })
    }

    /// The oldest spare place, if there are more than so many units of them. It is to be given back.
    fn next_spare(&mut self, most: u64) -> Option<Extent> {
        let spare = (self.spare_units > most).then(|| self.spare.pop_front()).flatten()?;
        self.spare_units -= spare.units();
        Some(spare)
    }
}

#[derive(Clone, Copy)]
struct Extent {
    first: u64,
    bytes: u32,
}

impl Extent {
    fn units(self) -> u64 {
        u64::from(self.bytes).div_ceil(UNIT as u64).max(1)
    }
}

impl FileTier {
    /// In a directory, as a new file, or on a block device that nobody uses.
    pub fn open(path: &Path, terms: Terms) -> Result<Self, BadTarget> {
        let bad = |why: &dyn std::fmt::Display| BadTarget(format!("{}: {why}", memfold_escape::path(path)));
        let (file, is_direct, room) = match fs::metadata(path) {
            Ok(there) if there.is_dir() => nameless(path).map_err(|error| bad(&error))?,
            Ok(there) if there.file_type().is_block_device() => device(path).map_err(|error| bad(&error))?,
            Ok(_) => return Err(bad(&"it is there already; name a directory or a new file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.is_symlink() {
                    return Err(bad(&"it is a symbolic link to nothing; name a directory or a new file"));
                }
                new(path).map_err(|error| bad(&error))?
            }
            Err(error) => return Err(bad(&error)),
        };
        if is_in_memory(&file) {
            return Err(bad(
                &"this file system lies in memory itself; name a directory on a disk, /var/tmp for example",
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

    /// Lends a buffer of at least so many bytes.
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
                // There was room for a part of it.
                Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && self.is_direct() => {
                    // It may be opened so, and refuses to work so.
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

    /// From now on through the page cache, which is told to forget.
    fn stop_direct(&self) {
        self.is_direct.store(false, Relaxed);
        let fd = self.file.as_raw_fd();
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) & !libc::O_DIRECT) };
    }

    /// Without direct I/O: what is in the page cache of that part need not be there. What was written is on the medium then, or that is an error.
    fn forget(&self, at: u64, bytes: usize, written: bool) -> io::Result<()> {
        if self.is_direct() {
            return Ok(());
        }
        let (fd, at, bytes) = (self.file.as_raw_fd(), at as i64, bytes as i64);
        if written {
            // What is not on the medium yet can't be forgotten.
            let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            // SAFETY: the descriptor is open; memory is not touched.
            if unsafe { libc::sync_file_range(fd, at, bytes, all) } != 0 {
                let error = io::Error::last_os_error();
                // Not every system can do that for a part of a file.
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

    /// Room for a batch; without any, that of spare places.
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

    /// Keeps a place that no batch needs any more for the next, and gives back what is too much.
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

    /// Gives units back to the file system, and then to who wants them next.
    fn give_back(&self, extent: Extent) {
        if self.makes_holes.load(Relaxed) {
            let (at, bytes) = (extent.first as i64 * UNIT as i64, extent.units() as i64 * UNIT as i64);
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: the descriptor is open.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, at, bytes) } != 0 {
                // Anything else may pass: then the hole is made the next time.
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
            // A place that takes nothing would be the first to be taken again.
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
            // What was read is not less right for staying in the page cache.
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

    /// A file has no name any more. What is on a device stays there until it is discarded.
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

/// Opens with direct I/O, or without where there is no such thing.
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
                // It may have been made all the same.
                let _ = fs::remove_file(path);
            }
            open(flags).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

/// A file without a name, and the bytes that it may take.
fn nameless(directory: &Path) -> io::Result<(File, bool, u64)> {
    let (file, is_direct) = match open(directory, libc::O_TMPFILE, false) {
        Ok(opened) => opened,
        // Some file systems can't do that.
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

/// Whether a block device takes nothing: root may open it for writing all the same.
fn is_read_only(device: &File) -> bool {
    const BLKROGET: libc::c_ulong = 0x125e;
    let mut answer: libc::c_int = 0;
    // SAFETY: the kernel writes one number there, or nothing.
    let asked = unsafe { libc::ioctl(device.as_raw_fd(), BLKROGET, &mut answer) };
    asked == 0 && answer != 0
}

fn device(path: &Path) -> io::Result<(File, bool, u64)> {
    // One that is mounted, or swapped to, is not ours.
    let (file, is_direct) = open(path, libc::O_EXCL, false)?;
    if is_read_only(&file) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    let size = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
    Ok((file, is_direct, size))
}

fn statfs(file: &File) -> io::Result<libc::statfs> {
    let mut said = std::mem::MaybeUninit::zeroed();
    // SAFETY: the descriptor is open, and there is room for what the kernel says.
    if unsafe { libc::fstatfs(file.as_raw_fd(), said.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a value of it, and the kernel has filled it.
    Ok(unsafe { said.assume_init() })
}

/// What others do not use, but for a twentieth of the file system: they want some too.
fn free_bytes(file: &File) -> io::Result<u64> {
    let said = statfs(file)?;
    let (free, all) = (said.f_bavail, said.f_blocks);
    Ok(free.saturating_sub(all / 20).saturating_mul(said.f_bsize as u64))
}

fn is_in_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // A device's node lies in a file system of devices, which says nothing about the device.
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    is_file && statfs(file).is_ok_and(|said| matches!(said.f_type as u64, TMPFS | RAMFS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn terms(most: u64) -> Terms {
        Terms { most: Some(most), ..Terms::default() }
    }

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| ((at * 31 + seed * 7919) >> 3) as u8).collect()
    }

    fn on_disk(tier: &FileTier) -> u64 {
        tier.file.metadata().unwrap().blocks() * 512
    }

    #[test]
    fn a_file_keeps_what_it_is_given_and_nothing_else() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("spilled");
        for path in [directory.path(), &path] {
            let tier = FileTier::open(path, terms(1 << 20)).unwrap();
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "it has a name");
            assert_eq!(tier.file.metadata().unwrap().mode() & 0o777, 0o600);
            let sizes = [1, 4095, 4096, 4097, 65536, 200_000];
            for (number, size) in (0..).zip(sizes) {
                tier.put(number, &bytes(number, size)).unwrap();
            }
            for (number, size) in (0..).zip(sizes) {
                let all = bytes(number, size);
                for from in [0, 1, 4095, 4096, size / 2].into_iter().filter(|from| *from < size) {
                    for len in [0, 1, 4096, size - from].into_iter().filter(|len| from + len <= size) {
                        let mut into = vec![0; len];
                        tier.get(number, from as u32, &mut into).unwrap();
                        assert!(into == all[from..from + len]);
                    }
                }
                let mut into = vec![0; size];
                assert_eq!(tier.get(number, 1, &mut into), Err(Trouble::Lost));
                assert_eq!(tier.get(99, 0, &mut into), Err(Trouble::Lost));
            }
            // It replaces.
            tier.put(3, &bytes(33, 5000)).unwrap();
            let mut into = vec![0; 5000];
            tier.get(3, 0, &mut into).unwrap();
            assert!(into == bytes(33, 5000));
            assert!(on_disk(&tier) >= 270_000);
            tier.delete(&[0, 1, 2, 3, 4, 5, 77]).unwrap();
            assert_eq!((tier.room().used, on_disk(&tier)), (0, 0));
        }
    }

    #[test]
    fn places_are_used_again_and_little_is_kept_for_that() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let tier = FileTier::open(directory.path(), terms(1 << 20)).unwrap();
        let mut there: Vec<(u64, usize)> = Vec::new();
        let mut seed = 7_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let (mut puts, mut full) = (0, 0);
        for number in 0..2000 {
            let size = [1 + random(60_000), 60_000, 64_000][random(3)];
            if random(5) < 3 {
                match tier.put(number, &bytes(number, size)) {
                    Ok(()) => there.push((number, size)),
                    Err(trouble) => {
                        assert_eq!(trouble, Trouble::Full);
                        full += 1;
                    }
                }
                puts += 1;
            } else if !there.is_empty() {
                tier.delete(&[there.swap_remove(random(there.len())).0]).unwrap();
            }
            let used: u64 = there.iter().map(|(_, size)| (*size as u64).div_ceil(4096) * 4096).sum();
            assert_eq!(tier.room().used, used);
            assert!(on_disk(&tier) <= used + used / SPARE + 4096, "{} of {used}", on_disk(&tier));
            if let Some(at) = there.len().checked_sub(1) {
                let (number, size) = there[random(at + 1)];
                let mut into = vec![0; size];
                tier.get(number, 0, &mut into).unwrap();
                assert!(into == bytes(number, size));
                // As others read it.
                let mut begins = vec![0; 4096.min(size)];
                let at = tier.place(number).unwrap() * 4096;
                tier.with_buffer(4096, |buffer| {
                    tier.file.read_exact_at(buffer, at).unwrap();
                    begins.copy_from_slice(&buffer[..4096.min(size)]);
                });
                assert!(begins == into[..4096.min(size)]);
            }
        }
        assert!(full > 50 && puts > full * 2, "{full} of {puts}");
        tier.delete(&there.iter().map(|(number, _)| *number).collect::<Vec<_>>()).unwrap();
        assert_eq!((tier.room().used, on_disk(&tier)), (0, 0));
    }

    #[test]
    fn full_is_full_until_something_is_deleted() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let tier = FileTier::open(directory.path(), terms(1 << 20)).unwrap();
        for number in 0..4 {
            tier.put(number, &bytes(number, 256 << 10)).unwrap();
        }
        assert_eq!(tier.put(4, &[0]), Err(Trouble::Full));
        tier.delete(&[2]).unwrap();
        tier.put(4, &bytes(4, 256 << 10)).unwrap();
        for number in [0, 1, 3, 4] {
            let mut into = vec![0; 256 << 10];
            tier.get(number, 0, &mut into).unwrap();
            assert!(into == bytes(number, 256 << 10));
        }
        assert_eq!(tier.room(), Room { used: 1 << 20, most: 1 << 20 });
    }

    /// On another file, through the page cache.
    fn with(file: File) -> FileTier {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let tier = FileTier::open(directory.path(), terms(1 << 20)).unwrap();
        FileTier { file, is_direct: AtomicBool::new(false), ..tier }
    }

    #[test]
    fn what_did_not_reach_the_medium_was_not_put() {
        // It takes everything, and can't be synchronised.
        let tier = with(OpenOptions::new().read(true).write(true).open("/dev/null").unwrap());
        assert!(matches!(tier.put(1, &bytes(1, 5000)), Err(Trouble::Away(_))));
        assert_eq!(tier.get(1, 0, &mut [0]), Err(Trouble::Lost));
        // And never makes holes.
        assert!(!tier.makes_holes.load(Relaxed));
    }

    #[test]
    fn a_hole_that_could_not_be_made_once_may_be_later() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let tier = with(File::open(file.path()).unwrap());
        assert!(matches!(tier.put(1, &bytes(1, 5000)), Err(Trouble::Away(_))));
        assert_eq!((tier.room().used, tier.makes_holes.load(Relaxed)), (0, true));
    }

    #[test]
    fn what_is_no_place_for_it_is_refused() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let there = directory.path().join("there");
        fs::write(&there, "mine").unwrap();
        let refused = |path: &Path| FileTier::open(path, terms(1 << 20)).err().map(|bad| bad.0);
        assert!(refused(&there).unwrap().contains("there already"));
        assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
        assert!(refused(Path::new("/dev/shm")).unwrap().contains("/var/tmp"));
        assert!(refused(&directory.path().join("no/such")).is_some());
        assert!(refused(Path::new("/dev/null")).is_some());
        let none = FileTier::open(directory.path(), terms(4095)).err().unwrap();
        assert!(none.0.contains("no room"));
    }
}
