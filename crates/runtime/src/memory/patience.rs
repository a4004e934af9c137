//! How long to wait for something: a tier (`--spill-patience`), room under the limit before the process is
//! ended (`--on-full kill`), late messages.
//!
//! Invariant: time during which the process is stopped does not count. If a program is stopped and continued
//! an hour later, it has not waited for a tier for an hour, and the answer may have arrived long ago.

use crate::kernel::sys;

/// At most this much of the time between two checks counts, in ns. A waiting thread checks far more often; a
/// longer gap means that it was stopped or had no CPU.
const STEP_NS: u64 = 200_000_000;

/// The time that is left, and the time waited.
pub struct Patience {
    left: u64,
    waited: u64,
    looked: u64,
}

impl Patience {
    /// Begins a wait of at most `ns`.
    pub fn new(ns: u64) -> Self {
        Patience { left: ns, waited: 0, looked: sys::now_ns() }
    }

    /// Whether the time is over.
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(sys::now_ns())
    }

    /// Time waited until the last check, in ns.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    fn is_over_at(&mut self, now: u64) -> bool {
        let step = now.saturating_sub(self.looked).min(STEP_NS);
        self.left = self.left.saturating_sub(step);
        self.waited = self.waited.saturating_add(step);
        self.looked = now;
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_while_the_process_is_stopped_does_not_count() {
        const TURN: u64 = 20_000_000;
        let mut patience = Patience { left: 1_000_000_000, waited: 0, looked: 5 };
        let mut now = 5;
        for _ in 0..30 {
            now += TURN;
            assert!(!patience.is_over_at(now));
        }
        // 600 ms; then an hour, which counts as one step.
        now += 3_600_000_000_000;
        assert!(!patience.is_over_at(now));
        for turn in 1..=10 {
            now += TURN;
            assert_eq!(patience.is_over_at(now), turn == 10);
        }
        assert_eq!(patience.waited(), 1_000_000_000);
    }
}
