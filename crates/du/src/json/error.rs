//! Errors of an export.

use std::{fmt, io};

use crate::Error;

/// What is wrong at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wrong {
    /// The input is empty.
    Empty,
    /// The input ends too early.
    Ends,
    /// Something follows the end.
    Trailing,
    /// This was expected here.
    Expected(&'static str),
    /// An unknown version of the format.
    Version(u64),
    /// The input is compressed: the format, and a program that decompresses it.
    Compressed(&'static str, &'static str),
    /// The input is compressed by zstd with a window that is too large to decompress here.
    Window,
    /// The input is ncdu's binary export.
    Binary,
    /// A number exceeds the range of its field.
    Number(&'static str),
    /// A negative number in a field that cannot be negative.
    Negative(&'static str),
    /// A number that is not an integer.
    Fraction(&'static str),
    /// An entry without a name.
    NoName,
    /// No entry of a directory can have this name, for the given reason.
    Name(Vec<u8>, &'static str),
    /// Too many file systems.
    Devices,
    /// An unknown value has too many levels.
    Deep,
}

/// Why an export could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// It could not be read at all.
    Io(io::Error),
    /// The contents are wrong.
    Input {
        /// The offset of the error in bytes; for a compressed export, in decompressed bytes.
        offset: u64,
        /// The name of the entry there, as far as it was read.
        entry: Vec<u8>,
        /// What is wrong there.
        wrong: Wrong,
    },
    /// The tree could not be made.
    Tree(Error),
}

impl ReadError {
    /// The same error, with the entry's name.
    pub(super) fn of(mut self, name: &[u8]) -> Self {
        if let ReadError::Input { entry, wrong, .. } = &mut self
            // The name itself is wrong or unknown.
            && !matches!(wrong, Wrong::Name(..) | Wrong::NoName)
        {
            *entry = name.to_vec();
        }
        self
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Tree(error)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &[u8]| name.escape_ascii().to_string();
        match self {
            Wrong::Empty => f.write_str("the export is empty: did the program that writes it fail?"),
            Wrong::Ends => f.write_str(
                "the export ends in the middle: it was not written or copied to its end; make it again",
            ),
            Wrong::Trailing => {
                f.write_str("more follows after the end: give only one export, as it was written")
            }
            Wrong::Expected(what) => {
                write!(
                    f,
                    "{what} is expected here: this is not an export of ncdu, or it is damaged; make it again with ncdu -o"
                )
            }
            Wrong::Version(version) => {
                write!(
                    f,
                    "the format's version is {version}, but only 1 is supported: export with a current ncdu"
                )
            }
            Wrong::Compressed(by, with) => {
                write!(
                    f,
                    "it is compressed by {by}: decompress it first, as in {with} FILE | memfold du -f -"
                )
            }
            Wrong::Window => f.write_str(
                "it is compressed by zstd with a window of more than 128 MiB (--long=31): decompress it first, as in zstdcat --long=31 FILE | memfold du -f -",
            ),
            Wrong::Binary => f.write_str(
                "it is ncdu's binary export: make JSON of it first, with ncdu -f FILE -o FILE.json",
            ),
            Wrong::Number(key) => {
                write!(f, "\"{key}\" is too large: the export is damaged; make it again")
            }
            Wrong::Negative(key) => write!(
                f,
                "\"{key}\" is less than 0, but must be a number from 0 on: the export is damaged; make it again"
            ),
            Wrong::Fraction(key) => write!(
                f,
                "\"{key}\" has a fraction or an exponent, but must be a whole number: the export is damaged; make it again"
            ),
            Wrong::NoName => f.write_str("an entry has no \"name\": the export is damaged; make it again"),
            Wrong::Name(bytes, why) => {
                let shown = &bytes[..bytes.len().min(100)];
                write!(f, "\"{}\" is not a name: {why}; the export is damaged, make it again", name(shown))
            }
            Wrong::Devices => {
                f.write_str("there are more than 65,536 file systems: the export is damaged; make it again")
            }
            Wrong::Deep => f.write_str(
                "an unknown value has more than 1,000 levels: the export is damaged; make it again",
            ),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "the export can't be read: {error}"),
            ReadError::Input { offset: 0, wrong, .. } => wrong.fmt(f),
            ReadError::Input { offset, entry, wrong } => match &entry[..entry.len().min(100)] {
                b"" => write!(f, "at byte {offset}: {wrong}"),
                name => write!(f, "at byte {offset}, of \"{}\": {wrong}", name.escape_ascii()),
            },
            ReadError::Tree(Error::Heap(memfold::heap::Error::Limit)) => {
                f.write_str("the tree does not fit into the limit: use a larger --limit")
            }
            ReadError::Tree(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

/// Why an export could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// It could not be written.
    Io(io::Error),
    /// The tree could not be read.
    Tree(Error),
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        WriteError::Tree(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => write!(f, "the export can't be written: {error}"),
            WriteError::Tree(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}
