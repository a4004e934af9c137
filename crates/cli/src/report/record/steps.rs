//! A bounded record over time, in steps of equal length.
//!
//! ```text
//!  steps    |0|1|2|3|4|5| ... at most 384, each 10 ms long at first
//!  columns  |  0  |  1  | ... three steps each: the time axis of the heat maps
//! ```
//!
//! When time goes beyond the last step, neighbours are merged and all steps double in length. Code that keeps
//! data by column must then merge columns in pairs, too; [`Steps::reach`] returns how often. The counters of
//! merged steps are added. Of their gauges, those with more memory are kept, so that no peak is lost and the
//! parts belong to the same moment.

/// The maximum number of steps.
pub const STEPS: usize = 384;
/// Steps per column.
pub const COLUMN: usize = 3;
/// The maximum number of columns.
pub const COLUMNS: usize = STEPS / COLUMN;
/// Initial length of a step, ns.
const FIRST_NS: u64 = 10_000_000;

/// Bytes of the tree at one moment. The first five add up to `resident`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// The programs' resident memory.
    pub program: u64,
    /// On standby: evicted and not yet compressed.
    pub standby: u64,
    /// Compressed.
    pub payload: u64,
    /// The rest of memfold's memory, including the supervisor.
    pub overhead: u64,
    /// Unmanaged processes.
    pub others: u64,
    /// The sum of these.
    pub resident: u64,
    /// The programs' logical size.
    pub logical: u64,
    /// The limit.
    pub limit: u64,
}

impl Gauges {
    /// Computes the parts of `resident`. After a fork several processes may count the same pages, so the sum
    /// of the parts may exceed the total. Then the parts are reduced, the program's first.
    pub fn parts(resident: u64, others: u64, overhead: u64, payload: u64, standby: u64) -> Self {
        let mut rest = resident;
        let [others, overhead, payload, standby] = [others, overhead, payload, standby].map(|part| {
            let part = part.min(rest);
            rest -= part;
            part
        });
        Gauges { program: rest, standby, payload, overhead, others, resident, ..Gauges::default() }
    }
}

/// Counters, or their growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Faults on compressed pages.
    pub faults: u64,
    /// Pages restored from standby.
    pub rescued: u64,
    /// Pages compressed.
    pub compressed: u64,
    /// Time during which threads waited for memfold, ns.
    pub stalled_ns: u64,
    /// Time during which threads waited for room, ns.
    pub throttled_ns: u64,
}

impl Counts {
    fn with(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Counts {
            faults: join(self.faults, other.faults),
            rescued: join(self.rescued, other.rescued),
            compressed: join(self.compressed, other.compressed),
            stalled_ns: join(self.stalled_ns, other.stalled_ns),
            throttled_ns: join(self.throttled_ns, other.throttled_ns),
        }
    }

    /// The growth since `before`.
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn part(self, of: u64, all: u64) -> Self {
        self.with(self, |value, _| (u128::from(value) * u128::from(of) / u128::from(all.max(1))) as u64)
    }
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// None if no sample was taken.
    pub gauges: Option<Gauges>,
    /// The growth of the counters during the step.
    pub counts: Counts,
}

/// The record.
#[derive(Debug)]
pub struct Steps {
    step_ns: u64,
    steps: Vec<Step>,
}

impl Steps {
    /// An empty record.
    pub fn new() -> Self {
        Steps { step_ns: FIRST_NS, steps: Vec::with_capacity(STEPS) }
    }

    /// Makes sure that a step for this time exists. Returns how often columns must be merged in pairs.
    pub fn reach(&mut self, at_ns: u64) -> u32 {
        let mut merged = 0;
        while at_ns / self.step_ns >= STEPS as u64 {
            let pairs = self.steps.chunks(2).map(|pair| pair.iter().skip(1).fold(pair[0], join));
            self.steps = pairs.collect();
            self.steps.reserve_exact(STEPS - self.steps.len());
            self.step_ns *= 2;
            merged += 1;
        }
        let count = (at_ns / self.step_ns) as usize + 1;
        if self.steps.len() < count {
            self.steps.resize(count, Step::default());
        }
        merged
    }

    /// The column of the last step.
    pub fn column(&self) -> usize {
        self.steps.len().saturating_sub(1) / COLUMN
    }

    /// Adds the current gauges, and the counters' growth since `since_ns`. `reach` must have been called for
    /// this time.
    pub fn add(&mut self, since_ns: u64, at_ns: u64, gauges: Gauges, counts: Counts) {
        let now = Step { gauges: Some(gauges), counts: Counts::default() };
        let last = (at_ns / self.step_ns) as usize;
        self.steps[last] = join(self.steps[last], &now);
        self.spread(since_ns, at_ns, counts);
    }

    /// Adds what happened at unknown moments between two times: evenly. `reach` must have been called for the
    /// later one.
    pub fn spread(&mut self, since_ns: u64, at_ns: u64, counts: Counts) {
        // A moment on the border of two steps is the end of the first one.
        let last = (at_ns.saturating_sub(u64::from(at_ns > since_ns)) / self.step_ns) as usize;
        let all = at_ns.saturating_sub(since_ns);
        let mut done = Counts::default();
        for index in (since_ns.min(at_ns) / self.step_ns) as usize..=last {
            let end = ((index as u64 + 1) * self.step_ns).min(at_ns);
            let until = if index == last { counts } else { counts.part(end - since_ns, all) };
            self.steps[index].counts = self.steps[index].counts.with(until.since(done), |a, b| a + b);
            done = until;
        }
    }

    /// The record so far, in order of time; a step without a sample repeats the one before.
    pub fn steps(&self) -> Vec<(Gauges, Counts)> {
        let mut before = self.steps.iter().find_map(|step| step.gauges).unwrap_or_default();
        let held = |step: &Step| {
            before = step.gauges.unwrap_or(before);
            (before, step.counts)
        };
        self.steps.iter().map(held).collect()
    }

    /// Length of a step.
    pub fn step_seconds(&self) -> f64 {
        self.step_ns as f64 / 1e9
    }
}

fn join(a: Step, b: &Step) -> Step {
    let gauges = match (a.gauges, b.gauges) {
        (Some(a), Some(b)) => {
            let larger = if b.resident > a.resident { b } else { a };
            Some(Gauges { logical: a.logical.max(b.logical), ..larger })
        }
        (a, b) => a.or(b),
    };
    Step { gauges, counts: a.counts.with(b.counts, |a, b| a + b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_add_up_to_more() {
        let parts = Gauges::parts(100, 10, 20, 30, 15);
        assert_eq!((parts.program, parts.standby), (25, 15));
        let cut = Gauges::parts(100, 10, 20, 80, 15);
        assert_eq!((cut.others, cut.overhead, cut.payload, cut.standby, cut.program), (10, 20, 70, 0, 0));
    }

    #[test]
    fn bounded_and_nothing_is_lost() {
        let (mut steps, mut merges, mut sums) = (Steps::new(), 0, Counts::default());
        let mut before = 0;
        for i in 1..60_000u64 {
            // Sampled at uneven intervals for a minute and a half.
            let at = before + 1_000_000 + i % 7 * 317_001;
            let counts = Counts { faults: i % 5, stalled_ns: i * 7, ..Counts::default() };
            let resident = if i == 33_333 { 1 << 40 } else { i };
            merges += steps.reach(at);
            steps.add(before, at, Gauges { resident, logical: i, ..Gauges::default() }, counts);
            sums = sums.with(counts, |a, b| a + b);
            before = at;
        }
        let all = steps.steps();
        assert!(all.len() <= STEPS && all.len() > STEPS / 2, "{}", all.len());
        assert_eq!(steps.step_seconds(), 0.01 * f64::from(1 << merges));
        assert_eq!(steps.column(), (all.len() - 1) / COLUMN);
        let counted = all.iter().fold(Counts::default(), |sum, (_, counts)| sum.with(*counts, |a, b| a + b));
        assert_eq!(counted, sums);
        assert_eq!(all.iter().map(|(gauges, _)| gauges.resident).max(), Some(1 << 40));
        assert_eq!(all.iter().map(|(gauges, _)| gauges.logical).max(), Some(59_999));
    }

    #[test]
    fn a_long_look_is_spread() {
        let mut steps = Steps::new();
        steps.reach(45_000_000);
        let counts = Counts { faults: 8, ..Counts::default() };
        steps.add(5_000_000, 45_000_000, Gauges { resident: 1, ..Gauges::default() }, counts);
        let faults: Vec<u64> = steps.steps().iter().map(|(_, counts)| counts.faults).collect();
        assert_eq!(faults, [1, 2, 2, 2, 1]);
        assert!(steps.steps().iter().all(|(gauges, _)| gauges.resident == 1));
    }
}
