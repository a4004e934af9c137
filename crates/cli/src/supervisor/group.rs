//! A memory cgroup for the tree: it measures resident memory, each page once, and never limits anything.
//!
//! It is a child of the cgroup that memfold was started in, so every limit there stays in force. Version 2
//! allows such children only if the parent holds no processes (in practice the root). Otherwise no cgroup is
//! made, and the caller measures in another way. Entering a cgroup makes the kernel wait for a grace period
//! of 10 to 25 ms, so memfold makes one only on request.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use memfold_proc::cgroup::Cgroup;
use memfold_proc::field;

const PREFIX: &str = "memfold-";

/// The cgroup of one tree; removed when dropped.
pub struct Group {
    directory: PathBuf,
    parent: PathBuf,
    /// The line of `memory.stat` that counts private anonymous memory.
    line: &'static str,
}

impl Group {
    /// Makes a cgroup below `parent`.
    pub fn new(parent: &Cgroup) -> io::Result<Self> {
        sweep(&parent.directory);
        let line = if parent.version == 1 { "total_rss " } else { "anon " };
        let directory = parent.directory.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&directory)?;
        let group = Self { directory, parent: parent.directory.clone(), line };
        if group.resident().is_none() {
            return Err(io::Error::other("the memory controller is not available in a child of this cgroup"));
        }
        Ok(group)
    }

    /// The file through which a process enters.
    pub fn entrance(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.directory.join("cgroup.procs"))
    }

    /// Private anonymous memory of all processes in the cgroup, in bytes.
    pub fn resident(&self) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join("memory.stat")).ok()?;
        field(&text, self.line)?.parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.directory, &self.parent);
    }
}

/// Removes cgroups that killed supervisors left behind.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|n| n.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path(), parent);
        }
    }
}

/// Removes a cgroup, after moving surviving daemons back to the cgroup that memfold came from. A daemon that
/// forks meanwhile may need another round.
fn remove(directory: &Path, parent: &Path) {
    for _ in 0..10 {
        if fs::remove_dir(directory).is_ok() {
            return;
        }
        let members = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = fs::write(parent.join("cgroup.procs"), pid);
        }
    }
}
