//! Finds the cgroups of this process, version 1 or 2, and their memory limits.
//!
//! A cgroup's path is relative to the root of its hierarchy; a mount shows a part of that hierarchy at some
//! place. In a container the path may lie outside the mount; then only the mount's own root is known.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::mounts::{self, Mount};
use crate::real::read_to_string;
use crate::{field, number};

/// The memory cgroup of a process.
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

/// Finds the memory cgroup of a process, given by its id or `self`.
pub(crate) fn of(process: &str) -> Option<Cgroup> {
    let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    find(&groups, std::fs::read("/proc/self/mountinfo").ok()?)
}

/// Directories of the cgroups in which this process's tasks are counted: its own and its ancestors.
pub fn of_pids() -> Vec<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let found = place_of("pids", &groups, &mounts::all());
    found.map_or(Vec::new(), |(_, directory, top)| levels(&directory, &top).map(Path::to_path_buf).collect())
}

/// A directory and the visible ones above it.
fn levels<'a>(directory: &'a Path, top: &'a Path) -> impl Iterator<Item = &'a Path> {
    directory.ancestors().take_while(move |directory| directory.starts_with(top))
}

/// Finds the memory cgroup in the contents of `cgroup` and `mountinfo`.
pub(crate) fn find(groups: &str, mountinfo: impl AsRef<[u8]>) -> Option<Cgroup> {
    let mounts: Vec<Mount> = mounts::parse(mountinfo.as_ref()).collect();
    let (version, directory, top) = place_of("memory", groups, &mounts)?;
    let mut group = Cgroup { version, directory, top, limit: None };
    group.limit = group.limit_now();
    Some(group)
}

/// The version, the directory and the mount point of the cgroup for this controller.
fn place_of(controller: &str, groups: &str, mounts: &[Mount]) -> Option<(u8, PathBuf, PathBuf)> {
    let kind = |kind: &'static str| mounts.iter().filter(move |mount| mount.kind == kind.as_bytes());
    let version_1 = path_of(controller, groups).zip(kind("cgroup").find(|mount| mount.has(controller)));
    let version_2 = || path_of("", groups).zip(kind("cgroup2").next());
    let (version, (path, mount)) =
        version_1.map(|found| (1, found)).or_else(|| version_2().map(|found| (2, found)))?;
    let point = PathBuf::from(OsStr::from_bytes(&mount.place));
    Some((version, directory_of(&mount.root, &point, path), point))
}

/// The path in a version 1 controller's hierarchy, or in the version 2 hierarchy if the name is empty.
pub(crate) fn path_of<'a>(controller: &str, groups: &'a str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(path)
    })
}

fn directory_of(root: &[u8], point: &Path, path: &str) -> PathBuf {
    let inside = if root == b"/" { Some(path.as_bytes()) } else { path.as_bytes().strip_prefix(root) };
    match inside {
        // "/.." appears when the cgroup lies outside this process's cgroup namespace.
        Some(inside) if !inside.starts_with(b"/..") => {
            let inside =
                inside.iter().position(|byte| *byte != b'/').map_or(&[][..], |first| &inside[first..]);
            let directory = point.join(OsStr::from_bytes(inside));
            if directory.is_dir() { directory } else { point.to_owned() }
        }
        _ => point.to_owned(),
    }
}

impl Cgroup {
    /// The lowest limit now in force.
    pub fn limit_now(&self) -> Option<u64> {
        match self.version {
            1 => limit_1(&self.directory),
            _ => limit_2(&self.directory, &self.top),
        }
    }

    /// Its directory and those of its visible ancestors.
    pub fn levels(&self) -> impl Iterator<Item = &Path> {
        levels(&self.directory, &self.top)
    }
}

/// Version 1 states the lowest limit of the whole path.
fn limit_1(directory: &Path) -> Option<u64> {
    let text = read_to_string(directory.join("memory.stat")).ok()?;
    let bytes: u64 = field(&text, "hierarchical_memory_limit ")?.parse().ok()?;
    // "No limit" is the largest number of whole pages that fits.
    (bytes < 1 << 62).then_some(bytes)
}

fn limit_2(directory: &Path, top: &Path) -> Option<u64> {
    levels(directory, top).filter_map(|level| number(level.join("memory.max"))).min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
            find("0::/user.slice/app.slice/shell\n", mounts("cgroup2", "/", top.path(), "nsdelegate"));
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
}
