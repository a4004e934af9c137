//! Watches how many more tasks the tree can have, according to `pids.max` of its cgroup and the cgroups above
//! it. When the tree comes near this limit, the level of scarcity rises, and memfold ends its own threads,
//! those of the smallest processes first (`memfold_shared::near`). A process of the tree that cannot start a
//! thread or a process raises the level, too.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_proc::{cgroup, number};

/// The time between two checks.
const LOOKS: Duration = Duration::from_millis(50);
/// How long a level lasts before it falls by one.
const HOLDS: Duration = Duration::from_secs(1);
/// The limit is near when less than 1/PART of it is left, or fewer than FEW tasks.
const PART: u64 = 8;
const FEW: u64 = 8;

/// Watches the limits.
pub struct Pids {
    /// The directories of cgroups that have such a limit.
    limited: Vec<PathBuf>,
    next: Instant,
    near: bool,
    /// The level at the last check, and when it falls by one.
    level: u32,
    lowers: Instant,
}

impl Pids {
    /// Finds the limits that apply to this process, and so to the tree.
    pub fn new(now: Instant) -> Self {
        let limited = cgroup::of_pids()
            .into_iter()
            .filter(|directory| number::<u64>(directory.join("pids.max")).is_some())
            .collect();
        Self { limited, next: now, near: false, level: 0, lowers: now }
    }

    /// Publishes how scarce tasks are.
    pub fn tell(&mut self, now: Instant, level: &AtomicU32) {
        let least = u32::from(self.are_near(now));
        let before = level.load(Relaxed);
        if before <= least || before > self.level {
            self.lowers = now + HOLDS;
            level.fetch_max(least, Relaxed);
        } else if now >= self.lowers {
            self.lowers = now + HOLDS;
            // A process may have raised the level just now.
            let _ = level.compare_exchange(before, before - 1, Relaxed, Relaxed);
        }
        self.level = level.load(Relaxed);
    }

    /// Whether hardly any more tasks are possible.
    fn are_near(&mut self, now: Instant) -> bool {
        if now >= self.next {
            self.next = now + LOOKS;
            let mut limits = self.limited.iter().filter_map(|directory| limit(directory));
            self.near = limits.any(|(most, now)| is_near(most, now));
        }
        self.near
    }
}

/// The most tasks of a cgroup, and how many there are.
fn limit(directory: &Path) -> Option<(u64, u64)> {
    number(directory.join("pids.max")).zip(number(directory.join("pids.current")))
}

/// How many more tasks the cgroups allow, if those are so few that memfold's own threads may have to end; and
/// below which number that happens.
pub fn few_left() -> Option<(u64, u64)> {
    // The supervisor and a process with its threads need some, too.
    let are_few = |(most, now): &(u64, u64)| is_near(*most, now + FEW);
    let limits = cgroup::of_pids().into_iter().filter_map(|directory| limit(&directory));
    limits.filter(are_few).map(|(most, now)| (most.saturating_sub(now), few(most))).min()
}

fn is_near(most: u64, now: u64) -> bool {
    most.saturating_sub(now) < few(most)
}

fn few(most: u64) -> u64 {
    (most / PART).max(FEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_others_have_raised_goes_down_step_by_step() {
        let (begin, level) = (Instant::now(), AtomicU32::new(0));
        let mut pids = Pids { limited: vec![], next: begin, near: false, level: 0, lowers: begin };
        pids.tell(begin, &level);
        level.store(3, Relaxed);
        let levels = [500, 1400, 1501, 2000, 2502, 3503, 4504].map(|ms| {
            pids.tell(begin + Duration::from_millis(ms), &level);
            level.load(Relaxed)
        });
        assert_eq!(levels, [3, 3, 2, 2, 1, 0, 0]);
    }

    #[test]
    fn a_limit_is_near_when_few_more_tasks_may_be() {
        assert!(!is_near(64, 50) && is_near(64, 57) && is_near(64, 70));
        assert!(!is_near(1000, 800) && is_near(1000, 900));
    }
}
