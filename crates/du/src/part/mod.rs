//! Some entries of a directory as bytes: the contents of a node of the heap, and of memfold's own files.
//!
//! ```text
//!   | count, 1 | extended, 1 | bytes of others, LEB | kinds | lengths | same | shared | sizes | blocks | others | names |
//!
//!     kinds     a byte an entry: kind (3 bits), how blocks are given (2 bits), whether it has other names, is on another file system than the directory, and is a link that was followed (1 bit each)
//!     lengths   a byte an entry: bytes of its size, and of its blocks (4 bits each)
//!     same      a byte an entry, if some have extended information: has it, and which of it is the last one's
//!     shared    a byte an entry: how much of the name is that of the name before
//!     sizes     each in as few bytes as it needs, little-endian
//!     blocks    where they are neither none nor what the size asks for: how far they are from that, zigzag
//!     others    a directory's number, a failure's number, inode, count of names and file system, time, mode, user, group: LEB128, most of them as the
//!               distance from the last one
//!     names     the rest of each name, and a zero
//! ```
//!
//! Similar bytes are adjacent, so that they compress well; with names in order, a million files take 13.5
//! bytes each (docs/du.md). The bytes may come from an untrusted file: a part that does not have this form
//! results in an error, and in nothing worse.

mod bytes;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use bytes::{Bytes, put_leb};
pub use reader::Reader;
pub use writer::Writer;

use crate::entry::{BLOCK, Extended};

/// The most entries of a part.
pub const MOST: usize = 64;
/// The most bytes of a name, on any file system.
pub const LONGEST_NAME: usize = 32 << 10;
/// Files usually take whole pages.
const PAGE: u64 = 4096;

/// The bytes are not a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

const HAS_LINK: u8 = 1 << 5;
const HAS_DEVICE: u8 = 1 << 6;
const FOLLOWED: u8 = 1 << 7;
/// How blocks are encoded.
const AS_SIZE: u8 = 0;
const NONE: u8 = 1;
const OTHER: u8 = 2;

/// The bits of `same`.
const EXTENDED: u8 = 1;
const SAME_MODE: u8 = 2;
const SAME_USER: u8 = 4;
const SAME_GROUP: u8 = 8;

/// The values of the last entry, to which the next one's are relative.
#[derive(Default)]
struct Last {
    directory: u32,
    inode: u64,
    extended: Extended,
}

/// Blocks of a file of whole pages.
fn of_size(size: u64) -> u64 {
    size.div_ceil(PAGE).wrapping_mul(PAGE / BLOCK)
}
