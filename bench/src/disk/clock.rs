//! Time and memory of this process, as the kernel reports them.

use std::time::Duration;

/// User and system time of the calling thread, which other work on the machine disturbs little.
pub fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time` only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The whole `VmRSS`.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("resident pages");
    pages * 4096
}
