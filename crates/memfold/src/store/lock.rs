//! A mutex that is free when it is zero, so that all locks in a fresh page are free. Critical sections are
//! short (a few counters, at most a copy of a few blobs): a waiter spins for a moment and then calls
//! [`Memory::wait`].
//!
//! A thread that takes and releases a lock again and again, like the compactor, calls
//! [`Lock::yield_to_waiters`] in between. Otherwise it would retake the lock before a waiter sees that it is
//! free, and would pay for waking the waiter each time.

use core::sync::atomic::{AtomicU32, Ordering};

use super::memory::Memory;

/// Several microseconds on most processors: longer than nearly all critical sections, shorter than falling
/// asleep and being woken.
const SPINS: u32 = 150;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and another thread may be asleep.
const SLEPT_ON: u32 = 2;

#[repr(C)]
pub(super) struct Lock {
    state: AtomicU32,
    /// The threads that want the lock and do not have it.
    waiting: AtomicU32,
}

impl Lock {
    pub(super) const fn new() -> Self {
        Lock { state: AtomicU32::new(FREE), waiting: AtomicU32::new(0) }
    }

    pub(super) fn try_acquire(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(super) fn acquire<M: Memory>(&self, memory: &M) {
        if !self.try_acquire() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.acquire_slowly(memory);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn acquire_slowly<M: Memory>(&self, memory: &M) {
        for _ in 0..SPINS {
            if self.state.load(Ordering::Relaxed) == FREE && self.try_acquire() {
                return;
            }
            core::hint::spin_loop();
        }
        // On this path a thread takes the lock as `SLEPT_ON`, since others may be asleep too.
        while self.state.swap(SLEPT_ON, Ordering::Acquire) != FREE {
            memory.wait(&self.state, SLEPT_ON);
        }
    }

    pub(super) fn release<M: Memory>(&self, memory: &M) {
        if self.state.swap(FREE, Ordering::Release) == SLEPT_ON {
            memory.wake(&self.state);
        }
    }

    /// Whether another thread waits for the lock.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Gives waiting threads some time to take the lock, which the caller does not hold.
    pub(super) fn yield_to_waiters(&self) {
        for _ in 0..SPINS {
            if !self.is_wanted() {
                return;
            }
            core::hint::spin_loop();
        }
    }
}
