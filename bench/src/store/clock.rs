//! Time and memory of this process, as the kernel reports them.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

fn clock(which: ClockId) -> Duration {
    clock_gettime(which).expect("the clock works").into()
}

/// User and system time of the calling thread.
pub fn thread_cpu() -> Duration {
    clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// User and system time of all threads but the calling one.
pub fn others_cpu() -> Duration {
    // In this order, the difference is never too small: time that the calling thread uses between the two
    // readings is counted for the others, not subtracted from theirs.
    let own = thread_cpu();
    clock(ClockId::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(own)
}

/// The whole `VmRSS`.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("resident pages");
    pages * 4096
}
