//! Raw system calls, the only place of this crate that enters the kernel.
//!
//! The C library is not used: its wrappers set `errno` in the host's thread,
//! may be interposed by the host, and may take its locks. Every function
//! returns `Err(Errno)` instead.

use core::arch::asm;
use core::ffi::CStr;

/// An error number of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Error numbers that are handled by name.
#[allow(missing_docs)]
impl Errno {
    pub const PERM: Errno = Errno(1);
    pub const NOENT: Errno = Errno(2);
    pub const SRCH: Errno = Errno(3);
    pub const AGAIN: Errno = Errno(11);
    /// ETIMEDOUT
    pub const TIMEDOUT: Errno = Errno(110);
    pub const NOMEM: Errno = Errno(12);
    pub const FAULT: Errno = Errno(14);
    pub const BUSY: Errno = Errno(16);
    pub const EXIST: Errno = Errno(17);
    pub const INVAL: Errno = Errno(22);
    pub const MFILE: Errno = Errno(24);
    pub const NOSYS: Errno = Errno(38);
    /// EOPNOTSUPP
    pub const NOTSUP: Errno = Errno(95);
}

/// Result of a system call.
pub type Result<T> = core::result::Result<T, Errno>;

pub mod aio;
pub mod socket;

pub use memfold_shared::calls::nr;

/// Makes a system call.
///
/// # Safety
/// As the call itself: the arguments must be valid for it, and what it does
/// to memory must not break anyone's assumptions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn syscall(number: usize, a: [usize; 6]) -> Result<usize> {
    let result: isize;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; the
    // caller answers for what the call does.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    decode(result)
}

/// Makes a system call.
///
/// # Safety
/// As the call itself: the arguments must be valid for it, and what it does
/// to memory must not break anyone's assumptions.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn syscall(number: usize, a: [usize; 6]) -> Result<usize> {
    let result: isize;
    // SAFETY: the kernel preserves all registers but x0; the caller answers
    // for what the call does.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    decode(result)
}

#[inline(always)]
fn decode(result: isize) -> Result<usize> {
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A file descriptor, owned by whoever keeps it: there is no close on drop,
/// because most of ours live as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fd(pub i32);

/// Opens `path`; `flags` are the kernel's.
pub fn open(path: &CStr, flags: i32) -> Result<Fd> {
    const AT_FDCWD: usize = -100isize as usize;
    // SAFETY: the path is zero-terminated and outlives the call.
    unsafe { syscall(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags as usize, 0, 0, 0]) }
        .map(|fd| Fd(fd as i32))
}

/// Opens a file of this process under `/proc/self`. After a change of user
/// ids these belong to root; then the process is made dumpable, which makes
/// them its own again, for as long as the call takes.
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
        // 2 can't be set; 0 is the strictest that can.
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
    // SAFETY: the kernel only reads the borrowed bytes; who opened the file answers for what it is.
    unsafe { syscall(nr::PWRITE, args) }
}

/// Writes `bytes`.
pub fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel only reads the borrowed bytes.
    unsafe { syscall(nr::WRITE, [fd.0 as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// An ioctl whose argument is a structure.
///
/// # Safety
/// `T` must be what `request` expects, and what the ioctl does must be sound.
pub unsafe fn ioctl<T>(fd: Fd, request: usize, argument: &mut T) -> Result<usize> {
    // SAFETY: passed on to the caller.
    unsafe { syscall(nr::IOCTL, [fd.0 as usize, request, argument as *mut T as usize, 0, 0, 0]) }
}

/// Protection bits.
#[allow(missing_docs)]
pub mod prot {
    pub const NONE: usize = 0;
    pub const READ: usize = 1;
    pub const WRITE: usize = 2;
}

const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;

/// Maps private anonymous memory that takes nothing until it is touched.
pub fn map_anonymous(bytes: usize, protection: usize) -> Result<*mut u8> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nobody's memory.
    unsafe { syscall(nr::MMAP, [0, bytes, protection, flags, -1isize as usize, 0]) }.map(|p| p as *mut u8)
}

/// Maps a file shared.
pub fn map_shared(fd: Fd, bytes: usize) -> Result<*mut u8> {
    let args = [0, bytes, prot::READ | prot::WRITE, MAP_SHARED, fd.0 as usize, 0];
    // SAFETY: a new mapping at an address of the kernel's choice touches nobody's memory.
    unsafe { syscall(nr::MMAP, args) }.map(|p| p as *mut u8)
}

/// Attaches a segment of System V's shared memory. Returns where it is, and its size.
pub fn attach_segment(number: i32) -> Result<(*mut u8, usize)> {
    const IPC_STAT: usize = 2;
    // The kernel's structure is 112 bytes, and begins with one of 48 bytes; the size is next.
    let mut about = [0usize; 32];
    // SAFETY: the kernel writes its structure, for which there is room.
    unsafe { syscall(nr::SHMCTL, [number as usize, IPC_STAT, about.as_mut_ptr() as usize, 0, 0, 0]) }?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nobody's memory.
    let start = unsafe { syscall(nr::SHMAT, [number as usize, 0, 0, 0, 0, 0]) }?;
    Ok((start as *mut u8, about[6]))
}

/// Changes protection.
///
/// # Safety
/// Nobody may rely on the old protection.
pub unsafe fn mprotect(at: usize, bytes: usize, protection: usize) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { syscall(nr::MPROTECT, [at, bytes, protection, 0, 0, 0]) }.map(drop)
}

/// Unmaps.
///
/// # Safety
/// Nobody may use the range any more.
pub unsafe fn munmap(at: usize, bytes: usize) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { syscall(nr::MUNMAP, [at, bytes, 0, 0, 0, 0]) }.map(drop)
}

/// Advice values of [`madvise`].
#[allow(missing_docs)]
pub mod advice {
    pub const DONTNEED: usize = 4;
    pub const DONTFORK: usize = 10;
    pub const DOFORK: usize = 11;
    pub const NOHUGEPAGE: usize = 15;
    pub const DONTDUMP: usize = 16;
    pub const WIPEONFORK: usize = 18;
    pub const POPULATE_READ: usize = 22;
    pub const GUARD_INSTALL: usize = 102;
    pub const POPULATE_WRITE: usize = 23;
}

/// Gives advice about a range.
///
/// # Safety
/// Some advice throws contents away: nobody may need them.
pub unsafe fn madvise(at: usize, bytes: usize, advice: usize) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { syscall(nr::MADVISE, [at, bytes, advice, 0, 0, 0]) }.map(drop)
}

/// Reads this process's memory, or fails if there is none.
pub fn read_own_memory(from: usize, into: &mut [usize]) -> Result<()> {
    let bytes = size_of_val(into);
    let (near, far) = ([into.as_mut_ptr() as usize, bytes], [from, bytes]);
    let parts = (near.as_ptr() as usize, far.as_ptr() as usize);
    // SAFETY: there is room for so many bytes; what can't be read is an error.
    let read = unsafe { syscall(nr::PROCESS_VM_READV, [getpid() as usize, parts.0, 1, parts.1, 1, 0]) }?;
    if read == bytes { Ok(()) } else { Err(Errno::FAULT) }
}

/// Moves the pages of `from` to `to`. With `keep_source` the mapping at
/// `from` stays and is empty afterwards.
///
/// # Safety
/// Whatever is mapped at `to` is replaced; whoever uses `from` must cope with
/// missing pages.
pub unsafe fn mremap_to(from: usize, bytes: usize, to: usize, keep_source: bool) -> Result<()> {
    const MAYMOVE: usize = 1;
    const FIXED: usize = 2;
    const DONTUNMAP: usize = 4;
    let flags = MAYMOVE | FIXED | if keep_source { DONTUNMAP } else { 0 };
    // SAFETY: passed on to the caller.
    unsafe { syscall(nr::MREMAP, [from, bytes, bytes, flags, to, 0]) }.map(drop)
}

/// Whether any page of a range (at most 2 MiB) is resident.
pub fn any_resident(at: usize, bytes: usize) -> bool {
    let mut pages = [0u8; 512];
    // SAFETY: the kernel writes one byte a page, and there are at most 512.
    let answer =
        unsafe { syscall(nr::MINCORE, [at, bytes.min(512 * PAGE), pages.as_mut_ptr() as usize, 0, 0, 0]) };
    answer.is_ok() && pages.iter().any(|page| page & 1 != 0)
}

/// A time span for the kernel.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Timespec {
    fn from_ns(ns: u64) -> Self {
        Timespec { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as i64 }
    }
}

/// The operation with which threads of one process sleep on a word.
pub const FUTEX_WAIT_PRIVATE: usize = 128;

/// Sleeps while `*word == expected`, at most `timeout_ns`.
pub fn futex_wait(
    word: &core::sync::atomic::AtomicU32,
    expected: u32,
    timeout_ns: Option<u64>,
    shared: bool,
) -> Result<()> {
    let time = timeout_ns.map(Timespec::from_ns);
    let pointer = time.as_ref().map_or(core::ptr::null(), |t| t as *const Timespec);
    let operation = if shared { 0 } else { FUTEX_WAIT_PRIVATE };
    let args = [word.as_ptr() as usize, operation, expected as usize, pointer as usize, 0, 0];
    // SAFETY: the kernel only reads the word and the time, both live.
    unsafe { syscall(nr::FUTEX, args) }.map(drop)
}

/// Every thread that sleeps on a word: the kernel's count is a signed number.
pub const ALL: u32 = i32::MAX as u32;

/// Wakes up to `count` threads that sleep on `word`. Returns how many there were.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32, count: u32, shared: bool) -> usize {
    let operation = if shared { 1 } else { 129 };
    // SAFETY: waking touches no memory of ours.
    unsafe { syscall(nr::FUTEX, [word.as_ptr() as usize, operation, count as usize, 0, 0, 0]) }.unwrap_or(0)
}

/// Writes to a page what is there, atomically, so that a page that was shared
/// with a process which is gone becomes this process's own. Refused where
/// the page is not there: a plain touch would wait for it to be brought back.
///
/// The operation is FUTEX_WAKE_OP: word |= 0, and nobody is woken.
pub fn write_back_in_place(page: usize) -> Result<()> {
    static NOBODY: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    const OR_0_IF_EQUAL_7FF: usize = 2 << 28 | 0x7ff;
    let args = [NOBODY.as_ptr() as usize, 5 | 128, 0, 0, page, OR_0_IF_EQUAL_7FF];
    // SAFETY: changes no byte.
    unsafe { syscall(nr::FUTEX, args) }.map(drop)
}

/// Reads records of a directory.
pub fn read_directory(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the exclusive buffer.
    unsafe { syscall(nr::GETDENTS64, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// Where a symbolic link in a directory points.
pub fn readlink_at(directory: Fd, name: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let (name, into) = (name.as_ptr() as usize, buffer.as_mut_ptr() as usize);
    // SAFETY: the kernel writes at most `len` bytes into the exclusive buffer.
    unsafe { syscall(nr::READLINKAT, [directory.0 as usize, name, into, buffer.len(), 0, 0]) }
}

/// Maps fresh anonymous memory at an address, if nothing is there.
pub fn map_if_free(at: usize, bytes: usize, protection: usize) -> Result<()> {
    const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    // SAFETY: the kernel refuses it where anything is mapped.
    unsafe { syscall(nr::MMAP, [at, bytes, protection, flags, -1isize as usize, 0]) }.map(drop)
}

/// Maps fresh anonymous memory in place of whatever is there.
///
/// # Safety
/// Nobody may need what is mapped there.
pub unsafe fn map_over(at: usize, bytes: usize, protection: usize) -> Result<()> {
    const MAP_FIXED: usize = 0x10;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: passed on to the caller.
    unsafe { syscall(nr::MMAP, [at, bytes, protection, flags, -1isize as usize, 0]) }.map(drop)
}

/// Size of an open file.
pub fn file_size(fd: Fd) -> u64 {
    // At offset 48 on both architectures.
    status(fd).map_or(0, |status| status[6])
}

/// Number of an open file; of a namespace's it names the namespace.
pub fn inode(fd: Fd) -> u64 {
    // At offset 8 on both architectures.
    status(fd).map_or(0, |status| status[1])
}

/// Links to an open file; a directory has one from each directory in it, and two more.
pub fn links(fd: Fd) -> u64 {
    let shift = if cfg!(target_arch = "aarch64") { 32 } else { 0 };
    status(fd).map_or(0, |status| status[2] >> shift)
}

fn status(fd: Fd) -> Result<[u64; 32]> {
    let mut status = [0u64; 32];
    // SAFETY: the kernel's structure is 144 bytes.
    unsafe { syscall(nr::FSTAT, [fd.0 as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Ok(status)
}

/// What is known of a file without asking its file system's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// An ordinary file: no directory, device, pipe or socket.
    pub is_regular: bool,
    /// The mount it was opened on (Linux 5.8).
    pub mount: Option<u64>,
    /// Its number in its file system, and that one's device.
    pub id: (u64, u64),
}

/// Of the file `name` in a directory, or of the open file itself if the name is empty.
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
    // The mode is 16 bits at offset 28, its number 64 at 32, the device twice 32 at 136, the mount's id 64 at 144.
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
    /// What to wait for: 1 is readable.
    pub events: i16,
    /// What happened.
    pub revents: i16,
}

/// Waits until one of the descriptors is ready.
pub fn poll(fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize> {
    let mut time = timeout_ns.map(Timespec::from_ns);
    let pointer = time.as_mut().map_or(core::ptr::null_mut(), |t| t as *mut Timespec);
    // SAFETY: the kernel writes only `revents` and the time, both exclusive.
    unsafe { syscall(nr::POLL, [fds.as_mut_ptr() as usize, fds.len(), pointer as usize, 0, 8, 0]) }
}

/// Has the page of the stack below here present and not protected: who holds a lock
/// that a handler or the keeper may want must not need one of them.
#[inline(never)]
pub fn touch_stack() {
    let mut below = [core::mem::MaybeUninit::<u8>::uninit(); PAGE];
    for place in [0, PAGE / 2, PAGE - 1] {
        // SAFETY: inside the array.
        unsafe { core::ptr::write_volatile(below[place].as_mut_ptr(), 0) };
    }
}

/// Monotonic time in ns.
pub fn now_ns() -> u64 {
    clock(1)
}

/// CPU time of the calling thread in ns.
pub fn thread_cpu_ns() -> u64 {
    clock(3)
}

/// CPU time of all threads of the process, ns.
pub fn process_cpu_ns() -> u64 {
    clock(2)
}

fn clock(id: usize) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the kernel writes the exclusive structure.
    let _ = unsafe { syscall(nr::CLOCK_GETTIME, [id, &raw mut time as usize, 0, 0, 0, 0]) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Process id.
pub fn getpid() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(nr::GETPID, [0; 6]) }.map_or(0, |p| p as u32)
}

/// The parent's process id; 0 if it is none that can be seen from this process's PID namespace.
pub fn getppid() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(nr::GETPPID, [0; 6]) }.map_or(0, |p| p as u32)
}

/// Thread id.
pub fn gettid() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(nr::GETTID, [0; 6]) }.map_or(0, |p| p as u32)
}

/// Whether thread `tid` of process `pid` exists.
pub fn thread_exists(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let answer = unsafe { syscall(nr::TGKILL, [pid as usize, tid as usize, 0, 0, 0, 0]) };
    answer != Err(Errno::SRCH)
}

/// Ends the process with SIGABRT, whatever handlers or masks the host has;
/// with SIGKILL if that does not do it.
pub fn abort() -> ! {
    const SIGABRT: usize = 6;
    const SIGKILL: usize = 9;
    // The default action, no flags, nothing masked.
    let action = [0usize; 4];
    let unblock: u64 = 1 << (SIGABRT - 1);
    #[cfg(target_arch = "x86_64")]
    const SIGACTION: usize = 13;
    #[cfg(target_arch = "aarch64")]
    const SIGACTION: usize = 134;
    // SAFETY: the process ends here.
    unsafe {
        let _ = syscall(SIGACTION, [SIGABRT, action.as_ptr() as usize, 0, 8, 0, 0]);
        let _ = syscall(nr::SIGPROCMASK, [1, &raw const unblock as usize, 0, 8, 0, 0]);
        let _ = syscall(nr::TGKILL, [getpid() as usize, gettid() as usize, SIGABRT, 0, 0, 0]);
        let _ = syscall(nr::KILL, [getpid() as usize, SIGKILL, 0, 0, 0, 0]);
        loop {
            let _ = syscall(nr::EXIT_GROUP, [134, 0, 0, 0, 0, 0]);
        }
    }
}

/// Blocks all signals for the calling thread and returns the old mask.
pub fn block_signals() -> u64 {
    let (all, mut old) = (u64::MAX, 0u64);
    // SAFETY: reads `all`, writes `old`, both live.
    let _ = unsafe { syscall(nr::SIGPROCMASK, [2, &raw const all as usize, &raw mut old as usize, 8, 0, 0]) };
    old
}

/// Whether there is no process of this number.
pub fn is_gone(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let asked = unsafe { syscall(nr::KILL, [pid as usize, 0, 0, 0, 0, 0]) };
    asked == Err(Errno::SRCH)
}

/// Sets the signal mask of the calling thread.
pub fn restore_signals(mask: u64) {
    // SAFETY: reads `mask`, which is live.
    let _ = unsafe { syscall(nr::SIGPROCMASK, [2, &raw const mask as usize, 0, 8, 0, 0]) };
}

/// Makes sure that the calling thread has a descriptor table of its own, and
/// closes everything in it.
pub fn close_all() {
    const UNSHARE: usize = 2;
    // SAFETY: only descriptors of the calling thread's own table are closed.
    let _ = unsafe { syscall(nr::CLOSE_RANGE, [0, u32::MAX as usize, UNSHARE, 0, 0, 0]) };
}

/// The calling thread's working directory becomes the root.
pub fn leave_directory() {
    // SAFETY: the path is zero-terminated.
    let _ = unsafe { syscall(nr::CHDIR, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// A pipe: its end to read from, and that to write to.
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

/// Version of the kernel, major and minor, as /proc says. (A personality may make it seem older.)
pub fn kernel_version() -> Option<(u32, u32)> {
    let file = open(c"/proc/sys/kernel/osrelease", o::RDONLY | o::CLOEXEC).ok()?;
    let mut text = [0u8; 64];
    let length = read(file, &mut text).unwrap_or(0);
    close(file);
    let mut numbers = text[..length].split(|byte| !byte.is_ascii_digit());
    let mut next = || core::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    Some((next()?, next()?))
}

/// A limit of the process: the soft one and the hard one; `u64::MAX` is none.
pub fn resource_limit(which: usize) -> Result<[u64; 2]> {
    let mut limits = [u64::MAX; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe { syscall(nr::PRLIMIT64, [0, which, 0, limits.as_mut_ptr() as usize, 0, 0]) }?;
    Ok(limits)
}

/// Sets a limit of the process: the soft one and the hard one.
pub fn set_resource_limit(which: usize, limits: [u64; 2]) -> Result<()> {
    // SAFETY: the kernel reads two numbers.
    unsafe { syscall(nr::PRLIMIT64, [0, which, limits.as_ptr() as usize, 0, 0, 0]) }.map(drop)
}

/// Words for the supervisor, put together without allocating; cut off when too long.
pub struct Text {
    bytes: [u8; 200],
    length: usize,
}

impl Text {
    /// Nothing written yet.
    pub fn new() -> Self {
        Text { bytes: [0; 200], length: 0 }
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("(words that are no text)")
    }
}

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes().take(self.bytes.len() - self.length) {
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        Ok(())
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
}
