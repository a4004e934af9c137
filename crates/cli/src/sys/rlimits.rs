//! Resource limits (`ulimit`), which are meant for the program and not for its supervisor.
//!
//! The kernel applies them to both: `ulimit -f 8` may prevent memfold from making the page that it shares with
//! the program, `ulimit -n 8` from making the pipe to start it, and `ulimit -t` would end the supervisor of a
//! program that runs for days. So the supervisor raises its own limits as far as it may, and starts the program
//! with the limits that memfold was started with.
//!
//! A hard limit that is too low stays (raising it needs CAP_SYS_RESOURCE). A write beyond the limit of file
//! sizes then fails with an error, because SIGXFSZ, which would kill the process, is blocked. [`hint`]
//! explains the error.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

/// The limits that a supervisor may hit, and their names in `ulimit`.
const RAISED: [(Resource, &str); 7] = [
    (Resource::RLIMIT_AS, "ulimit -v"),
    (Resource::RLIMIT_CPU, "ulimit -t"),
    (Resource::RLIMIT_DATA, "ulimit -d"),
    (Resource::RLIMIT_FSIZE, "ulimit -f"),
    (Resource::RLIMIT_NOFILE, "ulimit -n"),
    (Resource::RLIMIT_NPROC, "ulimit -u"),
    (Resource::RLIMIT_SIGPENDING, "ulimit -i"),
];
/// The number of descriptors is not raised beyond this; a supervisor needs far fewer.
const ENOUGH_FILES: rlim_t = 1024;

/// The limits for the program, as memfold inherited them.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    limits: Vec<(Resource, rlim_t, rlim_t)>,
    /// SIGXFSZ was not blocked, and must be unblocked.
    unblock: bool,
}

impl Inherited {
    /// Raises the limits of this process.
    pub fn raise() -> nix::Result<Self> {
        let raise = |(which, _): (Resource, &str)| {
            let (soft, hard) = getrlimit(which).ok()?;
            let enough = if which == Resource::RLIMIT_NOFILE { ENOUGH_FILES } else { RLIM_INFINITY };
            if soft >= enough {
                return None;
            }
            let raised = setrlimit(which, enough, hard.max(enough))
                .or_else(|_| setrlimit(which, hard.min(enough), hard))
                .is_ok();
            raised.then_some((which, soft, hard))
        };
        let limits = RAISED.into_iter().filter_map(raise).collect();
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&file_size_signal()), Some(&mut before))?;
        Ok(Self { limits, unblock: !before.contains(Signal::SIGXFSZ) })
    }

    /// Restores all limits. Allocates nothing.
    pub fn restore(&self) -> nix::Result<()> {
        self.limits.iter().try_for_each(|(which, soft, hard)| setrlimit(*which, *soft, *hard))?;
        if self.unblock {
            sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&file_size_signal()), None)?;
        }
        Ok(())
    }
}

fn file_size_signal() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGXFSZ);
    set
}

/// A hint at the limit of file sizes, if that prevents writing this many bytes.
pub fn hint(bytes: u64) -> Option<String> {
    let (soft, _) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    (soft < bytes).then(|| {
        format!(
            "files may not be larger than {soft} bytes here (ulimit -f), and memfold may not raise that; start memfold before the limit is set, or with a limit of at least {} KiB",
            bytes.div_ceil(1024)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_and_set_back() {
        // Other tests in this process write files. The hard limit stays as it is, so the limits only rise.
        let (_, hard) = getrlimit(Resource::RLIMIT_CORE).unwrap();
        let before = RAISED.map(|(which, _)| getrlimit(which).unwrap());
        let inherited = Inherited::raise().unwrap();
        for ((which, _), (soft, _)) in RAISED.into_iter().zip(before) {
            assert!(getrlimit(which).unwrap().0 >= soft);
        }
        inherited.restore().unwrap();
        assert_eq!(RAISED.map(|(which, _)| getrlimit(which).unwrap()), before);
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap().1, hard);
    }
}
