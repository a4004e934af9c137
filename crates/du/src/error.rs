//! What can go wrong with a tree.

use std::fmt;

use crate::part::Malformed;

/// Why something could not be done. What could not be read in a file system is no such error: it stands in the tree.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The heap refused: mostly since the limit is reached.
    Heap(memfold::heap::Error),
    /// What is stored is not what was stored.
    Damaged,
    /// More directories, or more entries in one, than 32 bits can count.
    TooMany,
    /// The directory from which all begins can't be read.
    Root(std::io::Error),
    /// The terminal can't be used.
    Terminal(std::io::Error),
    /// It was asked to stop.
    Stopped,
}

impl From<memfold::heap::Error> for Error {
    fn from(error: memfold::heap::Error) -> Self {
        Error::Heap(error)
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
                "the tree does not fit into the limit: give more with --limit, or scan a part of it",
            ),
            Error::Heap(error) => error.fmt(f),
            Error::Damaged => {
                f.write_str("the tree in memory is damaged: the machine's memory may be at fault; scan again")
            }
            Error::TooMany => f.write_str("there are more directories, or entries in one, than 4 billion"),
            Error::Root(error) => error.fmt(f),
            Error::Terminal(error) => write!(f, "the terminal can't be used: {error}"),
            Error::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {}
