//! How long growth waits for room: not for a fixed time, but as long as there is hope of room, by whatever
//! means. So the limit is not exceeded while there is still something to compress or spill, even if a disk is
//! busy, a server stops for a second, or no compressor gets a CPU.
//!
//! ```text
//!  hope   │ blocks not on standby yet │ blocks on standby │ blobs that can be denser │ blobs to spill
//!  maker  │ clock hand                │ compressors       │ compressors              │ tier, within its patience
//! ```
//!
//! The keeper decides when there is no hope (`unpayable`, `hopeless`: `watch`), and waiting threads check
//! that. A tier has its patience (`--spill-patience`): if it has taken nothing for that long although data
//! were to be spilled, it does not count as hope until it takes a batch again. Nor does it while the hand finds
//! nothing to spill, although the store is not empty (`unspillable`).
//!
//! Nothing that makes room waits for room: the keeper and the compressors touch no memory of the program, and
//! the supervisor carries spilled data away. A fork and the runtime's end take precedence. If there is a
//! cycle all the same (a tier that a program of the tree serves), or hope deceives, a waiting thread goes on
//! after `LONGEST_NS` in which no memory was freed, or after the tier's patience if it still seems to take data.
//! After that no thread waits until some memory was freed.

use core::sync::atomic::Ordering::*;

use memfold_shared::spill::open;

use crate::kernel::sys;
use crate::memory::patience::Patience;
use crate::runtime::Runtime;
use crate::spill::state::Spill;

/// Maximum time that growth waits while no memory is freed and the keeper has not decided that there is no
/// hope, in ns.
const LONGEST_NS: u64 = 30_000_000_000;
/// At most this much of the time between two looks of compressors counts, in ns: as in `patience.rs`.
const STEP_NS: u64 = 200_000_000;

/// A wait for room.
pub struct Waiting {
    given_back: u32,
    patience: Patience,
    /// Time for a tier that may still take data.
    tiers: Patience,
}

impl Waiting {
    /// Begins a wait.
    pub fn new(runtime: &Runtime) -> Self {
        let tiers = runtime.spill.area().map_or(0, |area| area.patience_ns.load(Relaxed));
        Waiting {
            given_back: runtime.reclaim.given_back.load(Relaxed),
            patience: Patience::new(LONGEST_NS),
            tiers: Patience::new(tiers),
        }
    }

    /// Whether there is no hope left.
    pub fn is_hopeless(&mut self, runtime: &Runtime) -> bool {
        let reclaim = &runtime.reclaim;
        let given_back = reclaim.given_back.load(Relaxed);
        if given_back != self.given_back {
            *self = Waiting::new(runtime);
        }
        // Each look counts the time for both.
        let (is_over, is_over_for_tiers) = (self.patience.is_over(), self.tiers.is_over());
        if is_over && (is_over_for_tiers || !runtime.waits_for_tier()) {
            reclaim.despaired.store(given_back.into(), Relaxed);
        }
        reclaim.is_exhausted()
            || reclaim.hopeless.load(Relaxed)
            || reclaim.despaired.load(Relaxed) == u64::from(given_back)
    }
}

impl Spill {
    /// Counts how long the tier has taken nothing although data were to be spilled. Called at every look of a
    /// compressor. Time during which the process is stopped does not count.
    pub fn count_unheard(&self, looked_ns: &mut u64, should_spill: bool) {
        let now = sys::now_ns();
        let step = now.saturating_sub(core::mem::replace(looked_ns, now)).min(STEP_NS);
        if should_spill {
            self.unheard_ns.fetch_add(step, Relaxed);
        } else {
            self.unheard_ns.store(0, Relaxed);
        }
    }

    /// Called at every look of a compressor. If the store has shrunk to `payload` bytes, what is added from now
    /// on may be spilled.
    pub fn look_at_unspillable(&self, payload: u64) {
        self.unspillable.fetch_min(payload, Relaxed);
    }
}

impl Runtime {
    /// Whether data are to be spilled, and may be.
    fn waits_for_tier(&self) -> bool {
        self.should_spill() && self.can_spill()
    }

    /// Whether data that take memory now may be spilled: the tier takes them, or may take them soon.
    pub fn can_spill(&self) -> bool {
        let Some(area) = self.spill.area() else { return false };
        let may_be_sent = self.slot().payload.load(Relaxed) > self.spill.unspillable.load(Relaxed);
        area.is_open.load(Relaxed) != open::NO
            && (may_be_sent || self.spill.in_flight.load(Relaxed) > 0)
            && self.spill.unheard_ns.load(Relaxed) < area.patience_ns.load(Relaxed)
    }
}
