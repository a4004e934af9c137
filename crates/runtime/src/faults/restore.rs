//! Restoring pages before the program touches them.

use core::sync::atomic::Ordering::*;

use crate::kernel::addresses::BLOCK;
use crate::kernel::sys::{self, Errno, PAGE, advice};
use crate::runtime::Runtime;

impl Runtime {
    /// Restores all evicted pages of a range.
    pub fn restore_range(&self, start: usize, end: usize) {
        self.pages.table.for_each_block(start, end, |base, block| {
            if block.evicted.load(Acquire) != 0 {
                let (from, to) = (start.max(base), end.min(base + BLOCK));
                // SAFETY: populating for reads changes no contents. A page that cannot be read stays evicted
                // until it can.
                let _ = unsafe { sys::madvise(from, to - from, advice::POPULATE_READ) };
            }
        });
    }

    /// The same, and lifts protection, for parts of the kernel that cannot wait for a fault. The range begins and
    /// ends with pages. False if the program may not write to all of it.
    pub fn restore_for_writes(&self, start: usize, end: usize) -> bool {
        // SAFETY: populating changes no contents. Where nothing may be written, it fails.
        match unsafe { sys::madvise(start, end - start, advice::POPULATE_WRITE) } {
            Ok(()) => true,
            Err(Errno::INVAL) => {
                // Before Linux 5.14: protected pages stay protected.
                self.restore_range(start, end);
                (start..end).step_by(PAGE).all(|page| sys::read_own_memory(page, &mut [0]).is_ok())
            }
            Err(_) => false,
        }
    }
}
