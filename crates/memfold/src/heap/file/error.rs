//! Errors of a heap's file.

use std::fmt;
use std::io;
use std::string::String;

use crate::heap::block::handle::Handle;
use crate::heap::error::{BadOption, Error};
use crate::heap::stored::lost::Lost;

/// The heap was not saved. It is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum SaveError {
    /// The file could not be written.
    Io(io::Error),
    /// The heap could not be read.
    Heap(Error),
    /// The tier lost this part of the heap. After these nodes are freed
    /// ([`Heap::free_lost`](crate::heap::Heap::free_lost)), the rest can be saved.
    Lost(Lost),
    /// A part of this node, which is longer than a block, was freed on its own: by a handle that the heap did
    /// not give out, or one from [`Lost::handles`](crate::heap::Lost::handles). After the node is freed, the
    /// rest can be saved.
    Part(Handle),
    /// The heap is the debugging twin, whose nodes are not in blocks.
    Twin,
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Io(error) => write!(f, "the heap's file can't be written: {error}"),
            SaveError::Heap(error) => write!(f, "the heap can't be saved: {error}"),
            SaveError::Lost(lost) => write!(f, "the heap can't be saved: {lost}"),
            SaveError::Part(node) => write!(
                f,
                "the heap can't be saved: a part of the long node with the handle {:#x} was freed without the node; free that, too",
                node.to_bits()
            ),
            SaveError::Twin => {
                f.write_str("the debugging twin of a heap can't be saved: make a compressed one")
            }
        }
    }
}

impl std::error::Error for SaveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SaveError::Io(error) => Some(error),
            SaveError::Heap(error) => Some(error),
            SaveError::Lost(_) | SaveError::Part(_) | SaveError::Twin => None,
        }
    }
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        SaveError::Io(error)
    }
}

impl From<Error> for SaveError {
    fn from(error: Error) -> Self {
        SaveError::Heap(error)
    }
}

/// No heap could be made from the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file could not be read.
    Io(io::Error),
    /// It is not the file of a heap.
    Foreign,
    /// It has this version of the format, which a later memfold wrote.
    Newer(u32),
    /// The file is not what was written, or was not written by memfold; the text says what is wrong.
    Damaged(String),
    /// Some blocks were compressed by a codec of this name, which this program does not have.
    Codec {
        /// The name: a codec or a pipeline.
        name: String,
        /// It is a user-supplied codec, not one of this library.
        own: bool,
    },
    /// The options are invalid, or do not suit this file.
    Options(BadOption),
    /// There is not enough memory: [`Limit`](Error::Limit), or [`OutOfMemory`](Error::OutOfMemory).
    Heap(Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(error) => write!(f, "the heap's file can't be read: {error}"),
            LoadError::Foreign => f.write_str("the file is not a saved heap"),
            LoadError::Newer(version) => write!(
                f,
                "the heap was saved by a later memfold, in version {version} of the format: this one reads versions up to {}",
                super::VERSION
            ),
            LoadError::Damaged(what) => write!(f, "the heap's file is damaged: {what}"),
            LoadError::Codec { name, own: false } => {
                write!(f, "the heap was compressed with '{name}', which this build of memfold doesn't have")
            }
            LoadError::Codec { name, own: true } => write!(
                f,
                "the heap was compressed with a codec of the program's own, '{name}': give it in the options"
            ),
            LoadError::Options(error) => error.fmt(f),
            LoadError::Heap(error) => write!(f, "the heap can't be loaded: {error}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Io(error) => Some(error),
            LoadError::Options(error) => Some(error),
            LoadError::Heap(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        LoadError::Io(error)
    }
}

impl From<BadOption> for LoadError {
    fn from(error: BadOption) -> Self {
        LoadError::Options(error)
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        LoadError::Heap(error)
    }
}
