//! Spilling: compressed data go to a tier beyond this machine's memory, if the user has named one.
//!
//! ```text
//!   store ── out.rs: a batch of sealed blocks ──> slot ──┐
//!                                                        ├── supervisor ── engine ── file, NBD, Redis
//!   page  <── fetch.rs: opened, decompressed <── slot ───┘                       │
//!                                         <── direct.rs ─────────────────────────┘
//! ```
//!
//! The page table entry of a spilled block names its batch and its place there; nothing else of it stays in
//! memory. Batches that contain blocks of the process are listed in a table of its own ([`Batches`]), which
//! counts the blocks: a batch without blocks is released. The supervisor deletes a batch when no process
//! holds it any more. A forked child holds the batches that its parent held; the supervisor is told before
//! the fork, so that the parent cannot release what the child will need.
//!
//! Invariants:
//! - A blob is freed only after the tier has acknowledged its batch, by the thread that has replaced the
//!   entry by the place on the tier.
//! - A thread that waits for the supervisor holds no lock and no pin, and does not count as serving a fault:
//!   a fork, an unmapping and other faults go on meanwhile. Such waits are possible during a fork, too,
//!   except for pages that were moved since the fork began (`serve_during_fork`).
//! - The supervisor identifies a process by its pid. Where the process has a different pid for the supervisor
//!   (a PID namespace), nothing is spilled.
//! - A block that is lost or does not open ends the process: it is never taken for data.

mod batches;
mod direct;
mod fetch;
mod gather;
mod out;
mod posts;
mod queue;
mod sparse;

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

pub use batches::{Batches, SpillLocation};
use direct::Direct;
pub use fetch::fetcher;
use memfold_shared::spill::{self as area, Area, For, kind, seal};
use memfold_spill::Sealer;
pub use out::Outgoing;
use posts::{fill, send_request};
pub use queue::Queue;

use crate::kernel::sys::{self, o};
use crate::memory::bell::EventCount;
use crate::memory::lock::Lock;
use crate::pages::table::State;
use crate::runtime::Runtime;

/// Number of fetcher threads.
pub const FETCHERS: usize = 4;
/// How often to check that the server is still there, ns.
pub const LOOK_NS: u64 = 1_000_000_000;
/// How often a waiting thread attends to other duties, ns.
const TURN_NS: u64 = 20_000_000;

/// The spilling state of a process.
pub struct Spill {
    area: AtomicPtr<Area>,
    /// The number by which the supervisor knows this process.
    pid: AtomicU32,
    sealer: AtomicPtr<Sealer>,
    /// The batches in which this process has blocks.
    pub batches: Batches,
    /// The tier's file, if this process may read it.
    pub direct: Direct,
    /// Batches on their way to the tier.
    pub out: Lock<Outgoing>,
    /// How many such batches there are.
    pub in_flight: AtomicU32,
    /// How long data were to be spilled and none were, ns: see `hope.rs`.
    pub unheard_ns: AtomicU64,
    /// Ranges of pages that contain those in the batches: the store does not move their blobs, whose
    /// references would change.
    pub still: [Still; out::BATCHES],
    /// Faults that wait for a fetcher; they sleep at the bell.
    pub queue: Lock<Queue>,
    /// See `queue`.
    pub asked: EventCount,
    /// Number of faults that were handed to fetchers and are not served yet.
    pub fetching: AtomicU32,
    /// Number of spilled pages.
    pub pages: AtomicI64,
    /// The position of the hand that chooses what to spill.
    pub at: AtomicUsize,
    /// The last fork's number; 0 if no batch was set aside for the child.
    pub fork: AtomicU64,
}

/// A range of page numbers, including the last.
pub struct Still {
    first: AtomicU64,
    last: AtomicU64,
}

impl Still {
    const fn none() -> Self {
        Still { first: AtomicU64::new(u64::MAX), last: AtomicU64::new(0) }
    }

    fn set(&self, first: u64, last: u64) {
        self.first.store(first, Relaxed);
        self.last.store(last, Relaxed);
    }
}

impl Spill {
    /// Whether a page's blob should stay where it is; a hint.
    pub fn is_unmoved(&self, page: u64) -> bool {
        self.still.iter().any(|it| it.first.load(Relaxed) <= page && page <= it.last.load(Relaxed))
    }

    /// Without an area.
    pub const fn new() -> Self {
        Spill {
            area: AtomicPtr::new(core::ptr::null_mut()),
            pid: AtomicU32::new(0),
            sealer: AtomicPtr::new(core::ptr::null_mut()),
            batches: Batches::new(),
            direct: Direct::new(),
            out: Lock::new(Outgoing::new()),
            in_flight: AtomicU32::new(0),
            unheard_ns: AtomicU64::new(0),
            still: [const { Still::none() }; out::BATCHES],
            queue: Lock::new(Queue::new()),
            asked: EventCount::new(),
            fetching: AtomicU32::new(0),
            pages: AtomicI64::new(0),
            at: AtomicUsize::new(0),
            fork: AtomicU64::new(0),
        }
    }

    /// The number by which the supervisor knows this process.
    pub fn pid(&self) -> u32 {
        self.pid.load(Relaxed)
    }

    /// Whether that number is not a pid.
    fn is_foreign(&self) -> bool {
        self.pid() >= area::FOREIGN
    }

    /// The area, if the user has configured a tier.
    pub fn area(&self) -> Option<&'static Area> {
        // SAFETY: set once at start, and never freed.
        unsafe { self.area.load(Acquire).as_ref() }
    }

    /// Sets the area. Called at start, before the runtime has any thread.
    pub fn set_area(&self, area: &'static Area, pid: u32) {
        self.pid.store(pid, Relaxed);
        self.area.store(area as *const Area as *mut Area, Release);
    }

    /// The sealer; only after `prepare`.
    fn sealer(&self) -> Option<&'static Sealer> {
        // SAFETY: as for the area.
        unsafe { self.sealer.load(Acquire).as_ref() }
    }

    /// Whether batches are taken.
    pub fn is_open(&self) -> bool {
        self.area().is_some_and(|area| area.is_open.load(Relaxed) == area::open::YES)
    }

    /// In a forked child: it has no requests under way.
    ///
    /// # Safety
    /// No other thread of the runtime may be running in this process.
    pub unsafe fn after_fork(&self) {
        // SAFETY: passed on to the caller.
        unsafe {
            self.out.reset_in_child();
            self.queue.reset_in_child();
            self.batches.reset_in_child();
        }
        self.direct.after_fork();
        self.out.lock().forget(&self.batches);
        self.in_flight.store(0, Relaxed);
        self.unheard_ns.store(0, Relaxed);
        self.still.iter().for_each(|still| still.set(u64::MAX, 0));
        self.queue.lock().clear();
        self.fetching.store(0, Relaxed);
    }
}

impl Default for Spill {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime {
    /// Sets up spilling, if it is wanted; before anything is evicted.
    pub fn prepare_spill(&self) -> sys::Result<()> {
        let Some(area) = self.spill.area() else { return Ok(()) };
        self.spill.direct.open(area, &self.arena);
        if self.spill.sealer().is_some() {
            return Ok(());
        }
        self.spill.out.lock().prepare(&self.arena)?;
        let place = self.arena.reserve(size_of::<Sealer>(), align_of::<Sealer>()).ok_or(sys::Errno::NOMEM)?;
        let words = area.key.each_ref().map(|word| word.load(Relaxed));
        let sealer = if area.seal.load(Relaxed) == seal::ENCRYPTED {
            let mut key = [0; 32];
            for (to, word) in key.chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            Sealer::encrypting(&key)
        } else {
            Sealer::checking(words[0])
        };
        let place = place as *mut Sealer;
        // SAFETY: fresh exclusive memory of the right size and alignment.
        unsafe { place.write(sealer) };
        self.spill.sealer.store(place, Release);
        Ok(())
    }

    /// Checks whether the server has ended without notice: from then on nothing is spilled, and no thread
    /// waits for an answer.
    pub fn look_for_server(&self) {
        if let Some(area) = self.spill.area() {
            self.is_left_alone(area);
        }
    }

    /// Whether no process serves the area any more. The process that finds this out records it for all.
    fn is_left_alone(&self, area: &Area) -> bool {
        let server = area.server.load(Acquire);
        // In another namespace the number may belong to no process, or to another one.
        let has_ended = server != 0 && !self.spill.is_foreign() && has_ended(server);
        // A successor announces itself before the server ends: in that case the exchange fails.
        if has_ended && area.server.compare_exchange(server, 0, AcqRel, Relaxed).is_ok() {
            area.is_open.store(0, Release);
        }
        area.server.load(Relaxed) == 0
    }

    /// The block at this location is no longer needed.
    pub fn release_location(&self, spot: SpillLocation) {
        self.spill.pages.fetch_sub(1, Relaxed);
        self.spill.batches.release(spot.batch);
    }

    /// A program begins, or the runtime has ended: the process holds no batches, and waits for none.
    pub fn tell_spill_begins(&self) {
        if self.spill.is_foreign() {
            self.tell(kind::FORGO, self.spill.fork.load(Relaxed), 0);
        } else {
            self.tell(kind::BEGIN, 0, 0);
        }
    }

    /// Before a fork, when no more batches are sent: the child will hold what this process holds.
    pub fn tell_spill_of_fork(&self) {
        let Some(area) = self.spill.area() else { return };
        if self.spill.batches.any() {
            // Batches that were released are not for the child, which does not know them and would hold them
            // for its whole life.
            let released = self.spill.out.lock().released();
            if let Some((post, taken)) = released {
                let _ = self.wait_for_answer(area, post, taken, || ());
            }
            // No other fork of the run has that number, not even one of the program that this process was
            // before.
            let number = area.next_batch.fetch_add(1, Relaxed);
            self.spill.fork.store(number, Relaxed);
            self.tell(kind::FORK, number, 0);
        }
    }

    /// Called in the child.
    pub fn claim_spilled(&self, parent: u32) {
        let number = self.spill.fork.load(Relaxed);
        let Some(area) = self.spill.area().filter(|area| area.server.load(Relaxed) != 0) else { return };
        if sys::getppid() == 0 {
            // The child is in another PID namespace, where its pid may be that of another process of the run.
            // The batches set aside for it stay set aside meanwhile.
            self.spill.pid.store(area::FOREIGN | number as u32 & (area::FOREIGN / 2 - 1), Relaxed);
            return;
        }
        self.spill.pid.store(self.process.pid.load(Relaxed), Relaxed);
        if number != 0 {
            self.tell(kind::CLAIM, number, parent);
        } else if let Some((number, taken)) = area.take(self.spill.pid(), For::Put) {
            fill(&area.posts[number], kind::HERE, 0, 0, 0);
            send_request(area, number, taken);
        }
    }

    /// In a child that has claimed nothing because it cannot: fetches all spilled pages. From now on nothing
    /// more is spilled.
    pub fn leave_spill(&'static self) {
        if !self.spill.is_foreign() {
            return;
        }
        if self.spill.fork.load(Relaxed) != 0 {
            self.restore_matching_in_place(|state| matches!(state, State::Spilled(_)));
            self.tell_spill_begins();
        }
        self.spill.area.store(core::ptr::null_mut(), Release);
        self.say(FOREIGN_WORDS);
    }
}

/// The message about a process whose pid differs from the one by which the supervisor knows it.
pub const FOREIGN_WORDS: &str = "it is in a PID namespace of its own: none of its memory is spilled";

/// Whether this process and the server of the area know each other by the same pids.
pub fn is_in_namespace_of(area: &Area) -> bool {
    let wanted = area.namespace.load(Relaxed);
    let own = sys::open(c"/proc/self/ns/pid", o::RDONLY | o::CLOEXEC).map(|file| {
        let own = sys::inode(file);
        sys::close(file);
        own
    });
    wanted == 0 || own == Ok(wanted)
}

/// Whether a process has ended, even if its parent has not collected its status yet.
fn has_ended(pid: u32) -> bool {
    let mut path = sys::Text::new();
    let _ = write!(path, "/proc/{pid}/stat\0");
    let mut text = [0u8; 512];
    let read = CStr::from_bytes_until_nul(path.as_str().as_bytes())
        .map_err(|_| sys::Errno::INVAL)
        .and_then(|path| sys::open(path, o::RDONLY | o::CLOEXEC));
    let Ok(file) = read else { return sys::is_gone(pid) };
    let length = sys::read(file, &mut text).unwrap_or(0);
    sys::close(file);
    if length == 0 {
        return sys::is_gone(pid);
    }
    // The name in parentheses may hold anything.
    let text = &text[..length];
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}
