//! Bringing pages back.
//!
//! ```text
//!   a thread touches a page ──> delivery: notices it ──> serving: finds the page, puts it in place ──> delivery: the thread goes on
//!                                                        stall: how long the program waited
//! ```

pub mod delivery;
pub mod serving;
pub mod stall;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use delivery::follow::Follow;
use stall::Stall;

/// Faults that are being served.
pub struct Faults {
    /// When the last fault on a page that was away was served.
    pub served_ns: AtomicU64,
    /// Which handlers listen.
    pub follow: Follow,
    /// Faults that were read and are still to be served, or to be asked for again.
    pub deferred: AtomicU32,
    /// Handlers that serve a fault right now.
    pub serving: AtomicU32,
    /// Whether a thread of the program waits, and since when.
    pub stall: Stall,
    /// Handlers are to be called: the keeper does it.
    pub call_wanted: AtomicBool,
}

impl Faults {
    /// As it is when a process begins.
    pub const fn new() -> Self {
        Faults {
            served_ns: AtomicU64::new(0),
            follow: Follow::new(),
            deferred: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            stall: Stall::new(),
            call_wanted: AtomicBool::new(false),
        }
    }

    /// In a forked child: nobody waits, and no handler lives.
    pub fn after_fork(&self) {
        self.deferred.store(0, Relaxed);
        self.serving.store(0, Relaxed);
        self.stall.reset();
        self.follow.after_fork();
    }
}
