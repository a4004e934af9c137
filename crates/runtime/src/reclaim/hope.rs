//! How long growth waits for room: as long as there is hope for some, by whatever way, and not for a time by the clock. A disk that is busy, a server
//! that stops for a second, a machine on which no compressor gets a CPU: none of these lets the limit be passed while there still is something to be
//! compressed or spilled.
//!
//! ```text
//!  hope: blocks that are not on standby yet ── blocks on standby ── what can be made denser ── what can be spilled
//!        the hand of the clock              compressors             compressors                a tier, within its patience
//! ```
//!
//! That there is none the keeper says (`exhausted`, `hopeless`: `watch`), and who waits looks at that. A tier is given its patience
//! (`--spill-patience`): if something should be spilled for so long and nothing was, it is no hope any more, until it takes a batch again.
//!
//! Nothing that makes room waits for room: the keeper and the compressors touch no memory of the program, and what is spilled is carried away by the supervisor. A fork
//! and the runtime's end go first. Should there be a ring all the same (a tier that is served by a program of the tree), who waits goes on
//! after `LONGEST_NS` in which nothing was given back.

use core::sync::atomic::Ordering::*;

use memfold_shared::spill::open;

use crate::kernel::sys;
use crate::memory::patience::Patience;
use crate::runtime::Runtime;

/// So long growth waits although nothing is given back, and nobody says that nothing will be, ns.
const LONGEST_NS: u64 = 30_000_000_000;
/// Of the time between two looks of compressors no more than this counts, ns: as in `patience.rs`.
const STEP_NS: u64 = 200_000_000;

/// A wait for room.
pub struct Waiting {
    given_back: u32,
    patience: Patience,
}

impl Waiting {
    /// It begins now.
    pub fn new(runtime: &Runtime) -> Self {
        Waiting { given_back: runtime.reclaim.given_back.load(Relaxed), patience: Patience::new(LONGEST_NS) }
    }

    /// Whether there is no hope any more.
    pub fn is_in_vain(&mut self, runtime: &Runtime) -> bool {
        let given_back = runtime.reclaim.given_back.load(Relaxed);
        if given_back != self.given_back || runtime.can_spill() {
            *self = Waiting::new(runtime);
        }
        runtime.reclaim.exhausted.load(Relaxed)
            || runtime.reclaim.hopeless.load(Relaxed)
            || self.patience.is_over()
    }
}

impl Runtime {
    /// Whether something may be spilled that takes memory now: the tier takes it, or may take it soon.
    pub fn can_spill(&self) -> bool {
        let Some(area) = self.spill.area() else { return false };
        area.is_open.load(Relaxed) != open::NO
            && self.slot().payload.load(Relaxed) > 0
            && self.spill.unheard_ns.load(Relaxed) < area.patience_ns.load(Relaxed)
    }

    /// Counts how long the tier has taken nothing although something should be spilled; at every look of a compressor. Time in which the process was stopped does not count.
    pub fn count_unheard(&self, looked_ns: &mut u64, should_spill: bool) {
        let now = sys::now_ns();
        let step = now.saturating_sub(core::mem::replace(looked_ns, now)).min(STEP_NS);
        if should_spill {
            self.spill.unheard_ns.fetch_add(step, Relaxed);
        } else {
            self.spill.unheard_ns.store(0, Relaxed);
        }
    }
}
