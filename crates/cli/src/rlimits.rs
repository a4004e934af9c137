//! Limits of resources (`ulimit`) are meant for the program, not for its supervisor.
//!
//! The kernel applies them to both: with `ulimit -f 8` the page that memfold
//! shares with the program may not be made, with `ulimit -n 8` no pipe to
//! start it, and `ulimit -t` would end the supervisor of a program that runs for
//! days. So the supervisor raises its own limits as far as it may, and the
//! program is started with those that memfold was started with.
//!
//! A limit whose hard value stands in the way stays (raising that needs
//! CAP_SYS_RESOURCE). Then what would pass the limit of file sizes fails with an
//! error, as everything else does: SIGXFSZ, which ends a process that does not
//! expect it, is blocked. [`hint`] says why it failed.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

/// What a supervisor may run into, and how `ulimit` names it.
const RAISED: [(Resource, &str); 7] = [
    (Resource::RLIMIT_AS, "ulimit -v"),
    (Resource::RLIMIT_CPU, "ulimit -t"),
    (Resource::RLIMIT_DATA, "ulimit -d"),
    (Resource::RLIMIT_FSIZE, "ulimit -f"),
    (Resource::RLIMIT_NOFILE, "ulimit -n"),
    (Resource::RLIMIT_NPROC, "ulimit -u"),
    (Resource::RLIMIT_SIGPENDING, "ulimit -i"),
];
/// Descriptors are limited for everybody; a supervisor needs far fewer than this.
const ENOUGH_FILES: rlim_t = 1024;

/// What the program is to have, as memfold found it.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    limits: Vec<(Resource, rlim_t, rlim_t)>,
    /// SIGXFSZ was not blocked.
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

    /// Sets all of it as it was. Allocates nothing.
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

/// The limit of file sizes, if something of so many bytes can't be written because of it.
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
        // Files are written by other tests of this process: the hard limit stays as it is, so this only goes up.
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
