//! Bytes with addresses, written in order and read anywhere, in compressed blocks.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use memfold_codec::{Codec, Compressed, ScratchBuf};
use twox_hash::XxHash3_64;

use super::{BLOCK, BadFile, INDEX};
use crate::Error;

/// The number of blocks that are kept uncompressed.
const KEPT: usize = 16;

/// A checksum.
pub fn check(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Writes a space.
pub struct Writer<'w> {
    to: &'w mut dyn Write,
    codec: &'static dyn Codec,
    scratch: ScratchBuf,
    block: Vec<u8>,
    compressed: Vec<u8>,
    /// The index entries of the blocks so far.
    pub index: Vec<u8>,
    blocks: u64,
}

impl<'w> Writer<'w> {
    pub fn new(to: &'w mut dyn Write, codec: &'static dyn Codec) -> Self {
        Writer {
            to,
            codec,
            scratch: ScratchBuf::with_size(codec.compress_scratch_up_to(BLOCK)),
            block: Vec::with_capacity(BLOCK),
            compressed: vec![0; codec.bound(BLOCK)],
            index: Vec::new(),
            blocks: 0,
        }
    }

    /// The address of the next byte to be written.
    pub fn address(&self) -> u64 {
        self.blocks * BLOCK as u64 + self.block.len() as u64
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Ends the block.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let shorter = self.block.len() - 1;
        let mut scratch = self.scratch.scratch();
        let bytes = match self.codec.compress(&self.block, &mut self.compressed, shorter, &mut scratch) {
            Compressed::Fits(len) => &self.compressed[..len],
            Compressed::Incompressible => &self.block[..],
        };
        self.to.write_all(bytes)?;
        self.index.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.index.extend_from_slice(&check(&self.block).to_le_bytes());
        self.block.clear();
        self.blocks += 1;
        Ok(())
    }
}

/// A block that is kept.
struct Kept {
    number: u64,
    bytes: Vec<u8>,
    used: u64,
}

struct Cache {
    blocks: Vec<Kept>,
    compressed: Vec<u8>,
    scratch: ScratchBuf,
    clock: u64,
}

/// Reads a space.
pub struct Reader {
    file: fs::File,
    codec: &'static dyn Codec,
    len: u64,
    /// The start of each block in the file, and its checksum; finally the end of the last one.
    blocks: Vec<(u64, u64)>,
    cache: RefCell<Cache>,
}

impl Reader {
    /// A space of `len` bytes, whose blocks begin at `start` and end at `end` in the file.
    pub fn new(
        file: fs::File,
        codec: &'static dyn Codec,
        len: u64,
        index: &[u8],
        start: u64,
        end: u64,
    ) -> Result<Self, BadFile> {
        let damaged = || BadFile::Damaged("its index");
        let mut at = start;
        let (entries, rest) = index.as_chunks::<INDEX>();
        if !rest.is_empty() || entries.len() as u64 != len.div_ceil(BLOCK as u64) {
            return Err(damaged());
        }
        let mut blocks = Vec::with_capacity(entries.len() + 1);
        for [a, b, c, d, check @ ..] in entries {
            let length = u32::from_le_bytes([*a, *b, *c, *d]);
            if length as usize > BLOCK {
                return Err(damaged());
            }
            blocks.push((at, u64::from_le_bytes(*check)));
            at += u64::from(length);
        }
        if at != end {
            return Err(damaged());
        }
        blocks.push((at, 0));
        let scratch = ScratchBuf::with_size(codec.decompress_scratch(BLOCK));
        let cache = Cache { blocks: Vec::new(), compressed: Vec::new(), scratch, clock: 0 };
        Ok(Reader { file, codec, len, blocks, cache: RefCell::new(cache) })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Fills `to` from an address on.
    pub fn read(&self, address: u64, mut to: &mut [u8]) -> Result<(), Error> {
        let end = address.checked_add(to.len() as u64).filter(|end| *end <= self.len);
        end.ok_or(Error::BadFile)?;
        let mut address = address;
        while !to.is_empty() {
            let (number, at) = (address / BLOCK as u64, address as usize % BLOCK);
            let mut cache = self.cache.borrow_mut();
            let block = self.block(&mut cache, number)?;
            let now = to.len().min(block.len() - at);
            let (filled, later) = to.split_at_mut(now);
            filled.copy_from_slice(&block[at..at + now]);
            (to, address) = (later, address + now as u64);
        }
        Ok(())
    }

    /// A block's bytes that belong to the space.
    fn block<'c>(&self, cache: &'c mut Cache, number: u64) -> Result<&'c [u8], Error> {
        cache.clock += 1;
        let found = cache.blocks.iter().position(|kept| kept.number == number);
        let at = match found {
            Some(at) => at,
            None => self.bring(cache, number)?,
        };
        cache.blocks[at].used = cache.clock;
        Ok(&cache.blocks[at].bytes)
    }

    fn bring(&self, cache: &mut Cache, number: u64) -> Result<usize, Error> {
        let of = |number: u64| usize::try_from(number).ok().and_then(|number| self.blocks.get(number));
        let (Some((from, sum)), Some((to, _))) = (of(number), of(number + 1)) else {
            return Err(Error::BadFile);
        };
        let len = (self.len - number * BLOCK as u64).min(BLOCK as u64) as usize;
        cache.compressed.resize((to - from) as usize, 0);
        self.file.read_exact_at(&mut cache.compressed, *from).map_err(Error::Io)?;
        let at = if cache.blocks.len() < KEPT {
            cache.blocks.push(Kept { number: u64::MAX, bytes: Vec::new(), used: 0 });
            cache.blocks.len() - 1
        } else {
            let oldest = cache.blocks.iter().enumerate().min_by_key(|(_, kept)| kept.used);
            oldest.map_or(0, |(at, _)| at)
        };
        let kept = &mut cache.blocks[at];
        kept.number = u64::MAX;
        kept.bytes.resize(len, 0);
        if cache.compressed.len() == len {
            kept.bytes.copy_from_slice(&cache.compressed);
        } else {
            let mut scratch = cache.scratch.scratch();
            let decompressed = self.codec.decompress(&cache.compressed, &mut kept.bytes, &mut scratch);
            decompressed.map_err(|_| Error::BadFile)?;
        }
        if check(&kept.bytes) != *sum {
            return Err(Error::BadFile);
        }
        kept.number = number;
        Ok(at)
    }
}
