//! A program that has ended, and is not gone: threads of memfold's own are left in it that were killed and do not get a CPU to die on.
//!
//! The kernel tells of a process's end when its last thread is gone. The program's own threads die where they run; memfold's are bound to a CPU each, and on
//! a machine where others take all of that one (seen for up to 100 s, Linux 6.18, beside a program with hundreds of threads that wake each other all the
//! time) their end may take long. Nothing of the program runs any more then, and its descriptors are closed: who waits for it need not wait for them.
//!
//! ```text
//!   first thread: Z, its status known     others: SIGKILL pending, all signals blocked, as memfold's threads have them
//! ```

use std::time::{Duration, Instant};

use crate::procfs;
use crate::sys::Ending;

/// So long threads that were killed are waited for: usually they are gone at once.
const PATIENCE: Duration = Duration::from_millis(300);

/// Looks whether the program is so, and since when.
#[derive(Debug, Default)]
pub struct Dying {
    since: Option<Instant>,
}

impl Dying {
    /// How the program has ended, if all that is left of it are threads of memfold's that were killed some time ago.
    pub fn look(&mut self, program: i32, now: Instant) -> Option<Ending> {
        if !is_dying(program) {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < PATIENCE { None } else { procfs::ending(program) }
    }
}

fn is_dying(program: i32) -> bool {
    procfs::stat(program).is_some_and(|stat| stat.state == b'Z' && stat.threads > 1)
        && procfs::threads(program).into_iter().filter(|tid| *tid != program).all(|tid| {
            // One that is gone by now is none.
            procfs::signals(program, tid).is_none_or(|signals| signals.is_killed && signals.blocks_all)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_or_is_gone_is_not_dying() {
        let mut dying = Dying::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let later = Instant::now() + 2 * PATIENCE;
        assert_eq!((dying.look(pid, Instant::now()), dying.look(pid, later)), (None, None));
        child.kill().unwrap();
        while !procfs::has_ended(pid) {
            std::thread::yield_now();
        }
        // Its parent need only ask.
        assert_eq!((dying.look(pid, Instant::now()), dying.look(pid, later)), (None, None));
        assert_eq!(procfs::ending(pid), Some(Ending::Signalled(9)));
        child.wait().unwrap();
        assert_eq!((dying.look(pid, later), procfs::ending(pid)), (None, None));
    }

    #[test]
    fn signals_of_threads_are_read() {
        let (own, this) = (std::process::id() as i32, nix::unistd::gettid().as_raw());
        for tid in procfs::threads(own) {
            // Others block all signals for a moment where the C library starts a thread or a process.
            let signals = procfs::signals(own, tid);
            let is_fine =
                |signals: &procfs::Signals| !signals.is_killed && (tid != this || !signals.blocks_all);
            assert!(signals.as_ref().is_none_or(is_fine), "{tid}");
        }
        assert!(procfs::threads(own).into_iter().any(|tid| tid == this));
        assert!(!is_dying(own));
    }
}
