//! Spilling: what is compressed goes to a tier beyond this machine's memory, if the user has named one.
//!
//! ```text
//!   store ── out.rs: a batch of sealed blocks ──> post ──┐
//!                                                        ├── supervisor ── engine ── file, NBD, Redis
//!   page  <── fetch.rs: opened, decompressed <── post ───┘                       │
//!                                         <── direct.rs ─────────────────────────┘
//! ```
//!
//! An entry of the page table names batch and place of a block that was spilled; nothing of it is left in memory. Batches that the
//! process has blocks in stand in a table of its own ([`Batches`]), which counts them: a batch without blocks is released.
//! The supervisor deletes it when no process holds it any more. A forked child holds what its parent held; the
//! supervisor is told before the fork, so that the parent can't release what the child will want.
//!
//! Invariants:
//! - a blob is freed only after the tier has acknowledged its batch, by who has exchanged the entry for its place.
//! - who waits for the supervisor holds no lock and no pin, and is not counted among those who serve: a fork, an unmapping and other
//!   faults go on meanwhile. While a process forks too, but for what was moved since the fork began (`serve_during_fork`).
//! - a process is known to the supervisor by its number. Where that would be another one (a PID namespace), nothing is spilled.
//! - what does not open, or is lost, ends the process: it is never taken for data.

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
use posts::{fill, post_question};
pub use queue::Queue;

use crate::kernel::sys::{self, o};
use crate::memory::bell::Bell;
use crate::memory::lock::Lock;
use crate::pages::table::State;
use crate::runtime::Runtime;

/// Threads that fetch.
pub const FETCHERS: usize = 4;
/// Between two looks whether who serves is still there, ns.
pub const LOOK_NS: u64 = 1_000_000_000;
/// And between two times that who waits does what else there is to be done.
const TURN_NS: u64 = 20_000_000;

/// All of a process's that concerns spilling.
pub struct Spill {
    area: AtomicPtr<Area>,
    /// By which number the supervisor knows this process.
    pid: AtomicU32,
    sealer: AtomicPtr<Sealer>,
    /// Batches that this process has blocks in.
    pub batches: Batches,
    /// The tier's file, if this process may read it.
    pub direct: Direct,
    /// Batches on their way out.
    pub out: Lock<Outgoing>,
    /// There are such.
    pub in_flight: AtomicU32,
    /// For so long something should have been spilled and nothing was, ns: see `hope.rs`.
    pub unheard_ns: AtomicU64,
    /// Pages among which those in them lie: the store does not move their blobs, which would be known by another name then.
    pub still: [Still; out::BATCHES],
    /// Faults that wait for a fetcher; they sleep at the bell.
    pub queue: Lock<Queue>,
    /// See `queue`.
    pub asked: Bell,
    /// Faults that were handed to fetchers and are not served yet.
    pub fetching: AtomicU32,
    /// Pages that are spilled.
    pub pages: AtomicI64,
    /// Where the hand stands that chooses what is spilled.
    pub at: AtomicUsize,
    /// The last fork's number; 0 if nothing was set aside for the child.
    pub fork: AtomicU64,
}

/// Numbers of pages, from one to another, the last one included.
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
    pub fn keeps_still(&self, page: u64) -> bool {
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
            asked: Bell::new(),
            fetching: AtomicU32::new(0),
            pages: AtomicI64::new(0),
            at: AtomicUsize::new(0),
            fork: AtomicU64::new(0),
        }
    }

    /// By which number the supervisor knows this process.
    pub fn pid(&self) -> u32 {
        self.pid.load(Relaxed)
    }

    /// Whether that is none that any process has.
    fn is_foreign(&self) -> bool {
        self.pid() >= area::FOREIGN
    }

    /// The area, if the user wants things spilled.
    pub fn area(&self) -> Option<&'static Area> {
        // SAFETY: set once at start, alive for ever.
        unsafe { self.area.load(Acquire).as_ref() }
    }

    /// Sets the area. At start, before any thread of the runtime.
    pub fn set_area(&self, area: &'static Area, pid: u32) {
        self.pid.store(pid, Relaxed);
        self.area.store(area as *const Area as *mut Area, Release);
    }

    /// What seals; only after `prepare`.
    fn sealer(&self) -> Option<&'static Sealer> {
        // SAFETY: as for the area.
        unsafe { self.sealer.load(Acquire).as_ref() }
    }

    /// Whether batches are taken.
    pub fn is_open(&self) -> bool {
        self.area().is_some_and(|area| area.is_open.load(Relaxed) == area::open::YES)
    }

    /// In a forked child: nothing of this process's is under way.
    ///
    /// # Safety
    /// No other thread of the runtime may live in this process.
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
    /// Takes what spilling needs, if it is wanted; before anything is evicted.
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

    /// Looks whether who serves has ended without a word: from then on nothing is spilled, and nobody waits for an answer.
    pub fn look_for_server(&self) {
        if let Some(area) = self.spill.area() {
            self.is_left_alone(area);
        }
    }

    /// Whether nobody serves the area any more. Who finds that out tells all.
    fn is_left_alone(&self, area: &Area) -> bool {
        let server = area.server.load(Acquire);
        // In another namespace the number may be nobody's, or another's.
        let has_ended = server != 0 && !self.spill.is_foreign() && has_ended(server);
        // Who goes on in its place has said so before it ended: then this is not for it.
        if has_ended && area.server.compare_exchange(server, 0, AcqRel, Relaxed).is_ok() {
            area.is_open.store(0, Release);
        }
        area.server.load(Relaxed) == 0
    }

    /// The blocks of a spot are not needed any more.
    pub fn release_spot(&self, spot: SpillLocation) {
        self.spill.pages.fetch_sub(1, Relaxed);
        self.spill.batches.release(spot.batch);
    }

    /// A program begins, or the runtime has ended: the process holds nothing, and waits for nothing.
    pub fn tell_spill_begins(&self) {
        if self.spill.is_foreign() {
            self.tell(kind::FORGO, self.spill.fork.load(Relaxed), 0);
        } else {
            self.tell(kind::BEGIN, 0, 0);
        }
    }

    /// Before a fork, when nothing is put any more: the child will hold what this process holds.
    pub fn tell_spill_of_fork(&self) {
        let Some(area) = self.spill.area() else { return };
        if self.spill.batches.any() {
            // What was released is not for the child, which knows nothing of it and would hold it as long as it lives.
            let released = self.spill.out.lock().released();
            if let Some((post, taken)) = released {
                let _ = self.wait_for_answer(area, post, taken, || ());
            }
            // No other fork of the run has that number, nor had one of the program that this process was before.
            let number = area.next_batch.fetch_add(1, Relaxed);
            self.spill.fork.store(number, Relaxed);
            self.tell(kind::FORK, number, 0);
        }
    }

    /// In the child.
    pub fn claim_spilled(&self, parent: u32) {
        let number = self.spill.fork.load(Relaxed);
        let Some(area) = self.spill.area().filter(|area| area.server.load(Relaxed) != 0) else { return };
        if sys::getppid() == 0 {
            // In another PID namespace, where its number may be that of another process of the run. What was set aside for it stays so meanwhile.
            self.spill.pid.store(area::FOREIGN | number as u32 & (area::FOREIGN / 2 - 1), Relaxed);
            return;
        }
        self.spill.pid.store(self.process.pid.load(Relaxed), Relaxed);
        if number != 0 {
            self.tell(kind::CLAIM, number, parent);
        } else if let Some((number, taken)) = area.take(self.spill.pid(), For::Put) {
            fill(&area.posts[number], kind::HERE, 0, 0, 0);
            post_question(area, number, taken);
        }
    }

    /// In a child that has claimed nothing because it can't: brings back what is spilled, and nothing more is from now on.
    pub fn leave_spill(&'static self) {
        if !self.spill.is_foreign() {
            return;
        }
        if self.spill.fork.load(Relaxed) != 0 {
            self.bring_back_in_place(|state| matches!(state, State::Spilled(_)));
            self.tell_spill_begins();
        }
        self.spill.area.store(core::ptr::null_mut(), Release);
        self.say(FOREIGN_WORDS);
    }
}

/// Said of a process whose number is not the one that the supervisor knows it by.
pub const FOREIGN_WORDS: &str = "it is in a PID namespace of its own: nothing of it is spilled";

/// Whether this process and who serves the area know each other by the same numbers.
pub fn is_in_namespace_of(area: &Area) -> bool {
    let wanted = area.namespace.load(Relaxed);
    let own = sys::open(c"/proc/self/ns/pid", o::RDONLY | o::CLOEXEC).map(|file| {
        let own = sys::inode(file);
        sys::close(file);
        own
    });
    wanted == 0 || own == Ok(wanted)
}

/// Whether a process has ended, though perhaps its parent has not asked for its status yet.
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
