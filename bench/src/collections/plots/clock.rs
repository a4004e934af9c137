//! The clock for single operations: the processor's counter of ticks where there is one, else the system's.
//!
//! A look at it waits for all instructions before it, and lets none of those behind it begin (`lfence` on both sides), so no part of an operation is outside of what is measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How many times the clock's own cost is measured.
const LOOKS: usize = 10_001;

/// Ticks since some time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: all processors of this architecture have both instructions, and neither touches memory. There is no safe way to read the counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Ticks since some time: nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// How long a tick is: known the better the longer it is looked at.
pub struct Rate {
    ticks: u64,
    time: Instant,
}

impl Rate {
    /// Begins, and looks at it for 20 ms.
    pub fn new() -> Rate {
        let rate = Rate { ticks: ticks(), time: Instant::now() };
        while rate.time.elapsed() < Duration::from_millis(20) {
            black_box(());
        }
        rate
    }

    /// Ticks of a nanosecond.
    pub fn per_ns(&self) -> f64 {
        (ticks() - self.ticks) as f64 / self.time.elapsed().as_nanos() as f64
    }
}

/// What two looks at the clock with nothing between them differ by, in ticks: the median.
pub fn own_cost() -> u64 {
    let mut costs: Vec<u64> = (0..LOOKS)
        .map(|_| {
            let begin = ticks();
            ticks() - begin
        })
        .collect();
    costs.sort_unstable();
    costs[LOOKS / 2]
}
