//! System calls that have no safe wrapper, each behind a safe function. Other unsafe code is in
//! `checks/uffd.rs` and `checks/trials.rs`, whose calls belong together, and in a few lines of
//! `spill/service/answers.rs` (buffers of requests), `disk/nbd.rs` (ignored signals) and `main.rs` (the entry
//! point).

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use memfold_proc::process::Ending;
use nix::libc;
use nix::unistd::{ForkResult, Pid};

mod descriptors;
mod memory;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod rlimits;
pub mod signals;

pub use crate::sys::descriptors::*;
pub use crate::sys::memory::*;

/// The sides of a fork.
pub enum Fork {
    /// The process that forked, with the id of the new one.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Whether this program has started a thread.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// Starts a thread that never ends, with a small stack.
pub fn start_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    HAS_THREADS.store(true, Ordering::Relaxed);
    std::thread::Builder::new().stack_size(64 << 10).spawn(work).map(drop)
}

/// Starts a thread that will end, with a small stack.
pub fn start_thread_that_ends(
    work: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    HAS_THREADS.store(true, Ordering::Relaxed);
    std::thread::Builder::new().stack_size(64 << 10).spawn(work)
}

/// Raises the calling thread's priority, if this user may do that.
pub fn hurry_this_thread() {
    const NICE: c_int = -10;
    // SAFETY: takes numbers only. On Linux, 0 means the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Forks a process that has no other threads.
///
/// # Panics
/// If there are other threads: their locks would stay locked in the child.
pub fn fork() -> nix::Result<Fork> {
    assert!(!HAS_THREADS.load(Ordering::Relaxed), "fork with other threads");
    // SAFETY: this program has started no other thread (`start_thread` sets the flag, and code that starts
    // threads otherwise calls `threads_begin`), so no lock is held by a thread that does not exist in the
    // child. A preloaded library may have its own threads, and handles forks itself.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

/// Records that this program starts threads from here on.
pub fn threads_begin() {
    HAS_THREADS.store(true, Ordering::Relaxed);
}

/// Forks a process that has other threads; only this thread continues in the child.
pub fn fork_aside() -> nix::Result<Fork> {
    // SAFETY: the other threads wait for calls (`supervisor::calls`) or answer clients (`run::page_server`).
    // The child uses none of their locks, except that of the C library's allocator, which handles forks
    // itself.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

/// Detaches this process: gives it a session of its own, and closes standard descriptors that others may wait
/// for.
pub fn become_daemon() {
    let _ = nix::unistd::setsid();
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: both descriptors are open. From now on, /dev/null receives everything written to a
            // standard one.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}

/// Waits at most this long for one of the signals that ask a process to end, which must be blocked. Returns
/// whether one arrived.
pub fn is_asked_to_end(at_most: Duration) -> bool {
    let limit = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos() as libc::c_long,
    };
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is initialised before it is used; nothing else is written.
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

/// Takes the character set (LC_CTYPE) from the environment. If the environment names no locale of this
/// machine, each byte is a character.
///
/// # Panics
/// If there are other threads: they may read the locale meanwhile.
pub fn heed_locale() {
    assert!(!HAS_THREADS.load(Ordering::Relaxed), "a locale with other threads");
    // SAFETY: the name is a string that ends with zero. The result, which belongs to the C library, is
    // ignored. This program has no other thread that could use the locale.
    unsafe { libc::setlocale(libc::LC_CTYPE, c"".as_ptr()) };
}

/// Collects a child that has ended, if there is one. Skips threads that the lookout has stopped for a moment.
/// (`nix` has no names for real-time signals, and would lose a child that one of them has killed.)
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

/// Whether this process has children that have not ended, including adopted orphans.
pub fn has_children() -> bool {
    while reap().is_some() {}
    // SAFETY: nothing is written.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) == 0 }
}

/// Sends a signal by its number, which may be that of a real-time signal. If the process is gone, nothing
/// needs to be sent.
pub fn send_signal(to: Pid, number: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(to.as_raw(), number) };
}

/// Ends this process at once, without destructors or exit handlers.
pub fn exit_now(status: c_int) -> ! {
    // SAFETY: takes a number only.
    unsafe { libc::_exit(status) }
}

/// Makes this process end together with its parent, whose id is `parent`; ends it at once if the parent has
/// ended already.
pub fn end_with_parent(parent: u32) {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if std::os::unix::process::parent_id() != parent {
        exit_now(0);
    }
}

/// Random bytes from the kernel, at most 256.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    loop {
        // SAFETY: writes into the slice.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(got) == Ok(bytes.len()) {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if got >= 0 || error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Removes pending signals, given as one bit each. They must be blocked.
pub fn take_pending_signals(signals: u64) {
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is initialised before it is used; nothing else is written.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in (1..=64).filter(|number| signals >> (number - 1) & 1 != 0) {
            libc::sigaddset(set.as_mut_ptr(), number);
        }
        while libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &no_time) > 0 {}
    }
}

/// Whether a child has ended. Leaves it to be waited for.
pub fn has_ended_child(child: Pid) -> bool {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure is zeroed, and the call writes only that.
    unsafe {
        let done = libc::waitid(libc::P_PID, child.as_raw() as libc::id_t, info.as_mut_ptr(), how);
        done != 0 || info.assume_init().si_pid() != 0
    }
}

/// A number that a child writes and its parent reads, in memory that both share.
pub struct Trial {
    /// The child's progress.
    pub at: &'static AtomicU32,
}

impl Trial {
    /// Makes a trial. Its memory is never freed, because there are few trials.
    pub fn new() -> nix::Result<Self> {
        Ok(Self { at: shared_zeroes()? })
    }

    /// Runs `work` in a child, and returns whether the child exited by itself rather than by a signal. In
    /// this process, makes only the system calls `clone` and `wait4`.
    pub fn run(&self, work: impl FnOnce(&AtomicU32)) -> nix::Result<bool> {
        self.at.store(0, Ordering::Relaxed);
        let child = match fork()? {
            Fork::Parent(child) => child,
            Fork::Child => {
                work(self.at);
                exit_now(0)
            }
        };
        let mut status = 0;
        // SAFETY: writes the status into a variable of ours.
        while unsafe { libc::waitpid(child.as_raw(), &mut status, 0) } < 0 {
            match nix::errno::Errno::last() {
                nix::errno::Errno::EINTR => {}
                errno => return Err(errno),
            }
        }
        Ok(libc::WIFEXITED(status))
    }
}

/// Whether `wait4` and `rt_sigaction` can be called. A child tries them, and this process watches it without
/// a system call.
pub fn can_wait_for_children() -> nix::Result<bool> {
    const DONE: u32 = 1;
    let trial = Trial::new()?;
    let child = match fork()? {
        Fork::Parent(child) => child,
        Fork::Child => {
            // SAFETY: nothing is written or changed; there is no child to wait for.
            unsafe {
                libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG);
                libc::sigaction(libc::SIGCHLD, std::ptr::null(), std::ptr::null_mut());
            }
            trial.at.store(DONE, Ordering::Release);
            exit_now(0)
        }
    };
    // Reading the clock needs no system call.
    let begin = std::time::Instant::now();
    while trial.at.load(Ordering::Acquire) != DONE {
        if begin.elapsed() > Duration::from_secs(10) {
            return Ok(false);
        }
        std::hint::spin_loop();
    }
    // SAFETY: nothing is written.
    unsafe { libc::waitpid(child.as_raw(), std::ptr::null_mut(), 0) };
    Ok(true)
}

/// Makes a system call whose result does not matter. The arguments must be such that it changes nothing.
pub fn try_call(number: usize, a: [usize; 6]) {
    // SAFETY: the caller is responsible for the arguments; with those of the lists of calls, none writes to
    // memory.
    unsafe { libc::syscall(number as libc::c_long, a[0], a[1], a[2], a[3], a[4], a[5]) };
}

/// Replaces this process with a program. Returns only if that fails.
pub fn exec(path: &CStr, arguments: &[CString], environment: &[CString]) -> nix::errno::Errno {
    match nix::unistd::execve(path, arguments, environment) {
        Err(errno) => errno,
        Ok(never) => match never {},
    }
}

/// The kernel's name for the processor of this program, which the loader substitutes for `$PLATFORM`.
pub fn platform() -> Option<&'static str> {
    // SAFETY: takes a number. The kernel has put the string, which ends with zero, on the first stack, where
    // it remains.
    let text = unsafe {
        let place = libc::getauxval(libc::AT_PLATFORM) as *const std::ffi::c_char;
        (!place.is_null()).then(|| CStr::from_ptr(place))
    };
    text?.to_str().ok()
}

/// The CPU time of this thread, for measuring costs. On a busy machine, wall time would include the work of
/// other threads.
pub fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, Duration::from)
}

/// Sleeps while `word` holds `value`, until [`futex_wake`] or until the time is over.
pub fn futex_wait(word: &AtomicU32, value: u32, at_most: Duration) {
    let limit = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word and the time outlive the call, and the kernel writes to neither.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &limit) };
}

/// Wakes every thread that sleeps in [`futex_wait`] on this word, in any process.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call, and the kernel neither reads nor writes it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}

/// Binds the calling thread to those of its CPUs whose number modulo `of` is `number`, if there are any.
pub fn bind_to_cpus(number: usize, of: usize) {
    let Ok(allowed) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return };
    let mut own = nix::sched::CpuSet::new();
    let cpus = (0..nix::sched::CpuSet::count()).filter(|cpu| cpu % of == number);
    cpus.filter(|cpu| allowed.is_set(*cpu) == Ok(true)).for_each(|cpu| {
        let _ = own.set(cpu);
    });
    // The kernel refuses an empty set; then the affinity stays as it is.
    let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &own);
}

/// Asks the scheduler for the shortest slice for the calling thread, as handlers of the runtime do. The
/// thread then runs as soon as it is woken (Linux 6.12 or later; earlier kernels change nothing).
pub fn shorten_slice() {
    const SHORTEST_NS: u64 = 100_000;
    // SAFETY: the structure consists of numbers.
    let mut how: libc::sched_attr = unsafe { std::mem::zeroed() };
    let bytes = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most this many bytes.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut how, bytes, 0) };
    // `sched_runtime` is a slice only under the usual policy.
    if got == 0 && how.sched_policy == libc::SCHED_OTHER as u32 {
        how.sched_runtime = SHORTEST_NS;
        // SAFETY: the kernel only reads it.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const how, 0) };
    }
}
