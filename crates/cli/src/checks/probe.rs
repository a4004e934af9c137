//! Runs trials in a separate process, which they may kill.
//!
//! A seccomp filter can kill a process that makes a system call, and an unserved fault can hang it. So a
//! child process tries such calls, and returns the answer through a pipe.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use crate::sys::signals::ChildrenKept;
use crate::sys::{self, Fork};

/// The outcome of a trial.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It finished and returned this.
    Answer(Vec<u8>),
    /// A signal ended it.
    Died(Signal),
    /// It did not finish and was killed.
    Hung,
    /// The trial could not be started.
    NotTried(nix::errno::Errno),
}

/// Runs `work` in a child process and returns its answer.
pub fn in_child(at_most: Duration, work: impl FnOnce() -> Vec<u8>) -> Outcome {
    match try_in_child(at_most, work) {
        Ok(outcome) => outcome,
        Err(errno) => Outcome::NotTried(errno),
    }
}

fn try_in_child(at_most: Duration, work: impl FnOnce() -> Vec<u8>) -> nix::Result<Outcome> {
    let _kept = ChildrenKept::new()?;
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    let child = match sys::fork()? {
        Fork::Parent(child) => child,
        Fork::Child => {
            drop(reader);
            let answer = work();
            let sent = std::fs::File::from(writer).write_all(&answer);
            sys::exit_now(if sent.is_ok() { 0 } else { 1 })
        }
    };
    drop(writer);
    let mut reader = std::fs::File::from(reader);
    let mut answer = Vec::new();
    let end = Instant::now() + at_most;
    let hung = loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break true;
        }
        let mut wait = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        if nix::poll::poll(&mut wait, left).unwrap_or(0) == 0 {
            continue;
        }
        let mut chunk = [0; 512];
        match reader.read(&mut chunk) {
            Ok(0) | Err(_) => break false,
            Ok(bytes) => answer.extend_from_slice(&chunk[..bytes]),
        }
    };
    if hung {
        let _ = nix::sys::signal::kill(child, Signal::SIGKILL);
    }
    let status = loop {
        match nix::sys::wait::waitpid(child, None) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other?,
        }
    };
    Ok(match status {
        _ if hung => Outcome::Hung,
        WaitStatus::Signaled(_, signal, _) => Outcome::Died(signal),
        _ => Outcome::Answer(answer),
    })
}

// The tests of this module go through the command: the tests of a crate run in threads, and a process with
// threads cannot be forked safely. See tests/run/refusals.rs for trials that are killed, and
// tests/tools/doctor.rs for trials that answer.
