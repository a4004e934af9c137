//! The backing device: a file or block device that takes blobs for which memory is too good.
//!
//! ```text
//!   device   │ unit 0 │ unit 1 │ unit 2 │ ──         4096 bytes each; a blob has one or more in a row, the rest of the last is zeros
//!   memory   │ check  │   -    │ check  │ ──         16 bytes for each unit: length, codec and hash of the blob that begins there
//!            │ 1      │ 1      │ 1      │ 0 ──       a bit for each unit in use
//! ```
//!
//! What stands on the device means nothing without what is in memory: it ends with the process. It is read and written past the page
//! cache, where the system allows that; else it would be in memory after all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, RwLock};

use memfold_codec::CodecId;
use twox_hash::XxHash3_64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::leaf::{Held, PAGE};
use crate::locked;
use crate::options::{BackingFile, BadOption};

/// A unit's bytes, aligned as direct I/O wants them.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Unit([u8; PAGE]);

impl Unit {
    pub fn zeros(count: usize) -> Vec<Unit> {
        vec![Unit([0; PAGE]); count]
    }
}

/// What is remembered of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromZeros)]
pub struct Check {
    hash: u64,
    len: u32,
    /// Zero for a repeated word.
    codec: u8,
    units: u8,
}

/// Checks that are made at once.
const CHUNK: usize = 4096;
/// Chunks of them at most: of so many bytes of device that their table fits into a few MiB.
const CHUNKS: usize = 1 << 20;

/// Which units are in use.
#[derive(Default)]
struct Units {
    bits: Vec<u64>,
    next: u64,
    used: u64,
}

/// See the module.
pub struct Backing {
    file: File,
    path: PathBuf,
    /// It was not there before: it is removed at the end.
    made: AtomicBool,
    most: u64,
    units: Mutex<Units>,
    checks: RwLock<Vec<Box<[Check; CHUNK]>>>,
    /// Bytes of blobs that are there.
    pub bytes: AtomicU64,
    pub written: AtomicU64,
    pub read: AtomicU64,
    /// A write failed: nothing more is written.
    failed: AtomicBool,
}

impl Backing {
    /// Opens it, which changes nothing of what is there: only something empty is taken.
    ///
    /// A file gets `default` bytes at most, if no size was given.
    pub fn open(given: &BackingFile, default: u64) -> Result<Self, BadOption> {
        // The process may be in another directory at the end.
        let path = std::path::absolute(&given.path).unwrap_or_else(|_| given.path.clone());
        let bad = |why: String| BadOption::Backing(given.path.clone(), why);
        let said = |error: io::Error| bad(error.to_string());
        let before = std::fs::metadata(&path);
        let is_device = before.as_ref().is_ok_and(|it| it.file_type().is_block_device());
        if before.as_ref().is_ok_and(|it| !is_device && (!it.is_file() || it.len() > 0)) {
            return Err(bad(
                "it is neither a block device nor an empty file; name one that is, or a new one".into(),
            ));
        }
        let made = before.is_err();
        let open = |flags: i32| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600);
            // A device that is mounted, or swapped to, is not ours.
            let exclusive = if is_device { libc::O_EXCL } else { 0 };
            options.create_new(made).custom_flags(flags | exclusive | libc::O_CLOEXEC).open(&path)
        };
        let file = match open(libc::O_DIRECT) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                // A file system that has no such thing may have made the file all the same.
                if made {
                    let _ = std::fs::remove_file(&path);
                }
                open(0).map_err(said)?
            }
            Err(error) => return Err(said(error)),
        };
        if !is_device {
            // A file stays empty until something is put there: whoever wants it has to have it alone.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(bad("another device uses it; name another file".into()));
            }
            if file.metadata().map_err(said)?.len() > 0 {
                return Err(bad("it is not empty any more".into()));
            }
        }
        let there = if is_device {
            io::Seek::seek(&mut &file, io::SeekFrom::End(0)).map_err(said)?
        } else {
            u64::MAX
        };
        let size = given.size.unwrap_or(if is_device { there } else { default }).min(there);
        let most = (size / PAGE as u64).min((CHUNK * CHUNKS) as u64).min(Held::MOST_UNITS);
        if most == 0 {
            return Err(bad("it has less than a page".into()));
        }
        Ok(Backing {
            file,
            path,
            made: AtomicBool::new(made),
            most,
            units: Mutex::default(),
            checks: RwLock::default(),
            bytes: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Whether there may be room for more.
    pub fn is_open(&self) -> bool {
        !self.failed.load(Relaxed) && locked(&self.units).used < self.most
    }

    /// Bytes of tables.
    pub fn table_bytes(&self) -> u64 {
        let checks = self.checks.read().unwrap_or_else(std::sync::PoisonError::into_inner).len();
        (checks * CHUNK * size_of::<Check>() + locked(&self.units).bits.capacity() * 8) as u64
    }

    /// Bytes of units in use.
    pub fn used_bytes(&self) -> u64 {
        locked(&self.units).used * PAGE as u64
    }

    /// Writes a blob; its first unit. `None` if there is no room, or the device failed.
    pub fn write(&self, codec: Option<CodecId>, payload: &[u8], buffer: &mut [Unit]) -> Option<u64> {
        let count = payload.len().div_ceil(PAGE).max(1);
        let buffer = buffer.get_mut(..count)?.as_mut_bytes();
        buffer[..payload.len()].copy_from_slice(payload);
        buffer[payload.len()..].fill(0);
        let unit = self.take(count)?;
        let check = Check {
            hash: hash(unit, payload),
            len: payload.len() as u32,
            codec: codec.map_or(0, |codec| codec.0),
            units: count as u8,
        };
        if self.file.write_all_at(buffer, unit * PAGE as u64).is_err() {
            // A full file system may have room later; for what is there nothing changes.
            self.failed.store(true, Relaxed);
            self.give_back(unit, count);
            return None;
        }
        self.set_check(unit, check);
        self.bytes.fetch_add(payload.len() as u64, Relaxed);
        self.written.fetch_add(1, Relaxed);
        Some(unit)
    }

    /// After a failure: tries once more from now on.
    pub fn try_again(&self) {
        self.failed.store(false, Relaxed);
    }

    /// What is remembered of the blob that begins with a unit.
    pub fn check(&self, unit: u64) -> Option<Check> {
        let checks = self.checks.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        checks.get(unit as usize / CHUNK)?.get(unit as usize % CHUNK).copied().filter(|check| check.units > 0)
    }

    /// Reads the blob of a check: its codec and payload. `Ok(None)` if it is not what was written.
    pub fn read<'b>(
        &self,
        unit: u64,
        check: Check,
        buffer: &'b mut [Unit],
    ) -> io::Result<Option<(Option<CodecId>, &'b [u8])>> {
        let Some(buffer) = buffer.get_mut(..usize::from(check.units)) else { return Ok(None) };
        let buffer = buffer.as_mut_bytes();
        self.file.read_exact_at(buffer, unit * PAGE as u64)?;
        self.read.fetch_add(1, Relaxed);
        let payload = buffer.get(..check.len as usize).filter(|payload| hash(unit, payload) == check.hash);
        Ok(payload.map(|payload| ((check.codec != 0).then_some(CodecId(check.codec)), payload)))
    }

    /// The blob that begins with a unit is not needed any more.
    pub fn free(&self, unit: u64) {
        let Some(check) = self.check(unit) else { return };
        self.set_check(unit, Check::new_zeroed());
        self.bytes.fetch_sub(check.len.into(), Relaxed);
        self.give_back(unit, check.units.into());
    }

    fn set_check(&self, unit: u64, check: Check) {
        let mut checks = self.checks.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(place) = checks.get_mut(unit as usize / CHUNK) {
            place[unit as usize % CHUNK] = check;
        }
    }

    /// Takes so many units in a row.
    fn take(&self, count: usize) -> Option<u64> {
        let mut units = locked(&self.units);
        let unit = units.take(count as u64, self.most)?;
        drop(units);
        let chunks = (unit as usize + count).div_ceil(CHUNK);
        let mut checks = self.checks.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        while checks.len() < chunks {
            let Ok(chunk) = <[Check; CHUNK]>::new_box_zeroed() else {
                drop(checks);
                self.give_back(unit, count);
                return None;
            };
            checks.push(chunk);
        }
        Some(unit)
    }

    fn give_back(&self, unit: u64, count: usize) {
        let mut units = locked(&self.units);
        for unit in unit..unit + count as u64 {
            units.bits[unit as usize / 64] &= !(1 << (unit % 64));
        }
        units.used -= count as u64;
    }

    /// Removes the file, if it was not there before: nobody else can make anything of it. What is there can be used as before.
    pub fn remove(&self) {
        if !self.made.swap(false, Relaxed) {
            return;
        }
        // What stands there by now may be somebody else's.
        let is_it = |it: std::fs::Metadata| {
            self.file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (it.dev(), it.ino()))
        };
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Units {
    /// So many free units in a row, from the hand on.
    fn take(&mut self, count: u64, most: u64) -> Option<u64> {
        if self.used + count > most {
            return None;
        }
        for (begin, end) in [(self.next, most), (0, self.next.min(most))] {
            let mut run = 0;
            let mut unit = begin;
            while unit < end {
                let word = self.bits.get(unit as usize / 64).copied().unwrap_or(0);
                if unit % 64 == 0 && word == u64::MAX {
                    (run, unit) = (0, unit + 64);
                    continue;
                }
                run = if word & 1 << (unit % 64) == 0 { run + 1 } else { 0 };
                unit += 1;
                if run == count {
                    let first = unit - count;
                    self.bits.resize(self.bits.len().max(unit.div_ceil(64) as usize), 0);
                    (first..unit).for_each(|unit| self.bits[unit as usize / 64] |= 1 << (unit % 64));
                    (self.used, self.next) = (self.used + count, unit);
                    return Some(first);
                }
            }
        }
        None
    }
}

/// Of a blob and where it stands: a device that mixes up its blocks is noticed, too.
fn hash(unit: u64, payload: &[u8]) -> u64 {
    XxHash3_64::oneshot(payload) ^ unit.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
