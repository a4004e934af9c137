//! The state of the runtime in one process, and functions that all its threads use.

use core::sync::atomic::Ordering::*;

use memfold::store::Tiered;
use memfold_shared::page::{Shared, Slot, state};

use crate::faults::Faults;
use crate::faults::delivery::Delivery;
use crate::kernel::Kernel;
use crate::kernel::sys;
use crate::kernel::uffd::Uffd;
use crate::memory::arena::Arena;
use crate::pages::Pages;
use crate::pages::entry::State;
use crate::pages::stored::{StoreMemory, Stored};
use crate::process::Process;
use crate::process::fork::state::Forks;
use crate::process::threads::Threads;
use crate::reclaim::Reclaim;
use crate::spill::state::Spill;

/// The runtime; see the module. Each process has one, in a static.
pub struct Runtime {
    /// Its own memory.
    pub arena: Arena,
    /// The kernel.
    pub kernel: Kernel,
    /// The state of each page.
    pub pages: Pages,
    /// Compressed pages.
    pub stored: Stored,
    /// Making room.
    pub reclaim: Reclaim,
    /// Restoring pages.
    pub faults: Faults,
    /// Data beyond this machine's memory.
    pub spill: Spill,
    /// The process.
    pub process: Process,
    /// The threads in it.
    pub threads: Threads,
    /// Its forks.
    pub forks: Forks,
}

/// The one runtime of this process.
pub static RUNTIME: Runtime = Runtime::new();

impl Runtime {
    const fn new() -> Self {
        Runtime {
            arena: Arena::new(),
            kernel: Kernel::new(),
            pages: Pages::new(),
            stored: Stored::new(),
            reclaim: Reclaim::new(),
            faults: Faults::new(),
            spill: Spill::new(),
            process: Process::new(),
            threads: Threads::new(),
            forks: Forks::new(),
        }
    }

    /// The userfaultfd. Call it only once paging has begun.
    pub fn uffd(&self) -> Uffd {
        self.kernel.uffd()
    }

    /// How faults are delivered: the code that serves them knows only this.
    pub fn delivery(&self) -> impl Delivery {
        self.uffd()
    }

    /// The shared page.
    pub fn shared(&self) -> &'static Shared {
        self.process.shared()
    }

    /// This process's slot.
    pub fn slot(&self) -> &'static Slot {
        self.process.slot()
    }

    /// The store. Call it only once it exists.
    pub fn store(&self) -> &'static Tiered<StoreMemory> {
        self.stored.store()
    }

    /// Whether anything may be evicted in this process.
    #[inline(always)]
    pub fn is_paging(&self) -> bool {
        self.process.state() == state::PAGING
    }

    /// Whether the program has, or had, several threads.
    pub fn is_threaded(&self) -> bool {
        self.process.threaded.load(Relaxed) || self.pages.keep_out.count() > 1
    }

    /// Leaves a line for the supervisor.
    pub fn say(&self, text: &str) {
        self.shared().say(self.process.pid.load(Relaxed), text);
    }

    /// Ends the process, because it could read wrong data if it continued.
    pub fn fail(&self, why: &str) -> ! {
        self.say(why);
        if self.spill.area().is_some_and(|area| area.server.load(Relaxed) == 0) {
            self.say_alone(why);
        }
        sys::abort()
    }

    /// Writes the message to the program's standard error, since no supervisor is there to print it.
    #[cold]
    fn say_alone(&self, why: &str) {
        use core::fmt::Write;
        let (mut path, pid) = (sys::Text::new(), sys::getpid());
        let _ = write!(path, "/proc/{pid}/fd/2\0");
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(path.as_str().as_bytes()) else { return };
        // The runtime's threads have descriptors of their own. A full pipe must not hold up the end.
        let Ok(to) = sys::open(path, sys::o::WRONLY | sys::o::APPEND | sys::o::NONBLOCK | sys::o::CLOEXEC)
        else {
            return;
        };
        let mut text = sys::Text::new();
        let _ = writeln!(text, "memfold: process {pid}: {why}");
        let _ = sys::write(to, text.as_str().as_bytes());
    }

    /// Like `fail`, about a page.
    #[cold]
    pub fn fail_at(&self, why: &str, page: usize, state: State) -> ! {
        use core::fmt::Write;
        let mut text = sys::Text::new();
        let _ = write!(text, "{why}: page {page:#x}, {state:?}");
        self.fail(text.as_str())
    }

    /// Ends the process because a block is damaged.
    #[cold]
    pub fn fail_corrupt(&self) -> ! {
        self.fail(
            "a compressed block is damaged (its checksum does not match): the process is terminated, so \
             that it can't continue with wrong data. The cause is faulty memory, a stray write of the \
             program, or a bug of memfold.",
        )
    }
}
