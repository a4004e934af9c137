//! Reads one directory after the other.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use memfold::heap::{Heap, Session};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstatfs, openat, statat};
use rustix::io::Errno;

use super::Shared;
use super::clock::{self, Seen};
use super::exclude::Left;
use super::open::{self, Open};
use super::stack::{Level, Origin, Task};
use crate::Error;
use crate::entry::{Entry, Extended, Kind, Link, Target};
use crate::tree::{Batch, Directory, Listing, Name, Row, flags};

/// The size of the buffer for names that the system returns at once.
const BUFFER: usize = 32 << 10;
/// How often to try to open a directory when too many files are open.
const TRIES: usize = 100;
/// The most directories, and the most names of linked files, in a batch.
const DIRECTORIES: usize = 64;
const LINKS: usize = 1024;

/// The beginning of a cache's tag (<https://bford.info/cachedir/>).
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// File systems that hold no files (linux/magic.h).
const KERNEL: [u64; 12] = [
    0x4249_4e4d, // binfmt_misc
    0xcafe_4a11, // bpf
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x1cd1,      // devpts
    0x9fa0,      // proc
    0x6165_676c, // pstore
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinux
    0x6265_6572, // sysfs
    0x7472_6163, // tracefs
];

/// A thread that reads.
pub struct Worker<'a, 's> {
    shared: &'a Shared<'a>,
    nodes: Session<'s>,
    send: SyncSender<Batch>,
    batch: Batch,
    listing: Listing,
    buffer: Vec<MaybeUninit<u8>>,
}

impl<'a, 's> Worker<'a, 's> {
    pub fn new(shared: &'a Shared<'a>, heap: &'s Heap, send: SyncSender<Batch>) -> Result<Self, Error> {
        Ok(Worker {
            shared,
            nodes: heap.session()?,
            send,
            batch: Batch::default(),
            listing: Listing::default(),
            buffer: vec![MaybeUninit::uninit(); BUFFER],
        })
    }

    /// Works until everything is read. Everything read is sent, even after a failure: the receiver frees what
    /// is not used.
    pub fn work(&mut self) -> Result<(), Error> {
        let read = self.read_all();
        read.and(flush(&self.send, &mut self.batch))
    }

    fn read_all(&mut self) -> Result<(), Error> {
        let stack = &self.shared.stack;
        while let Some(task) = stack.take(&self.nodes, || flush(&self.send, &mut self.batch))? {
            let level = self.read(task);
            stack.done(level?);
            if self.batch.directories.len() >= DIRECTORIES {
                flush(&self.send, &mut self.batch)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, task: Task) -> Result<Option<Level>, Error> {
        let mut row = Row::default();
        let (opened, above, slot) = match task.place {
            Origin::Start { open, above, slot } => (Ok(open), above, slot),
            Origin::Below { above, name, slot } => {
                let mut opened = above.below(name.clone(), task.number);
                // If closing the directories that can be reopened does not suffice, other threads will soon
                // close theirs.
                for _ in 0..TRIES {
                    if !matches!(opened, Err(Errno::MFILE | Errno::NFILE)) {
                        break;
                    }
                    self.shared.stack.close();
                    std::thread::sleep(Duration::from_millis(1));
                    opened = above.below(name.clone(), task.number);
                }
                if above.was_opened_again() {
                    self.shared.stack.keep(&above);
                }
                (opened.map(Arc::new), above.number, slot)
            }
        };
        let level = match opened.and_then(|open| Ok((open.file()?, open))) {
            Ok((file, open)) => self.enter(&open, &file, &mut row)?,
            Err(error) => {
                fail(&mut row, error);
                None
            }
        };
        if row.flags & flags::FAILED != 0 {
            self.shared.progress.failures.fetch_add(1, Relaxed);
        }
        self.batch.directories.push(Directory { number: task.number, above, slot, row });
        Ok(level)
    }

    /// Reads a directory, unless it is left out.
    fn enter(&mut self, open: &Arc<Open>, file: &OwnedFd, row: &mut Row) -> Result<Option<Level>, Error> {
        row.device = self.shared.device(open.device);
        if let Some(flag) = self.left_out(open, file) {
            row.flags |= flag;
            return Ok(None);
        }
        if self.shared.progress.wants_path.swap(false, Relaxed)
            && let Ok(mut path) = self.shared.progress.path.lock()
        {
            *path = open.path();
        }
        let names = match self.names(open, file, row) {
            Ok(names) => names,
            Err(error) => {
                self.listing.discard(&mut self.nodes);
                return Err(error);
            }
        };
        self.shared.progress.items.fetch_add(names, Relaxed);
        let mut has_directories = false;
        let (number, device) = (open.number, row.device);
        let (shared, batch, send) = (self.shared, &mut self.batch, &self.send);
        let contents = self.listing.finish(&mut self.nodes, &mut |slot, entry: &mut Entry<'_>| {
            if entry.kind.is_directory() {
                has_directories = true;
                entry.kind = Kind::Directory(shared.number()?);
            }
            row.count(entry);
            if let Some(Link { inode, device: other, names }) = entry.link {
                let Entry { size, blocks, .. } = *entry;
                let device = other.unwrap_or(device);
                batch.links.push(Name { inode, device, directory: number, slot, names, size, blocks });
                if batch.links.len() >= LINKS {
                    flush(send, batch)?;
                }
            }
            Ok(())
        })?;
        row.set_contents(contents);
        self.shared.progress.blocks.fetch_add(row.blocks, Relaxed);
        self.shared.progress.failures.fetch_add(row.failures.into(), Relaxed);
        Ok(has_directories.then(|| Level::new(open.clone(), contents)))
    }

    /// Why a directory is not read.
    fn left_out(&self, open: &Open, file: &OwnedFd) -> Option<u16> {
        let options = self.shared.options;
        // Only a mount can lead from a directory to itself.
        if open.may_be_mounted() && open.above().any(|above| above.is(open)) {
            return Some(flags::LOOP);
        }
        // The root is always read: a user who names a directory wants to see its contents, even those that
        // the kernel generates.
        let above = open.above().next()?;
        let is_other = above.device != open.device || above.above().next().is_none();
        if options.exclude_kernel
            && is_other
            && let Ok(system) = fstatfs(file)
            && KERNEL.contains(&(system.f_type as u64 & 0xffff_ffff))
        {
            return Some(flags::KERNEL);
        }
        (options.exclude_caches && is_cache(file)).then_some(flags::CACHE)
    }

    /// Adds a directory's names to the listing and returns how many there are.
    fn names(&mut self, open: &Open, file: &OwnedFd, row: &mut Row) -> Result<u64, Error> {
        let exclude = Some(&self.shared.options.exclude).filter(|exclude| !exclude.is_empty());
        let (mut count, mut path) = (0, exclude.map_or_else(Vec::new, |_| open.path()));
        if exclude.is_some() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        let directory = path.len();
        let mut seen = Seen::begin();
        let mut names = RawDir::new(file.as_fd(), &mut self.buffer);
        while let Some(name) = names.next() {
            let name = match name {
                Ok(name) => name,
                Err(error) => {
                    fail(row, error);
                    break;
                }
            };
            let name = name.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            count += 1;
            path.truncate(directory);
            let left = exclude.map_or(Left::In, |exclude| {
                path.extend_from_slice(name.to_bytes());
                exclude.matches(&path)
            });
            let mut entry = match left {
                Left::Out => nothing(name, Kind::Excluded),
                _ => self.shared.entry(open.device, file, name, &mut seen),
            };
            let is_directory = entry.kind.is_directory() || entry.kind == Kind::OtherFileSystem;
            if left == Left::IfDirectory && is_directory {
                entry = nothing(name, Kind::Excluded);
            }
            self.listing.add(&entry, &mut self.nodes)?;
        }
        row.seen_until = seen.until();
        Ok(count)
    }
}

fn flush(send: &SyncSender<Batch>, batch: &mut Batch) -> Result<(), Error> {
    if batch.directories.is_empty() && batch.links.is_empty() {
        return Ok(());
    }
    send.send(std::mem::take(batch)).map_err(|_| Error::Stopped)
}

fn fail(row: &mut Row, error: Errno) {
    row.flags |= flags::FAILED;
    row.error = error.raw_os_error() as u16;
}

fn is_cache(directory: &OwnedFd) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(tag) = openat(directory, c"CACHEDIR.TAG", flags, Mode::empty()) else { return false };
    let mut begins = [0; SIGNATURE.len()];
    matches!(rustix::io::read(&tag, &mut begins), Ok(len) if &begins[..len] == SIGNATURE)
}

impl Shared<'_> {
    /// A number for a directory: larger than those of its ancestors.
    fn number(&self) -> Result<u32, Error> {
        u32::try_from(self.next.fetch_add(1, Relaxed)).map_err(|_| Error::TooMany)
    }

    fn device(&self, device: u64) -> u32 {
        let mut devices = self.devices.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = devices.iter().position(|known| *known == device);
        known.unwrap_or_else(|| {
            devices.push(device);
            devices.len() - 1
        }) as u32
    }

    /// The attributes of a name in a directory on this device.
    fn entry<'n>(&self, device: u64, directory: &OwnedFd, name: &'n CStr, seen: &mut Seen) -> Entry<'n> {
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => return nothing(name, Kind::Failed(error.raw_os_error() as u16)),
        };
        let (mut stat, mut followed) = (stat, None);
        if self.options.follow_links
            && FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
            && let Ok(target) = statat(directory, name, AtFlags::empty())
            && FileType::from_raw_mode(target.st_mode) != FileType::Directory
        {
            // As in ncdu, the link counts as one more name of a target that has several.
            let device = (target.st_dev != device).then(|| self.device(target.st_dev));
            (stat, followed) = (target, Some(Target { device }));
        }
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory(0),
            _ => Kind::Other,
        };
        let is_elsewhere = || match followed {
            _ if kind.is_directory() => true,
            _ if stat.st_dev == device => false,
            Some(_) => open::leads_elsewhere(directory, name),
            None => open::is_mount(directory, name),
        };
        if self.options.one_file_system && stat.st_dev != self.device && is_elsewhere() {
            return Entry { followed, ..nothing(name, Kind::OtherFileSystem) };
        }
        let link = (stat.st_nlink > 1 && !kind.is_directory()).then(|| Link {
            inode: stat.st_ino,
            device: (stat.st_dev != device).then(|| self.device(stat.st_dev)),
            names: names(&stat),
        });
        let extended = self.options.extended.then_some(Extended {
            modified: stat.st_mtime,
            user: stat.st_uid,
            group: stat.st_gid,
            mode: stat.st_mode as u16,
        });
        if kind == Kind::File {
            seen.file(clock::nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64));
        }
        let (size, blocks) = (stat.st_size as u64, stat.st_blocks as u64);
        Entry { name: name.to_bytes(), kind, size, blocks, link, followed, extended }
    }
}

fn names(stat: &Stat) -> u32 {
    u32::try_from(stat.st_nlink).unwrap_or(u32::MAX)
}

/// An entry of which only the name and kind are known.
fn nothing(name: &CStr, kind: Kind) -> Entry<'_> {
    Entry { name: name.to_bytes(), kind, ..Entry::default() }
}
