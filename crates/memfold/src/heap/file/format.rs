//! Chunks and their content.
//!
//! ```text
//!   Head          0 block size, 4    4 alignment, 4   8 part, 4    12 numbers, 4   16 blocks, 4    20 large, 4
//!                24 nodes, 8        32 root, 8       40 shapes, 4  44 0, 4
//!   Shape         0 bytes of a node, 4                4 nodes, 4
//!   Record        0 bytes of the payload, 4, or 0 if the number is vacant
//!                 4 live, 4          8 bytes, 4      12 free, 4    16 longest, 4   20 pending, 4
//!                24 kind, 2         26 codec, 2      28 flags      29 incarnation  30 generation   31 grouping
//!   LargeRecord   0 bytes, 8, or 0   8 parts, 4      12 generation, 2              14 0, 2
//! ```
//!
//! In `Head`, `part` is the bytes of each part of a large node but the last. `numbers`, `blocks` and `large`
//! are the numbers of records, of records with a payload, and of entries of large nodes. `nodes` is the
//! number of nodes, including those that are parts. The rest is as in `block/table.rs`. A record's codec is
//! the number of a codec's chunk, which comes before it, or 0 for one repeated word.

use std::io::{self, Read, Write};
use std::vec::Vec;
use std::{format, vec};

use twox_hash::XxHash3_64;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::VERSION;
use super::error::LoadError;

pub const MAGIC: [u8; 8] = *b"\x89mfheap\n";
/// Bytes of the start.
pub const START: usize = 16;
/// Bytes before a chunk's body, and after.
pub const BEFORE: usize = 8;
pub const AFTER: usize = 8;
/// No body is longer: a block's payload has at most 16 MiB, and the parts of a large node take at most 46
/// MiB. Reader and writer refuse longer ones.
pub const LONGEST: usize = 64 << 20;
/// No file has more codecs: their numbers have 16 bits.
pub const MOST_CODECS: usize = u16::MAX as usize;

/// What a chunk holds.
pub const HEAD: u8 = 1;
pub const CODEC: u8 = 2;
pub const BLOCKS: u8 = 3;
pub const LARGE: u8 = 4;
pub const END: u8 = 5;

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Head {
    pub block_size: U32,
    pub alignment: U32,
    pub part: U32,
    pub numbers: U32,
    pub blocks: U32,
    pub large: U32,
    pub nodes: U64,
    pub root: U64,
    pub shapes: U32,
    pub zero: U32,
}

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Shape {
    pub len: U32,
    pub nodes: U32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Record {
    pub payload: U32,
    pub live: U32,
    pub bytes: U32,
    pub free: U32,
    pub longest: U32,
    pub pending: U32,
    pub kind: U16,
    pub codec: U16,
    pub flags: u8,
    pub incarnation: u8,
    pub generation: u8,
    pub grouping: u8,
}

/// Flags: the block has checks; it is retired; its number is not to be used again in a paranoid heap.
pub const MARKED: u8 = 1;
pub const RETIRED: u8 = 2;
pub const LOST: u8 = 4;

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LargeRecord {
    pub len: U64,
    pub parts: U32,
    pub generation: U16,
    pub zero: U16,
}

const _: () = assert!(size_of::<Head>() == 48 && size_of::<Record>() == 32 && size_of::<LargeRecord>() == 16);

/// The checksum of `bytes`, which follow bytes with the checksum `before`.
pub fn checksum(before: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(before, bytes)
}

fn start() -> [u8; START] {
    let mut start = [0; START];
    start[..8].copy_from_slice(&MAGIC);
    start[8..12].copy_from_slice(&VERSION.to_le_bytes());
    start
}

/// Writes chunks.
pub struct Chunks<W> {
    to: W,
    checksum: u64,
    chunk: Vec<u8>,
}

impl<W: Write> Chunks<W> {
    /// Begins a file.
    pub fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(&start())?;
        Ok(Chunks { to, checksum: checksum(0, &start()), chunk: Vec::new() })
    }

    /// Writes a chunk whose body is these pieces in order.
    pub fn put(&mut self, kind: u8, bodies: &[&[u8]]) -> io::Result<()> {
        let len: usize = bodies.iter().map(|body| body.len()).sum();
        // Only the name of a codec that the program registered can be this long.
        if len > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a part of it has more than 64 MiB"));
        }
        self.chunk.clear();
        self.chunk.try_reserve(BEFORE + len + AFTER).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.chunk.extend([kind, 0, 0, 0]);
        self.chunk.extend((len as u32).to_le_bytes());
        bodies.iter().for_each(|body| self.chunk.extend_from_slice(body));
        self.checksum = checksum(self.checksum, &self.chunk);
        self.chunk.extend(self.checksum.to_le_bytes());
        self.to.write_all(&self.chunk)
    }
}

/// Reads chunks.
pub struct Source<R> {
    from: R,
    checksum: u64,
    chunk: Vec<u8>,
    /// The offset of the next chunk in the file.
    at: u64,
}

impl<R: Read> Source<R> {
    /// Checks that it is a heap's file.
    pub fn begin(mut from: R) -> Result<Self, LoadError> {
        let mut start = vec![];
        from.by_ref().take(START as u64).read_to_end(&mut start)?;
        let known = start.len().min(MAGIC.len());
        if known == 0 || start[..known] != MAGIC[..known] {
            return Err(LoadError::Foreign);
        }
        let Some((_, rest)) = start.split_at_checked(MAGIC.len()).filter(|_| start.len() == START) else {
            return Err(LoadError::Damaged("it ends in its first 16 bytes".into()));
        };
        match U32::read_from_prefix(rest).map_or(0, |(version, _)| version.get()) {
            0 => return Err(LoadError::Damaged("it has no version".into())),
            VERSION => {}
            version => return Err(LoadError::Newer(version)),
        }
        if start != self::start() {
            return Err(LoadError::Damaged("its first 16 bytes are wrong".into()));
        }
        Ok(Source { from, checksum: checksum(0, &start), chunk: vec![], at: START as u64 })
    }

    /// An error at the chunk that was read last.
    pub fn wrong(&self, what: &str) -> LoadError {
        let chunk = self.at - (self.chunk.len() as u64).min(self.at);
        LoadError::Damaged(format!("{what} (the part of it that begins at byte {chunk})"))
    }

    /// The kind of the next chunk, and its body. Memory is taken only for bytes that arrive.
    pub fn next(&mut self) -> Result<(u8, &[u8]), LoadError> {
        let begins = self.at;
        let ends = || LoadError::Damaged(format!("it ends in the part that begins at byte {begins}"));
        let wrong = |what| LoadError::Damaged(format!("{what} at byte {begins}"));
        self.chunk.clear();
        self.from.by_ref().take(BEFORE as u64).read_to_end(&mut self.chunk)?;
        let Some(&[kind, a, b, c, ref len @ ..]) = self.chunk.first_chunk::<BEFORE>() else {
            return Err(ends());
        };
        let len = u32::from_le_bytes(*len) as usize;
        if [a, b, c] != [0; 3] || !(HEAD..=END).contains(&kind) || len > LONGEST {
            return Err(wrong("no part begins where one should"));
        }
        self.from.by_ref().take((len + AFTER) as u64).read_to_end(&mut self.chunk)?;
        let Some((chunk, sum)) =
            self.chunk.split_last_chunk::<AFTER>().filter(|(chunk, _)| chunk.len() == BEFORE + len)
        else {
            return Err(ends());
        };
        self.checksum = checksum(self.checksum, chunk);
        if self.checksum != u64::from_le_bytes(*sum) {
            return Err(wrong("a checksum is wrong"));
        }
        self.at += self.chunk.len() as u64;
        Ok((kind, &self.chunk[BEFORE..BEFORE + len]))
    }
}
