//! The device as the single file, `disk`, of a FUSE file system: for machines without an NBD client.
//!
//! Reads and writes bypass the page cache: a loop device on the file has its own cache. The kernel sends
//! requests from several threads at once.
//!
//! If a program maps the file (`mmap`, since Linux 6.6), its pages are in the page cache while they are
//! mapped. The kernel writes back changed pages before it reads from this file system, and drops cached pages
//! before it writes to it, so all programs see the same bytes.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};

use crate::backing::Backing;
use crate::{Disk, Error, PAGE, locked};

/// The file's name.
pub const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// How long the kernel may cache the attributes of the directory and the file.
const TTL: Duration = Duration::from_secs(60);
/// The longest possible read or write: each thread keeps memory for both.
const MOST: usize = 256 << 10;

/// A mounted device.
pub struct Mounted(Session<File>);

struct File {
    disk: Arc<Disk>,
    user: u32,
    group: u32,
    made: SystemTime,
    /// Buffers for reading, one per thread: a device that is used as swap must not need memory to serve a
    /// read.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Mounted {
    /// Mounts the device at `directory`. `user` and `group` own the file.
    pub fn new(
        disk: &Arc<Disk>,
        directory: &Path,
        threads: usize,
        user: u32,
        group: u32,
    ) -> io::Result<Self> {
        // Only memory with non-zero content is sure to be allocated.
        let buffer = || vec![u8::from(disk.is_for_swap()); MOST];
        let buffers = Mutex::new((0..threads).map(|_| buffer()).collect());
        let file = File { disk: Arc::clone(disk), user, group, made: SystemTime::now(), buffers };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("memfold".into()),
            MountOption::Subtype("memfold".into()),
            MountOption::DefaultPermissions,
        ];
        // Loop devices work on behalf of the kernel, so root must be able to access the file. Other users
        // need user_allow_other in fuse.conf for that.
        config.acl = if user == 0 { SessionACL::All } else { SessionACL::Owner };
        (config.n_threads, config.clone_fd) = (Some(threads), true);
        Session::new(file, directory, &config).map(Mounted)
    }

    /// Serves requests until the file system is unmounted.
    pub fn run(self) -> io::Result<()> {
        self.0.run()
    }
}

/// The error number for the client. The reason is printed here, because the client never sees it. An error at
/// the limit is not printed, because every write would print it.
fn errno(error: Error) -> Errno {
    if matches!(error, Error::Damaged { .. } | Error::Backing { .. }) {
        eprintln!("memfold: {error}");
    }
    Errno::from_i32(error.errno())
}

impl File {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, size, perm, nlink) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0, 0o755, 2),
            FILE => (FileType::RegularFile, self.disk.size(), 0o600, 1),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            // The allocated size, as for any sparse file.
            blocks: if inode == FILE { self.disk.logical_bytes() / 512 } else { 0 },
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind,
            perm,
            nlink,
            uid: self.user,
            gid: self.group,
            rdev: 0,
            blksize: PAGE as u32,
            flags: 0,
        })
    }
}

impl Filesystem for File {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // More simultaneous requests than the default: loop devices have deep queues.
        let _ = config.set_max_background(64);
        let _ = config.set_max_write(MOST as u32);
        // Before Linux 6.6, a file that bypasses the page cache cannot have shared mappings: ENODEV.
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE).filter(|_| parent == INodeNo::ROOT && name == NAME) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Size, mode and owner cannot change. Setting times succeeds, without effect.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = mode.is_some() || user.is_some() || group.is_some();
        match self.attributes(inode) {
            // A program that rewrites the file first truncates it to zero, which has no effect, as on a block
            // device.
            Some(_) if changes || size.is_some_and(|size| size != 0 && size != self.disk.size()) => {
                reply.error(Errno::EPERM)
            }
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match inode {
            FILE => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            _ => reply.error(Errno::EISDIR),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(size).min(self.disk.size().saturating_sub(offset)) as usize;
        let mut buffer = locked(&self.buffers).pop().unwrap_or_default();
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        match self.disk.read(offset, &mut buffer[..len]) {
            Ok(()) => reply.data(&buffer[..len]),
            Err(_) if len == 0 => reply.data(&[]),
            Err(error) => reply.error(errno(error)),
        }
        locked(&self.buffers).push(buffer);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let len = (bytes.len() as u64).min(self.disk.size().saturating_sub(offset)) as usize;
        if len == 0 && !bytes.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        match self.disk.write(offset, &bytes[..len]) {
            Ok(()) => reply.written(len as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.disk.flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 1;
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        let size = self.disk.size();
        if offset.checked_add(len).is_none_or(|end| end > size) && mode & KEEP_SIZE == 0 {
            return reply.error(Errno::EFBIG);
        }
        let len = len.min(size.saturating_sub(offset));
        match mode & !KEEP_SIZE {
            PUNCH_HOLE | ZERO_RANGE if len > 0 => match self.disk.trim(offset, len) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            },
            PUNCH_HOLE | ZERO_RANGE => reply.ok(),
            // Room cannot be reserved for unknown data, since how much they take depends on how well they
            // compress. `posix_fallocate` then writes instead, and learns when the device is full.
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let (Ok(mut at), size) = (u64::try_from(offset), self.disk.size()) else {
            return reply.error(Errno::ENXIO);
        };
        if at >= size || !matches!(whence, SEEK_DATA | SEEK_HOLE) {
            return reply.error(if at >= size { Errno::ENXIO } else { Errno::EINVAL });
        }
        while let Some(extent) = self.disk.extent(at, size) {
            if extent.is_hole == (whence == SEEK_HOLE) {
                return reply.offset(at as i64);
            }
            at = extent.offset + extent.len;
        }
        // Beyond the last data there is a hole and no more data.
        if whence == SEEK_HOLE { reply.offset(size as i64) } else { reply.error(Errno::ENXIO) }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, NAME),
        ];
        for (next, (inode, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // If the limit may be reached before the device is full, the figures are those of memory: what data
        // cannot have counts as used.
        let (all, free) = match self.disk.has_limit() {
            true => {
                let spilled = self.disk.backing.as_ref().map_or(0, Backing::compressed_bytes);
                let free = self.disk.room().saturating_sub(self.disk.held());
                (self.disk.budget().limit() + spilled, free)
            }
            false => (self.disk.size(), self.disk.size().saturating_sub(self.disk.logical_bytes())),
        };
        let (all, free) = (all / PAGE as u64, free / PAGE as u64);
        reply.statfs(all, free, free, 2, 0, PAGE as u32, 255, PAGE as u32);
    }
}
