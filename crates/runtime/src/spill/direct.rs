//! Reading of a file tier by the process itself.
//!
//! To ask the supervisor for what one read of the disk brings, and to be woken by it, takes half as long again as the read does. So
//! the supervisor says which file it writes to, and of each batch where it lies in it. Everything else is left to it: what it keeps elsewhere, and what could not be read here.
//!
//! ```text
//!   handler    begins a read, hands the fault to a fetcher, goes on
//!   disk         ├──────────────────────────┤
//!   fetcher          is woken, waits                 opens the blocks
//! ```
//!
//! While a fetcher waits its CPU is idle, if one thread alone faults; and to wake a CPU that sleeps takes a third as long as a fast disk. So it
//! looks at the page that the kernel shares, as long as reads are short and nobody else wants the CPU, and sleeps else.
//!
//! Invariants:
//! - the file is open for reading only, past the page cache: that would keep what was to make room.
//! - the buffer is that of a post which was taken for it. Who stops waiting for a read leaves both taken for ever, since it may still come.
//! - what is read is believed only when it opens, as from any tier.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::area::Area;
use super::{FETCHERS, TURN_NS};
use crate::sys::aio::Context;
use crate::sys::{self, Errno, Fd, PAGE, o};

/// Looks at once without asking for the time.
const SPINS: usize = 32;
/// What a CPU may be kept awake for, ns: as long as a wake-up and some more.
const SHORT: u64 = 150_000;
/// Longer between two looks: somebody else has run here.
const WANTED: u64 = 5_000;
/// Then others are left alone for so long, ns.
const LEFT: u64 = 5_000_000;

/// See the module.
pub struct Direct {
    /// In the table of the runtime's threads; -1 if there is none.
    file: AtomicI32,
    reads: [Read; FETCHERS],
    /// How long reads take, ns: a mean of the last ones.
    takes: AtomicU32,
    /// Until then waiting threads sleep, ns.
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
    /// Where in the file, and where to.
    at: u64,
    into: *mut u8,
    bytes: usize,
    /// When, ns.
    begin: u64,
    /// Bytes of the batch before what is read: a multiple of a page.
    pub from: u32,
}

// SAFETY: the pointer is that of a post's buffer, which every thread may use that has the post.
unsafe impl Send for Reading {}

impl Reading {
    /// Bytes that are wanted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All of it is there.
    Read,
    /// It can't be read here.
    Failed,
    /// It may still come: the buffer is not to be used any more.
    Never,
}

impl Direct {
    /// Nothing is read.
    pub const fn new() -> Self {
        Direct {
            file: AtomicI32::new(-1),
            reads: [const { Read { context: AtomicUsize::new(0), is_taken: AtomicBool::new(false) } };
                FETCHERS],
            takes: AtomicU32::new(0),
            sleep_until: AtomicU64::new(0),
        }
    }

    /// Opens the file that the supervisor names, if it does and this process may; by the keeper, before there are others of the runtime.
    pub fn open(&self, area: &Area) {
        let (number, server) = (area.file.load(Acquire), area.server.load(Relaxed));
        if self.file.load(Relaxed) >= 0 || number == 0 || server == 0 {
            return;
        }
        let mut path = sys::Text::new();
        let _ = write!(path, "/proc/{server}/fd/{number}\0");
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(path.as_str().as_bytes()) else { return };
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

    /// Closes it. Nothing is under way.
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

    /// In a forked child, which has inherited neither the file nor what is under way.
    pub fn after_fork(&self) {
        self.file.store(-1, Relaxed);
        for read in &self.reads {
            read.context.store(0, Relaxed);
            read.is_taken.store(false, Relaxed);
        }
    }

    /// Begins to read `from .. end` of a batch that lies at a unit of the file. `None` if that has to be asked for.
    ///
    /// # Safety
    /// At `into` there is room for a batch, which is left alone until the read has ended.
    pub unsafe fn begin(&self, unit: u32, from: u32, end: u32, into: *mut u8) -> Option<Reading> {
        let file = self.file.load(Acquire);
        if file < 0 {
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
            let reading = Reading { number, context, at, into, bytes, begin, from };
            // SAFETY: passed on to the caller. Faults wait for who calls this: the file system must not let him wait.
            let begun = unsafe { self.submit(&reading, true) };
            begun.map(|()| reading).map_err(|error| self.heed(error)).ok()
        });
        if begun.is_none() {
            read.is_taken.store(false, Release);
        }
        begun
    }

    /// # Safety
    /// As for [`Direct::begin`].
    unsafe fn submit(&self, read: &Reading, at_once: bool) -> sys::Result<()> {
        let file = Fd(self.file.load(Acquire));
        // A batch has whole pages.
        let bytes = read.bytes.next_multiple_of(PAGE);
        // SAFETY: passed on to the caller.
        unsafe { read.context.begin(file, read.at, read.into, bytes, at_once) }
    }

    /// A file that can't be read so at all is not tried again.
    fn heed(&self, error: Errno) {
        if [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::PERM].contains(&error) {
            // It is closed with the process: others may be about to use it.
            self.file.store(-1, Release);
        }
    }

    /// Waits until a read has ended, until a time; does something else now and then. `may_spin`: this thread's CPU is idle else.
    pub fn wait(&self, read: Reading, until: u64, may_spin: bool, meanwhile: impl Fn()) -> Ended {
        if may_spin {
            self.look(&read);
        }
        let mut at_once = true;
        let ended = loop {
            match read.context.end(TURN_NS) {
                // It would have had to wait, for who writes to the file for example. Here it may.
                Some(Err(Errno::AGAIN)) if at_once => {
                    at_once = false;
                    // SAFETY: as when it was begun, and that has ended.
                    if let Err(error) = unsafe { self.submit(&read, false) } {
                        break Err(error);
                    }
                }
                Some(ended) => break ended,
                None => {}
            }
            meanwhile();
            if sys::now_ns() > until {
                return Ended::Never;
            }
        };
        let took = (sys::now_ns() - read.begin).min(u64::from(u32::MAX));
        let mean = u64::from(self.takes.load(Relaxed));
        self.takes.store(((mean * 7 + took) / 8) as u32, Relaxed);
        self.reads[read.number].is_taken.store(false, Release);
        match ended {
            Ok(bytes) if bytes >= read.bytes => Ended::Read,
            Ok(_) => Ended::Failed,
            Err(error) => {
                self.heed(error);
                Ended::Failed
            }
        }
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
