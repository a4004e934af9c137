//! System calls for which no safe wrapper exists, each behind a safe
//! function. The only other module with unsafe code is `uffd`, whose calls
//! are a subject of their own.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags};
use nix::unistd::{ForkResult, Pid};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Which side of a fork this is.
pub enum Fork {
    /// The process that forked.
    Parent(Pid),
    /// The new one.
    Child,
}

/// Set by the first thread that this program starts.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// Starts a thread that never ends, with a small stack.
pub fn start_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    HAS_THREADS.store(true, Ordering::Relaxed);
    std::thread::Builder::new().stack_size(64 << 10).spawn(work).map(drop)
}

/// Forks a process that has no other threads.
///
/// # Panics
/// If there are other threads: what they hold would stay locked in the child.
pub fn fork() -> nix::Result<Fork> {
    assert!(!HAS_THREADS.load(Ordering::Relaxed), "fork with other threads");
    // SAFETY: this program has started no other thread (`start_thread` does, and whoever else says so by `threads_begin`), so the
    // child has everything its parent had: no lock is held by a thread that is not there. A preloaded
    // library may have threads of its own, and cares for forks itself.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

/// Threads are started from here on.
pub fn threads_begin() {
    HAS_THREADS.store(true, Ordering::Relaxed);
}

/// Forks a process in which only this thread goes on, from one that has others.
pub fn fork_aside() -> nix::Result<Fork> {
    // SAFETY: the only other thread waits for calls (`supervisor::listen`): it holds no lock but perhaps one of the C library's allocator, which cares for
    // forks itself.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

/// From now on this process is nobody's: it has a session of its own, and none of the descriptors that others wait for.
pub fn become_daemon() {
    let _ = nix::unistd::setsid();
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: both descriptors are open, and whoever writes to a standard one writes to nothing from now on.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}

/// Waits so long for one of the signals that ask a process to end, which are blocked. Whether one came.
pub fn is_asked_to_end(at_most: Duration) -> bool {
    let limit = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos() as libc::c_long,
    };
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is made before it is used; nothing is written but that.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &limit) > 0
    }
}

/// Monotonic time in ns, the same for all processes.
pub fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Sees to it that all three standard descriptors are in use, by /dev/null if need be; whether standard output was. The standard library takes what is written to a closed one for written.
pub fn provide_standard_descriptors() -> io::Result<bool> {
    let mut has_output = true;
    loop {
        let file = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        // The lowest one that is free: one of the three, or all of them are in use.
        match file.into_raw_fd() {
            0 | 2 => (),
            1 => has_output = false,
            other => {
                nix::unistd::close(other)?;
                return Ok(has_output);
            }
        }
    }
}

/// The same, and who is executed has them, too.
pub fn provide_standard_descriptors_for_all() -> io::Result<()> {
    provide_standard_descriptors()?;
    for fd in 0..3 {
        // SAFETY: takes numbers only.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Takes from the environment what characters are (LC_CTYPE). Where that names no locale of this machine, a character is a byte, as it was.
///
/// # Panics
/// If there are other threads: they may look at the locale meanwhile.
pub fn heed_locale() {
    assert!(!HAS_THREADS.load(Ordering::Relaxed), "a locale with other threads");
    // SAFETY: the name is a string that ends with zero; the result, which would be the C library's, is not looked at. No other thread uses the locale: there is none of this program's.
    unsafe { libc::setlocale(libc::LC_CTYPE, c"".as_ptr()) };
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

impl Ending {
    /// The exit status that says it.
    pub fn status(self) -> i32 {
        match self {
            Self::Exited(status) => status,
            Self::Signalled(signal) => 128 + signal,
        }
    }
}

/// Collects a child that has ended, if there is one. (`nix` has no names for
/// real-time signals and would lose the child.)
pub fn reap() -> Option<(Pid, Ending)> {
    loop {
        let mut status = 0;
        // SAFETY: writes the status into a variable of ours.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if pid <= 0 {
            if pid < 0 && nix::errno::Errno::last() == nix::errno::Errno::EINTR {
                continue;
            }
            return None;
        }
        if libc::WIFSIGNALED(status) {
            return Some((Pid::from_raw(pid), Ending::Signalled(libc::WTERMSIG(status))));
        }
        if libc::WIFEXITED(status) {
            return Some((Pid::from_raw(pid), Ending::Exited(libc::WEXITSTATUS(status))));
        }
    }
}

/// Whether this process has children, or orphans that have become its own, which have not ended.
pub fn has_children() -> bool {
    while reap().is_some() {}
    // SAFETY: nothing is written.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) == 0 }
}

/// Sends a signal by its number, real-time ones included. A process that is
/// gone needs none.
pub fn send_signal(to: Pid, number: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(to.as_raw(), number) };
}

/// Ends this process at once: no destructors, no exit handlers.
pub fn exit_now(status: c_int) -> ! {
    // SAFETY: takes a number; nothing of this process is used after it.
    unsafe { libc::_exit(status) }
}

/// Replaces this process by a program. Returns only when that failed.
pub fn exec(path: &CStr, arguments: &[CString], environment: &[CString]) -> nix::errno::Errno {
    match nix::unistd::execve(path, arguments, environment) {
        Err(errno) => errno,
        Ok(never) => match never {},
    }
}

/// A file of memory, mapped as long as this lives, and shared with whoever else maps it.
#[derive(Debug)]
pub struct Mapped<T>(NonNull<T>);

impl<T> Mapped<T> {
    /// Maps it.
    ///
    /// `T` must be valid for any bytes and cope with others changing it: only
    /// types of atomics are.
    pub fn new(file: &OwnedFd) -> nix::Result<Self> {
        let bytes = NonZeroUsize::new(size_of::<T>()).ok_or(nix::errno::Errno::EINVAL)?;
        let length = nix::sys::stat::fstat(file)?.st_size;
        if u64::try_from(length).unwrap_or(0) < bytes.get() as u64 {
            return Err(nix::errno::Errno::EINVAL);
        }
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use.
        let start: NonNull<_> =
            unsafe { nix::sys::mman::mmap(None, bytes, access, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self(start.cast()))
    }
}

impl<T> std::ops::Deref for Mapped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping has the size of T, is aligned to a page, lives as long as `self`, and holds zeros
        // or what others of this tree wrote; the caller's T is valid for any of that (see `new`).
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, of that size, and references into it end before `self` does.
        let _ = unsafe { nix::sys::mman::munmap(self.0.cast(), size_of::<T>()) };
    }
}

/// The same, for good.
pub fn map_shared<T: 'static>(file: &OwnedFd) -> nix::Result<&'static T> {
    Ok(Box::leak(Box::new(Mapped::new(file)?)))
}

/// Whether a file's contents may be mapped for execution: no on a `noexec` mount.
pub fn can_map_executable(file: &OwnedFd) -> bool {
    let Some(bytes) = NonZeroUsize::new(PAGE as usize) else { return false };
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
    // SAFETY: as in `Mapped::new`; nothing is read from the mapping.
    let mapped = unsafe { nix::sys::mman::mmap(None, bytes, access, MapFlags::MAP_PRIVATE, file, 0) };
    match mapped {
        Ok(start) => {
            // SAFETY: the mapping was made here and nothing points into it.
            let _ = unsafe { nix::sys::mman::munmap(start, bytes.get()) };
            true
        }
        Err(_) => false,
    }
}

/// CPU time that this thread has used. What something costs is measured with
/// it: on a busy machine the wall time is that of others.
pub fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, Duration::from)
}

/// Sleeps while `word` holds `value`, until another process wakes it.
pub fn futex_wait(word: &AtomicU32, value: u32, at_most: Duration) {
    let limit = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word outlives the call, the time is read during it; the kernel writes to neither.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &limit) };
}

/// Wakes whoever sleeps by [`futex_wait`], in whatever process.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call, and the kernel neither reads nor writes it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}

/// Whether two processes share one address space, as after vfork. None if
/// the kernel does not tell.
pub fn same_memory(a: i32, b: i32) -> Option<bool> {
    const KCMP_VM: c_int = 1;
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) } {
        0 => Some(true),
        order if order > 0 => Some(false),
        _ => None,
    }
}

/// Binds the calling thread to those of its CPUs whose number leaves this rest, if there are any.
pub fn bind_to_cpus(number: usize, of: usize) {
    let Ok(allowed) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return };
    let mut own = nix::sched::CpuSet::new();
    let cpus = (0..nix::sched::CpuSet::count()).filter(|cpu| cpu % of == number);
    cpus.filter(|cpu| allowed.is_set(*cpu) == Ok(true)).for_each(|cpu| {
        let _ = own.set(cpu);
    });
    // Refused if there is none: then it stays where it is.
    let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &own);
}

/// Closes every descriptor that is not in `keep`.
pub fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX);
}

/// Those that are open.
pub fn descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut found: Vec<RawFd> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // That of the directory itself is among them, and open no more.
    // SAFETY: the call copes with any number, and changes nothing.
    found.retain(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0);
    found
}

fn close_range(first: u32, last: u32) {
    // SAFETY: takes numbers. The caller of `close_all_but` names every descriptor that an owner in this
    // process still uses; the rest are inherited ones that no value here owns.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Whether the file that `path` leads to has an extended attribute.
pub fn has_attribute(path: &Path, name: &CStr) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: both strings end with zero; a null buffer of no length asks for the size alone.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Another descriptor for what the number `fd` has open, closed at exec.
pub fn duplicate(fd: RawFd) -> nix::Result<OwnedFd> {
    // SAFETY: the call copes with any number; a new descriptor is nobody else's.
    let raw = nix::errno::Errno::result(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: as above.
    Ok(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(raw) })
}

/// The same descriptor under a number of at least 3, closed at exec: when the
/// caller was started with standard error closed, a file of ours must not
/// take its place.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    Ok(duplicate(fd.as_raw_fd())?)
}
