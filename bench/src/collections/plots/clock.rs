//! The clock for single operations: on x86-64 the time-stamp counter, elsewhere the system's monotonic clock.
//!
//! On x86-64, reading it waits for all earlier instructions and delays all later ones (`lfence` on both
//! sides), so no part of an operation falls outside the measurement.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How many times the clock's own cost is measured.
const LOOKS: usize = 10_001;

/// Ticks since an arbitrary start.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: all processors of this architecture have both instructions, and neither touches memory. There is no
    // safe way to read the counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Ticks since an arbitrary start; here a tick is a nanosecond.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// The frequency of ticks, which becomes more exact the longer it is measured.
pub struct Rate {
    ticks: u64,
    time: Instant,
}

impl Rate {
    /// Starts with a measurement of 20 ms.
    pub fn new() -> Rate {
        let rate = Rate { ticks: ticks(), time: Instant::now() };
        while rate.time.elapsed() < Duration::from_millis(20) {
            black_box(());
        }
        rate
    }

    /// Ticks per nanosecond.
    pub fn per_ns(&self) -> f64 {
        (ticks() - self.ticks) as f64 / self.time.elapsed().as_nanos() as f64
    }
}

/// The cost of reading the clock, in ticks: the median difference of two readings with nothing between them.
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
