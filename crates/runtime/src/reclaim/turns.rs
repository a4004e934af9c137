//! Turns: scheduling in a tree whose processes are short-lived, such as the compilers of a build.
//!
//! In such a tree the next process to end frees more memory than compression could, and sooner. So near the
//! limit the oldest processes, one for each CPU, run without being evicted, and younger ones wait. If all ran
//! at once, each would evict pages that it needs a moment later.
//!
//! | size of the tree | the oldest | younger ones |
//! | --- | --- | --- |
//! | below the limit | run | run |
//! | up to a quarter of the tolerance above it | run | wait |
//! | up to half of the tolerance above it | run | wait, and are evicted |
//! | more | are evicted, as everywhere | wait, and are evicted |
//!
//! Only processes younger than two seconds and larger than their floor take part, and only if there are more
//! of them than CPUs. Turns are taken while processes that ended within the last 500 ms held an eighth of the
//! limit. So waiting ends by itself, even if the oldest depend on a younger one and nothing ends. A large
//! process among many small ones does not take part.

use core::sync::atomic::Ordering::*;

use memfold_shared::near;
use memfold_shared::page::{Shared, Slot};

use crate::kernel::sys;
use crate::runtime::Runtime;

/// Processes older than this do not take part, in ns.
const YOUNG_NS: u64 = 2_000_000_000;
/// Ended processes must have held this fraction of the limit, and more than this many bytes.
const PART: u64 = 8;
const MUCH: u64 = 2 << 20;

/// How a process behaves near the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    /// It is not evicted.
    keeps: bool,
    /// Its threads wait when they need memory.
    waits: bool,
}

impl Turn {
    /// Where no turns are taken.
    const NONE: Turn = Turn { keeps: false, waits: false };

    /// In a tree with `tree` bytes, `over` of them above the limit.
    fn of(is_first: bool, tree: u64, over: i64, limit: u64) -> Self {
        let tolerance = near::tolerance(limit);
        // The oldest may grow further.
        let allowed = if is_first { tolerance / 2 } else { tolerance / 4 };
        Turn { keeps: tree <= limit.saturating_add(allowed), waits: over > 0 && !is_first }
    }
}

/// Whether processes end often enough, and free enough.
fn is_lively(shared: &Shared, limit: u64) -> bool {
    shared.freed_lately.load(Relaxed) > (limit / PART).max(MUCH)
}

impl Runtime {
    /// Called by the keeper at each look.
    pub fn look_for_turns(&self, tree: u64, over: i64, limit: u64, cpus: u64) {
        let (shared, slot, now) = (self.shared(), self.slot(), sys::now_ns());
        let is_young = |slot: &Slot| now.saturating_sub(slot.since_ns.load(Relaxed)) < YOUNG_NS;
        let turn = if is_lively(shared, limit) && is_young(slot) {
            let (own, matters) = (slot.since_ns.load(Relaxed), shared.floor());
            let takes_part = |slot: &&Slot| {
                slot.keeper.load(Relaxed) != 0 && slot.resident.load(Relaxed) >= matters && is_young(slot)
            };
            let (mut all, mut before) = (0, 0);
            for slot in shared.live_slots().filter(takes_part) {
                all += 1;
                before += u64::from(slot.since_ns.load(Relaxed) < own);
            }
            if all > cpus { Turn::of(before < cpus, tree, over, limit) } else { Turn::NONE }
        } else {
            Turn::NONE
        };
        self.reclaim.keeps_all.store(turn.keeps, Relaxed);
        if self.reclaim.waits_its_turn.swap(turn.waits, Relaxed) && !turn.waits {
            self.reclaim.room.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_oldest_run_and_others_wait() {
        let of = |is_first: bool, tree: u64| {
            let turn = Turn::of(is_first, tree * MIB, (tree as i64 - 38) << 20, 40 * MIB);
            (turn.keeps, turn.waits)
        };
        assert_eq!(
            [30, 42, 44, 46].map(|tree| of(true, tree)),
            [(true, false), (true, false), (true, false), (false, false)]
        );
        assert_eq!(
            [30, 42, 44, 46].map(|tree| of(false, tree)),
            [(true, false), (true, true), (false, true), (false, true)]
        );
    }

    #[test]
    fn turns_are_taken_while_processes_end() {
        // SAFETY: a page of zeros is a page of counters.
        let shared: Box<Shared> = unsafe { Box::new_zeroed().assume_init() };
        let lively = |freed: u64, limit: u64| {
            shared.freed_lately.store(freed * MIB, Relaxed);
            is_lively(&shared, limit * MIB)
        };
        assert!(lively(6, 40) && lively(3, 8));
        assert!(!lively(5, 40) && !lively(2, 8) && !lively(100, 1024));
    }
}
