//! Asymmetric fences: the frequent side costs nothing.
//!
//! A session sets its busy flag and then checks that a block is still its own. A thread that revokes the
//! ownership publishes that and then checks whether the session is busy. Each needs a fence between its write
//! and its read, but the session needs it for every node and the revoking thread hardly ever. So the
//! session's fence only restrains the compiler, and the revoker's fence asks the kernel to interrupt all
//! threads of the process (membarrier, Linux 4.14). Where membarrier is not available, both are real fences.

use std::sync::atomic::{Ordering::SeqCst, compiler_fence, fence};

/// See the module. All threads that use one heap use the same fences.
#[derive(Debug, Clone, Copy)]
pub struct Fences {
    /// membarrier is available, so the light side needs no instruction.
    asymmetric: bool,
}

impl Fences {
    /// The fences that this system supports.
    pub fn new() -> Self {
        Fences { asymmetric: kernel::register() }
    }

    /// The light fence: between a write and a read of the frequent side.
    #[inline(always)]
    pub fn light(self) {
        if self.asymmetric { compiler_fence(SeqCst) } else { fence(SeqCst) }
    }

    /// The heavy fence: between a write and a read of the other side.
    pub fn heavy(self) {
        fence(SeqCst);
        // A child of a fork may have to register again.
        if self.asymmetric && !kernel::interrupt_all() && !(kernel::register() && kernel::interrupt_all()) {
            // Without it, two threads might change a block at the same time.
            std::eprintln!(
                "memfold: membarrier worked before and is refused now: the heap can't be shared safely"
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
