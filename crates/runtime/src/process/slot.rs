//! The memory of a runtime thread.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::sched;
use crate::kernel::sys::{self, Errno, PAGE, Result, prot};
use crate::memory::arena::Arena;

const STACK: usize = 192 << 10;

/// The place of a runtime thread: its stack and control block. Each thread has its own place, which its
/// counterpart in a forked child reuses: a child needs no memory for its threads.
pub struct ThreadSlot {
    memory: AtomicUsize,
    /// The thread that uses the place, or used it last.
    pub(super) tid: AtomicU32,
}

impl ThreadSlot {
    /// A place without memory.
    pub const fn new() -> Self {
        ThreadSlot { memory: AtomicUsize::new(0), tid: AtomicU32::new(0) }
    }

    /// Reserves the memory; once.
    pub fn prepare(&self, arena: &Arena) -> Result<()> {
        if self.memory.load(Relaxed) == 0 {
            // guard page | stack ... | control block page
            let memory = arena.reserve(PAGE + STACK + PAGE, PAGE).ok_or(Errno::NOMEM)? as usize;
            // SAFETY: fresh memory of our own, and the guard page must not be used.
            unsafe { sys::mprotect(memory, PAGE, prot::NONE)? };
            self.memory.store(memory, Relaxed);
        }
        Ok(())
    }

    /// Prepares the control block for the next thread. Returns the start of its stack, and the control block.
    pub fn prepare_stack(&self) -> (usize, usize) {
        let control_block = self.memory.load(Relaxed) + PAGE + STACK;
        // SAFETY: memory of our own that no thread uses; the control block begins with a pointer to itself.
        unsafe { *(control_block as *mut usize) = control_block };
        (control_block - 64, control_block)
    }

    /// In a forked child: no thread uses the place.
    pub fn after_fork(&self) {
        self.tid.store(0, Relaxed);
    }

    /// Waits until the thread that has announced its end is gone: until then it uses its stack.
    pub fn wait_until_left(&self, pid: u32) {
        let tid = self.tid.swap(0, Relaxed);
        while tid != 0 && sys::thread_exists(pid, tid) {
            sched::yield_now();
        }
    }
}

impl Default for ThreadSlot {
    fn default() -> Self {
        Self::new()
    }
}
