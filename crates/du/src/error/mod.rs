//! Errors of trees.

mod failure;

pub use failure::Failure;

use std::fmt;

use memfold_escape::shown;

use crate::part::Malformed;

/// Why an operation failed. A part of a file system that cannot be read is not such an error; it is recorded
/// in the tree.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The heap refused, usually because the limit is reached.
    Heap(memfold::heap::Error),
    /// Stored data are corrupted.
    Damaged,
    /// The contents of a file are not what was written to it.
    BadFile,
    /// A file cannot be read or written.
    Io(std::io::Error),
    /// More directories, or more entries in one, than 32 bits can count, or more file systems than a file can
    /// contain.
    TooMany,
    /// The root directory cannot be read.
    Root(std::io::Error),
    /// A directory cannot be opened: its path.
    Directory(Vec<u8>, std::io::Error),
    /// The root's path now leads to another directory than the one that was read: the path.
    OtherRoot(Vec<u8>),
    /// The terminal cannot be used.
    Terminal(std::io::Error),
    /// Something was not deleted.
    NotDeleted(Box<Failure>),
    /// There was no room for the new contents beside the old ones, which remain.
    NoRoom,
    /// The user stopped the operation.
    Stopped,
}

impl From<memfold::heap::Error> for Error {
    fn from(error: memfold::heap::Error) -> Self {
        Error::Heap(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Tree(error) => error,
            Failure::Stopped => Error::Stopped,
            failure => Error::NotDeleted(Box::new(failure)),
        }
    }
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Error::Damaged
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Heap(memfold::heap::Error::Limit) => f.write_str(
                "the tree does not fit into the limit: use a larger --limit, or scan a part of it",
            ),
            Error::Heap(error) => error.fmt(f),
            Error::Damaged => {
                f.write_str("the tree is damaged: scan again, or make its file again; if that does not help, the machine's memory may be faulty")
            }
            Error::BadFile => f.write_str("the file is damaged: make it again, or use another copy"),
            Error::Io(error) => error.fmt(f),
            Error::TooMany => f.write_str("there are more directories, or entries in one, than 4 billion"),
            Error::Root(error) => error.fmt(f),
            Error::Directory(path, error) => write!(f, "{}: {error}", shown(path)),
            Error::OtherRoot(path) => write!(
                f,
                "{} is not the directory that was scanned: it was moved, or something else was put or mounted in its place. Quit, and scan again",
                shown(path)
            ),
            Error::Terminal(error) => write!(f, "the terminal can't be used: {error}"),
            Error::NotDeleted(failure) => failure.fmt(f),
            Error::NoRoom => f.write_str(
                "the new entries do not fit into the limit beside the old ones, which are still shown: refresh a part of them, or start again with a larger --limit",
            ),
            Error::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {}
