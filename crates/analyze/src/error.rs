//! Errors of the analysis.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use memfold_escape::path;

/// The reason why something cannot be analysed.
#[derive(Debug)]
pub enum Error {
    /// A process's memory cannot be read.
    Process(i32, io::Error),
    /// A process has no memory of its own, or none that is resident.
    NoMemory(i32),
    /// A process ended during the analysis.
    Vanished(i32),
    /// A file cannot be read.
    File(PathBuf, io::Error),
    /// A file is an incomplete core, or not a core.
    Core(PathBuf, String),
    /// These files contain no complete page.
    NoPages(PathBuf),
}

impl Error {
    pub(crate) fn file(at: &Path) -> impl Fn(io::Error) -> Error {
        move |error| Error::File(at.to_owned(), error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Process(pid, error) => write!(f, "cannot read the memory of process {pid}: {error}"),
            Error::NoMemory(pid) => write!(
                f,
                "process {pid} has no private memory resident: it has ended, is part of the kernel, or all of it is swapped out or compressed already"
            ),
            Error::Vanished(pid) => write!(f, "process {pid} ended while it was analysed"),
            Error::File(at, error) => write!(f, "cannot read '{}': {error}", path(at)),
            Error::Core(at, what) => write!(f, "'{}' {what}", path(at)),
            Error::NoPages(at) => {
                write!(f, "'{}' has no whole page of 4096 bytes: nothing to analyse", path(at))
            }
        }
    }
}

impl std::error::Error for Error {}
