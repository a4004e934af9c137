//! How much a process can give back at most, when its limit asks for more.
//!
//! ```text
//!  own │ store │ incompressible │ floor │ spare │      at most the spare part is owed
//! ```
//!
//! A lower limit cannot be held. Enforcing it all the same would cost the program nearly all of its time and
//! then be given up, fault by fault, until everything is resident. So the process settles at the least that
//! its data allow: it owes the spare part and no more, and a thread that makes more resident waits until as
//! much is freed, as with a limit that just fits. The **floor** is what it keeps resident to work with: a
//! fraction of the limit, which grows the further the limit is out of reach, up to a fraction of the store.
//! The floor includes pages that a whole round of the hand could not evict.

use core::sync::atomic::Ordering::*;

use super::ReclaimThread;
use crate::kernel::sys::PAGE;

/// Where the limit cannot be held, the process keeps resident at most this fraction of its store in addition.
const FLOOR_OF_STORE: i64 = 24;

/// See the module. All in bytes.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// The process's memory besides its store and incompressible pages.
    rest: i64,
    store: i64,
    kept: u64,
    floor: i64,
    /// The part of `rest` that a whole round could not evict.
    stuck: i64,
}

impl Spare {
    /// Sets the process's memory: `own` bytes in total, of which `store` bytes are in the store, `kept` do
    /// not compress, and `standby` are on standby.
    pub fn look(&mut self, own: u64, store: u64, kept: u64, standby: u64, floor: u64) {
        self.rest = own as i64 - store as i64 - kept as i64;
        (self.store, self.kept) = (store as i64, kept);
        self.floor = floor as i64;
        // Pages on standby were evicted.
        self.stuck = self.stuck.min(self.rest - standby as i64);
    }

    /// Bytes that do not compress.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Bytes that can be given back until only the floor is left.
    pub fn at_most(&self) -> i64 {
        self.rest - self.floor
    }

    /// Records that a whole round has evicted nothing: the rest stays.
    pub fn nothing_evicted(&mut self) {
        self.stuck = self.rest;
    }

    /// The part of `share` that is owed. If nothing can be made denser, the floor rises with the part that is
    /// out of reach.
    pub fn owed(&self, share: i64, can_shrink: bool) -> i64 {
        let beyond = (share - self.at_most()).max(0);
        let floor = if can_shrink {
            self.floor
        } else {
            (self.floor + (beyond / 2).min(self.store / FLOOR_OF_STORE)).max(self.stuck)
        };
        share.min((self.rest - floor).max(0))
    }
}

impl ReclaimThread {
    /// Updates this from the process's present memory.
    pub(super) fn look_at_spare(&mut self, own: u64) {
        let (runtime, slot) = (self.runtime, self.runtime.slot());
        let store = slot.payload.load(Relaxed) + slot.overhead.load(Relaxed);
        let pages = |pages: u64| pages * PAGE as u64;
        let kept = pages(runtime.pages.incompressible.load(Relaxed).max(0) as u64);
        self.spare.look(
            own,
            store,
            kept,
            pages(runtime.pages.standby.pages.load(Relaxed)),
            runtime.shared().floor(),
        );
    }
}

#[cfg(test)]
mod tests {
    use memfold_shared::near;

    use super::*;

    const MIB: i64 = 1 << 20;

    fn spare(own: i64, store: i64, kept: i64, standby: i64, limit: i64) -> Spare {
        let mut spare = Spare::default();
        let bytes = |mib: i64| (mib * MIB) as u64;
        spare.look(bytes(own), bytes(store), bytes(kept), bytes(standby), near::floor(bytes(limit)));
        spare
    }

    #[test]
    fn a_limit_within_reach_is_owed_whole() {
        let spare = spare(110, 50, 0, 4, 100);
        assert_eq!(spare.owed(10 * MIB, false), 10 * MIB);
        assert_eq!(spare.owed(-5 * MIB, false), -5 * MIB);
    }

    #[test]
    fn out_of_reach_the_process_settles_near_its_store() {
        // All data in the store take 160 of 320 MiB: pages that move to the store shrink to half.
        for limit in [40, 80, 120, 150] {
            let mut own = 320;
            for _ in 0..1000 {
                let store = 160 - (own - 160).max(0);
                let share = (own - limit) * MIB;
                own -= (spare(own, store, 0, 0, limit).owed(share, false) / MIB).min(1);
            }
            assert!((160..=180).contains(&own), "limit {limit}: {own}");
        }
    }

    #[test]
    fn incompressible_memory_is_never_owed() {
        let spare = spare(200, 2, 190, 1, 100);
        assert!(spare.owed(100 * MIB, false) <= 5 * MIB);
    }

    #[test]
    fn memory_that_a_round_could_not_evict_is_not_owed_until_some_is_evicted() {
        let mut spare = spare(100, 10, 0, 0, 50);
        assert_eq!(spare.owed(20 * MIB, false), 20 * MIB);
        spare.nothing_evicted();
        assert_eq!(spare.owed(20 * MIB, false), 0);
        let bytes = |mib: i64| (mib * MIB) as u64;
        spare.look(bytes(103), bytes(10), 0, 0, near::floor(bytes(50)));
        assert_eq!(spare.owed(23 * MIB, false), 3 * MIB);
        spare.look(bytes(103), bytes(10), 0, bytes(10), near::floor(bytes(50)));
        assert_eq!(spare.owed(23 * MIB, false), 10 * MIB);
    }
}
