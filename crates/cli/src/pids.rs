//! How many more tasks the tree may have: `pids.max` of its cgroup and of those above it. When it comes near,
//! memfold's own threads give way.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cgroup;

/// Looks are so far apart.
const LOOKS: Duration = Duration::from_millis(50);
/// Near is one part in this many of what may be, or so many tasks.
const PART: u64 = 8;
const FEW: u64 = 8;

/// Watches the limits.
pub struct Pids {
    /// Directories of cgroups with such a limit.
    limited: Vec<PathBuf>,
    next: Instant,
    near: bool,
}

impl Pids {
    /// Finds the limits that hold for this process, and so for the tree.
    pub fn new(now: Instant) -> Self {
        let limited = cgroup::of_pids().filter(|directory| number(directory, "pids.max").is_some()).collect();
        Self { limited, next: now, near: false }
    }

    /// Whether there is hardly room for more tasks.
    pub fn are_near(&mut self, now: Instant) -> bool {
        if now >= self.next {
            self.next = now + LOOKS;
            self.near = self.limited.iter().any(|directory| {
                let numbers = number(directory, "pids.max").zip(number(directory, "pids.current"));
                numbers.is_some_and(|(most, now)| is_near(most, now))
            });
        }
        self.near
    }
}

fn is_near(most: u64, now: u64) -> bool {
    most.saturating_sub(now) < (most / PART).max(FEW)
}

fn number(directory: &std::path::Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_when_few_more_tasks_may_be() {
        assert!(!is_near(64, 50) && is_near(64, 57) && is_near(64, 70));
        assert!(!is_near(1000, 800) && is_near(1000, 900));
    }
}
