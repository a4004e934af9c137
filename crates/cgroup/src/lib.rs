//! The memory cgroup of this process, version 1 or 2: its limit, and its directory. Also how much memory is
//! free (`free.rs`).
//!
//! A cgroup's path is relative to the root of its hierarchy; a mount shows a part of that hierarchy at some
//! place. In a container the path may lie outside the mount; then only the mount's own root is known.

mod free;

use std::path::{Path, PathBuf};

pub use free::{Room, rooms};

/// The memory cgroup of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// 1 or 2.
    pub version: u8,
    /// Its directory.
    pub directory: PathBuf,
    /// The highest visible directory above it: the mount point of the hierarchy.
    pub top: PathBuf,
    /// The lowest limit of it and its ancestors, in bytes.
    pub limit: Option<u64>,
}

/// Finds the memory cgroup of this process.
pub fn own() -> Option<Cgroup> {
    of("self")
}

fn of(process: &str) -> Option<Cgroup> {
    let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    find(&groups, &mounts)
}

/// Directories of the cgroups in which this process's tasks are counted: its own and its ancestors.
pub fn of_pids() -> impl Iterator<Item = PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then(|| path.to_owned())
        })
    };
    let version1 = path_of(&|controllers| controllers.split(',').any(|c| c == "pids"))
        .zip(mount_of(&mounts, "cgroup", "pids"));
    let found = version1.or_else(|| path_of(&str::is_empty).zip(mount_of(&mounts, "cgroup2", "")));
    let found = found.map(|(path, mount)| (directory_of(&mount, &path), mount.point));
    found.into_iter().flat_map(|(directory, top)| {
        let below = move |path: &PathBuf| path.starts_with(&top);
        directory.ancestors().map(Path::to_path_buf).take_while(below).collect::<Vec<_>>()
    })
}

struct Mount {
    root: String,
    point: PathBuf,
}

fn find(groups: &str, mounts: &str) -> Option<Cgroup> {
    let entry = |wanted: &dyn Fn(&str, &str) -> bool| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            wanted(number, controllers).then(|| path.to_owned())
        })
    };
    let version1 = entry(&|_, controllers| controllers.split(',').any(|c| c == "memory"));
    if let Some((path, mount)) = version1.zip(mount_of(mounts, "cgroup", "memory")) {
        let directory = directory_of(&mount, &path);
        let limit = limit_1(&directory);
        return Some(Cgroup { version: 1, directory, top: mount.point, limit });
    }
    let path = entry(&|number, controllers| number == "0" && controllers.is_empty())?;
    let mount = mount_of(mounts, "cgroup2", "")?;
    let directory = directory_of(&mount, &path);
    let limit = limit_2(&directory, &mount.point);
    Some(Cgroup { version: 2, directory, top: mount.point, limit })
}

/// The first mount of this type, with this option unless it is empty.
fn mount_of(mounts: &str, kind: &str, option: &str) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        // id parent major:minor ROOT POINT options [optional fields] - TYPE source OPTIONS
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (this_kind, options) = (right.next()?, right.nth(1)?);
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let fits = this_kind == kind && (option.is_empty() || options.split(',').any(|o| o == option));
        fits.then(|| Mount { root: unescape(root), point: unescape(point).into() })
    })
}

/// Spaces and the like are written as octal numbers.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn directory_of(mount: &Mount, path: &str) -> PathBuf {
    let inside = if mount.root == "/" { Some(path) } else { path.strip_prefix(mount.root.as_str()) };
    match inside {
        // "/.." appears when the cgroup lies outside this process's cgroup namespace.
        Some(inside) if !inside.starts_with("/..") => {
            let directory = mount.point.join(inside.trim_start_matches('/'));
            if directory.is_dir() { directory } else { mount.point.clone() }
        }
        _ => mount.point.clone(),
    }
}

impl Cgroup {
    /// The lowest limit at this moment.
    pub fn limit_now(&self) -> Option<u64> {
        match self.version {
            1 => limit_1(&self.directory),
            _ => limit_2(&self.directory, &self.top),
        }
    }

    /// Its directory, and those of its ancestors.
    pub fn levels(&self) -> impl Iterator<Item = &Path> {
        self.directory.ancestors().take_while(|directory| directory.starts_with(&self.top))
    }
}

/// In version 1 the file contains the lowest limit of the whole path.
fn limit_1(directory: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(directory.join("memory.stat")).ok()?;
    let bytes: u64 = text.lines().find_map(|l| l.strip_prefix("hierarchical_memory_limit "))?.parse().ok()?;
    // "No limit" is the largest number of whole pages that fits.
    (bytes < 1 << 62).then_some(bytes)
}

fn limit_2(directory: &Path, top: &Path) -> Option<u64> {
    directory
        .ancestors()
        .take_while(|d| d.starts_with(top))
        .filter_map(|d| std::fs::read_to_string(d.join("memory.max")).ok()?.trim().parse::<u64>().ok())
        .min()
}

/// Physical memory in bytes.
pub fn physical_memory() -> Option<u64> {
    field_kib(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// The value, in bytes, of a line like `Anonymous:    120 kB`.
pub fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let number = line.split_ascii_whitespace().next()?;
    number.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The memory that percentages refer to: physical memory, or the cgroup's limit if that is lower.
pub fn memory_that_counts() -> Option<u64> {
    memory_that_counts_for(None)
}

/// The same for another process.
pub fn memory_that_counts_for(pid: Option<i32>) -> Option<u64> {
    let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
    let limit = of(&process).and_then(|group| group.limit);
    Some(physical_memory()?.min(limit.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mounts(kind: &str, root: &str, point: &Path, options: &str) -> String {
        format!(
            "23 1 0:5 / /proc rw - proc proc rw\n35 31 0:32 {root} {} rw,relatime shared:9 - {kind} x rw,{options}\n",
            point.display()
        )
    }

    #[test]
    fn version_2_takes_the_least_limit_on_the_way_up() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("user.slice/app.slice/shell");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("memory.max"), "max\n").unwrap();
        fs::write(top.path().join("user.slice/app.slice/memory.max"), "300000\n").unwrap();
        fs::write(top.path().join("user.slice/memory.max"), "500000\n").unwrap();
        let found =
            find("0::/user.slice/app.slice/shell\n", &mounts("cgroup2", "/", top.path(), "nsdelegate"));
        assert_eq!(
            found,
            Some(Cgroup { version: 2, directory: deep, top: top.path().into(), limit: Some(300_000) })
        );
    }

    #[test]
    fn version_1_beside_an_empty_version_2() {
        let top = tempfile::tempdir().unwrap();
        let own = top.path().join("job");
        fs::create_dir_all(&own).unwrap();
        let stat = |limit: u64| {
            fs::write(own.join("memory.stat"), format!("rss 5\nhierarchical_memory_limit {limit}\n"))
        };
        let groups = "4:cpu,memory:/job\n1:cpu:/\n0::/\n";
        stat(1 << 30).unwrap();
        let mounts = mounts("cgroup", "/", top.path(), "memory");
        let found = find(groups, &mounts).unwrap();
        assert_eq!((found.version, found.limit), (1, Some(1 << 30)));
        stat(9_223_372_036_854_771_712).unwrap();
        assert_eq!(find(groups, &mounts).unwrap().limit, None);
    }

    #[test]
    fn a_container_that_sees_a_part() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("memory.max"), "4096000\n").unwrap();
        let inner = top.path().join("svc");
        fs::create_dir_all(&inner).unwrap();
        let bind = mounts("cgroup2", "/docker/abc", top.path(), "x");
        let in_part = find("0::/docker/abc/svc\n", &bind).unwrap();
        assert_eq!((in_part.directory.as_path(), in_part.limit), (inner.as_path(), Some(4_096_000)));
        for outside in ["0::/../../other\n", "0::/elsewhere\n"] {
            let found = find(outside, &bind).unwrap();
            assert_eq!((found.directory.as_path(), found.limit), (top.path(), Some(4_096_000)), "{outside}");
        }
    }

    #[test]
    fn no_cgroup_at_all() {
        assert_eq!(find("", ""), None);
        assert_eq!(find("0::/\n", "23 1 0:5 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn this_machine() {
        let physical = physical_memory().unwrap();
        let counts = memory_that_counts().unwrap();
        assert!(counts > 16 << 20 && counts <= physical);
    }
}
