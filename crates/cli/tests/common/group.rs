//! Cgroups for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A test's own cgroup, removed on drop.
pub struct Group(pub PathBuf);

impl Group {
    /// Makes a cgroup with this limit below the first of these directories that allows it.
    pub fn limited(below: &[&str], name: &str, (file, limit): (&str, u64)) -> Option<Self> {
        let name = format!("memfold-test-{}-{name}", std::process::id());
        below.iter().find_map(|below| {
            let path = Path::new(below).join(&name);
            let group = std::fs::create_dir(&path).ok().map(|()| Group(path))?;
            let file = group.0.join(file);
            // Outside of a cgroup hierarchy, writing would create the file.
            let is_set = file.exists() && std::fs::write(file, limit.to_string()).is_ok();
            is_set.then_some(group)
        })
    }

    /// The command, started in the group.
    pub fn enter(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let gone = |_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::remove_dir(&self.0).is_ok()
        };
        (0..100).any(gone);
    }
}
