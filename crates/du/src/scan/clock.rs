//! Times of files beside the time when they were looked at.
//!
//! A file that is written gets the time of the kernel's last tick, which may be 10 ms ago; some file systems take the exact time, but never an earlier one than they gave before.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds since 1970.
pub fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

fn time(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    nanoseconds(tv_sec, tv_nsec)
}

/// When it is.
pub fn now() -> i64 {
    time(ClockId::Realtime)
}

/// Up to when regular files of a directory were changed that are as they were read.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    until: i64,
    start: i64,
}

impl Seen {
    /// Before anything in the directory is looked at: whatever is written later has the time of this tick, or a later one.
    pub fn begin() -> Self {
        Seen { until: time(ClockId::RealtimeCoarse).saturating_sub(1), start: now() }
    }

    /// A file was changed then. If that was in this tick, but before all began, it counts as seen, and so does what is written until the tick ends: what was made just now must not look as if it had
    /// changed. No later time does: whoever wrote then did so while the directory was read.
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

/// Whether a file that was changed then may be as it was, in a directory that was seen until then. Nothing that is written gets a time that is still to come: that was there before.
pub fn may_be_as_seen(modified: i64, seen_until: i64) -> bool {
    modified <= seen_until || modified > now()
}
