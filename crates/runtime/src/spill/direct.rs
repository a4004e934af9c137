//! Direct reads: the process itself reads from a file tier.
//!
//! Asking the supervisor for a block, and being woken by it, takes half as long again as reading the block
//! from the disk. So the supervisor says which file it writes to, and where each batch lies in the file.
//! Everything else is left to the supervisor: batches that it keeps elsewhere, and blocks that could not be
//! read here.
//!
//! ```text
//!   handler    begins a read, hands the fault to a fetcher, goes on
//!   disk         ├──────────────────────────┤
//!   fetcher          is woken, waits                 opens the blocks
//! ```
//!
//! While a fetcher waits, its CPU is idle if only one thread faults; and waking a sleeping CPU takes a third
//! as long as a read from a fast disk. So the fetcher polls the page that the kernel shares, as long as reads
//! are short and no other thread wants the CPU; otherwise it sleeps.
//!
//! Invariants:
//! - The file is open for reading only, and bypasses the page cache, which would use up the memory that
//!   spilling has freed.
//! - The buffers belong to the process, so a process that is stopped during a read takes no buffer from
//!   others. If a thread stops waiting for a read, its buffer stays taken for ever, since the data may still
//!   arrive.
//! - A process whose reads may be held back, by its cgroup's limit or its priority, does not read here: the
//!   thread that writes to the file would wait for such a read, and all others for that thread.
//! - Data that were read are trusted only after their seal was checked, as from any tier.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use memfold_shared::spill::Area;

use crate::kernel::addresses::RUN;
use crate::kernel::sys::aio::Context;
use crate::kernel::sys::{self, Errno, Fd, PAGE, o};
use crate::memory::arena::Arena;
use crate::memory::patience::Patience;

/// Number of fetcher threads.
pub const FETCHERS: usize = 4;
/// Interval at which a waiting thread attends to other duties, in ns.
pub(super) const TURN_NS: u64 = 20_000_000;
/// Maximum number of bytes of a batch in one read.
pub const MOST_AT_ONCE: u32 = (RUN * PAGE) as u32;
/// The bytes need not begin or end at a page boundary.
const BUFFER: usize = MOST_AT_ONCE as usize + 2 * PAGE;
/// Maximum number of simultaneous reads: those that fetchers wait for, and as many ahead.
const READS: usize = 2 * FETCHERS;

/// Number of looks between two readings of the clock.
const SPINS: usize = 32;
/// How long a CPU may be kept awake, in ns: a little longer than a wake-up takes.
const SHORT: u64 = 150_000;
/// If the time between two looks exceeds this (in ns), another thread has run here.
const WANTED: u64 = 5_000;
/// Then the CPU is left to others for this long, in ns.
const LEFT: u64 = 5_000_000;

/// See the module.
pub struct Direct {
    /// A descriptor in the table of the runtime's threads; -1 if there is none.
    file: AtomicI32,
    reads: [Read; READS],
    /// The address of the buffers, which lie one after another; 0 if there are none.
    buffers: AtomicUsize,
    /// How long reads take, in ns: a mean of recent ones.
    takes: AtomicU32,
    /// The time until which waiting threads sleep, in ns.
    sleep_until: AtomicU64,
}

struct Read {
    context: AtomicUsize,
    is_taken: AtomicBool,
}

/// A read that has begun.
#[derive(Clone, Copy)]
pub struct Reading {
    number: usize,
    context: Context,
    /// Position in the file, and destination.
    at: u64,
    into: *mut u8,
    bytes: usize,
    /// When it began, in ns.
    pub begin: u64,
    /// Offset in the batch at which the read begins: a multiple of a page.
    pub from: u32,
}

// SAFETY: the pointer is that of a buffer, which may be used by any thread that has the read.
unsafe impl Send for Reading {}

impl Reading {
    /// Number of bytes to read.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes that were read: the batch's, from `from` on.
    pub fn buffer(&self) -> *const u8 {
        self.into
    }
}

/// How a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All bytes have been read.
    Read,
    /// They cannot be read here.
    Failed,
    /// They may still arrive: the buffer must not be used any more.
    Never,
}

impl Direct {
    /// No file, no reads.
    pub const fn new() -> Self {
        Direct {
            file: AtomicI32::new(-1),
            reads: [const { Read { context: AtomicUsize::new(0), is_taken: AtomicBool::new(false) } }; READS],
            buffers: AtomicUsize::new(0),
            takes: AtomicU32::new(0),
            sleep_until: AtomicU64::new(0),
        }
    }

    /// Opens the file that the supervisor names, if it names one and this process may open it. Called by the
    /// keeper, before the runtime has other threads.
    pub fn open(&self, area: &Area, arena: &Arena) {
        let (number, server) = (area.file.load(Acquire), area.server.load(Relaxed));
        if self.is_open() || number == 0 || server == 0 || !self.has_buffers(arena) {
            return;
        }
        // SAFETY: no read is under way, and no other thread uses the buffers.
        let room = unsafe { core::slice::from_raw_parts_mut(self.buffer(0), BUFFER) };
        let mut path = sys::Text::new();
        let _ = write!(path, "/proc/{server}/fd/{number}\0");
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(path.as_str().as_bytes()) else { return };
        if !is_held_back_as(server, room) {
            return;
        }
        let Ok(file) = sys::open(path, o::RDONLY | o::DIRECT | o::NONBLOCK | o::CLOEXEC) else { return };
        let wanted = area.file_id.each_ref().map(|word| word.load(Relaxed));
        let is_it = sys::file_info(file, c"").is_ok_and(|info| wanted == [info.id.0, info.id.1]);
        let has_contexts = is_it
            && self.reads.iter().all(|read| {
                let context = Context::new();
                context.map(|context| read.context.store(context.to_bits(), Relaxed)).is_ok()
            });
        if has_contexts {
            self.file.store(file.0, Release);
        } else {
            self.destroy();
            sys::close(file);
        }
    }

    /// Whether this process reads the file.
    pub fn is_open(&self) -> bool {
        self.file.load(Acquire) >= 0
    }

    /// Whether there are buffers; reserves them if needed. A forked child has inherited them.
    fn has_buffers(&self, arena: &Arena) -> bool {
        if self.buffers.load(Relaxed) == 0
            && let Some(place) = arena.reserve(READS * BUFFER, PAGE)
        {
            self.buffers.store(place as usize, Relaxed);
        }
        self.buffers.load(Relaxed) != 0
    }

    fn buffer(&self, number: usize) -> *mut u8 {
        (self.buffers.load(Relaxed) + number * BUFFER) as *mut u8
    }

    /// Closes the file. No read may be under way.
    pub fn close(&self) {
        let file = self.file.swap(-1, AcqRel);
        if file >= 0 {
            sys::close(Fd(file));
            self.destroy();
        }
    }

    fn destroy(&self) {
        let contexts = self.reads.iter().filter_map(|read| Context::from_bits(read.context.swap(0, Relaxed)));
        contexts.for_each(Context::destroy);
    }

    /// In a forked child, which has inherited neither the file nor the reads under way.
    pub fn after_fork(&self) {
        self.file.store(-1, Relaxed);
        for read in &self.reads {
            read.context.store(0, Relaxed);
            read.is_taken.store(false, Relaxed);
        }
    }

    /// Begins to read `from .. end` of a batch that lies at a unit of the file. `None` if the supervisor must
    /// be asked instead.
    pub fn begin(&self, unit: u32, from: u32, end: u32) -> Option<Reading> {
        if !self.is_open() || end - from > MOST_AT_ONCE {
            return None;
        }
        let is_free = |read: &Read| read.is_taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        let number = self.reads.iter().position(is_free)?;
        let read = &self.reads[number];
        let from = from / PAGE as u32 * PAGE as u32;
        let bytes = (end - from) as usize;
        let at = u64::from(unit) * PAGE as u64 + u64::from(from);
        let begin = sys::now_ns();
        let begun = Context::from_bits(read.context.load(Relaxed)).and_then(|context| {
            let reading = Reading { number, context, at, into: self.buffer(number), bytes, begin, from };
            // Faults wait for the calling thread, so the file system must not make it wait.
            let begun = self.submit(&reading, true);
            begun.map(|()| reading).map_err(|error| self.heed(error)).ok()
        });
        if begun.is_none() {
            read.is_taken.store(false, Release);
        }
        begun
    }

    fn submit(&self, read: &Reading, at_once: bool) -> sys::Result<()> {
        let file = Fd(self.file.load(Acquire));
        // A batch consists of whole pages.
        let bytes = read.bytes.next_multiple_of(PAGE);
        // SAFETY: the buffer has room for that, and no other thread uses it while the read is taken.
        unsafe { read.context.begin(file, read.at, read.into, bytes, at_once) }
    }

    /// Gives up a file that cannot be read this way at all.
    fn heed(&self, error: Errno) {
        if [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::PERM].contains(&error) {
            // The descriptor is closed with the process: other threads may be about to use it.
            self.file.store(-1, Release);
        }
    }

    /// Waits until a read has ended, or `patience` has, and calls `meanwhile` now and then. `may_spin` says
    /// that this thread's CPU would otherwise be idle. The caller gives the read back, unless the data may
    /// still arrive.
    pub fn wait(
        &self,
        read: Reading,
        patience: &mut Patience,
        may_spin: bool,
        meanwhile: impl Fn(),
    ) -> Ended {
        if may_spin {
            self.look(&read);
        }
        let mut at_once = true;
        let ended = loop {
            match read.context.end(TURN_NS) {
                // The read would have had to wait, for example for the thread that writes to the file. In
                // this thread it may wait.
                Some(Err(Errno::AGAIN)) if at_once => {
                    at_once = false;
                    if let Err(error) = self.submit(&read, false) {
                        break Err(error);
                    }
                }
                Some(ended) => break ended,
                None => {}
            }
            meanwhile();
            if patience.is_over() {
                return Ended::Never;
            }
        };
        let took = (sys::now_ns() - read.begin).min(u64::from(u32::MAX));
        let mean = u64::from(self.takes.load(Relaxed));
        self.takes.store(((mean * 7 + took) / 8) as u32, Relaxed);
        match ended {
            Ok(bytes) if bytes >= read.bytes => Ended::Read,
            Ok(_) => Ended::Failed,
            Err(error) => {
                self.heed(error);
                Ended::Failed
            }
        }
    }

    /// Gives back a read that has ended.
    pub fn give_back(&self, read: Reading) {
        self.reads[read.number].is_taken.store(false, Release);
    }

    /// Keeps the CPU awake until the read has ended, if that is soon.
    fn look(&self, read: &Reading) {
        let mut before = sys::now_ns();
        if u64::from(self.takes.load(Relaxed)) > SHORT || before < self.sleep_until.load(Relaxed) {
            return;
        }
        while !read.context.has_ended() {
            (0..SPINS).for_each(|_| core::hint::spin_loop());
            let now = sys::now_ns();
            if now - before > WANTED {
                self.sleep_until.store(now + LEFT, Relaxed);
                return;
            }
            if now - read.begin > SHORT {
                return;
            }
            before = now;
        }
    }
}

impl Default for Direct {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the reads of this process are held back exactly as much as those of the server.
fn is_held_back_as(server: u32, room: &mut [u8]) -> bool {
    let priority = |process: u32| {
        const PROCESS: usize = 1;
        const CLASS: usize = 13;
        const BEST_EFFORT: usize = 2;
        // SAFETY: this call touches no memory.
        let told = unsafe { sys::syscall(sys::nr::IOPRIO_GET, [PROCESS, process as usize, 0, 0, 0, 0]) };
        // Kernels report in several ways that no priority is set, depending on what the thread has done
        // before. Then this priority applies.
        told.map(|told| if told >> CLASS == 0 { BEST_EFFORT << CLASS | 4 } else { told })
    };
    let (ours, theirs) = room.split_at_mut(BUFFER / 2);
    let mut path = sys::Text::new();
    let _ = write!(path, "/proc/{server}/cgroup\0");
    let Ok(path) = core::ffi::CStr::from_bytes_until_nul(path.as_str().as_bytes()) else { return false };
    let (ours, theirs) = (text_of(c"/proc/self/cgroup", ours), text_of(path, theirs));
    priority(0) == priority(server) && group_of(ours) == group_of(theirs)
}

fn text_of<'a>(path: &core::ffi::CStr, room: &'a mut [u8]) -> &'a [u8] {
    let Ok(file) = sys::open(path, o::RDONLY | o::CLOEXEC) else { return &[] };
    let mut length = 0;
    while let Ok(more @ 1..) = sys::read(file, &mut room[length..]) {
        length += more;
    }
    sys::close(file);
    &room[..length]
}

/// The cgroup that limits a process's I/O, from `/proc/PID/cgroup`: that of the controller if it is in a
/// hierarchy of version 1, otherwise that of version 2.
fn group_of(text: &[u8]) -> Option<&[u8]> {
    let find = |is_it: &dyn Fn(&[u8]) -> bool| {
        text.split(|byte| *byte == b'\n').find_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            is_it(controllers).then_some(path)
        })
    };
    find(&|controllers| controllers.split(|byte| *byte == b',').any(|name| name == b"blkio"))
        .or_else(|| find(&<[u8]>::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_either_version() {
        let old = b"12:cpu,cpuacct:/a\n3:memory:/m\n2:net,blkio:/b:c\n0::/d\n";
        assert_eq!(group_of(old), Some(&b"/b:c"[..]));
        assert_eq!(group_of(b"3:memory:/m\n0::/d\n"), Some(&b"/d"[..]));
        assert_eq!(group_of(b""), None);
        let mut room = std::vec![0; BUFFER];
        assert!(is_held_back_as(std::process::id(), &mut room));
    }
}
