//! This process and its threads: their ids, their clocks and signals, and how they wait.

use super::{Errno, Result, close, nr, o, open, read, syscall};

/// A time span for the kernel.
#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Timespec {
    pub fn from_ns(ns: u64) -> Self {
        Timespec { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as i64 }
    }
}

/// The operation by which threads of one process sleep on a word.
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

/// All threads that sleep on a word: the kernel's count is a signed number.
pub const ALL: u32 = i32::MAX as u32;

/// Wakes up to `count` threads that sleep on `word`. Returns how many were woken.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32, count: u32, shared: bool) -> usize {
    let operation = if shared { 1 } else { 129 };
    // SAFETY: waking touches no memory of ours.
    unsafe { syscall(nr::FUTEX, [word.as_ptr() as usize, operation, count as usize, 0, 0, 0]) }.unwrap_or(0)
}

/// Monotonic time in ns.
pub fn now_ns() -> u64 {
    clock(1)
}

/// CPU time of the calling thread in ns.
pub fn thread_cpu_ns() -> u64 {
    clock(3)
}

/// CPU time of all threads of the process in ns.
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

/// The parent's process id; 0 if the parent is not visible in this process's PID namespace.
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
    // SAFETY: signal 0 only checks.
    let answer = unsafe { syscall(nr::TGKILL, [pid as usize, tid as usize, 0, 0, 0, 0]) };
    answer != Err(Errno::SRCH)
}

/// Ends the process with SIGABRT, whatever handlers or masks the program has; with SIGKILL if that fails.
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

/// Whether no process has this id.
pub fn is_gone(pid: u32) -> bool {
    // SAFETY: signal 0 only checks.
    let asked = unsafe { syscall(nr::KILL, [pid as usize, 0, 0, 0, 0, 0]) };
    asked == Err(Errno::SRCH)
}

/// Sets the signal mask of the calling thread.
pub fn restore_signals(mask: u64) {
    // SAFETY: reads `mask`, which is live.
    let _ = unsafe { syscall(nr::SIGPROCMASK, [2, &raw const mask as usize, 0, 8, 0, 0]) };
}

/// Makes the root directory the calling thread's working directory.
pub fn leave_directory() {
    // SAFETY: the path is zero-terminated.
    let _ = unsafe { syscall(nr::CHDIR, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Version of the kernel, major and minor, according to /proc. (A personality may make it seem older.)
pub fn kernel_version() -> Option<(u32, u32)> {
    let file = open(c"/proc/sys/kernel/osrelease", o::RDONLY | o::CLOEXEC).ok()?;
    let mut text = [0u8; 64];
    let length = read(file, &mut text).unwrap_or(0);
    close(file);
    let mut numbers = text[..length].split(|byte| !byte.is_ascii_digit());
    let mut next = || core::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    Some((next()?, next()?))
}

/// A limit of the process, soft and hard; `u64::MAX` means none.
pub fn resource_limit(which: usize) -> Result<[u64; 2]> {
    let mut limits = [u64::MAX; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe { syscall(nr::PRLIMIT64, [0, which, 0, limits.as_mut_ptr() as usize, 0, 0]) }?;
    Ok(limits)
}

/// Sets a limit of the process, soft and hard.
pub fn set_resource_limit(which: usize, limits: [u64; 2]) -> Result<()> {
    // SAFETY: the kernel reads two numbers.
    unsafe { syscall(nr::PRLIMIT64, [0, which, limits.as_ptr() as usize, 0, 0, 0]) }.map(drop)
}
