//! How many processes the kernel has killed because memory ran out.
//!
//! ```text
//!   version 2     memory.events        oom_kill, in a cgroup and everything below it
//!   version 1     memory.oom_control   oom_kill, in this cgroup alone (Linux 4.13)
//!   the machine   /proc/vmstat         oom_kill, in any cgroup and in none
//! ```

use std::fs::read_to_string;
use std::path::Path;

use crate::cgroup::{self, Cgroup};
use crate::field;

/// The numbers at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kills {
    /// In the memory cgroup of this process; `None` if that is unknown.
    pub in_cgroup: Option<u64>,
    /// On the whole machine.
    pub on_machine: Option<u64>,
}

impl Kills {
    /// The numbers now.
    pub fn now() -> Self {
        let vmstat = read_to_string("/proc/vmstat").ok();
        Self {
            in_cgroup: cgroup::own().and_then(|group| of_group(&group)),
            on_machine: vmstat.and_then(|text| count(&text)),
        }
    }

    /// What was added since `before`. Nothing, where a number was or is unknown.
    pub fn since(self, before: Self) -> Self {
        let added = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            in_cgroup: added(self.in_cgroup, before.in_cgroup),
            on_machine: added(self.on_machine, before.on_machine),
        }
    }
}

fn of_group(group: &Cgroup) -> Option<u64> {
    let file = if group.version == 1 { "memory.oom_control" } else { "memory.events" };
    in_file(&group.directory.join(file))
}

fn in_file(path: &Path) -> Option<u64> {
    count(&read_to_string(path).ok()?)
}

fn count(text: &str) -> Option<u64> {
    field(text, "oom_kill ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel() {
        assert_eq!(count("low 0\nhigh 3\nmax 7\noom 2\noom_kill 4\noom_group_kill 1\n"), Some(4));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"), Some(5));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn only_what_is_known_is_added() {
        let kills = |in_cgroup, on_machine| Kills { in_cgroup, on_machine };
        assert_eq!(kills(Some(3), Some(9)).since(kills(Some(1), Some(9))), kills(Some(2), Some(0)));
        assert_eq!(kills(Some(3), None).since(kills(None, Some(9))), kills(None, None));
    }

    #[test]
    fn this_machine() {
        // Linux 4.13 and later.
        assert!(Kills::now().on_machine.is_some());
    }
}
