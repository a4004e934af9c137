//! What a process knows about forks: its own, and the one that made it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use crate::process::fork::gate::Gate;

/// See the module.
pub struct Forks {
    /// The program has forked, or was forked: pages may be shared.
    pub has_forked: AtomicBool,
    /// Number of forks in the line of this process: its own, and those of each ancestor up to the birth of the
    /// next in line.
    pub generation: AtomicU32,
    /// Number of forks between this process and the one in which the program began.
    pub births: AtomicU32,
    /// The thread that is in a prepared fork.
    pub forker: AtomicU32,
    /// The signal mask of the forking thread.
    pub fork_mask: AtomicU64,
    /// Set while a fork is prepared: the keeper and the compressors pause.
    pub pause: AtomicU32,
    /// Number of threads that are about to set `pause`.
    pub about_to_fork: AtomicU32,
    /// The fork under way is of a process that does not page; it stays in `about_to_fork` until its end.
    pub is_plain: AtomicBool,
    /// Holds children back until they have all of their memory.
    pub gate: Gate,
    /// In a forked child: its keeper is to take over the pages that the parent had evicted, whichever thread
    /// starts it.
    pub inherits: AtomicBool,
    /// In a forked child: 1 when its pages are served, 2 when they cannot be.
    pub child_ready: AtomicU32,
}

impl Forks {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Forks {
            has_forked: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            births: AtomicU32::new(0),
            forker: AtomicU32::new(0),
            fork_mask: AtomicU64::new(0),
            pause: AtomicU32::new(0),
            about_to_fork: AtomicU32::new(0),
            is_plain: AtomicBool::new(false),
            gate: Gate::new(),
            inherits: AtomicBool::new(false),
            child_ready: AtomicU32::new(0),
        }
    }

    /// Whether a fork is under way or imminent: no thread waits for room then.
    pub fn is_under_way(&self) -> bool {
        self.pause.load(Relaxed) != 0 || self.about_to_fork.load(Relaxed) != 0
    }

    /// One thread less is about to fork. If a signal handler has forked meanwhile, its child counts from
    /// zero.
    pub fn no_longer_about_to(&self) {
        let _ = self.about_to_fork.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    }

    /// In a forked child: no fork is under way.
    pub fn after_fork(&self) {
        self.pause.store(0, Relaxed);
        self.about_to_fork.store(0, Relaxed);
        self.is_plain.store(false, Relaxed);
        self.gate.after_fork();
    }
}
