//! How long faults took: logarithmic buckets with linear steps.

use core::sync::atomic::Ordering::*;

use super::Shared;

/// Number of buckets of the fault histogram; see [`bucket_of`].
pub const BUCKETS: usize = 40 * SUB;
const SUB: usize = 16;

impl Shared {
    /// Counts a fault that took `ns` to serve.
    pub fn note_fault(&self, ns: u64) {
        self.fault_histogram[bucket_of(ns)].fetch_add(1, Relaxed);
        if self.fault_max_ns.load(Relaxed) < ns {
            self.fault_max_ns.fetch_max(ns, Relaxed);
        }
    }
}

/// Bucket of a time in ns: 16 linear steps in each power of two, so that a
/// bucket's bounds differ by at most 1/16.
pub fn bucket_of(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let log = 63 - ns.leading_zeros() as usize;
    let step = (ns >> (log - 4)) as usize & (SUB - 1);
    ((log - 3) * SUB + step).min(BUCKETS - 1)
}

/// Smallest time in ns that falls into `bucket`.
pub fn bucket_start(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let (log, step) = (bucket / SUB + 3, bucket % SUB);
    ((SUB + step) as u64) << (log - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_tight() {
        for ns in (0..4000u64).chain((0..35).map(|s| (1 << s) + 3)) {
            let bucket = bucket_of(ns);
            assert!(bucket_start(bucket) <= ns, "{ns}");
            assert!(ns < bucket_start(bucket + 1), "{ns}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
