//! A tree in a file in memfold's own format, which is read without being loaded.
//!
//! ```text
//!   | "MEMFOLDU", 8 | version, 4 | 0, 4 |
//!   | block | block | ..                    the space, 64 KiB of it each (the last one: the rest), compressed, or as it is if that is not shorter
//!   | length, 4 | check, 8 | ..             the index: of each block as it lies in the file, and of what it holds
//!   | trailer, 88 |
//!
//!   the space, a row of bytes with addresses:
//!   | part, or addresses of parts, 8 each | ..         of one directory after the other; a part has its length in front (LEB128)
//!   | row, 80 | ..                                     of each directory, by its number
//!   | name, 40 | ..                                    of files with several, in the order of their files
//!   | head |                                           the root's entry as a part, its path and the devices' numbers, LEB128 lengths in front
//!
//!   trailer:
//!   | space 8 | rows at 8 | rows 4 | 0, 4 | names at 8 | names 8 | head at 8 | codec's name 16 | index's check 8 | trailer's check 8 | "UDLOFMEM" 8 |
//! ```
//!
//! Numbers are little-endian, checks XXH3 of 64 bits. A row has node, size, blocks, items, shared size,
//! shared blocks, modified (8 each), slots, device, failures (4 each), error, flags (2 each), the number of
//! the directory above, and the slot there (4 each); its node is the address of its part plus one, or of the
//! addresses of its parts plus one, or 0. A name has inode, 8, device, directory, slot, count of names, 4
//! each, size and blocks, 8 each.
//!
//! Blocks are read when something in them is needed, and few are kept. The file is not trusted: wrong
//! contents result in an error, or in a made-up tree.

mod read;
mod space;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::io;

pub use read::File;
pub use write::write;

use crate::Error;
use crate::part::{LONGEST_NAME, MOST};
use crate::source::{LONGEST_PATH, MOST_DEVICES};
use crate::tree::{Name, Row};

const MAGIC: [u8; 8] = *b"MEMFOLDU";
const END: [u8; 8] = *b"UDLOFMEM";
const VERSION: u32 = 1;
const HEADER: usize = 16;
/// Bytes of the space that are compressed together.
const BLOCK: usize = 64 << 10;
const INDEX: usize = 12;
const TRAILER: usize = 88;
const ROW: usize = 80;
const NAME: usize = 40;
const CODEC: usize = 16;
/// The most bytes of a number in LEB128.
const LEB: usize = 10;
/// The most bytes of an entry besides its name.
const ENTRY: usize = 128;
/// The most bytes of a part or of the head; nothing longer is written or read.
const LONGEST_PART: u64 = (MOST * (LONGEST_NAME + ENTRY)) as u64;
const LONGEST_HEAD: u64 = (ENTRY + LONGEST_PATH + (3 + MOST_DEVICES) * LEB) as u64;

/// Whether a file begins like one of memfold's own.
pub fn is_ours(begins: &[u8]) -> bool {
    begins.starts_with(&MAGIC)
}

/// Why a file cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum BadFile {
    /// It cannot be read.
    Io(io::Error),
    /// It does not have this format.
    NotOurs,
    /// A later version of memfold wrote it.
    Version(u32),
    /// The codec is unknown: its name.
    Codec(String),
    /// It is damaged or truncated, at this place.
    Damaged(&'static str),
    /// The tree in it cannot be read.
    Tree(Error),
}

impl From<io::Error> for BadFile {
    fn from(error: io::Error) -> Self {
        BadFile::Io(error)
    }
}

impl From<Error> for BadFile {
    fn from(error: Error) -> Self {
        BadFile::Tree(error)
    }
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFile::Io(error) => error.fmt(f),
            BadFile::NotOurs => f.write_str("this is not a file that 'memfold du --save' made"),
            BadFile::Version(version) => {
                write!(f, "a later memfold made this file (version {version} of the format): use that one")
            }
            BadFile::Codec(name) => {
                write!(
                    f,
                    "the file is compressed with '{}', which this memfold does not know",
                    name.escape_debug()
                )
            }
            BadFile::Damaged(what) => {
                write!(f, "the file is damaged or incomplete ({what}): make it again, or use another copy")
            }
            BadFile::Tree(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BadFile {}

fn row_bytes(row: &Row, above: u32, slot: u32) -> [u8; ROW] {
    let mut bytes = [0; ROW];
    let modified = row.modified as u64;
    let long = [row.node(), row.size, row.blocks, row.items, row.shared_size, row.shared_blocks, modified];
    for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(long) {
        *to = value.to_le_bytes();
    }
    let errors = u32::from(row.error) | u32::from(row.flags) << 16;
    let short = [row.contents().slots, row.device, row.failures, errors, above, slot];
    for (to, value) in bytes[56..].as_chunks_mut().0.iter_mut().zip(short) {
        *to = value.to_le_bytes();
    }
    bytes
}

/// A row, the number of the directory above it, and its slot there.
fn row(bytes: &[u8; ROW]) -> (Row, u32, u32) {
    let mut long = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut next = || long.next().unwrap_or_default();
    let mut row = Row::default();
    let node = next();
    (row.size, row.blocks, row.items) = (next(), next(), next());
    (row.shared_size, row.shared_blocks, row.modified) = (next(), next(), next() as i64);
    let mut short = bytes[56..].as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let mut next = || short.next().unwrap_or_default();
    row.set_node(node, next());
    (row.device, row.failures) = (next(), next());
    let errors = next();
    (row.error, row.flags) = (errors as u16, (errors >> 16) as u16);
    (row, next(), next())
}

fn name_bytes(name: &Name) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    bytes[..8].copy_from_slice(&name.inode.to_le_bytes());
    let short = [name.device, name.directory, name.slot, name.names];
    for (to, value) in bytes[8..24].as_chunks_mut().0.iter_mut().zip(short) {
        *to = value.to_le_bytes();
    }
    bytes[24..32].copy_from_slice(&name.size.to_le_bytes());
    bytes[32..].copy_from_slice(&name.blocks.to_le_bytes());
    bytes
}

fn name(bytes: &[u8; NAME]) -> Name {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
    Name {
        inode: long(0),
        device: short(8),
        directory: short(12),
        slot: short(16),
        names: short(20),
        size: long(24),
        blocks: long(32),
    }
}
