//! An event count: waiting for something that another thread does.

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::kernel::sys;

/// An event count: a futex that counts rings.
pub struct EventCount(AtomicU32);

impl EventCount {
    /// Not rung yet.
    pub const fn new() -> Self {
        EventCount(AtomicU32::new(0))
    }
    /// Wakes all waiting threads.
    pub fn ring(&self) {
        self.0.fetch_add(1, Release);
        sys::futex_wake(&self.0, sys::ALL, false);
    }
    /// Wakes one waiting thread.
    pub fn ring_one(&self) {
        self.0.fetch_add(1, Release);
        sys::futex_wake(&self.0, 1, false);
    }
    /// The value to pass to [`EventCount::wait`] after a last check of the condition.
    pub fn now(&self) -> u32 {
        self.0.load(Acquire)
    }
    /// Sleeps until it is rung after `seen`, or for `timeout_ns`.
    pub fn wait(&self, seen: u32, timeout_ns: u64) {
        let _ = sys::futex_wait(&self.0, seen, Some(timeout_ns), false);
    }
}

impl Default for EventCount {
    fn default() -> Self {
        Self::new()
    }
}
