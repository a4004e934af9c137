//! Waiting for something that another thread does.

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::kernel::sys;

/// Something to wait for: a futex that counts rings.
pub struct Bell(AtomicU32);

impl Bell {
    /// Never rung.
    pub const fn new() -> Self {
        Bell(AtomicU32::new(0))
    }
    /// Wakes all who wait.
    pub fn ring(&self) {
        self.0.fetch_add(1, Release);
        sys::futex_wake(&self.0, sys::ALL, false);
    }
    /// Wakes one who waits.
    pub fn ring_one(&self) {
        self.0.fetch_add(1, Release);
        sys::futex_wake(&self.0, 1, false);
    }
    /// What to hand to [`Bell::wait`] after a last look at the condition.
    pub fn now(&self) -> u32 {
        self.0.load(Acquire)
    }
    /// Sleeps until it is rung after `seen`, or for `timeout_ns`.
    pub fn wait(&self, seen: u32, timeout_ns: u64) {
        let _ = sys::futex_wait(&self.0, seen, Some(timeout_ns), false);
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}
