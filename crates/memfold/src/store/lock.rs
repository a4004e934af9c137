//! A mutex of four bytes that is free when it is zero, so that fresh pages
//! are full of open locks. Critical sections are short (a few counters, at
//! most a copy of one blob or the release of a few pages): a waiter spins
//! for a moment and then waits as the memory source says.
//!
//! States: 0 free, 1 held, 2 held and somebody may be waiting.

use core::sync::atomic::{AtomicU32, Ordering};

use super::memory::Memory;

const SPINS: u32 = 64;

#[repr(transparent)]
pub(super) struct Lock(AtomicU32);

impl Lock {
    pub(super) const fn new() -> Self {
        Lock(AtomicU32::new(0))
    }

    pub(super) fn acquire<M: Memory>(&self, memory: &M) {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_slowly(memory);
        }
    }

    #[cold]
    fn acquire_slowly<M: Memory>(&self, memory: &M) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        // Whoever comes this way takes the lock as contended, since others
        // may be waiting too.
        while self.0.swap(2, Ordering::Acquire) != 0 {
            memory.wait(&self.0, 2);
        }
    }

    pub(super) fn release<M: Memory>(&self, memory: &M) {
        if self.0.swap(0, Ordering::Release) == 2 {
            memory.wake(&self.0);
        }
    }
}
