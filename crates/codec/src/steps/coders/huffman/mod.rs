//! `huffman`: D. Huffman's codes for single bytes: canonical codes of at most 11 bits, in one stream or, for
//! larger blocks, in four that are read in parallel.
//!
//! ```text
//! | 0 | the block                                          if coding would not make it shorter than this
//! | 1 | lengths | stream                                   below 1 KiB
//! | 2 | lengths | sizes of three streams | four streams    otherwise
//! | 3 | byte                                               one byte, repeated
//! ```
//!
//! **Lengths** are the code lengths of bytes 0 to 255, as a sequence of half bytes, the low half first:
//!
//! ```text
//! 1-11         a length
//! 12-15        the previous length again, 2 to 5 times
//! 0, n         n + 1 bytes that do not occur; n is below 15
//! 0, 15, n, m  16 + n + 16 m such bytes
//! ```
//!
//! The sequence ends with the length of byte 255. If it has an odd number of half bytes, the high half of its
//! last byte is 0.
//!
//! **Codes** count up from zero: shorter codes come first, codes of one length in the order of their bytes.
//! In a stream the first code is in the lowest bits, its own first bit lowest; the unused bits of the last
//! byte are zero. Each of the first three streams holds a quarter of the bytes, rounded up; the fourth holds
//! the rest. **Sizes** have two bytes, or four if the block has more than 128 KiB.

use crate::bytes::Out;
use crate::scratch::parts::{Parts, part};
use crate::steps::Step;
use crate::{Malformed, Scratch};

mod bits;
mod lengths;

use bits::{Reader, Writer};
use lengths::Lengths;

/// The step `huffman`.
pub(crate) struct Huffman;

const RAW: u8 = 0;
const ONE_STREAM: u8 = 1;
const FOUR_STREAMS: u8 = 2;
const ONE_BYTE: u8 = 3;

/// The longest code.
const LONGEST: u32 = 11;

/// Blocks of at least this many bytes have four streams.
const FOUR: usize = 1024;

/// The division of a block.
#[derive(Debug, Clone, Copy)]
struct Shape {
    streams: usize,
    /// Bytes of the block in each stream but the last.
    quarter: usize,
    /// Bytes in which a stream's size is stored.
    size: usize,
}

impl Shape {
    fn of(len: usize) -> Self {
        let streams = if len < FOUR { 1 } else { 4 };
        Shape { streams, quarter: len.div_ceil(streams), size: if len > 128 << 10 { 4 } else { 2 } }
    }

    fn head(self) -> usize {
        (self.streams - 1) * self.size
    }
}

impl Step for Huffman {
    fn name(&self) -> &'static str {
        "huffman"
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(1)
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        part::<u32>(4 * 256)
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        part::<u16>(1 << LONGEST)
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let shape = Shape::of(src.len());
        let counts = Parts::new(scratch.bytes(part::<u32>(4 * 256))).take::<u32>(4 * 256);
        counts.fill(0);
        for (counts, bytes) in counts.chunks_exact_mut(256).zip(src.chunks(shape.quarter)) {
            count(bytes, counts);
        }
        let mut all = [0_u32; 256];
        for (i, &count) in counts.iter().enumerate() {
            all[i % 256] += count;
        }
        if all[usize::from(src[0])] as usize == src.len() {
            dst.get_mut(..2)?.copy_from_slice(&[ONE_BYTE, src[0]]);
            return Some(2);
        }
        let lengths = Lengths::of(&all);
        let sizes: [usize; 4] = core::array::from_fn(|i| {
            let bits = counts[256 * i..256 * (i + 1)].iter().zip(&lengths.0);
            bits.map(|(&count, &length)| count as usize * usize::from(length)).sum::<usize>().div_ceil(8)
        });
        let size = 1 + lengths.size() + shape.head() + sizes.iter().sum::<usize>();
        if size > src.len() {
            let mut out = Out::after(dst, 0)?;
            out.put([RAW])?;
            out.put_all(src)?;
            return Some(out.len());
        }
        let mut out = Out::after(dst.get_mut(..size)?, 0)?;
        out.put([if shape.streams == 1 { ONE_STREAM } else { FOUR_STREAMS }])?;
        lengths.put(&mut out)?;
        for size in &sizes[..shape.streams - 1] {
            out.put_all(&(*size as u32).to_le_bytes()[..shape.size])?;
        }
        let codes = lengths.codes();
        for (bytes, size) in src.chunks(shape.quarter).zip(sizes) {
            Writer::new(out.skip(size)?).put_all(bytes, &codes);
        }
        Some(size)
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (&kind, src) = src.split_first().ok_or(Malformed)?;
        let shape = Shape::of(dst.len());
        match (kind, src) {
            (RAW, _) if src.len() == dst.len() => {
                dst.copy_from_slice(src);
                return Ok(());
            }
            (ONE_BYTE, [byte]) => {
                dst.fill(*byte);
                return Ok(());
            }
            (ONE_STREAM, _) if shape.streams == 1 => {}
            (FOUR_STREAMS, _) if shape.streams == 4 => {}
            _ => return Err(Malformed),
        }
        let table = Parts::new(scratch.bytes(part::<u16>(1 << LONGEST))).take::<u16>(1 << LONGEST);
        let table: &mut [u16; 1 << LONGEST] = table.try_into().map_err(|_| Malformed)?;
        let (lengths, rest) = Lengths::take(src)?;
        lengths.fill(table)?;
        let (sizes, mut rest) = rest.split_at_checked(shape.head()).ok_or(Malformed)?;
        let mut streams = [&rest[..0]; 4];
        for (stream, size) in streams.iter_mut().zip(sizes.chunks_exact(shape.size)) {
            let size = size.iter().rev().fold(0, |size, &byte| size << 8 | usize::from(byte));
            let (now, after) = rest.split_at_checked(size).ok_or(Malformed)?;
            (*stream, rest) = (now, after);
        }
        streams[shape.streams - 1] = rest;
        let mut parts = dst.chunks_mut(shape.quarter);
        let mut to: [&mut [u8]; 4] = [(); 4].map(|()| parts.next().unwrap_or_default());
        let mut readers = streams.map(Reader::new);
        bits::read_side_by_side(&mut readers, &mut to, table);
        let mut done = true;
        for (reader, to) in readers.iter_mut().zip(to).take(shape.streams) {
            reader.read(to, table);
            done &= reader.is_at_end();
        }
        if done { Ok(()) } else { Err(Malformed) }
    }
}

/// Counts into four tables in turn, so that increments for a run of equal bytes do not wait for each other.
fn count(bytes: &[u8], counts: &mut [u32]) {
    let mut tables = [[0_u32; 256]; 4];
    let fours = bytes.chunks_exact(4);
    for &byte in fours.remainder() {
        tables[0][usize::from(byte)] += 1;
    }
    for four in fours {
        for (table, &byte) in tables.iter_mut().zip(four) {
            table[usize::from(byte)] += 1;
        }
    }
    for (i, count) in counts.iter_mut().enumerate() {
        *count = tables.iter().map(|table| table[i]).sum();
    }
}
