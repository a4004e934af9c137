//! When to compact, and how far: as late and as little as possible.
//!
//! Every deletion makes moves cheaper per byte returned. If half of the blobs are deleted, a compactor that
//! keeps up moves one blob for each deletion, and one that waits for the end moves half as many; if 90 % are
//! deleted, it moves a tenth as many. But the delay is bounded: the store may take no more memory now than is
//! allowed for what it held [`DEADLINE_NS`] ago. So the pacer records what the store held, and starts the
//! work when the remaining time is what the work will take, judging by how long earlier work took.
//!
//! ```text
//!   bytes │▔▔▔▔▔▔▔▔▔▔▔▔▔▔╲  taken, at most
//!         │▔▔▔▔╲          ╲
//!         │     ╲ held     ╲▁▁▁▁▁▁▁
//!         │      ╲▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
//!         └──────────────────────────> time
//!               <── deadline ──>
//! ```
//!
//! The pacer reads no clock: the user's background thread passes the time.

use super::{Debt, Goal, Maintained};

/// Within this many nanoseconds of a deletion, the store is dense again.
pub const DEADLINE_NS: u64 = 100_000_000;
/// The part of the deadline that late wake-ups and interruptions may take.
const MARGIN_NS: u64 = 30_000_000;
/// The time between two looks while work is due, and while none is.
const LOOK_NS: u64 = 5_000_000;
const IDLE_NS: u64 = 20_000_000;
/// The first guess: a blob of 1 KiB in 400 ns.
const FIRST_NS_PER_KIB: u64 = 400;
/// As many looks as fit into the deadline, and some more.
const SAMPLES: usize = 32;

/// What the background thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Sleep for this many nanoseconds, then ask again.
    Sleep(u64),
    /// Call [`Store::maintain_to`](super::Store::maintain_to) with this goal
    /// and a budget that takes a few milliseconds, then ask again.
    Work(Goal),
}

/// Paces the user's background thread.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// When the pacer looked, and how many bytes were held then: a ring buffer.
    samples: [(u64, u64); SAMPLES],
    looks: usize,
    ns_per_kib: u64,
    /// The last call of `maintain_to` achieved nothing, so there is no use in trying again at once.
    in_vain: bool,
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}

impl Pacer {
    /// A pacer that knows nothing about the machine yet.
    pub const fn new() -> Self {
        Pacer { samples: [(0, 0); SAMPLES], looks: 0, ns_per_kib: FIRST_NS_PER_KIB, in_vain: false }
    }

    /// What to do at `now`, in nanoseconds of a clock that does not go backwards.
    pub fn next(&mut self, now: u64, debt: Debt) -> Pace {
        self.remember(now, debt.held_bytes);
        if !debt.due || core::mem::take(&mut self.in_vain) {
            return Pace::Sleep(if debt.due { LOOK_NS } else { IDLE_NS });
        }
        let (mut pace, mut least) = (Pace::Sleep(LOOK_NS), LOOK_NS);
        // The most bytes known to have been held since the sample.
        let mut most = debt.held_bytes;
        for back in 1..=self.looks.min(SAMPLES) {
            let (then, held) = self.samples[(self.looks - back) % SAMPLES];
            // From `end` on, the bytes held at the sample no longer count.
            let end = then.saturating_add(DEADLINE_NS - MARGIN_NS);
            let left = end.saturating_sub(now.saturating_add(self.work_ns(&debt, most)));
            if left < least && debt.allowed(most) < debt.resident_bytes {
                least = left;
                pace = if left == 0 { Pace::Work(debt.goal(most)) } else { Pace::Sleep(left) };
            }
            if left == 0 || end < now {
                // Older samples demand less.
                break;
            }
            most = most.max(held);
        }
        pace
    }

    /// Notes what a call of `maintain_to` did, and how long it took.
    pub fn worked(&mut self, ns: u64, done: &Maintained) {
        self.in_vain = done.moved == 0 && done.released_bytes == 0;
        let kib = done.moved_bytes / 1024;
        if kib >= 1024 {
            // The mean of the estimate and the measurement.
            self.ns_per_kib = ((self.ns_per_kib + ns / kib) / 2).clamp(20, 20_000);
        }
    }

    /// How long the work takes until the store takes no more than is allowed for `held` bytes.
    fn work_ns(&self, debt: &Debt, held: u64) -> u64 {
        let cut = debt.resident_bytes.saturating_sub(debt.allowed(held));
        // The tail that will be cut is assumed to be as full of blobs as the rest.
        let moves = u128::from(cut) * u128::from(debt.held_bytes) / u128::from(debt.resident_bytes.max(1));
        (moves as u64 / 1024).saturating_mul(self.ns_per_kib)
    }

    fn remember(&mut self, now: u64, held: u64) {
        if self.looks > 0 {
            let newest = &mut self.samples[(self.looks - 1) % SAMPLES];
            if now.saturating_sub(newest.0) < LOOK_NS {
                // The deletions count as earlier than they were, which errs on the safe side.
                newest.1 = newest.1.min(held);
                return;
            }
        }
        self.samples[self.looks % SAMPLES] = (now, held);
        self.looks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn debt(held: u64, resident: u64) -> Debt {
        Debt { due: resident > held * 67 / 64, held_bytes: held, resident_bytes: resident, ..Debt::default() }
    }

    /// Looks until there is work; returns the time that passed, and the goal.
    fn until_work(pacer: &mut Pacer, begun: u64, debt: Debt) -> (u64, Goal) {
        let mut now = begun;
        loop {
            match pacer.next(now, debt) {
                Pace::Work(goal) => return (now - begun, goal),
                Pace::Sleep(ns) => now += ns,
            }
            assert!(now < begun + 2 * DEADLINE_NS, "nothing happens");
        }
    }

    #[test]
    fn little_work_waits_and_much_work_begins_at_once() {
        let mut pacer = Pacer::new();
        let now = 1_000_000_000;
        assert_eq!(pacer.next(now, debt(100 * MIB, 100 * MIB)), Pace::Sleep(IDLE_NS));
        let (waited, goal) = until_work(&mut pacer, now + LOOK_NS, debt(90 * MIB, 100 * MIB));
        assert!((40_000_000..DEADLINE_NS - MARGIN_NS).contains(&waited), "{waited}");
        assert_eq!(goal, Goal::DENSE);
        let (waited, _) = until_work(&mut Pacer::new(), now, debt(1000 * MIB, 3000 * MIB));
        assert_eq!(waited, 0);
    }

    #[test]
    fn a_slow_machine_begins_earlier() {
        let mut pacer = Pacer::new();
        let (fast, _) = until_work(&mut pacer.clone(), 0, debt(100 * MIB, 150 * MIB));
        let done = Maintained { moved: 1, moved_bytes: 10 * MIB, ..Maintained::default() };
        (0..5).for_each(|_| pacer.worked(15_000_000, &done));
        let (slow, _) = until_work(&mut pacer, 0, debt(100 * MIB, 150 * MIB));
        assert!(slow + 10_000_000 < fast, "{slow} {fast}");
    }

    #[test]
    fn recent_deletions_may_wait_while_older_ones_are_due() {
        let mut pacer = Pacer::new();
        let resident = 1000 * MIB;
        let mut now = 0;
        // One percent every five milliseconds.
        for step in 0..60 {
            match pacer.next(now, debt((1000 - step * 10) * MIB, resident)) {
                Pace::Sleep(ns) => assert!(ns <= IDLE_NS),
                Pace::Work(goal) => {
                    assert!(now > 40_000_000, "so early, at {now}");
                    assert_ne!(goal, Goal::DENSE, "no need to catch up with the last deletion");
                    return;
                }
            }
            now += LOOK_NS;
        }
        panic!("the work never begins");
    }

    #[test]
    fn work_in_vain_is_not_repeated_at_once() {
        let mut pacer = Pacer::new();
        let loose = debt(10 * MIB, 1000 * MIB);
        pacer.next(0, loose);
        assert!(matches!(pacer.next(DEADLINE_NS, loose), Pace::Work(_)));
        pacer.worked(1000, &Maintained::default());
        assert_eq!(pacer.next(DEADLINE_NS + 1000, loose), Pace::Sleep(LOOK_NS));
        assert!(matches!(pacer.next(DEADLINE_NS + LOOK_NS, loose), Pace::Work(_)));
    }
}
