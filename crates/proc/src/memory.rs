//! Total and available memory of the machine, and of each cgroup with a limit that counts this process.
//!
//! ```text
//!   the machine     MemAvailable of MemTotal                        /proc/meminfo
//!   each level      limit - use + reclaimable pages of files        version 2: memory.max, .high, .current
//!                                                                   version 1: memory.limit_in_bytes,
//!                                                                              memory.usage_in_bytes
//! ```
//!
//! An unknown limit never counts as "no limit": if there may be limited cgroups that this process cannot see,
//! nothing is known.

use std::path::Path;
use std::sync::Mutex;

use crate::cgroup::{self, Cgroup, find, path_of};
use crate::real::read_to_string;
use crate::{field, field_kib, number};

/// Physical memory in bytes.
pub fn physical() -> Option<u64> {
    field_kib(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// The memory that percentages refer to: physical memory, or the cgroup's limit if that is lower.
pub fn usable() -> Option<u64> {
    usable_by(None)
}

/// The same for another process, or for this one if `pid` is `None`.
pub fn usable_by(pid: Option<i32>) -> Option<u64> {
    let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
    let limit = cgroup::of(&process).and_then(|group| group.limit);
    Some(physical()?.min(limit.unwrap_or(u64::MAX)))
}

/// One bound on the memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that may still be used.
    pub available: u64,
    /// The total that `available` is a part of.
    pub total: u64,
}

/// All bounds: the machine's, and those of each cgroup with a limit, from this process's own upwards. `None`
/// if they are unknown.
pub fn rooms() -> Option<Vec<Room>> {
    let mut rooms = vec![machine(&read_to_string("/proc/meminfo").ok()?)?];
    if let Some(group) = own_group()? {
        rooms.extend(of_group(&group)?);
    }
    Some(rooms)
}

fn machine(meminfo: &str) -> Option<Room> {
    let (available, total) = (field_kib(meminfo, "MemAvailable:")?, field_kib(meminfo, "MemTotal:")?);
    Some(Room { available, total })
}

/// The contents of `/proc/self/cgroup`, and the cgroup that they name.
type Known = (String, Option<Cgroup>);

/// The process's memory cgroup; `Some(None)` if it is in none, `None` if that is unknown. There may be
/// hundreds of mounts, so they are read again only when the process has moved to another cgroup or its
/// directory is no longer visible.
fn own_group() -> Option<Option<Cgroup>> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

    // A kernel without cgroups has no such file.
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    // A forked child may have inherited the lock held.
    let mut known = KNOWN.try_lock().ok();
    if let Some(Some((before, group))) = known.as_deref()
        && *before == groups
        && group.as_ref().is_none_or(is_seen)
    {
        return Some(group.clone());
    }
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let group = group_of(&groups, mounts, &read_to_string("/proc/cgroups").unwrap_or_default())?;
    if let Some(known) = known.as_deref_mut() {
        *known = Some((groups, group.clone()));
    }
    Some(group)
}

/// Every cgroup's directory contains this file.
fn is_seen(group: &Cgroup) -> bool {
    group.directory.join("cgroup.procs").exists()
}

fn group_of(groups: &str, mounts: impl AsRef<[u8]>, hierarchies: &str) -> Option<Option<Cgroup>> {
    let in_version_1 = path_of("memory", groups).is_some();
    let found = find(groups, mounts).filter(|group| (group.version == 1) == in_version_1 && is_seen(group));
    if found.is_some() || groups.is_empty() {
        return Some(found);
    }
    // The fields are name, hierarchy, number of groups, enabled. If only the root cgroup exists, there is no
    // limit.
    let memory = field(hierarchies, "memory\t")?;
    let mut fields = memory.split('\t').skip(1).map(|number| number.parse::<u32>().ok());
    let (count, enabled) = (fields.next()??, fields.next()??);
    (count <= 1 || enabled == 0).then_some(None)
}

/// Files with a limit, and with the usage that counts towards it.
const VERSION_1: [(&str, &str); 2] = [
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    // Including swap, where that is counted.
    ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
];
/// Above `memory.high` the kernel throttles the processes.
const VERSION_2: [(&str, &str); 2] = [("memory.max", "memory.current"), ("memory.high", "memory.current")];

/// The bounds of a cgroup and of its ancestors; `None` if there is a limit whose usage cannot be read.
fn of_group(group: &Cgroup) -> Option<Vec<Room>> {
    let mut rooms = Vec::new();
    let kinds = if group.version == 1 { VERSION_1 } else { VERSION_2 };
    for directory in group.levels() {
        let limits = kinds.map(|(limit, usage)| (limit_in(directory, limit), usage));
        // In version 1 a cgroup's own figure includes the limits of its ancestors, which may be invisible in
        // a container.
        let is_own = directory == group.directory;
        let above = if is_own && group.version == 1 { group.limit_now() } else { None };
        let above = above.filter(|least| limits[0].0.is_none_or(|limit| *least < limit));
        for (limit, usage) in limits.into_iter().chain([(above, kinds[0].1)]) {
            let Some(total) = limit else { continue };
            let used: u64 = number(directory.join(usage))?;
            let used = used.saturating_sub(can_go(directory, group.version));
            rooms.push(Room { available: total.saturating_sub(used), total });
        }
    }
    Some(rooms)
}

fn limit_in(directory: &Path, file: &str) -> Option<u64> {
    let bytes = number(directory.join(file))?;
    // Version 1 expresses "no limit" as the largest number of whole pages, version 2 as "max".
    (bytes < 1 << 62).then_some(bytes)
}

/// File pages that were not used recently, and half of the other file pages: the kernel reclaims these before
/// it lets a program fail. Memory of tmpfs is not included.
fn can_go(directory: &Path, version: u8) -> u64 {
    let Ok(stat) = read_to_string(directory.join("memory.stat")) else { return 0 };
    let prefix = if version == 1 { "total_" } else { "" };
    let bytes = |name: &str| {
        field(&stat, &format!("{prefix}{name} ")).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    bytes("inactive_file") + bytes("active_file") / 2
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A cgroup below `top`, with these files.
    fn group(top: &Path, below: &str, files: &[(&str, &str)]) {
        let directory = top.join(below);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("cgroup.procs"), "").unwrap();
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
    }

    fn mounts(kind: &str, point: &Path, options: &str) -> String {
        format!("35 31 0:32 / {} rw - {kind} x rw,{options}\n", point.display())
    }

    #[test]
    fn available_is_what_meminfo_says() {
        let text = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    300 kB\n";
        assert_eq!(machine(text), Some(Room { available: 300 << 10, total: 1000 << 10 }));
        assert_eq!(machine("MemTotal:       1000 kB\nMemFree:         100 kB\n"), None);
    }

    #[test]
    fn each_limited_level_of_version_2_is_a_bound() {
        let top = tempfile::tempdir().unwrap();
        let stat = "anon 5\ninactive_file 300\nactive_file 200\n";
        group(top.path(), "", &[]);
        let limited = [("memory.max", "9000\n"), ("memory.high", "max\n"), ("memory.current", "7000\n")];
        group(top.path(), "a", &limited);
        group(top.path(), "a/b", &[("memory.max", "max\n"), ("memory.current", "6000\n")]);
        let high = [
            ("memory.max", "8000"),
            ("memory.high", "5000"),
            ("memory.current", "1000"),
            ("memory.stat", stat),
        ];
        group(top.path(), "a/b/c", &high);
        let found = group_of("0::/a/b/c\n", mounts("cgroup2", top.path(), "x"), "").unwrap().unwrap();
        let room = |available, total| Room { available, total };
        // 1000 in use, of which 300 and half of 200 can be reclaimed.
        let rooms = [room(7400, 8000), room(4400, 5000), room(2000, 9000)];
        assert_eq!(of_group(&found), Some(rooms.to_vec()));
        // An unreadable usage does not count as zero.
        fs::remove_file(top.path().join("a/memory.current")).unwrap();
        assert_eq!(of_group(&found), None);
    }

    #[test]
    fn version_1_knows_limits_that_the_container_does_not_see() {
        let top = tempfile::tempdir().unwrap();
        let none = "9223372036854771712\n";
        let stat =
            "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 0\nhierarchical_memory_limit 4000\n";
        let files = [
            ("memory.limit_in_bytes", none),
            ("memory.usage_in_bytes", "1500\n"),
            ("memory.memsw.limit_in_bytes", "6000\n"),
            ("memory.memsw.usage_in_bytes", "2500\n"),
            ("memory.stat", stat),
        ];
        group(top.path(), "job", &files);
        let groups = "4:cpu,memory:/job\n0::/\n";
        let found = group_of(groups, mounts("cgroup", top.path(), "memory"), "").unwrap().unwrap();
        let rooms = [Room { available: 3600, total: 6000 }, Room { available: 2600, total: 4000 }];
        assert_eq!(of_group(&found), Some(rooms.to_vec()));
    }

    #[test]
    fn an_invisible_cgroup_is_unknown() {
        let top = tempfile::tempdir().unwrap();
        let version_2 = mounts("cgroup2", top.path(), "x");
        // The hierarchy of the memory controller is not mounted, but another one is.
        assert_eq!(group_of("4:memory:/job\n0::/\n", &version_2, ""), None);
        assert_eq!(group_of("0::/job\n", "", ""), None);
        // The hierarchy is mounted, but the directory is not a cgroup.
        assert_eq!(group_of("0::/\n", &version_2, ""), None);
        // There is no cgroup but the root, the controller is off, or the kernel has no cgroups.
        assert_eq!(group_of("4:memory:/\n", "", "#subsys_name\nmemory\t4\t1\t1\n"), Some(None));
        assert_eq!(group_of("0::/\n", "", "memory\t0\t12\t0\n"), Some(None));
        assert_eq!(group_of("4:memory:/\n", "", "memory\t4\t30\t1\n"), None);
        assert_eq!(group_of("", "", ""), Some(None));
    }

    #[test]
    fn this_machine() {
        let rooms = rooms().unwrap();
        assert!(rooms[0].total > 16 << 20);
        assert!(rooms.iter().all(|room| room.available <= room.total));
        // A second look finds the same files.
        assert_eq!(super::rooms().unwrap().len(), rooms.len());
    }

    #[test]
    fn usable_memory_is_a_part_of_physical_memory() {
        let physical = physical().unwrap();
        let counts = usable().unwrap();
        assert!(counts > 16 << 20 && counts <= physical);
    }
}
