//! Time and memory of this process, as the kernel reports them.

use std::time::Duration;

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time` only.
    unsafe { libc::clock_gettime(which, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// User and system time of the calling thread.
pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// User and system time of all threads but the calling one.
pub fn others_cpu() -> Duration {
    // In this order, time that the calling thread uses in between counts as its own.
    let own = thread_cpu();
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(own)
}

/// The whole `VmRSS`.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("resident pages");
    pages * 4096
}
