//! Detects a program that has ended but is not gone: some of memfold's threads in it were killed, but have
//! had no CPU time to exit.
//!
//! The kernel reports the end of a process when its last thread is gone. Each of memfold's threads is bound
//! to one CPU. If other threads keep that CPU busy, its exit may take long (up to 100 s on Linux 6.18, beside
//! a program with hundreds of threads that wake each other all the time). By then nothing of the program
//! runs, and its descriptors are closed, so nothing that waits for the program needs to wait for these
//! threads.
//!
//! ```text
//!   first thread: Z, its status known     others: SIGKILL pending, all signals blocked, as memfold's threads have them
//! ```

use std::time::{Duration, Instant};

use memfold_proc::process::{self, Ending};

/// How long to wait for killed threads. Usually they are gone at once.
const PATIENCE: Duration = Duration::from_millis(300);

/// Since when the program has been in this state.
#[derive(Debug, Default)]
pub struct Dying {
    since: Option<Instant>,
}

impl Dying {
    /// How the program has ended, if only killed threads of memfold have been left of it for some time.
    pub fn look(&mut self, program: i32, now: Instant) -> Option<Ending> {
        if !is_dying(program) {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < PATIENCE { None } else { process::ending(program) }
    }
}

fn is_dying(program: i32) -> bool {
    process::stat(program).is_some_and(|stat| stat.state == b'Z' && stat.threads > 1)
        && process::threads(program).filter(|tid| *tid != program).all(|tid| {
            // A thread that has just exited does not count.
            process::signals(program, tid).is_none_or(|signals| signals.is_killed && signals.blocks_all)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn living_and_ended_processes_are_not_dying() {
        let mut dying = Dying::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let later = Instant::now() + 2 * PATIENCE;
        assert_eq!((dying.look(pid, Instant::now()), dying.look(pid, later)), (None, None));
        child.kill().unwrap();
        while !process::has_ended(pid) {
            std::thread::yield_now();
        }
        // A plain zombie is not dying.
        assert_eq!((dying.look(pid, Instant::now()), dying.look(pid, later)), (None, None));
        assert_eq!(process::ending(pid), Some(Ending::Signalled(9)));
        child.wait().unwrap();
        assert_eq!((dying.look(pid, later), process::ending(pid)), (None, None));
    }

    #[test]
    fn signals_of_threads_are_read() {
        let (own, this) = (std::process::id() as i32, nix::unistd::gettid().as_raw());
        for tid in process::threads(own) {
            // Other threads, too, block all signals briefly while the C library starts a thread or a process.
            let signals = process::signals(own, tid);
            let is_fine =
                |signals: &process::Signals| !signals.is_killed && (tid != this || !signals.blocks_all);
            assert!(signals.as_ref().is_none_or(is_fine), "{tid}");
        }
        assert!(process::threads(own).any(|tid| tid == this));
        assert!(!is_dying(own));
    }
}
