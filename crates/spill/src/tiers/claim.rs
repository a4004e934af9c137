//! Who uses an export: two runs on one would write over each other.
//!
//! ```text
//!   unit 0   memfold spills here / run RUN / N      N grows every second; zeros in the rest, and when the run has ended
//! ```
//!
//! Who finds a claim waits for as long as its run would take to renew it. A run that finds another's claim in place of its own writes nothing more.

use std::time::{Duration, Instant};

/// A claim is renewed so often, and one that is not for so long is nobody's.
pub const RENEW: Duration = Duration::from_secs(1);
pub const STALE: Duration = Duration::from_secs(4);
/// One that was written is looked at again after so long: somebody may have written his at the same time.
pub const SETTLE: Duration = Duration::from_millis(50);

const MAGIC: &str = "memfold spills here\nrun ";

/// A run's own.
#[derive(Debug)]
pub struct Claim {
    run: String,
    count: u64,
    /// When it was written last.
    pub renewed: Instant,
}

impl Claim {
    /// Of that run, not written yet.
    pub fn new(run: &str) -> Self {
        Claim { run: run.to_owned(), count: 0, renewed: Instant::now() }
    }

    /// What is to be written next.
    pub fn next(&mut self, unit: &mut [u8]) {
        self.count += 1;
        let text = format!("{MAGIC}{}\n{}\n", self.run, self.count);
        unit.fill(0);
        unit[..text.len()].copy_from_slice(text.as_bytes());
    }

    /// Whether that is another run's.
    pub fn is_anothers(&self, unit: &[u8]) -> bool {
        found(unit).is_some_and(|text| {
            text.lines().nth(1).and_then(|line| line.strip_prefix("run ")) != Some(&self.run)
        })
    }
}

/// A claim's text, if there is one.
pub fn found(unit: &[u8]) -> Option<&str> {
    let end = unit.iter().position(|byte| *byte == 0)?;
    str::from_utf8(&unit[..end]).ok().filter(|text| text.starts_with(MAGIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_its_runs_own() {
        let mut unit = [9; 4096];
        let (mut ours, theirs) = (Claim::new("12-ab"), Claim::new("12-a"));
        assert_eq!((found(&unit), found(&[0; 4096])), (None, None));
        ours.next(&mut unit);
        let first = found(&unit).unwrap().to_owned();
        assert!(!ours.is_anothers(&unit) && theirs.is_anothers(&unit));
        ours.next(&mut unit);
        assert_ne!(found(&unit), Some(first.as_str()));
        assert!(!ours.is_anothers(&[0; 4096]), "of a server that has forgotten");
    }
}
