//! How long at least one thread of the program has waited for memfold: for a page or for room.
//!
//! This measures what a limit costs, as the kernel's pressure (PSI, "some") does for its own reclaim:
//! simultaneous waits of several threads count once. A wait begins when a handler has read the fault's
//! message; the few microseconds before that, in which the handler wakes, are not counted. Whenever a wait
//! ends, the time so far is counted, even if other waits go on: an observer that looks every second sees the
//! second in which the wait took place.
//!
//! ```text
//!   63                                8 7        0
//!  | counted up to here, ns of the     | waiting  |
//!  | clock                             |          |
//! ```

use core::sync::atomic::{AtomicU64, Ordering::*};

const WAITING: u64 = 0xFF;

/// See the module.
#[derive(Debug, Default)]
pub struct Stall(AtomicU64);

impl Stall {
    /// No thread waits.
    pub const fn new() -> Self {
        Stall(AtomicU64::new(0))
    }

    /// One more thread waits, from `now` on.
    pub fn enter(&self, now: u64) {
        // There are few handlers. Of more than 255 threads that wait for room, only the time of the first 255
        // is counted.
        let now = now & (u64::MAX >> 8);
        let _ = self.0.fetch_update(AcqRel, Relaxed, |state| match state & WAITING {
            // Time that another thread has waited since this one read the clock is counted already.
            0 => Some(now.max(state >> 8) << 8 | 1),
            WAITING => None,
            _ => Some(state + 1),
        });
    }

    /// One thread fewer waits. Returns the time to count: since time was counted last.
    pub fn leave(&self, now: u64) -> u64 {
        let now = now & (u64::MAX >> 8);
        let before = self.0.fetch_update(AcqRel, Relaxed, |state| {
            // If two threads leave at once, the one with the later time may come first.
            (state & WAITING > 0).then(|| (now.max(state >> 8) << 8) | ((state & WAITING) - 1))
        });
        before.map_or(0, |state| now.saturating_sub(state >> 8))
    }

    /// In a forked child: no thread waits yet.
    pub fn reset(&self) {
        self.0.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_at_the_same_time_count_once() {
        let stall = Stall::new();
        stall.enter(100);
        stall.enter(150);
        assert_eq!(stall.leave(200), 100);
        // This thread had read the clock before the other one, and was held up.
        stall.enter(210);
        assert_eq!(stall.leave(190), 0);
        assert_eq!(stall.leave(260), 60);
        stall.enter(1000);
        assert_eq!(stall.leave(1007), 7);
        stall.enter(990);
        assert_eq!(stall.leave(1010), 3);
        // One call too many has no effect.
        assert_eq!(stall.leave(2000), 0);
        stall.enter(1 << 60);
        stall.reset();
        stall.enter(5);
        assert_eq!(stall.leave(8), 3);
    }

    #[test]
    fn threads_never_count_more_than_the_time() {
        let (stall, clock, total) = (Stall::new(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        stall.enter(clock.fetch_add(1, SeqCst));
                        let counted = stall.leave(clock.fetch_add(1, SeqCst));
                        total.fetch_add(counted, SeqCst);
                    }
                });
            }
        });
        let all = clock.load(SeqCst);
        assert!(total.load(SeqCst) <= all && total.load(SeqCst) > 0);
        assert_eq!(stall.0.load(SeqCst) & WAITING, 0);
    }
}
