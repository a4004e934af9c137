//! Starting the program, with nothing of it changed but three variables of its
//! environment.
//!
//! The standard library's `Command` is not used: it resets the signal mask
//! and SIGPIPE of what it starts, and the program is to find what memfold
//! was started with.

use std::ffi::{CString, OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::Pid;

use crate::failure::{FAILED, Failure};
use crate::program::cannot_execute;
use crate::signals::Inherited;
use crate::sys::{self, Fork};

/// What to start.
pub struct Start<'a> {
    /// The file.
    pub path: &'a Path,
    /// Name and arguments, as the user gave them.
    pub words: &'a [OsString],
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Signals as memfold found them.
    pub signals: Inherited,
    /// A cgroup to enter first: its `cgroup.procs`.
    pub cgroup: Option<std::fs::File>,
}

/// Starts the program, or says why it cannot be executed.
pub fn start(start: &Start<'_>) -> Result<Pid, Failure> {
    let name = start.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let failed = |e: Errno| Failure::new(format!("cannot start a process for '{name}': {}", e.desc()));
    // Everything that allocates happens before the fork.
    let path = string(start.path.as_os_str())?;
    let words = start.words.iter().map(|word| string(word)).collect::<Result<Vec<_>, _>>()?;
    let environment = environment(&start.environment)?;
    let shell = shell_words(&path, &words);
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
    let child = match sys::fork().map_err(failed)? {
        Fork::Parent(child) => child,
        Fork::Child => {
            drop(reader);
            let errno = become_program(start, &path, &words, &shell, &environment);
            let _ = std::fs::File::from(writer).write_all(&(errno as i32).to_le_bytes());
            sys::exit_now(FAILED)
        }
    };
    drop(writer);
    // The pipe closes when the program starts; four bytes say that it could not.
    let mut errno = [0; 4];
    match std::fs::File::from(reader).read_exact(&mut errno) {
        Ok(()) => {
            let _ = nix::sys::wait::waitpid(child, None);
            Err(cannot_execute(&name, Errno::from_raw(i32::from_le_bytes(errno))))
        }
        Err(_) => Ok(child),
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
        // Only measuring depends on it: a refusal is not the program's problem.
        let _ = group.write_all(b"0");
    }
    if let Err(errno) = start.signals.restore() {
        return errno;
    }
    let errno = sys::exec(path, words, environment);
    // As execvp does: what is executable and has no format known to the kernel is a script for the shell.
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
        .map_err(|_| Failure::new(format!("'{}' holds a zero byte", text.to_string_lossy())))
}
