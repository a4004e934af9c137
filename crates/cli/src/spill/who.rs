//! The identity of a process. Its id is not enough: another process may have it by now, or the process may
//! have executed another program.

use memfold_proc::process;
use nix::errno::Errno;
use nix::unistd::Pid;

/// A program in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// When the process started.
    start_time: u64,
    /// The start of its first stack, which every exec changes; `None` if the kernel does not reveal it.
    image: Option<u64>,
}

impl Who {
    /// The process that has this id now; `None` if there is none, or it is unknown.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = process::stat(i32::try_from(pid).ok()?)?;
        let image = stat.image.is_known().then_some(stat.image.stack);
        Some(Who { start_time: stat.start_time, image })
    }

    /// Whether this process or program is certainly gone, if `now` has its id.
    pub fn was_before(self, now: Self) -> bool {
        let has_changed = self.image.zip(now.image).is_some_and(|(then, now)| then != now);
        self.start_time != now.start_time || has_changed
    }
}

/// Whether a process has certainly ended. A process that cannot be seen may still exist.
pub fn is_gone(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    let asked = nix::sys::signal::kill(Pid::from_raw(pid), None);
    asked == Err(Errno::ESRCH) || process::stat(pid).is_some() && process::has_ended(pid)
}

/// The children of a process; `None` if the kernel does not reveal them.
pub fn children(pid: u32) -> Option<Vec<u32>> {
    let pid = i32::try_from(pid).ok()?;
    let mut children = Vec::new();
    let is_told = process::children(pid, process::stat(pid)?.threads, &mut children);
    is_told.then(|| children.into_iter().filter_map(|child| u32::try_from(child).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn another_program_is_somebody_else() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; exec sleep 100"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        let wait_for = |name: &str| {
            loop {
                let is_named = process::name(pid as i32).as_deref() == Some(name.as_bytes());
                // During an exec the name changes a moment before the image can be read.
                let who = Who::of(pid).unwrap();
                if is_named && who.image.is_some() {
                    return who;
                }
                std::thread::yield_now();
            }
        };
        let shell = wait_for("sh");
        assert!(!shell.was_before(Who::of(pid).unwrap()));
        drop(child.stdin.take());
        let sleep = wait_for("sleep");
        assert!(shell.was_before(sleep) && shell.start_time == sleep.start_time);
        // An unknown value does not count as a change.
        assert!(!shell.was_before(Who { image: None, ..sleep }));
        assert!(!Who { image: None, ..shell }.was_before(sleep));
        assert!(shell.was_before(Who { start_time: shell.start_time + 1, ..shell }));
        child.kill().unwrap();
        while !is_gone(pid) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_gone(pid) && !is_gone(std::process::id()));
    }
}
