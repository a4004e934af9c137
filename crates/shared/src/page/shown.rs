//! How much memory the programs of a tree are shown that there is (`memfold run --show`).
//!
//! Programs choose the sizes of their heaps and buffers by the memory that they see. That is the machine's, of
//! which they may use only a part; or their cgroup's limit, though more than that fits in compressed.

use core::sync::atomic::Ordering::*;

use super::{LARGEST_LIMIT, Shared};

/// Values of [`Shared::shown_bytes`] that are not sizes.
pub mod show {
    /// Programs see what the kernel says.
    pub const OFF: u64 = 0;
    /// They see as much as is likely to fit below the limit at the compression ratio seen so far.
    pub const AUTO: u64 = u64::MAX;
}

/// With `show::AUTO`, never more than this many times the limit.
const MOST_TIMES: u64 = 3;
/// The ratio that is assumed until this many bytes were compressed.
const ASSUMED_RATIO: u64 = 3;
const ENOUGH: u64 = 4 << 20;

/// What programs are shown, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The memory of the machine, and the limit of a limited cgroup.
    pub total: u64,
    /// memfold's limit. A cgroup whose limit is lower is not the one that memfold was started in.
    pub limit: u64,
    /// The part of `total` that the tree has not filled.
    pub free: u64,
    /// By how much the tree's data are larger than the memory that they take: what is to be added to a use that
    /// the kernel has counted.
    pub saved: u64,
}

impl Shared {
    /// The amounts that programs see; `None` if they see the kernel's.
    pub fn shown(&self) -> Option<Shown> {
        let limit = self.limit_bytes.load(Relaxed).min(LARGEST_LIMIT);
        let total = match self.shown_bytes.load(Relaxed) {
            show::OFF => return None,
            show::AUTO => fits(limit, self.peak_evicted.load(Relaxed), self.payload_at_peak.load(Relaxed)),
            bytes => bytes.min(LARGEST_LIMIT),
        };
        let (mut data, mut memory) = (0u64, 0u64);
        for slot in self.live_slots() {
            data = data.saturating_add(slot.evicted.load(Relaxed)).saturating_add(slot.spilled.load(Relaxed));
            memory =
                memory.saturating_add(slot.payload.load(Relaxed)).saturating_add(slot.overhead.load(Relaxed));
        }
        let saved = data.saturating_sub(memory);
        let used = self.tree_resident().saturating_add(saved);
        Some(Shown { total, limit, free: total.saturating_sub(used), saved })
    }
}

/// How many bytes fit below a limit if a quarter of them stays resident and the rest is compressed as the
/// evicted bytes were, which became these payload bytes. Whole pages of any size.
fn fits(limit: u64, evicted: u64, payload: u64) -> u64 {
    let (evicted, payload) = if evicted < ENOUGH { (ASSUMED_RATIO, 1) } else { (evicted, payload) };
    let (limit_wide, evicted, payload) = (u128::from(limit), u128::from(evicted), u128::from(payload));
    let bytes = limit_wide * 4 * evicted / (evicted + 3 * payload);
    let bytes = (bytes as u64).clamp(limit, limit.saturating_mul(MOST_TIMES));
    bytes & !0xffff
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn the_amount_that_fits_below_a_limit() {
        assert_eq!(fits(100 * MB, 0, 0), 200 * MB);
        assert_eq!(fits(100 * MB, 50 * MB, 25 * MB), 160 * MB);
        // No more than three times, and no less than the limit.
        assert_eq!(fits(100 * MB, 50 * MB, 1), 300 * MB);
        assert_eq!(fits(100 * MB, 50 * MB, 60 * MB), 100 * MB);
        assert_eq!(fits(100 * MB, 50 * MB, u64::MAX), 100 * MB);
        assert_eq!(fits(LARGEST_LIMIT, u64::MAX, 0), 3 * LARGEST_LIMIT);
    }

    #[test]
    fn the_data_reduce_the_free_amount() {
        // SAFETY: a page of zeros is a valid page, of a tree without processes.
        let shared: Box<Shared> = unsafe { Box::new_zeroed().assume_init() };
        assert_eq!(shared.shown(), None);
        shared.limit_bytes.store(100 * MB, Relaxed);
        shared.shown_bytes.store(show::AUTO, Relaxed);
        let slot = shared.take_slot(5).unwrap();
        slot.resident.store(90 * MB, Relaxed);
        assert_eq!(
            shared.shown(),
            Some(Shown { total: 200 * MB, limit: 100 * MB, free: 110 * MB, saved: 0 })
        );
        slot.evicted.store(60 * MB, Relaxed);
        slot.payload.store(20 * MB, Relaxed);
        assert_eq!(
            shared.shown(),
            Some(Shown { total: 200 * MB, limit: 100 * MB, free: 70 * MB, saved: 40 * MB })
        );
        shared.shown_bytes.store(120 * MB, Relaxed);
        assert_eq!(shared.shown(), Some(Shown { total: 120 * MB, limit: 100 * MB, free: 0, saved: 40 * MB }));
    }
}
