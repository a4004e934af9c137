//! Faults: restoring pages that the program touches.
//!
//! ```text
//!   touch ──> delivery: notices it ──> serving: finds and places the page ──> delivery: the thread goes on
//!                                    stall: how long the program waited
//! ```
//!
//! **What a thread that serves faults may do.** A thread of the program waits for it, and may hold any lock of
//! the program and of the C library. So it
//! - touches the program's addresses only through the kernel (`UFFDIO_COPY` and its like), never directly;
//! - calls nothing of the C library but `memcpy` and its like;
//! - waits for no lock that a thread of the program may hold while it faults: only for those of the runtime,
//!   whose holders touch none of the program's memory (the order of locks is in `memory/lock.rs`);
//! - blocks all signals, as all threads of the runtime do.

pub mod delivery;
mod restore;
pub mod serving;
pub mod stall;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use delivery::follow::Follow;
use stall::Stall;

/// Faults that are being served.
pub struct Faults {
    /// When the last fault on an evicted page was served.
    pub served_ns: AtomicU64,
    /// Which handlers listen.
    pub follow: Follow,
    /// Faults that were read but not served, or that must be requested again.
    pub deferred: AtomicU32,
    /// Handlers that are serving a fault now.
    pub serving: AtomicU32,
    /// Whether a thread of the program is waiting, and since when.
    pub stall: Stall,
    /// Whether the keeper must wake the handlers.
    pub wake_wanted: AtomicBool,
}

impl Faults {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Faults {
            served_ns: AtomicU64::new(0),
            follow: Follow::new(),
            deferred: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            stall: Stall::new(),
            wake_wanted: AtomicBool::new(false),
        }
    }

    /// In a forked child: no thread waits, and no handler is running.
    pub fn after_fork(&self) {
        self.deferred.store(0, Relaxed);
        self.serving.store(0, Relaxed);
        self.stall.reset();
        self.follow.after_fork();
    }
}
