//! When to compact: as late as it may be.
//!
//! Every deletion makes the next move cheaper for each byte it gives back:
//! if half of the blobs go, a compactor that keeps up moves one blob for
//! each of them, one that waits for the end moves half as many; if 90 % go, a
//! ninth. So the work begins when what is left of the time allowed is what it
//! will take, going by how long it took before. Nobody calls a clock here:
//! the user's background thread brings the time.

use super::{Debt, Maintained};

/// Within this many nanoseconds of a deletion, the store is dense again.
pub const DEADLINE_NS: u64 = 100_000_000;
/// What waking up late and being interrupted may take of it.
const MARGIN_NS: u64 = 35_000_000;
/// How often to look while there is something to wait for, and while not.
const LOOK_NS: u64 = 5_000_000;
const IDLE_NS: u64 = 20_000_000;
/// The first guess: a blob of 1 KiB in 300 ns.
const FIRST_NS_PER_KIB: u64 = 300;

/// Tells the user's background thread when to call
/// [`Store::maintain`](super::Store::maintain).
#[derive(Debug, Clone)]
pub struct Pacer {
    loose_since: Option<u64>,
    ns_per_kib: u64,
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}

impl Pacer {
    /// A pacer that knows nothing about the machine yet.
    pub const fn new() -> Self {
        Pacer { loose_since: None, ns_per_kib: FIRST_NS_PER_KIB }
    }

    /// How many nanoseconds to sleep before asking again; zero: call
    /// `maintain` now. `now` is any clock that does not go backwards.
    pub fn wait(&mut self, now: u64, debt: Debt) -> u64 {
        if !debt.due {
            self.loose_since = None;
            return IDLE_NS;
        }
        let since = *self.loose_since.get_or_insert(now.saturating_sub(LOOK_NS));
        let age = now.saturating_sub(since);
        let work = (debt.move_bytes / 1024).saturating_mul(self.ns_per_kib);
        let spare = DEADLINE_NS.saturating_sub(MARGIN_NS + age + work);
        spare.min(LOOK_NS)
    }

    /// What a call of `maintain` did and how long it took.
    pub fn worked(&mut self, ns: u64, done: &Maintained) {
        if !done.more {
            self.loose_since = None;
        }
        let kib = done.moved_bytes / 1024;
        if kib >= 1024 {
            // The mean of what was thought and what was seen.
            self.ns_per_kib = ((self.ns_per_kib + ns / kib) / 2).clamp(20, 20_000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn little_work_waits_and_much_work_begins_at_once() {
        let mut pacer = Pacer::new();
        assert_eq!(pacer.wait(0, Debt { due: false, move_bytes: 0 }), IDLE_NS);
        let little = Debt { due: true, move_bytes: MIB };
        let mut now = 1_000_000_000;
        let begun = now;
        loop {
            let wait = pacer.wait(now, little);
            if wait == 0 {
                break;
            }
            now += wait;
        }
        let waited = now - begun;
        assert!((50_000_000..DEADLINE_NS - MARGIN_NS).contains(&waited), "{waited}");
        assert_eq!(Pacer::new().wait(now, Debt { due: true, move_bytes: 1 << 40 }), 0);
    }

    #[test]
    fn a_slow_machine_begins_earlier() {
        let mut pacer = Pacer::new();
        let debt = Debt { due: true, move_bytes: 64 * MIB };
        assert_ne!(pacer.wait(0, debt), 0);
        let done = Maintained { moved_bytes: 10 * MIB, ..Maintained::default() };
        for _ in 0..5 {
            pacer.worked(30_000_000, &done);
        }
        assert_eq!(pacer.wait(0, debt), 0);
    }
}
