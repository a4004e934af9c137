//! The kernel, as the runtime calls it: without the C library, which belongs to the program.

pub mod addresses;
pub mod filters;
pub mod maps;
pub mod mounts;
pub mod pagemap;
pub mod procfs;
pub mod rlimit;
pub mod sched;
pub mod sys;
pub mod uffd;

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use mounts::KnownMounts;
use sys::Fd;
use uffd::Uffd;

/// What this kernel can do, and the descriptors through which it is called.
pub struct Kernel {
    uffd: AtomicI32,
    witness: AtomicI32,
    /// Where reading files is a risk, and where it is not.
    pub mounts: KnownMounts,
    /// The kernel has UFFDIO_MOVE.
    pub can_move: AtomicBool,
    /// The kernel can write-protect pages.
    pub can_protect: AtomicBool,
    /// The kernel supports guard pages. `pagemap` is the keeper's open pagemap, to look for them.
    pub knows_guards: AtomicBool,
    /// See `knows_guards`; -1 if there is none.
    pub pagemap: AtomicI32,
}

impl Kernel {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Kernel {
            uffd: AtomicI32::new(-1),
            witness: AtomicI32::new(-1),
            mounts: KnownMounts::new(),
            can_move: AtomicBool::new(false),
            can_protect: AtomicBool::new(false),
            knows_guards: AtomicBool::new(false),
            pagemap: AtomicI32::new(-1),
        }
    }

    /// The userfaultfd. Call it only after [`Kernel::set_uffd`].
    pub fn uffd(&self) -> Uffd {
        Uffd(Fd(self.uffd.load(Relaxed)))
    }

    /// Whether a userfaultfd is open.
    pub fn has_uffd(&self) -> bool {
        self.uffd.load(Relaxed) >= 0
    }

    /// Sets the userfaultfd that all threads use from now on, and its witness (see `order.rs`).
    pub fn set_uffd(&self, both: Option<(Uffd, Uffd)>) {
        self.witness.store(both.map_or(-1, |(_, witness)| witness.0.0), Release);
        self.uffd.store(both.map_or(-1, |(uffd, _)| uffd.0.0), Release);
    }

    /// See `order.rs`.
    pub fn witness(&self) -> Uffd {
        Uffd(Fd(self.witness.load(Relaxed)))
    }

    /// In a forked child: descriptors opened in the parent serve the parent.
    pub fn after_fork(&self) {
        self.set_uffd(None);
        self.pagemap.store(-1, Relaxed);
    }
}
