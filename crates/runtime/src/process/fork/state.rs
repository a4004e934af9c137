//! What a process knows of forks: its own, and the one by which it began.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use crate::process::fork::gate::Gate;

/// See the module.
pub struct Forks {
    /// The program has forked, or was forked: pages may be shared.
    pub has_forked: AtomicBool,
    /// Forks in the line of this process: its own, and those of its ancestors that made them.
    pub generation: AtomicU32,
    /// Forks between this process and the one that the program began as.
    pub births: AtomicU32,
    /// The thread that is in a prepared fork.
    pub forker: AtomicU32,
    /// Signal mask of the thread that forks.
    pub fork_mask: AtomicU64,
    /// Set while a fork is prepared: evictor and compressors stop.
    pub pause: AtomicU32,
    /// Threads that are about to set `pause`.
    pub about_to_fork: AtomicU32,
    /// Holds children back until they have all of their memory.
    pub gate: Gate,
    /// In a forked child: its keeper is to serve what the parent had evicted, whoever starts it.
    pub inherits: AtomicBool,
    /// In a forked child: 1 when its pages are served, 2 when they can't be.
    pub child_ready: AtomicU32,
}

impl Forks {
    /// As it is when a process begins.
    pub const fn new() -> Self {
        Forks {
            has_forked: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            births: AtomicU32::new(0),
            forker: AtomicU32::new(0),
            fork_mask: AtomicU64::new(0),
            pause: AtomicU32::new(0),
            about_to_fork: AtomicU32::new(0),
            gate: Gate::new(),
            inherits: AtomicBool::new(false),
            child_ready: AtomicU32::new(0),
        }
    }

    /// Whether a fork is under way or about to be: nobody waits for room then.
    pub fn is_under_way(&self) -> bool {
        self.pause.load(Relaxed) != 0 || self.about_to_fork.load(Relaxed) != 0
    }

    /// In a forked child: none is.
    pub fn after_fork(&self) {
        self.pause.store(0, Relaxed);
        self.about_to_fork.store(0, Relaxed);
        self.gate.after_fork();
    }
}
