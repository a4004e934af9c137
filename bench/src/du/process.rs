//! What the system reports about this process.

use nix::sys::resource::{UsageWho, getrusage};

/// Currently resident bytes.
pub fn resident() -> u64 {
    field("VmRSS:")
}

/// Peak resident bytes so far.
pub fn peak() -> u64 {
    field("VmHWM:")
}

fn field(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// Seconds of CPU time so far, of all threads.
pub fn cpu() -> f64 {
    user_and_system().iter().sum()
}

/// The same without the kernel's part (system time).
pub fn user() -> f64 {
    user_and_system()[0]
}

fn user_and_system() -> [f64; 2] {
    getrusage(UsageWho::RUSAGE_SELF).map_or([0.0; 2], |usage| {
        [usage.user_time(), usage.system_time()]
            .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
    })
}

/// Makes malloc return unused memory.
pub fn trim() {
    // SAFETY: takes no pointer.
    unsafe { libc::malloc_trim(0) };
}
