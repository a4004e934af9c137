//! Errors of a heap.

use std::fmt;

/// Bytes of the longest element of a list; blocks of 64 KiB have the longest leaves.
const LONGEST_ELEMENT: usize = 21_816;

/// An operation was refused. The heap is unchanged, with one exception: a write to a node longer than a block
/// may have been done in part, unless the error is [`Limit`](Error::Limit) or
/// [`OutOfMemory`](Error::OutOfMemory).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The handle names no live node: it was freed, or belongs to another heap.
    Stale,
    /// A size of zero, or of more than [`MAX_NODE`](super::MAX_NODE).
    Size(usize),
    /// The list's elements have this many bytes: a leaf can't hold two of them and a copy of one. Blocks of
    /// 64 KiB have the longest leaves.
    Element(usize),
    /// The value to be read or written differs in size from the node, or the node's alignment is less than
    /// the type's.
    Mismatch {
        /// Bytes of the node.
        node: usize,
        /// Bytes of the value.
        value: usize,
    },
    /// The heap may take no more memory: its limit is reached, and nothing is left to evict. With a limit
    /// that follows free memory, that memory is nearly used up.
    Limit,
    /// Every frame that the limit allows is pinned.
    Pinned,
    /// A guard, of this thread or another, is writing the node or moving it. A guard also blocks access to
    /// one in eight of the other nodes in its block.
    Busy,
    /// The heap has as many sessions as it can have.
    Sessions,
    /// The system has no more memory.
    OutOfMemory,
    /// A block's content has changed: something wrote past a node, or the memory is faulty. The node is lost.
    Damaged,
    /// The tier that a block was spilled to no longer has it. The node is lost; it can be freed.
    Lost,
    /// The tier that a block was spilled to does not answer. It may answer later.
    Away,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Stale => {
                f.write_str("the handle names no live node: it was freed, or belongs to another heap")
            }
            Error::Size(size) => {
                write!(f, "a node has 1 to {} bytes, not {size}", super::MAX_NODE)
            }
            Error::Element(size) if *size > LONGEST_ELEMENT => write!(
                f,
                "elements of {size} bytes are too long for a leaf, whatever the size of the heap's blocks: at most 21,816 fit; keep longer ones as [u8]"
            ),
            Error::Element(size) => {
                write!(
                    f,
                    "elements of {size} bytes are too long for the heap's blocks: use blocks of 64 KiB (Options::block_size), where at most 21,816 fit, or keep elements as [u8]"
                )
            }
            Error::Mismatch { node, value } => {
                write!(f, "the node has {node} bytes, which don't fit a value of {value} and its alignment")
            }
            Error::Limit => f.write_str("the heap's memory limit is reached: free nodes, raise it, or give the machine or container more memory"),
            Error::Pinned => f.write_str(
                "all blocks that the limit allows to be resident are pinned: drop guards, or raise the limit",
            ),
            Error::Busy => {
                f.write_str("a guard holds the node, or one that shares its stripe: drop it first")
            }
            Error::Sessions => write!(
                f,
                "the heap has {} sessions, the most that it can have: drop some",
                super::MOST_SESSIONS
            ),
            Error::OutOfMemory => f.write_str("the system has no more memory"),
            Error::Damaged => f.write_str(
                "a block of the heap is damaged: something wrote past a node, or memory is faulty",
            ),
            Error::Lost => {
                f.write_str("a block of the heap was spilled, and the tier no longer has it")
            }
            Error::Away => f.write_str("a block of the heap was spilled, and the tier does not answer"),
        }
    }
}

impl std::error::Error for Error {}

/// An option is out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption(pub(crate) std::string::String);

impl BadOption {
    /// A limit that leaves no room for blocks of this size.
    pub(crate) fn too_small(block_size: usize, least: u64) -> Self {
        BadOption(std::format!(
            "the limit is too small: blocks of {block_size} bytes and compressing them take at least {least} bytes"
        ))
    }

    pub(crate) fn no_thread(error: std::io::Error) -> Self {
        BadOption(std::format!(
            "the heap's thread can't be started: {error}; disable background work and loading ahead"
        ))
    }

    pub(crate) fn of_twin() -> Self {
        BadOption("a saved heap can't become a debugging twin".into())
    }
}

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOption {}

impl From<crate::heap::block::layout::image::Damaged> for Error {
    fn from(_: crate::heap::block::layout::image::Damaged) -> Self {
        Error::Damaged
    }
}

impl From<crate::store::Corrupt> for Error {
    fn from(_: crate::store::Corrupt) -> Self {
        Error::Damaged
    }
}
