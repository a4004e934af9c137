//! Why something was not deleted.

use std::{fmt, io};

use memfold_escape::shown;
use rustix::io::Errno;

use super::Error;

/// Why something was not deleted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The tree cannot be read.
    Tree(Error),
    /// The system refused: the path, and the operation.
    System(Vec<u8>, io::Error),
    /// It has changed since it was read: the path.
    Changed(Vec<u8>),
    /// It contains something that was not shown: the directory's path.
    NotShown(Vec<u8>),
    /// It could not be examined when it was read, so its kind is unknown: the path.
    NotLooked(Vec<u8>, io::Error),
    /// Something is mounted there: the path.
    Mounted(Vec<u8>),
    /// The user stopped the operation.
    Stopped,
    /// The operation ended after something had already been deleted: the reason.
    Partly(Box<Failure>),
}

impl Failure {
    pub(crate) fn new(path: &[u8], error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::STALE => {
                Failure::Changed(path.to_vec())
            }
            Errno::NOTEMPTY | Errno::EXIST => Failure::NotShown(path.to_vec()),
            error => Failure::System(path.to_vec(), error.into()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Tree(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Tree(error) => error.fmt(f),
            Failure::System(at, error) => write!(f, "{}: {error}", shown(at)),
            Failure::Changed(at) => {
                write!(f, "{} has changed since it was read: refresh, and check again", shown(at))
            }
            Failure::NotShown(at) => write!(
                f,
                "{} contains something that was not shown (new, or excluded from the scan): refresh, or scan without exclusions",
                shown(at)
            ),
            Failure::NotLooked(at, error) => write!(
                f,
                "{} could not be examined ({error}), so its type is unknown: make its directory searchable (chmod u+x), and refresh",
                shown(at)
            ),
            Failure::Mounted(at) => {
                write!(f, "{} is a mount point: unmount it, or delete its contents", shown(at))
            }
            Failure::Stopped => f.write_str("stopped"),
            Failure::Partly(failure) => write!(f, "{failure}; what was deleted before stays deleted"),
        }
    }
}

impl std::error::Error for Failure {}
