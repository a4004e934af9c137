//! Finds out whether userfaultfd works here, by using it.
//!
//! On two pages, a trial does what the runtime will do in the program: open, handshake, register memory that
//! is already in use, evict it with `mremap(MREMAP_DONTUNMAP)`, and let the *kernel* touch it, as a system
//! call of the program would. A descriptor that serves only faults of user code (USER_MODE_ONLY) passes every
//! step but the last.

use std::ffi::{c_int, c_ulong};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use memfold_proc::PAGE;
use nix::errno::Errno;
use nix::libc;

use super::probe::{self, Outcome};

/// The device that provides userfaultfd to anyone with permission to open it.
pub const DEVICE: &str = "/dev/userfaultfd";

const DEVICE_NEW: c_ulong = 0xAA00;
const API: c_ulong = 0xC018_AA3F;
const REGISTER: c_ulong = 0xC020_AA00;
const COPY: c_ulong = 0xC028_AA03;
const MOVE: c_ulong = 0xC028_AA05;
const USER_MODE_ONLY: c_int = 1;

/// Bits of the kernel's interface and their names.
pub const FEATURES: [(u64, &str); 17] = [
    (1 << 0, "PAGEFAULT_FLAG_WP"),
    (1 << 1, "EVENT_FORK"),
    (1 << 2, "EVENT_REMAP"),
    (1 << 3, "EVENT_REMOVE"),
    (1 << 4, "MISSING_HUGETLBFS"),
    (1 << 5, "MISSING_SHMEM"),
    (1 << 6, "EVENT_UNMAP"),
    (1 << 7, "SIGBUS"),
    (1 << 8, "THREAD_ID"),
    (1 << 9, "MINOR_HUGETLBFS"),
    (1 << 10, "MINOR_SHMEM"),
    (1 << 11, "EXACT_ADDRESS"),
    (1 << 12, "WP_HUGETLBFS_SHMEM"),
    (1 << 13, "WP_UNPOPULATED"),
    (1 << 14, "POISON"),
    (1 << 15, "WP_ASYNC"),
    (1 << 16, "MOVE"),
];
/// The features that the runtime requires: EVENT_REMAP, EVENT_REMOVE, EVENT_UNMAP and THREAD_ID.
pub const NEEDED: u64 = 1 << 2 | 1 << 3 | 1 << 6 | 1 << 8;

/// A way to get a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The system call `userfaultfd`.
    Syscall,
    /// The device.
    Device,
}

/// What kind of descriptor to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Serves faults of user code and of system calls.
    Full,
    /// Serves only faults of user code; any user may have one.
    UserModeOnly,
}

/// The steps of a trial, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Step {
    /// Opening.
    Open,
    /// UFFDIO_API.
    Handshake,
    /// The kernel has what the runtime needs.
    Features,
    /// Making memory for the trial.
    Memory,
    /// UFFDIO_REGISTER.
    Register,
    /// `mremap(MREMAP_DONTUNMAP)`.
    TakeAway,
    /// A system call touches the missing page and finds its contents.
    Fault,
    /// All done.
    Done,
}

const STEPS: [Step; 8] = [
    Step::Open,
    Step::Handshake,
    Step::Features,
    Step::Memory,
    Step::Register,
    Step::TakeAway,
    Step::Fault,
    Step::Done,
];

/// What a trial found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The step that failed, or `Done`.
    pub step: Step,
    /// Why it failed.
    pub errno: Errno,
    /// Features the kernel has (0 if the trial did not get that far).
    pub features: u64,
    /// UFFDIO_MOVE restored a page.
    pub moved: bool,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It ran.
    Ran(Report),
    /// A signal ended it: in practice, a seccomp filter.
    Killed(nix::sys::signal::Signal),
    /// It hung.
    Hung,
    /// No process could be started for it.
    NotTried(Errno),
}

impl Verdict {
    /// Whether everything worked.
    pub fn works(&self) -> bool {
        matches!(self, Self::Ran(Report { step: Step::Done, .. }))
    }
}

/// Tries one way of opening, in a separate process.
pub fn attempt(way: Way, kind: Kind) -> Verdict {
    match probe::in_child(Duration::from_secs(3), || trial(way, kind).to_bytes()) {
        Outcome::Answer(bytes) => match Report::from_bytes(&bytes) {
            Some(report) => Verdict::Ran(report),
            None => Verdict::Hung,
        },
        Outcome::Died(signal) => Verdict::Killed(signal),
        Outcome::Hung => Verdict::Hung,
        Outcome::NotTried(errno) => Verdict::NotTried(errno),
    }
}

impl Report {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.step as u8, self.moved.into()];
        bytes.extend_from_slice(&(self.errno as i32).to_le_bytes());
        bytes.extend_from_slice(&self.features.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let step = *STEPS.get(usize::from(*bytes.first()?))?;
        let moved = *bytes.get(1)? != 0;
        let errno = Errno::from_raw(i32::from_le_bytes(bytes.get(2..6)?.try_into().ok()?));
        let features = u64::from_le_bytes(bytes.get(6..14)?.try_into().ok()?);
        Some(Self { step, errno, features, moved })
    }
}

fn trial(way: Way, kind: Kind) -> Report {
    let mut report = Report { step: Step::Open, errno: Errno::UnknownErrno, features: 0, moved: false };
    if let Err(errno) = run_trial(way, kind, &mut report) {
        report.errno = errno;
    }
    report
}

fn run_trial(way: Way, kind: Kind, report: &mut Report) -> nix::Result<()> {
    let first = open(way, kind)?;
    report.step = Step::Handshake;
    report.features = handshake(&first, 0)?;
    drop(first);
    report.step = Step::Features;
    if report.features & NEEDED != NEEDED {
        return Err(Errno::ENOTSUP);
    }
    let uffd = open(way, kind)?;
    handshake(&uffd, NEEDED)?;

    report.step = Step::Memory;
    let pages = two_pages()?;
    report.step = Step::Register;
    register(&uffd, pages)?;
    // From here on this thread may wait for its own descriptor, so another thread reads it.
    let raw = uffd.as_raw_fd();
    crate::sys::start_thread(move || serve(raw)).map_err(|_| Errno::EAGAIN)?;
    report.step = Step::TakeAway;
    let aside = take_away(pages)?;
    report.step = Step::Fault;
    if !kernel_reads_pattern(pages)? {
        return Err(Errno::EBADMSG);
    }
    report.moved = move_back(&uffd, pages + PAGE, aside + PAGE).is_ok();
    report.step = Step::Done;
    // The serving thread ends with the process; the descriptor must stay open until then.
    std::mem::forget(uffd);
    Ok(())
}

fn open(way: Way, kind: Kind) -> nix::Result<OwnedFd> {
    let mut flags = libc::O_CLOEXEC;
    if kind == Kind::UserModeOnly {
        flags |= USER_MODE_ONLY;
    }
    let raw = match way {
        // SAFETY: takes a number and creates a descriptor.
        Way::Syscall => Errno::result(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })? as RawFd,
        Way::Device => {
            let device = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE);
            let device = device.map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))?;
            // SAFETY: the argument of this ioctl is a number; it creates a descriptor.
            Errno::result(unsafe { libc::ioctl(device.as_raw_fd(), DEVICE_NEW as _, flags) })?
        }
    };
    // SAFETY: the call has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn handshake(uffd: &OwnedFd, features: u64) -> nix::Result<u64> {
    let mut argument = [0xAAu64, features, 0];
    // SAFETY: UFFDIO_API reads and writes three 64-bit numbers.
    Errno::result(unsafe { libc::ioctl(uffd.as_raw_fd(), API as _, argument.as_mut_ptr()) })?;
    Ok(argument[1])
}

fn two_pages() -> nix::Result<u64> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE as usize, access, how, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    // SAFETY: the two pages were just mapped for writing, and nothing refers to them.
    unsafe { std::ptr::write_bytes(start.cast::<u8>(), ASIDE, 2 * PAGE as usize) };
    Ok(start as u64)
}

/// What the pages contain before they are evicted.
const ASIDE: u8 = 0x5A;
/// What the handler restores.
const BROUGHT: u8 = 0xC3;

fn register(uffd: &OwnedFd, start: u64) -> nix::Result<()> {
    let mut argument = [start, 2 * PAGE, 1, 0];
    // SAFETY: UFFDIO_REGISTER reads a range and a mode and writes the fourth number. Faults in the range
    // are served by `serve` from here on.
    Errno::result(unsafe { libc::ioctl(uffd.as_raw_fd(), REGISTER as _, argument.as_mut_ptr()) }).map(drop)
}

fn take_away(start: u64) -> nix::Result<u64> {
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    let bytes = 2 * PAGE as usize;
    // With MREMAP_DONTUNMAP the kernel checks this address even without MREMAP_FIXED.
    let anywhere = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the range is the mapping of `two_pages`, to which no reference exists; its pages go to a
    // fresh mapping.
    let aside = unsafe { libc::mremap(start as *mut _, bytes, bytes, how, anywhere) };
    if aside == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(aside as u64) }
}

/// Reads messages and restores pages until the process ends.
fn serve(uffd: RawFd) {
    let page = [BROUGHT; PAGE as usize];
    let mut message = [0u64; 4];
    loop {
        // SAFETY: a message has 32 bytes, and so has the buffer.
        let bytes = unsafe { libc::read(uffd, message.as_mut_ptr().cast(), 32) };
        if bytes != 32 {
            return;
        }
        const PAGEFAULT: u64 = 0x12;
        if message[0] & 0xFF != PAGEFAULT {
            continue;
        }
        let mut argument = [message[2] & !(PAGE - 1), page.as_ptr() as u64, PAGE, 0, 0];
        // SAFETY: UFFDIO_COPY reads a page from `page` and fills a missing one of the registered range.
        unsafe { libc::ioctl(uffd, COPY as _, argument.as_mut_ptr()) };
    }
}

/// Makes the kernel read from the missing page. A futex call that waits for a value other than the page's
/// returns one error. A call that waits for the page's value with a timeout of zero returns another.
/// Debuggers do not read the memory of a futex call, so this can be traced. (A tracer that touched a missing
/// page would wait for a thread that it has stopped itself.)
fn kernel_reads_pattern(start: u64) -> nix::Result<bool> {
    let value = u32::from_ne_bytes([BROUGHT; 4]);
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the range is mapped for reading, and the kernel does not write to it. The page is missing on
    // purpose.
    let answer = unsafe { libc::syscall(libc::SYS_futex, start, libc::FUTEX_WAIT, value, &no_time) };
    match Errno::result(answer) {
        Err(Errno::ETIMEDOUT) => Ok(true),
        Ok(_) | Err(Errno::EAGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn move_back(uffd: &OwnedFd, to: u64, from: u64) -> nix::Result<()> {
    let mut argument = [to, from, PAGE, 0, 0];
    // SAFETY: UFFDIO_MOVE moves the page from the mapping that `take_away` made to the missing one of the
    // registered range; no reference into either exists.
    Errno::result(unsafe { libc::ioctl(uffd.as_raw_fd(), MOVE as _, argument.as_mut_ptr()) })?;
    // SAFETY: the page is mapped for reading, and present by the success of the call above.
    if unsafe { std::ptr::read_volatile(to as *const u8) } == ASIDE { Ok(()) } else { Err(Errno::EBADMSG) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_travel() {
        let report = Report { step: Step::Register, errno: Errno::EPERM, features: 0x1_23F4, moved: true };
        assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
        assert_eq!(Report::from_bytes(&[9, 0, 0, 0, 0, 0]), None);
        assert_eq!(Report::from_bytes(&[]), None);
    }
}
