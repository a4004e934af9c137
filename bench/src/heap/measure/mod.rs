//! Measures the CPU time of an operation, and the memory of a process.
//!
//! CPU time includes that of the calling thread during the operation, and that of all other threads until
//! they are idle after it: background work is never free.

pub mod rows;
pub mod settings;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Background threads are idle if they use less than a tenth of this time while it passes.
const REST: Duration = Duration::from_millis(20);
/// The maximum number of waits for them, of [`REST`] each.
const WAITS: usize = 100;

/// Seconds that an operation took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of all threads, user and system.
    pub cpu: f64,
    /// The part of it used by background threads.
    pub background: f64,
    pub wall: f64,
}

fn clock(id: ClockId) -> f64 {
    Duration::from(clock_gettime(id).expect("a clock that every kernel has")).as_secs_f64()
}

/// Seconds of CPU time used by all threads but this one.
fn others() -> f64 {
    clock(ClockId::CLOCK_PROCESS_CPUTIME_ID) - clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Runs an operation.
pub fn timed<T>(operation: impl FnOnce() -> T) -> (T, Cost) {
    let (begin, others_before) = (Instant::now(), others());
    let own_before = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let result = operation();
    let own = clock(ClockId::CLOCK_THREAD_CPUTIME_ID) - own_before;
    let wall = begin.elapsed().as_secs_f64();
    let mut now = others();
    for _ in 0..WAITS {
        sleep(REST);
        let before = std::mem::replace(&mut now, others());
        if now - before < REST.as_secs_f64() / 10.0 {
            break;
        }
    }
    let background = (now - others_before).max(0.0);
    (result, Cost { cpu: own + background, background, wall })
}

/// Memory of this process, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Private anonymous memory, each page counted once (`Pss_Anon`).
    pub anonymous: u64,
    /// All resident memory, each page counted once (`Pss`).
    pub pss: u64,
    /// The peak resident memory (`VmHWM`).
    pub peak: u64,
    /// Memory that malloc has handed out (`uordblks` and `hblkhd` of mallinfo).
    pub malloc: u64,
}

impl Memory {
    /// The growth since `before`; the peak is unchanged.
    pub fn since(self, before: Memory) -> Memory {
        Memory {
            anonymous: self.anonymous.saturating_sub(before.anonymous),
            pss: self.pss.saturating_sub(before.pss),
            peak: self.peak,
            malloc: self.malloc.saturating_sub(before.malloc),
        }
    }
}

/// Takes a line such as `Pss:  12 kB` from a file of the kernel.
fn bytes_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    number.unwrap_or_else(|| panic!("no {name} in the kernel's figures")) * 1024
}

/// The process's current memory, after malloc has returned unused memory.
pub fn memory() -> Memory {
    // SAFETY: two calls without preconditions.
    let info = unsafe {
        libc::malloc_trim(0);
        libc::mallinfo2()
    };
    let read = |path| fs::read_to_string(path).expect("the kernel tells a process its own figures");
    let (rollup, status) = (read("/proc/self/smaps_rollup"), read("/proc/self/status"));
    Memory {
        anonymous: bytes_of(&rollup, "Pss_Anon"),
        pss: bytes_of(&rollup, "Pss"),
        peak: bytes_of(&status, "VmHWM"),
        malloc: (info.uordblks + info.hblkhd) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_other_threads_counts() {
        let spin = || {
            let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
            while clock(ClockId::CLOCK_THREAD_CPUTIME_ID) - begin < 0.05 {}
        };
        let (_, cost) = timed(|| {
            // This thread ends by itself, after the operation.
            std::thread::spawn(spin);
            spin();
        });
        assert!(cost.background >= 0.049, "{cost:?}");
        assert!(cost.cpu >= 0.099, "{cost:?}");
    }

    #[test]
    fn memory_that_is_touched_shows() {
        let before = memory();
        let filled = vec![1_u8; 64 << 20];
        let after = memory();
        // Other tests run in this process, and may free memory.
        assert!(after.anonymous >= before.anonymous + (48 << 20), "{before:?} {after:?}");
        assert!(after.malloc >= before.malloc + (48 << 20), "{before:?} {after:?}");
        assert!(filled.iter().all(|&byte| byte == 1));
    }

    #[test]
    #[should_panic(expected = "no Pss in")]
    fn a_missing_figure_panics() {
        bytes_of("Pss_Anon:  3 kB", "Pss");
    }
}
