//! How much of a time this process ran.
//!
//! Ctrl-Z stops the whole job, the supervisor too. When it goes on, what was asked before has not been waited for all that time: no call to the tier was made, and its connections may
//! have to be made anew. Whoever looks first finds a gap, and from then on no time counts that it is part of.
//!
//! Invariant: somebody looks far more often than [`GAP`]; the [sweeps](super::service::Service::sweep) do.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::service::locked;

/// Nobody looked for so long: nobody could, ns.
const GAP: u64 = 4_000_000_000;
/// So many gaps are known; what was asked before older ones has long been answered.
const KNOWN: usize = 64;

/// See the module. All times are in ns, of one clock.
pub struct Awake {
    seen: Mutex<Seen>,
}

struct Seen {
    last: u64,
    /// From when to when it did not run.
    gaps: VecDeque<(u64, u64)>,
}

impl Awake {
    pub fn new(now: u64) -> Self {
        Awake { seen: Mutex::new(Seen { last: now, gaps: VecDeque::new() }) }
    }

    /// Somebody looks.
    pub fn look(&self, now: u64) {
        self.since(now, now);
    }

    /// Of the time since then, how much this process ran.
    pub fn since(&self, then: u64, now: u64) -> u64 {
        let mut seen = locked(&self.seen);
        if now.saturating_sub(seen.last) > GAP {
            let gap = (seen.last, now);
            seen.gaps.push_back(gap);
            if seen.gaps.len() > KNOWN {
                seen.gaps.pop_front();
            }
        }
        // Others may have looked later, and be here first.
        seen.last = seen.last.max(now);
        let lost = |(from, to): &(u64, u64)| to.saturating_sub(then.max(*from));
        now.saturating_sub(then).saturating_sub(seen.gaps.iter().map(lost).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_lies_in_a_gap_does_not_count() {
        let awake = Awake::new(0);
        (1..=10).for_each(|now| awake.look(now * SECOND));
        assert_eq!(awake.since(2 * SECOND, 11 * SECOND), 9 * SECOND);
        // It was stopped from 11 to 100.
        assert_eq!(awake.since(2 * SECOND, 100 * SECOND), 9 * SECOND);
        assert_eq!(awake.since(50 * SECOND, 101 * SECOND), SECOND);
        assert_eq!(awake.since(100 * SECOND, 102 * SECOND), 2 * SECOND);
        // And from 102 to 1000.
        awake.look(1000 * SECOND);
        assert_eq!(awake.since(10 * SECOND, 1001 * SECOND), 4 * SECOND);
    }
}
