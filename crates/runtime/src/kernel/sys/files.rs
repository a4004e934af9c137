//! Files, directories and pipes.

use core::ffi::CStr;

use super::{Errno, Fd, Result, Timespec, nr, syscall};

/// Opens `path`; `flags` are the kernel's.
pub fn open(path: &CStr, flags: i32) -> Result<Fd> {
    const AT_FDCWD: usize = -100isize as usize;
    // SAFETY: the path is zero-terminated and outlives the call.
    unsafe { syscall(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags as usize, 0, 0, 0]) }
        .map(|fd| Fd(fd as i32))
}

/// Opens a file of this process under `/proc/self`. After a change of user ids these files belong to root;
/// then the process is made dumpable for the duration of the call, which makes them its own again.
pub fn open_own(path: &CStr, flags: i32) -> Result<Fd> {
    const GET_DUMPABLE: usize = 3;
    const SET_DUMPABLE: usize = 4;
    const ACCESS: Errno = Errno(13);
    match open(path, flags | o::CLOEXEC) {
        Err(error) if error == ACCESS || error == Errno::PERM => {}
        other => return other,
    }
    // SAFETY: these only read and set a flag of the process.
    unsafe {
        let before = syscall(nr::PRCTL, [GET_DUMPABLE, 0, 0, 0, 0, 0])?;
        syscall(nr::PRCTL, [SET_DUMPABLE, 1, 0, 0, 0, 0])?;
        let file = open(path, flags | o::CLOEXEC);
        // 2 cannot be set; 0 is the strictest value that can.
        let _ = syscall(nr::PRCTL, [SET_DUMPABLE, usize::from(before == 1), 0, 0, 0, 0]);
        file
    }
}

/// Flags of [`open`].
#[allow(missing_docs)]
pub mod o {
    pub const RDONLY: i32 = 0;
    pub const WRONLY: i32 = 1;
    pub const RDWR: i32 = 2;
    pub const APPEND: i32 = 0o2000;
    pub const NONBLOCK: i32 = 0o4000;
    pub const CLOEXEC: i32 = 0o2000000;
    pub const PATH: i32 = 0o10000000;
    #[cfg(target_arch = "x86_64")]
    pub const DIRECTORY: i32 = 0o200000;
    #[cfg(target_arch = "aarch64")]
    pub const DIRECTORY: i32 = 0o40000;
    #[cfg(target_arch = "x86_64")]
    pub const DIRECT: i32 = 0o40000;
    #[cfg(target_arch = "aarch64")]
    pub const DIRECT: i32 = 0o200000;
}

/// Closes a descriptor.
pub fn close(fd: Fd) {
    // SAFETY: closing touches no memory; the descriptor is ours.
    let _ = unsafe { syscall(nr::CLOSE, [fd.0 as usize, 0, 0, 0, 0, 0]) };
}

/// Reads into `buffer`.
pub fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the exclusive buffer.
    unsafe { syscall(nr::READ, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// Reads at an offset.
pub fn pread(fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let args = [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the kernel writes at most `len` bytes into the exclusive buffer.
    unsafe { syscall(nr::PREAD, args) }
}

/// Writes `bytes` at an offset.
pub fn pwrite(fd: Fd, bytes: &[u8], offset: u64) -> Result<usize> {
    let args = [fd.0 as usize, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0];
    // SAFETY: the kernel only reads the borrowed bytes; the code that opened the file is responsible for what
    // it is.
    unsafe { syscall(nr::PWRITE, args) }
}

/// Writes `bytes`.
pub fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel only reads the borrowed bytes.
    unsafe { syscall(nr::WRITE, [fd.0 as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// Reads directory records.
pub fn read_directory(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the exclusive buffer.
    unsafe { syscall(nr::GETDENTS64, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// The target of a symbolic link in a directory.
pub fn readlink_at(directory: Fd, name: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let (name, into) = (name.as_ptr() as usize, buffer.as_mut_ptr() as usize);
    // SAFETY: the kernel writes at most `len` bytes into the exclusive buffer.
    unsafe { syscall(nr::READLINKAT, [directory.0 as usize, name, into, buffer.len(), 0, 0]) }
}

/// Size of an open file.
pub fn file_size(fd: Fd) -> u64 {
    // At offset 48 on both architectures.
    status(fd).map_or(0, |status| status[6])
}

/// Inode number of an open file; for a namespace's file it identifies the namespace.
pub fn inode(fd: Fd) -> u64 {
    // At offset 8 on both architectures.
    status(fd).map_or(0, |status| status[1])
}

/// Number of links to an open file; a directory has one from each of its subdirectories, and two more.
pub fn links(fd: Fd) -> u64 {
    let shift = if cfg!(target_arch = "aarch64") { 32 } else { 0 };
    status(fd).map_or(0, |status| status[2] >> shift)
}

/// The kind of file system that an open file is in, as `statfs` names it.
pub fn file_system(fd: Fd) -> Result<u64> {
    let mut about = [0u64; 16];
    // SAFETY: the kernel's structure is 120 bytes.
    unsafe { syscall(nr::FSTATFS, [fd.0 as usize, about.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Ok(about[0])
}

/// A new memory file, closed at exec.
pub fn memory_file(name: &CStr) -> Result<Fd> {
    const CLOEXEC: usize = 1;
    // SAFETY: the name is zero-terminated and outlives the call.
    unsafe { syscall(nr::MEMFD_CREATE, [name.as_ptr() as usize, CLOEXEC, 0, 0, 0, 0]) }
        .map(|fd| Fd(fd as i32))
}

/// Makes `to` another descriptor of the file `from`, in place of what it was; `flags` may be [`o::CLOEXEC`].
pub fn duplicate_as(from: Fd, to: Fd, flags: i32) -> Result<()> {
    // SAFETY: this touches no memory; the caller owns both descriptors.
    unsafe { syscall(nr::DUP3, [from.0 as usize, to.0 as usize, flags as usize, 0, 0, 0]) }.map(drop)
}

fn status(fd: Fd) -> Result<[u64; 32]> {
    let mut status = [0u64; 32];
    // SAFETY: the kernel's structure is 144 bytes.
    unsafe { syscall(nr::FSTAT, [fd.0 as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Ok(status)
}

/// File information that does not require asking the file system's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// It is an ordinary file: not a directory, device, pipe or socket.
    pub is_regular: bool,
    /// The mount on which it was opened (Linux 5.8).
    pub mount: Option<u64>,
    /// Its number in its file system, and that file system's device.
    pub id: (u64, u64),
}

/// Information about the file `name` in a directory, or about the open file itself if the name is empty.
pub fn file_info(directory: Fd, name: &CStr) -> Result<FileInfo> {
    const EMPTY_PATH: usize = 0x1000;
    const DONT_SYNC: usize = 0x4000;
    const TYPE: usize = 1;
    const NUMBER: usize = 0x100;
    const MOUNT: usize = 0x1000;
    let mut info = [0u64; 32];
    let flags = DONT_SYNC | if name.is_empty() { EMPTY_PATH } else { 0 };
    let (name, into) = (name.as_ptr() as usize, info.as_mut_ptr() as usize);
    // SAFETY: the kernel's structure is 256 bytes.
    unsafe { syscall(nr::STATX, [directory.0 as usize, name, flags, TYPE | NUMBER | MOUNT, into, 0]) }?;
    // The mode is 16 bits at offset 28, the number 64 bits at 32, the device twice 32 bits at 136, and the
    // mount's id 64 bits at 144.
    let mode = (info[3] >> 32) as u16;
    let known = info[0] as u32 as usize & MOUNT != 0;
    Ok(FileInfo {
        is_regular: mode & 0o170000 == 0o100000,
        mount: known.then_some(info[18]),
        id: (info[4], info[17]),
    })
}

/// One descriptor to poll.
#[repr(C)]
pub struct PollFd {
    /// The descriptor.
    pub fd: Fd,
    /// The events to wait for: 1 means readable.
    pub events: i16,
    /// The events that occurred.
    pub revents: i16,
}

/// Waits until one of the descriptors is ready.
pub fn poll(fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize> {
    let mut time = timeout_ns.map(Timespec::from_ns);
    let pointer = time.as_mut().map_or(core::ptr::null_mut(), |t| t as *mut Timespec);
    // SAFETY: the kernel writes only `revents` and the time, both exclusive.
    unsafe { syscall(nr::POLL, [fds.as_mut_ptr() as usize, fds.len(), pointer as usize, 0, 8, 0]) }
}

/// Gives the calling thread a descriptor table of its own, and closes everything in it.
pub fn close_all() {
    const UNSHARE: usize = 2;
    // SAFETY: only descriptors of the calling thread's own table are closed.
    let _ = unsafe { syscall(nr::CLOSE_RANGE, [0, u32::MAX as usize, UNSHARE, 0, 0, 0]) };
}

/// A pipe: its read end, and its write end.
pub fn pipe() -> Result<[Fd; 2]> {
    let mut ends = [-1i32; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe { syscall(nr::PIPE2, [ends.as_mut_ptr() as usize, o::CLOEXEC as usize, 0, 0, 0, 0]) }?;
    Ok(ends.map(Fd))
}

/// An eventfd, non-blocking.
pub fn eventfd() -> Result<Fd> {
    // SAFETY: makes a descriptor.
    unsafe { syscall(nr::EVENTFD2, [0, (o::NONBLOCK | o::CLOEXEC) as usize, 0, 0, 0, 0]) }
        .map(|f| Fd(f as i32))
}
