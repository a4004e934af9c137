//! The process: how the runtime begins and ends in it, its threads, and its children.

pub mod begin;
pub mod door;
pub mod fork;
pub mod here;
pub mod limits;
pub mod reach;
pub mod slot;
pub mod start;
pub mod stop;
pub mod thread;
pub mod threads;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use memfold_shared::page::{Shared, Slot};

use crate::memory::lock::Lock;

/// The supervisor's signal until there is a slot: none.
static SILENCE: AtomicU32 = AtomicU32::new(0);

/// The process's own state in the runtime.
pub struct Process {
    shared: AtomicPtr<Shared>,
    slot: AtomicPtr<Slot>,
    /// See [`Process::state`].
    state: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Which program image this is: see [`Slot::image`].
    pub image: AtomicU64,
    /// The supervisor's signal (`page::call`): in the slot once there is one.
    pub call: AtomicPtr<AtomicU32>,
    /// The supervisor's look at which `much` was last set to zero, while there is no keeper.
    pub looks_seen: AtomicU32,
    /// The program has, or had, several threads.
    pub threaded: AtomicBool,
    /// The program has a sanitizer's library: see `preload`.
    pub sanitized: AtomicBool,
    /// Paging must start at once: a thread has got memory that could fill the remaining room.
    pub paging_wanted: AtomicBool,
    /// It was reported that there can be no keeper.
    pub told_no_keeper: AtomicBool,
    /// The most recent limit of the program's memory that was taken into account: see `limits.rs`.
    pub heeded_limit: AtomicUsize,
    /// The program asked the runtime to stop: see `stop.rs`.
    pub stop_wanted: AtomicBool,
    /// The runtime has stopped.
    pub stopped: AtomicBool,
    /// Held while paging starts, and during a fork.
    pub life: Lock<()>,
}

impl Process {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Process {
            shared: AtomicPtr::new(core::ptr::null_mut()),
            slot: AtomicPtr::new(core::ptr::null_mut()),
            state: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            image: AtomicU64::new(0),
            call: AtomicPtr::new((&raw const SILENCE).cast_mut()),
            looks_seen: AtomicU32::new(0),
            threaded: AtomicBool::new(false),
            sanitized: AtomicBool::new(false),
            paging_wanted: AtomicBool::new(false),
            told_no_keeper: AtomicBool::new(false),
            heeded_limit: AtomicUsize::new(usize::MAX),
            stop_wanted: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            life: Lock::new(()),
        }
    }

    /// The shared page.
    pub fn shared(&self) -> &'static Shared {
        // SAFETY: set once at start, before any thread of ours; never unmapped.
        unsafe { &*self.shared.load(Relaxed) }
    }

    /// This process's slot.
    pub fn slot(&self) -> &'static Slot {
        // SAFETY: as in `shared`; a slot lies inside the shared page.
        unsafe { &*self.slot.load(Relaxed) }
    }

    /// Sets both the page and the slot.
    pub fn set_shared(&self, shared: &'static Shared, slot: &'static Slot) {
        self.shared.store(shared as *const Shared as *mut Shared, Release);
        self.slot.store(slot as *const Slot as *mut Slot, Release);
    }

    /// The runtime's state in this process: one of [`state`](memfold_shared::page::state). The slot has a
    /// copy for others to read. Decisions depend on this one: a child inherits it, while its parent's slot
    /// may already belong to another process.
    #[inline(always)]
    pub fn state(&self) -> u32 {
        self.state.load(Acquire)
    }

    /// Changes [`Process::state`].
    pub fn set_state(&self, state: u32) {
        self.state.store(state, Release);
        self.slot().state.store(state, Relaxed);
    }
}
