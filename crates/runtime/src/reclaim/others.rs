//! Growth waits for others. Each process owes a share of what the tree has to free, in proportion to its size. A
//! small process that grows owes next to nothing, while a large one that does not need its memory takes a while
//! to notice that and to compress it. So fresh memory waits while the tree exceeds its limit by more than a
//! quarter of the tolerance and another process is about to give something back: its last round found something
//! to evict, or it spills or densifies now. Otherwise two processes that have nothing left to evict would wait for
//! each other. Evicted memory does not wait.
//!
//! Another process counts only if its keeper has looked within the last 100 ms: one that is stopped, or whose
//! keeper gets no CPU, gives nothing back.

use core::sync::atomic::Ordering::*;

use memfold_shared::near;
use memfold_shared::page::{Shared, Slot};

use crate::runtime::Runtime;

const FRESH_NS: u64 = 100_000_000;

/// Whether the growth of `own` waits.
fn waits(shared: &Shared, own: &Slot, now: u64, limit: u64, margin: u64) -> bool {
    let allowed = near::tolerance(limit) / 4;
    let gives = |slot: &Slot| {
        slot.can_give.load(Relaxed) > margin && now.saturating_sub(slot.looked_ns.load(Relaxed)) < FRESH_NS
    };
    // After a fork the limit may only seem to be exceeded.
    shared.tree_resident_least() > limit.saturating_add(allowed)
        && shared.live_slots().any(|slot| !core::ptr::eq(slot, own) && gives(slot))
}

impl Runtime {
    /// Called by the keeper at each look: publishes what this process can give back, and decides whether its
    /// growth waits for others.
    pub fn look_for_others(&self, now: u64, can_give: u64, limit: u64, margin: u64) {
        let slot = self.slot();
        slot.can_give.store(can_give, Relaxed);
        slot.looked_ns.store(now, Relaxed);
        let waits = waits(self.shared(), slot, now, limit, margin);
        if self.reclaim.waits_for_others.swap(waits, Relaxed) && !waits {
            self.reclaim.room.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::*;

    #[test]
    fn growth_waits_while_another_process_can_give_back() {
        const MIB: u64 = 1 << 20;
        // SAFETY: a page of zeros is a page of counters.
        let shared: Box<Shared> = unsafe { Box::new_zeroed().assume_init() };
        let (own, large) = (shared.take_slot(1).unwrap(), shared.take_slot(2).unwrap());
        let now = 5_000_000_000;
        own.resident.store(30 * MIB, Relaxed);
        large.resident.store(385 * MIB, Relaxed);
        large.can_give.store(10 * MIB, Relaxed);
        large.looked_ns.store(now - 1_000_000, Relaxed);
        let waits = |limit: u64| waits(&shared, own, now, limit * MIB, 6 * MIB);
        assert!(waits(400));
        // Within a quarter of the tolerance.
        assert!(!waits(412));
        // The other one has nothing to give back, or is stopped; what a process owes itself is no reason.
        large.can_give.store(5 * MIB, Relaxed);
        own.can_give.store(50 * MIB, Relaxed);
        own.looked_ns.store(now, Relaxed);
        assert!(!waits(400));
        large.can_give.store(10 * MIB, Relaxed);
        large.looked_ns.store(now - 200_000_000, Relaxed);
        assert!(!waits(400));
    }
}
