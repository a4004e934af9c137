//! A lock for the runtime's own threads: spins a little, then sleeps on a futex. It never calls the C
//! library.
//!
//! **Order.** A thread that holds one of these may take only those after it:
//!
//! ```text
//!   process.life     starting, stopping, forking; the keeper only tries to take it
//!   spill.out        batches on their way out; compressors only try to take it
//!   pages.order      messages, events, placing pages
//!   pages.proxy (the inbox), the queue in pages/standby.rs, the lists in spill/batches.rs, spill.queue
//!   (of the fetchers), threads.starts, STATE in interpose/rights/credentials.rs, lists in memory/range_set.rs
//!   the arena's, the store's
//! ```
//!
//! Under `pages.order` the lists in range_set.rs are only tried, and memory comes from a lane of the arena
//! that threads of the program do not use: one of them may hold these locks while its stack is evicted.
//!
//! The locks of the last two levels are held briefly; under a lock of the second-to-last level, only locks of
//! the last are taken. A fork holds `life`, `starts` and the arena's lock across the call. A thread of the
//! program holds DESK (`interpose/desk.rs`) while it waits for the keeper, so the keeper and the threads that
//! it waits for never take DESK.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::kernel::{sched, sys};
use crate::memory::patience::Patience;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// A value that only one thread at a time may use.
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to its value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> Guard<'_, T> {
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_slowly();
        }
        Guard { lock: self }
    }

    /// Waits a moment for the lock; `None` if it was not available. A thread that has waited once must
    /// continue with this function until it has the lock: it may have been woken in place of a thread that
    /// still sleeps.
    pub fn lock_for_a_moment(&self, timeout_ns: u64) -> Option<Guard<'_, T>> {
        if self.word.swap(WAITED_FOR, Acquire) == FREE {
            return Some(Guard { lock: self });
        }
        let _ = sys::futex_wait(&self.word, WAITED_FOR, Some(timeout_ns), false);
        (self.word.swap(WAITED_FOR, Acquire) == FREE).then(|| Guard { lock: self })
    }

    /// Waits until the thread that holds the lock now has released it, or until the patience is over. Takes
    /// nothing, so the calling thread may have memory that can be evicted.
    pub fn wait_for_holder(&self, patience: &mut Patience) {
        for round in 0u64.. {
            if self.word.load(Acquire) == FREE || patience.is_over() {
                return;
            }
            if round < 200 {
                core::hint::spin_loop();
            } else {
                sched::sleep(20_000);
            }
        }
    }

    /// Wakes all threads that wait for the lock, so that they can check the state.
    pub fn stir(&self) {
        sys::futex_wake(&self.word, sys::ALL, false);
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).ok().map(|_| Guard { lock: self })
    }

    #[cold]
    fn lock_slowly(&self) {
        for _ in 0..200 {
            if self.word.load(Relaxed) == FREE
                && self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        while self.word.swap(WAITED_FOR, Acquire) != FREE {
            let _ = sys::futex_wait(&self.word, WAITED_FOR, None, false);
        }
    }

    /// Releases the lock after its guard was forgotten.
    ///
    /// # Safety
    /// The calling thread must hold the lock.
    pub unsafe fn release_forgotten(&self) {
        drop(Guard { lock: self });
    }

    /// Releases the lock in a forked child, where no other thread is running.
    ///
    /// # Safety
    /// The thread that held the lock must not exist in this process, and the
    /// value must be consistent.
    pub unsafe fn reset_in_child(&self) {
        self.word.store(FREE, Release);
    }
}

/// Gives access while the lock is held.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.lock.word.swap(FREE, Release) == WAITED_FOR {
            sys::futex_wake(&self.lock.word, 1, false);
        }
    }
}
