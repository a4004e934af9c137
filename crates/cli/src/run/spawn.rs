//! Starts the program. The program finds everything as without memfold, except three variables of its
//! environment.
//!
//! The standard library's `Command` resets the signal mask and SIGPIPE of the new process. The program must
//! inherit both as memfold did, so `Command` is not used.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::Pid;

use crate::checks::program::cannot_execute;
use crate::output::failure::{FAILED, Failure};
use crate::sys::signals::Inherited;
use crate::sys::{self, Fork, rlimits};

/// A program to start, and its inherited settings.
pub struct Start<'a> {
    /// Path of the executable.
    pub path: &'a Path,
    /// Name and arguments, as the user gave them.
    pub words: &'a [OsString],
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Signal settings as memfold inherited them.
    pub signals: Inherited,
    /// Resource limits as memfold inherited them.
    pub limits: rlimits::Inherited,
    /// A cgroup to enter first: its `cgroup.procs`.
    pub cgroup: Option<File>,
}

/// A process that will become the program on command. It is forked before memfold has any threads, but starts
/// the program only when the threads that serve it exist.
pub struct Waiting {
    name: String,
    child: Pid,
    go: File,
    said: File,
}

impl Waiting {
    /// The descriptors for the command to start and for the result.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.go.as_raw_fd(), self.said.as_raw_fd()]
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.child
    }

    /// Starts the program, or reports why it cannot be executed.
    pub fn go(mut self) -> Result<Pid, Failure> {
        // If the process is gone, the read below fails, too.
        let _ = self.go.write_all(&[1]);
        // The pipe closes when the program starts. Four bytes mean that it could not start.
        let mut errno = [0; 4];
        match self.said.read_exact(&mut errno) {
            Ok(()) => {
                let _ = nix::sys::wait::waitpid(self.child, None);
                Err(cannot_execute(&self.name, Errno::from_raw(i32::from_le_bytes(errno))))
            }
            Err(_) => Ok(self.child),
        }
    }
}

/// Forks the process.
pub fn prepare(start: &Start<'_>) -> Result<Waiting, Failure> {
    let name = start.words.first().map(memfold_escape::path).unwrap_or_default();
    let failed = |e: Errno| Failure::new(format!("cannot start a process for '{name}': {}", e.desc()));
    // Everything that allocates happens before the fork.
    let path = string(start.path.as_os_str())?;
    let words = start.words.iter().map(|word| string(word)).collect::<Result<Vec<_>, _>>()?;
    let environment = environment(&start.environment)?;
    let shell = shell_words(&path, &words);
    let pipe = || nix::unistd::pipe2(OFlag::O_CLOEXEC).map(|(from, to)| (File::from(from), File::from(to)));
    let ((mut told, go), (said, mut says)) = (pipe().map_err(failed)?, pipe().map_err(failed)?);
    match sys::fork().map_err(failed)? {
        Fork::Parent(child) => Ok(Waiting { name, child, go, said }),
        Fork::Child => {
            drop((go, said));
            // The parent has ended, and can no longer give the command to start.
            if told.read_exact(&mut [0]).is_err() {
                sys::exit_now(FAILED);
            }
            let errno = become_program(start, &path, &words, &shell, &environment);
            let _ = says.write_all(&(errno as i32).to_le_bytes());
            sys::exit_now(FAILED)
        }
    }
}

fn become_program(
    start: &Start<'_>,
    path: &CString,
    words: &[CString],
    shell: &[CString],
    environment: &[CString],
) -> Errno {
    if let Some(mut group) = start.cgroup.as_ref() {
        // Only the measurement depends on this, so a refusal does not prevent the program.
        let _ = group.write_all(b"0");
    }
    if let Err(errno) = start.signals.restore().and_then(|()| start.limits.restore()) {
        return errno;
    }
    let errno = sys::exec(path, words, environment);
    // As in execvp, an executable file of a format unknown to the kernel is a script for the shell.
    if errno == Errno::ENOEXEC { sys::exec(c"/bin/sh", shell, environment) } else { errno }
}

fn shell_words(path: &CString, words: &[CString]) -> Vec<CString> {
    [c"sh".to_owned(), path.clone()].into_iter().chain(words.iter().skip(1).cloned()).collect()
}

fn environment(variables: &[(OsString, OsString)]) -> Result<Vec<CString>, Failure> {
    variables
        .iter()
        .map(|(name, value)| {
            let mut text = name.as_bytes().to_vec();
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
            string(&OsString::from_vec(text))
        })
        .collect()
}

fn string(text: &OsStr) -> Result<CString, Failure> {
    CString::new(text.as_bytes())
        .map_err(|_| Failure::new(format!("'{}' holds a zero byte", memfold_escape::path(text))))
}
