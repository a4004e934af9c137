//! `842`: the format of IBM's memory compression hardware, which Linux also implements in software. It codes
//! eight bytes at a time, as pieces of 8, 4 or 2 bytes; each piece is a literal or the index of an equal piece
//! before.
//!
//! ```text
//! op, 5 bits, in hexadecimal; "index 2" is the index of a piece of 2 bytes, and so on
//! 00-18   5 * first half + second half; a half is one of
//!           0  four bytes          1  two bytes, index 2     2  index 2, two bytes
//!           3  two indices 2       4  index 4
//! 19      index 8
//! 1B      the last eight bytes again, n + 1 times; n is in the next 6 bits
//! 1C      eight zeros
//! 1D      a tail of less than eight bytes: 3 bits of length, its bytes
//! 1E      the end; the remaining bits of the last byte are zero
//! ```
//!
//! Bytes are filled from the highest bit on, and numbers are written highest bit first. An index refers to a
//! piece of 8, 4 or 2 bytes in the data before these eight bytes. It is the piece's position, counted in
//! pieces of that size, modulo 256, 512 and 256, so it has 8, 9 and 8 bits. The checksum that the kernel
//! appends is left out, since the caller keeps its own checksum of the block.

use crate::bytes::{self, Out};
use crate::scratch::parts::{Parts, part};
use crate::steps::{Standalone, Step};
use crate::{CodecId, Malformed, Scratch};

pub(crate) static P842: Standalone<Code842> = Standalone { step: Code842, id: CodecId::P842 };

/// The codec `842`.
pub(crate) struct Code842;

const INDEX_8: u64 = 0x19;
const REPEAT: u64 = 0x1B;
const ZEROS: u64 = 0x1C;
const SHORT: u64 = 0x1D;
const END: u64 = 0x1E;

/// Codes of the kinds of halves.
const DATA: u64 = 0;
const DATA_INDEX: u64 = 1;
const INDEX_DATA: u64 = 2;
const INDICES: u64 = 3;
const INDEX_4: u64 = 4;

/// Binary logarithm of the size of the tables that find pieces.
const TABLE_BITS: u32 = 10;

/// Bits of an index to a piece of this many bytes.
const fn index_bits(bytes: usize) -> u32 {
    if bytes == 4 { 9 } else { 8 }
}

/// How far back an index can refer to pieces of this many bytes.
const fn window(bytes: usize) -> usize {
    bytes << index_bits(bytes)
}

struct BitWriter<'a> {
    out: Out<'a>,
    buffer: u64,
    bits: u32,
}

impl BitWriter<'_> {
    /// At most 32 bits.
    #[inline(always)]
    fn put(&mut self, value: u64, bits: u32) -> Option<()> {
        self.buffer = self.buffer << bits | value;
        self.bits += bits;
        while self.bits >= 8 {
            self.bits -= 8;
            self.out.put([(self.buffer >> self.bits) as u8])?;
        }
        Some(())
    }
}

struct BitReader<'a> {
    src: &'a [u8],
    buffer: u64,
    bits: u32,
}

impl BitReader<'_> {
    /// At most 32 bits.
    #[inline(always)]
    fn take(&mut self, bits: u32) -> Result<u64, Malformed> {
        while self.bits < bits {
            let (&byte, rest) = self.src.split_first().ok_or(Malformed)?;
            self.src = rest;
            self.buffer = self.buffer << 8 | u64::from(byte);
            self.bits += 8;
        }
        self.bits -= bits;
        Ok(self.buffer >> self.bits & ((1 << bits) - 1))
    }
}

/// The last positions of pieces of one size, plus one; 0 means none.
struct Seen<'a> {
    bytes: usize,
    table: &'a mut [u32],
}

impl Seen<'_> {
    #[inline(always)]
    fn slot(&mut self, piece: u64) -> &mut u32 {
        &mut self.table[(piece.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - TABLE_BITS)) as usize]
    }

    /// The index of an equal piece before `at`, the position of the eight bytes that contain the piece.
    #[inline(always)]
    fn find(&mut self, piece: u64, src: &[u8], at: usize) -> Option<u64> {
        let place = (*self.slot(piece) as usize).checked_sub(1)?;
        let there = number(&src[place..place + self.bytes]) == piece && at - place <= window(self.bytes);
        there.then_some((place % window(self.bytes) / self.bytes) as u64)
    }
}

/// A number from its bytes, highest first.
#[inline(always)]
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Step for Code842 {
    fn name(&self) -> &'static str {
        "842"
    }

    /// Five additional bits for each eight bytes; the codes for a tail and the end take two more bytes.
    fn bound(&self, len: usize) -> usize {
        len.saturating_add((len / 8 * 5).div_ceil(8) + 2)
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        3 * part::<u32>(1 << TABLE_BITS)
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let mut parts = Parts::new(scratch.bytes(self.forward_scratch(src.len())));
        let [mut twos, mut fours, mut eights] = [2, 4, 8].map(|bytes| {
            let table = parts.take(1 << TABLE_BITS);
            table.fill(0);
            Seen { bytes, table }
        });
        let mut out = BitWriter { out: Out::after(dst, 0)?, buffer: 0, bits: 0 };
        let (words, tail) = bytes::words::<8>(src);
        let (mut last, mut repeated) = (None, 0);
        let repeat = |count: &mut u64, out: &mut BitWriter<'_>| {
            if *count > 0 {
                out.put(REPEAT << 6 | (*count - 1), 11)?;
                *count = 0;
            }
            Some(())
        };
        for (i, word) in words.map(u64::from_be_bytes).enumerate() {
            let at = 8 * i;
            if last == Some(word) {
                repeated += 1;
                if repeated == 64 {
                    repeat(&mut repeated, &mut out)?;
                }
            } else {
                repeat(&mut repeated, &mut out)?;
                if word == 0 {
                    out.put(ZEROS, 5)?;
                } else if let Some(index) = eights.find(word, src, at) {
                    out.put(INDEX_8 << 8 | index, 13)?;
                } else {
                    let halves = [word >> 32, word & 0xFFFF_FFFF].map(|half| {
                        if let Some(index) = fours.find(half, src, at) {
                            return (INDEX_4, [(index, 9), (0, 0)]);
                        }
                        let [a, b] = [half >> 16, half & 0xFFFF];
                        match (twos.find(a, src, at), twos.find(b, src, at)) {
                            (None, None) => (DATA, [(half, 32), (0, 0)]),
                            (None, Some(b)) => (DATA_INDEX, [(a, 16), (b, 8)]),
                            (Some(a), None) => (INDEX_DATA, [(a, 8), (b, 16)]),
                            (Some(a), Some(b)) => (INDICES, [(a, 8), (b, 8)]),
                        }
                    });
                    out.put(5 * halves[0].0 + halves[1].0, 5)?;
                    for (value, bits) in halves.into_iter().flat_map(|(_, pieces)| pieces) {
                        out.put(value, bits)?;
                    }
                }
            }
            *eights.slot(word) = at as u32 + 1;
            for piece in 0..2 {
                *fours.slot(word >> (32 - 32 * piece) & 0xFFFF_FFFF) = (at + 4 * piece) as u32 + 1;
            }
            for piece in 0..4 {
                *twos.slot(word >> (48 - 16 * piece) & 0xFFFF) = (at + 2 * piece) as u32 + 1;
            }
            last = Some(word);
        }
        repeat(&mut repeated, &mut out)?;
        if !tail.is_empty() {
            out.put(SHORT << 3 | tail.len() as u64, 8)?;
            for &byte in tail {
                out.put(byte.into(), 8)?;
            }
        }
        out.put(END, 5)?;
        let padding = out.bits.next_multiple_of(8) - out.bits;
        out.put(0, padding)?;
        Some(out.out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let mut bits = BitReader { src, buffer: 0, bits: 0 };
        let mut at = 0;
        loop {
            match bits.take(5)? {
                op @ 0..=INDEX_8 => {
                    let mut word = [0; 8];
                    let mut made = 0;
                    let mut piece = |bytes: usize, data: bool, bits: &mut BitReader<'_>| {
                        let to = word.get_mut(made..made + bytes).ok_or(Malformed)?;
                        if data {
                            to.copy_from_slice(&bits.take(8 * bytes as u32)?.to_be_bytes()[8 - bytes..]);
                        } else {
                            let offset = bits.take(index_bits(bytes))? as usize * bytes;
                            let place = place(offset, at, window(bytes)).ok_or(Malformed)?;
                            to.copy_from_slice(dst.get(place..place + bytes).ok_or(Malformed)?);
                        }
                        made += bytes;
                        Ok(())
                    };
                    if op == INDEX_8 {
                        piece(8, false, &mut bits)?;
                    } else {
                        for half in [op / 5, op % 5] {
                            match half {
                                DATA => piece(4, true, &mut bits)?,
                                INDEX_4 => piece(4, false, &mut bits)?,
                                _ => {
                                    piece(2, half == DATA_INDEX, &mut bits)?;
                                    piece(2, half == INDEX_DATA, &mut bits)?;
                                }
                            }
                        }
                    }
                    dst.get_mut(at..at + 8).ok_or(Malformed)?.copy_from_slice(&word);
                    at += 8;
                }
                REPEAT => {
                    let count = 8 * (bits.take(6)? as usize + 1);
                    let from = at.checked_sub(8).ok_or(Malformed)?;
                    if count > dst.len() - at {
                        return Err(Malformed);
                    }
                    for to in (at..at + count).step_by(8) {
                        dst.copy_within(from..from + 8, to);
                    }
                    at += count;
                }
                ZEROS => {
                    dst.get_mut(at..at + 8).ok_or(Malformed)?.fill(0);
                    at += 8;
                }
                SHORT => {
                    let len = bits.take(3)? as usize;
                    if len == 0 || at + len != dst.len() {
                        return Err(Malformed);
                    }
                    for to in &mut dst[at..] {
                        *to = bits.take(8)? as u8;
                    }
                    at += len;
                }
                END => {
                    let left = bits.bits;
                    let zeros = bits.take(left)? == 0 && left < 8 && bits.src.is_empty();
                    return if at == dst.len() && zeros { Ok(()) } else { Err(Malformed) };
                }
                _ => return Err(Malformed),
            }
        }
    }
}

/// The last position before `at` that has this offset in the window.
#[inline(always)]
fn place(offset: usize, at: usize, window: usize) -> Option<usize> {
    let lap = at / window * window;
    let place = if offset < at - lap { lap + offset } else { (lap + offset).checked_sub(window)? };
    Some(place)
}
