//! Times of files in relation to the time when they were examined.
//!
//! A file that is written gets the time of the kernel's last tick, which may be 10 ms ago. Some file systems
//! use the exact time, but never an earlier one than they have used before.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds since 1970.
pub fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

fn time(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    nanoseconds(tv_sec, tv_nsec)
}

/// The current time.
pub fn now() -> i64 {
    time(ClockId::Realtime)
}

/// The time up to which all changes of a directory's regular files are certain to have been seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    until: i64,
    start: i64,
}

impl Seen {
    /// To be called before anything in the directory is examined: everything written later has the time of
    /// this tick, or a later one.
    pub fn begin() -> Self {
        Seen { until: time(ClockId::RealtimeCoarse).saturating_sub(1), start: now() }
    }

    /// Notes that a file was changed at this time. If that was during this tick but before the start, it counts
    /// as seen, and so does everything written until the tick ends: a file made just before must not look as if
    /// it had changed. A later time never counts as seen: that write happened while the directory was read.
    pub fn file(&mut self, modified: i64) {
        if modified <= self.start {
            self.until = self.until.max(modified);
        }
    }

    /// Nanoseconds since 1970.
    pub fn until(self) -> i64 {
        self.until
    }
}

/// Whether a file with this time may be unchanged, in a directory that was seen until `seen_until`. A write
/// never gives a file a time in the future, so such a time was there before.
pub fn may_be_as_seen(modified: i64, seen_until: i64) -> bool {
    modified <= seen_until || modified > now()
}
