//! How long faults took, from the histograms of the shared page and of the spill area.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memfold_shared::page;
use serde::Serialize;

/// Times of faults in microseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub struct FaultTimes {
    /// Half of the faults took at most this long.
    pub p50: Option<f64>,
    /// 99 of 100 faults took at most this long.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// Computes the times from a histogram that counts by [`page::bucket_of`], and the longest time in ns.
pub fn fault_times(histogram: &[AtomicU64], longest: &AtomicU64) -> FaultTimes {
    let counts: Vec<u64> = histogram.iter().map(|bucket| bucket.load(Relaxed)).collect();
    let all: u64 = counts.iter().sum();
    let longest = longest.load(Relaxed);
    let longest_us = (all > 0).then_some(longest as f64 / 1000.0);
    FaultTimes {
        p50: quantile_us(&counts, longest, 0.5),
        p99: quantile_us(&counts, longest, 0.99),
        max: longest_us,
    }
}

/// The time within which this share of all faults was served, from counts by [`page::bucket_of`]; None if there
/// were no faults.
pub fn quantile_us(counts: &[u64], longest_ns: u64, share: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let rank = (all as f64 * share).ceil() as u64;
    let mut sum = 0;
    let bucket = counts.iter().position(|count| {
        sum += count;
        sum >= rank
    })?;
    // The largest time of the bucket, so that at least the share took no longer.
    let end = page::bucket_start(bucket + 1) - 1;
    (all > 0).then_some(end.min(longest_ns) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::settings::shared_page::SharedPage;

    #[test]
    fn quantiles_keep_their_promise() {
        let shared = SharedPage::new(&Settings::example()).unwrap();
        let page = shared.page;
        assert_eq!(
            fault_times(&page.fault_histogram, &page.fault_max_ns),
            FaultTimes { p50: None, p99: None, max: None }
        );
        for ns in 1..=1000u64 {
            page.note_fault(ns * 100);
        }
        let times = fault_times(&page.fault_histogram, &page.fault_max_ns);
        let (p50, p99) = (times.p50.unwrap(), times.p99.unwrap());
        assert!((50.0..=50.0 * 1.07).contains(&p50), "{p50}");
        assert!((99.0..=100.0).contains(&p99), "{p99}");
        assert_eq!(times.max, Some(100.0));
    }
}
