//! Fences of which the frequent side costs nothing.
//!
//! A session says that it is busy, and looks then whether a block is still its own; who takes the block away says so, and looks then whether the session
//! is busy. Each needs a fence between writing and reading, but the session does this for every node and the other hardly ever. So the session's fence
//! only holds the compiler back, and the other one asks the kernel to interrupt all threads of the process (membarrier, Linux 4.14). Where that is
//! not to be had, both are real ones.

use std::sync::atomic::{Ordering::SeqCst, compiler_fence, fence};

/// See the module. All that work on one heap use the same one.
#[derive(Debug, Clone, Copy)]
pub struct Fences {
    /// The kernel does the work of the light side.
    asymmetric: bool,
}

impl Fences {
    /// What this system can do.
    pub fn new() -> Self {
        Fences { asymmetric: kernel::register() }
    }

    /// Between a write and a read of the frequent side.
    #[inline(always)]
    pub fn light(self) {
        if self.asymmetric { compiler_fence(SeqCst) } else { fence(SeqCst) }
    }

    /// Between a write and a read of the other side.
    pub fn heavy(self) {
        fence(SeqCst);
        // A child of a fork may have to register anew.
        if self.asymmetric && !kernel::interrupt_all() && !(kernel::register() && kernel::interrupt_all()) {
            // Without it two threads might change a block at the same time.
            std::eprintln!(
                "memfold: membarrier was there and is refused now: the heap can't be shared safely"
            );
            std::process::abort();
        }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    const EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: a system call that takes numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub fn register() -> bool {
        membarrier(REGISTER_EXPEDITED)
    }

    pub fn interrupt_all() -> bool {
        membarrier(EXPEDITED)
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    pub fn register() -> bool {
        false
    }

    pub fn interrupt_all() -> bool {
        false
    }
}
