//! The runtime's own threads, and threads of the program that are being started.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use crate::memory::bell::EventCount;
use crate::memory::lock::Lock;
use crate::process::slot::ThreadSlot;

/// Maximum number of threads that read from the store: handlers, compressors and fetchers.
pub const WORKERS: usize = 12;

/// The function that a new thread of the program will run.
#[repr(C)]
pub struct Start {
    /// The program's function.
    pub routine: usize,
    /// Its argument.
    pub argument: usize,
    /// The next unused one.
    pub next: *mut Start,
}

/// A list of unused [`Start`]s.
pub struct Starts(pub *mut Start);

// SAFETY: the list is reached only through its lock.
unsafe impl Send for Starts {}

/// The number of threads, and their places.
pub struct Threads {
    /// The keeper sleeps here.
    pub keeper: EventCount,
    /// The keeper's place.
    pub keeper_thread: ThreadSlot,
    /// The memory for the keeper's list of mappings.
    pub keeper_memory: AtomicUsize,
    /// The memory in which the keeper compresses samples.
    pub sample_memory: AtomicUsize,
    /// The places of handlers, compressors and fetchers, by their numbers.
    pub worker_threads: [ThreadSlot; WORKERS],
    /// Their working memory: see `worker.rs`.
    pub worker_memory: [AtomicUsize; WORKERS],
    /// Number of compressors that are running, and of handlers and fetchers together.
    pub compressors: AtomicU32,
    /// See `compressors`.
    pub handlers: AtomicU32,
    /// Whether compressors must end. `quit_handlers`: whether handlers and fetchers must.
    pub quit_compressors: AtomicBool,
    /// See `quit_compressors`.
    pub quit_handlers: AtomicBool,
    /// Unused [`Start`]s.
    pub starts: Lock<Starts>,
    /// Number of threads that pause on request.
    pub stoppable: AtomicU32,
    /// How many of the keeper and the compressors are paused.
    pub paused: AtomicU32,
    /// The keeper is one of them.
    pub keeper_paused: AtomicBool,
}

impl Threads {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Threads {
            keeper: EventCount::new(),
            keeper_thread: ThreadSlot::new(),
            keeper_memory: AtomicUsize::new(0),
            sample_memory: AtomicUsize::new(0),
            worker_threads: [const { ThreadSlot::new() }; WORKERS],
            worker_memory: [const { AtomicUsize::new(0) }; WORKERS],
            compressors: AtomicU32::new(0),
            handlers: AtomicU32::new(0),
            quit_compressors: AtomicBool::new(false),
            quit_handlers: AtomicBool::new(false),
            starts: Lock::new(Starts(core::ptr::null_mut())),
            stoppable: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            keeper_paused: AtomicBool::new(false),
        }
    }

    /// In a forked child: none of the parent's threads is running.
    ///
    /// # Safety
    ///
    /// No other thread is running in this process, and in the parent no thread was changing anything.
    pub unsafe fn after_fork(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.starts.reset_in_child() };
        self.stoppable.store(0, Relaxed);
        self.paused.store(0, Relaxed);
        self.keeper_paused.store(false, Relaxed);
        self.worker_threads.iter().for_each(|place| place.after_fork());
    }
}
