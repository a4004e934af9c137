//! How sessions work on the same blocks without locks on the fast path.
//!
//! Each session is a participant: it shows whether it is busy, and what it has pinned. A thread that takes
//! something from the others (the ownership of a block, a frame) first publishes that, then issues the heavy
//! half of an asymmetric fence, then looks at the participants.

pub mod claim;
pub mod fences;
pub mod forgotten;
pub mod participants;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, even if a thread has panicked while it held the lock.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
