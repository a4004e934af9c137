//! The gate: it holds a new child back until the child has all of its memory.
//!
//! Where the kernel allows it (EVENT_FORK, only for CAP_SYS_PTRACE), a child inherits the registration of
//! evicted pages, and the thread that reads the message about the fork gets a userfaultfd for the child's
//! memory. So evicted pages can be put into an unprepared child (`children.rs`). But the forking thread goes
//! on, and the child begins, as soon as that message is read; if the process ends right then, as one that
//! daemonizes does, the rest of the child's pages would read as zeros.
//!
//! So there is a second userfaultfd, the gate, with one page registered. The kernel notifies one userfaultfd
//! after the other, in the order of their lowest addresses, and waits for each. The gate's page lies above
//! all others. Its message is read last, when the pages are in place:
//!
//! ```text
//!   clone: copies the memory ─ message 1 ──────────── waits ────────── message 2 ─ waits ─ the child begins
//!   handler:                     reads, fills the child's memory, closes       reads
//! ```
//!
//! If the process ends in between, the kernel gives up the clone, and there is no child.
//!
//! A message about a fork carries a descriptor: see `messages.rs`.

use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::*};

use crate::kernel::sys::{self, Errno, Fd, PAGE, Result, prot};
use crate::kernel::uffd::{Uffd, feature};

/// The address of the highest possible page of a process, for each size of the address space.
#[cfg(target_arch = "x86_64")]
const TOPS: [usize; 1] = [0x7fff_ffff_f000];
#[cfg(target_arch = "aarch64")]
const TOPS: [usize; 3] = [1 << 48, 1 << 42, 1 << 39];
/// How many pages below it to try.
const TRIES: usize = 64;

/// The gate; see the module. Its descriptors are in the table of the runtime's threads.
pub struct Gate {
    fd: AtomicI32,
    page: AtomicUsize,
    /// A descriptor whose only purpose is to be closed.
    spare: AtomicI32,
}

impl Gate {
    /// No gate.
    pub const fn new() -> Self {
        Gate { fd: AtomicI32::new(-1), page: AtomicUsize::new(0), spare: AtomicI32::new(-1) }
    }

    /// Whether unprepared children get their memory.
    #[inline(always)]
    pub fn is_there(&self) -> bool {
        self.fd.load(Relaxed) >= 0
    }

    /// The descriptor that handlers wait for, besides other messages; -1 if there is none.
    pub fn fd(&self) -> Fd {
        Fd(self.fd.load(Relaxed))
    }

    /// Makes the gate, if the kernel lets this process have it. Nothing is registered yet.
    pub fn open(&self) -> Result<()> {
        let uffd = Uffd::open(None, feature::EVENT_FORK)?;
        let tried = self.find_page().and_then(|page| {
            uffd.register(page, PAGE)?;
            uffd.unregister(page, PAGE)
        });
        if tried.is_err() {
            sys::close(uffd.0);
            return tried;
        }
        self.fd.store(uffd.0.0, Release);
        Ok(())
    }

    fn find_page(&self) -> Result<usize> {
        if self.page.load(Relaxed) == 0 {
            let places = TOPS.into_iter().flat_map(|top| (1..=TRIES).map(move |number| top - number * PAGE));
            let page = places.into_iter().find(|page| sys::map_if_free(*page, PAGE, prot::NONE).is_ok());
            self.page.store(page.ok_or(Errno::NOMEM)?, Relaxed);
        }
        Ok(self.page.load(Relaxed))
    }

    /// From here on forks wait at the gate: handlers listen.
    pub fn begin(&self) -> Result<()> {
        if !self.is_there() {
            return Ok(());
        }
        Uffd(self.fd()).register(self.page.load(Relaxed), PAGE)
    }

    /// From here on no fork waits at the gate: handlers are about to end.
    pub fn end(&self) {
        if self.is_there() {
            let _ = Uffd(self.fd()).unregister(self.page.load(Relaxed), PAGE);
        }
    }

    /// Removes the gate.
    pub fn close(&self) {
        let fd = self.fd.swap(-1, Relaxed);
        if fd >= 0 {
            sys::close(Fd(fd));
        }
    }

    /// In a forked child, which has none of the descriptors.
    pub fn after_fork(&self) {
        self.fd.store(-1, Relaxed);
        self.spare.store(-1, Relaxed);
    }

    /// Gives up the spare descriptor. `false` if there is none.
    pub fn give_up_spare(&self) -> bool {
        let spare = self.spare.swap(-1, AcqRel);
        if spare >= 0 {
            sys::close(Fd(spare));
        }
        spare >= 0
    }

    /// Keeps a spare descriptor. Called by a thread of the runtime.
    pub fn keep_spare(&self) {
        if self.spare.load(Relaxed) < 0 {
            self.spare.store(sys::eventfd().map_or(-1, |spare| spare.0), Release);
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
