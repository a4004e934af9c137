//! Restoring pages before the program touches them.

use core::sync::atomic::Ordering::*;

use crate::kernel::addresses::BLOCK;
use crate::kernel::sys::{self, advice};
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
}
