//! Recommends a limit and predicts its cost.
//!
//! ```text
//!  |  working set, kept as it is  |  the rest, compressed  | fixed |
//!  |<------------------------- limit ---------------------------->|
//! ```
//!
//! Let `L` be the limit, `R` the resident bytes, and `s` the share that their compressed form takes. Then `K
//! = (L - fixed - s R) / (1 - s)` bytes stay uncompressed. The working set determines how many faults this
//! causes. Each fault costs time in the kernel and a decompression.

use serde::Serialize;

use crate::PAGE;
use crate::idle::WorkingSet;
use crate::odds::{Chance, Odds};

/// Memory of `memfold run` itself: threads, tables, buffers. The lowest possible limit is 8 MiB.
const FIXED: u64 = 6 << 20;
/// Bytes of the store per compressed byte, including headers, rounding and holes.
const STORE: f64 = 1.06;
/// Bytes of a page's entries in the tables.
const ENTRY: f64 = 10.0;
/// The cost of a fault in the kernel, without decompression, in microseconds.
const FAULT_US: f64 = 9.0;
/// Limits below this share of the resident memory are not considered: the model does not cover programs that
/// only fault.
const LEAST: f64 = 0.1;

/// The consequences of a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// The limit.
    pub limit_bytes: u64,
    /// The bytes that stay uncompressed within it.
    pub kept_bytes: u64,
    /// Pages per second that must be restored.
    pub faults_per_second: f64,
    /// The share of time that threads wait for faults, if one thread waits at a time.
    pub slowdown: f64,
    /// The decimal logarithm of the chance that compressed idle memory does not fit beside the working set.
    pub log10_exceeds: Chance,
}

/// The consequences of limits for one process.
pub struct Outlooks<'a> {
    /// Its working set.
    pub set: &'a WorkingSet,
    /// Compressed bytes per byte.
    pub share: f64,
    /// Microseconds to decompress a page.
    pub decompress_us: f64,
    /// The distribution of the share for this many pages.
    pub odds: &'a dyn Fn(f64) -> Option<Odds>,
}

impl Outlooks<'_> {
    /// The bytes that a stored byte takes in total.
    fn stored(&self) -> f64 {
        stored(self.share)
    }

    /// The outlook for one limit.
    pub fn of(&self, limit: u64) -> Outlook {
        let (resident, stored) = (self.set.resident_bytes as f64, self.stored());
        let left = limit as f64 - FIXED as f64 - stored * resident;
        let kept = (left / (1.0 - stored).max(0.01)).clamp(0.0, resident) as u64;
        let faults = self.set.faults_per_second(kept);
        let slowdown = faults * (FAULT_US + self.decompress_us) / 1e6;
        let used = self.set.used_bytes();
        let cold = self.set.resident_bytes.saturating_sub(used);
        let room = limit as f64 - FIXED as f64 - used as f64;
        let pages = cold as f64 / PAGE as f64;
        let chance = match (self.odds)(pages) {
            Some(odds) if cold > 0 => odds.exceeds(((room - pages * ENTRY) / cold as f64 / STORE).max(0.0)),
            _ => Chance(if room < 0.0 { 0.0 } else { f64::NEG_INFINITY }),
        };
        Outlook {
            limit_bytes: limit,
            kept_bytes: kept,
            faults_per_second: faults,
            slowdown,
            log10_exceeds: chance,
        }
    }

    /// The lowest limit that should cost no more than `slowdown`, even if compressed data exceed the expected
    /// size by `margin`. `None` if no such limit saves at least a twentieth of the memory that is resident
    /// now. The outlook tells how likely pages like these are to take still more.
    pub fn recommended(&self, slowdown: f64, margin: f64) -> Option<Outlook> {
        let resident = self.set.resident_bytes;
        let least = (resident as f64 * LEAST) as u64;
        let careful = Outlooks { share: (self.share * (1.0 + margin)).min(1.0), ..*self };
        let cold = resident.saturating_sub(self.set.used_bytes());
        let needs = FIXED as f64 + self.set.used_bytes() as f64 + cold as f64 * careful.stored();
        let fits = |limit: u64| limit as f64 >= needs && careful.of(limit).slowdown <= slowdown;
        // The slowdown falls as the limit grows.
        let (mut low, mut high) = (least.max(8 << 20), resident / 20 * 19);
        if high <= low || !fits(high) {
            return None;
        }
        while high - low > (1 << 20) {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle }
        }
        // Limits are rounded, because people type them.
        Some(self.of(high.next_multiple_of(1 << 20)))
    }
}

/// The bytes that a stored byte takes in total, if it compresses to `share`.
pub fn stored(share: f64) -> f64 {
    share * STORE + ENTRY / PAGE as f64
}

/// The memory that this many bytes need if the share `in_use` of them stays uncompressed. For use without a
/// measured working set.
pub fn needs(bytes: u64, share: f64, in_use: f64) -> u64 {
    (FIXED as f64 + bytes as f64 * (in_use + (1.0 - in_use) * stored(share))) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::measure::Page;

    fn set() -> WorkingSet {
        let points = vec![(0.1, 180 << 20), (1.0, 195 << 20), (2.0, 200 << 20), (4.0, 202 << 20)];
        WorkingSet { resident_bytes: 1 << 30, points, by_mapping: HashMap::new() }
    }

    #[test]
    fn the_limit_holds_what_is_used_and_the_rest_compressed() {
        let set = set();
        let pages: Vec<Page> =
            (0..1000).map(|number| Page { number, mapping: 0, bytes: (800 + number % 400) as u16 }).collect();
        let odds = |count: f64| Odds::new(&pages, count, 5.0, 0.001);
        let outlooks = Outlooks { set: &set, share: 0.25, decompress_us: 3.0, odds: &odds };
        let best = outlooks.recommended(0.01, 0.05).unwrap();
        // About 200 MiB in use, a quarter of 820 MiB, and 90 MiB so that memory in use stays resident until
        // its next use: each second adds one MiB.
        assert!((480 << 20..520 << 20).contains(&best.limit_bytes), "{best:?}");
        assert!(best.slowdown <= 0.01 && best.log10_exceeds.value() < 1e-6);
        // With less margin the limit is lower. A limit below that does not suffice.
        let lower = outlooks.recommended(0.01, 0.0).unwrap();
        assert!(lower.limit_bytes < best.limit_bytes);
        assert!(outlooks.of(lower.limit_bytes - (15 << 20)).slowdown > 0.01);
        assert!(outlooks.of(400 << 20).log10_exceeds.value() > 0.5);
        // A limit as large as the memory causes no faults; a tiny one causes faults all the time.
        assert_eq!(outlooks.of(2 << 30).faults_per_second, 0.0);
        assert!(outlooks.of(100 << 20).faults_per_second > 100_000.0);
        assert_eq!(outlooks.of(100 << 20).log10_exceeds.value(), 1.0);
    }

    #[test]
    fn incompressible_memory_gets_no_limit() {
        let set = set();
        let pages: Vec<Page> = (0..100).map(|number| Page { number, mapping: 0, bytes: 4096 }).collect();
        let odds = |count: f64| Odds::new(&pages, count, 1.0, 0.0);
        let outlooks = Outlooks { set: &set, share: 1.0, decompress_us: 1.0, odds: &odds };
        assert_eq!(outlooks.recommended(0.01, 0.0), None);
    }
}
