//! The compressor: for each segment the cheapest of the three kinds.
//!
//! A coded segment is made in the scratch and copied to its place if it fits, so the threshold never changes
//! the form.

use super::Effort;
use super::format::{
    CODED, COMMON, FILL, FILL_LEN, LAST, NARROW, PACKED, RAW, SEGMENT, STATIC, STATIC_TABLE, WIDE, granule,
    words_back,
};
use super::kernels::{BitRow, Kernels};
use super::rank::most_frequent;
use super::scalar;
use super::scratch::{Choice, Compressor, OUT};
use super::vote::{Distances, Sampling, Voter};
use crate::{Compressed, same_filled};

/// How a segment is coded.
enum Segment {
    Raw,
    Fill(u64),
    /// The first bytes of `out`.
    Coded(usize),
}

/// Compresses `block`, which is not empty, into `dst`, all of which may be used.
#[inline(always)]
pub(super) fn compress<K: Kernels>(
    kernels: K,
    effort: &Effort,
    block: &[u8],
    dst: &mut [u8],
    work: &mut Compressor,
    counts: &mut [u16],
) -> Compressed {
    let Compressor { choice, out, codes, rest, packed, vote } = work;
    let mut voter = Voter::new(vote, counts, block.len(), effort.sampling);
    let mut used = 0;
    for at in (0..block.len()).step_by(SEGMENT) {
        let segment = &block[at..block.len().min(at + SEGMENT)];
        // Blocks to compress are usually cold, and parts of the loops skip lines.
        kernels.fetch(segment);
        let made = match same_filled(segment).filter(|_| segment.len() > FILL_LEN) {
            Some(word) => Segment::Fill(word),
            None => {
                let mut coder =
                    Coder { kernels, effort, block, at, segment, choice, out, codes, rest, packed };
                coder.code(&mut voter)
            }
        };
        let size = match made {
            Segment::Raw => 1 + segment.len(),
            Segment::Fill(_) => FILL_LEN,
            Segment::Coded(size) => size,
        };
        let Some(to) = dst.get_mut(used..used + size) else { return Compressed::Incompressible };
        match made {
            Segment::Raw => {
                to[0] = RAW;
                to[1..].copy_from_slice(segment);
            }
            Segment::Fill(word) => {
                to[0] = FILL;
                to[1..3].copy_from_slice(&(segment.len() as u16).to_le_bytes());
                to[3..].copy_from_slice(&word.to_le_bytes());
            }
            Segment::Coded(_) => to.copy_from_slice(&out[..size]),
        }
        if at + segment.len() == block.len() {
            to[0] |= LAST;
        }
        used += size;
    }
    Compressed::Fits(used)
}

/// The state of one segment.
struct Coder<'a, K> {
    kernels: K,
    effort: &'a Effort,
    block: &'a [u8],
    at: usize,
    segment: &'a [u8],
    choice: &'a mut Choice,
    out: &'a mut [u8; OUT + super::scratch::SLACK],
    codes: &'a mut super::kernels::Literals,
    rest: &'a mut super::kernels::Literals,
    packed: &'a mut super::kernels::LiteralBits,
}

impl<K: Kernels> Coder<'_, K> {
    #[inline(always)]
    fn code(&mut self, voter: &mut Voter<'_>) -> Segment {
        let Effort { sampling, wide, .. } = *self.effort;
        let granules = self.segment.len() / granule(wide);
        if granules == 0 {
            return Segment::Raw;
        }
        let words = granules * granule(wide) / 8;
        // Noise should cost little, so few places are sampled.
        let flat = flat(self.segment);
        let sampling = if flat { Sampling { density: 31, always: 0, share: 8 } } else { sampling };
        let most = self.effort.distances;
        let distances = voter.distances(
            self.kernels,
            self.block,
            self.at,
            self.segment.len(),
            sampling,
            most,
            granule(wide),
        );
        if flat && distances.found_none() {
            return Segment::Raw;
        }
        let list = distances.as_slice();
        self.kernels.search(self.block, self.at, granules, wide, list, self.choice);
        self.kernels.symbols(words, self.choice);
        let literals = self.kernels.literals(self.segment, words, self.choice);
        if wide {
            self.choice.guesses.fill(0);
        } else {
            guess(granules, list, self.choice);
        }
        let misses = self.kernels.misses(words, self.choice);
        self.write(granules, &distances, literals, misses)
    }

    /// Writes the streams in their order.
    #[inline(always)]
    fn write(&mut self, granules: usize, distances: &Distances, literals: usize, misses: usize) -> Segment {
        let list = distances.as_slice();
        let mut kind = CODED;
        self.out[1] = list.len() as u8;
        self.out[2..4].copy_from_slice(&(literals as u16).to_le_bytes());
        let mut used = 4;
        if list.iter().all(|&distance| distance < 1 << 12) {
            kind |= NARROW;
            used = narrow(list, self.out, used);
        } else {
            for distance in list {
                self.out[used..used + 2].copy_from_slice(&distance.to_le_bytes());
                used += 2;
            }
        }
        match self.pack(literals, used) {
            Some(after) => {
                kind |= PACKED;
                used = after;
            }
            None => {
                self.out[used..used + literals].copy_from_slice(&self.choice.literals[..literals]);
                used += literals;
            }
        }
        if used >= self.segment.len() {
            return Segment::Raw;
        }
        if list.len() > 1 {
            used = self.changes(granules, used);
        }
        if self.effort.wide {
            kind |= WIDE;
        }
        if !self.effort.own_table {
            kind |= STATIC;
        }
        let size = granule(self.effort.wide);
        used = self.symbols(granules * size / 8, misses, used);

        let tail = &self.segment[granules * size..];
        self.out[used..used + tail.len()].copy_from_slice(tail);
        used += tail.len();
        self.out[0] = kind;
        if used > self.segment.len() { Segment::Raw } else { Segment::Coded(used) }
    }

    /// Which granules change to another distance, and to which one.
    #[inline(always)]
    fn changes(&mut self, granules: usize, mut used: usize) -> usize {
        let mut changed = [0; 64];
        self.choice.index[0] = 0;
        let count = self.kernels.changes(granules, self.choice, &mut changed, self.codes);
        used = suppress(self.kernels, &changed, granules.div_ceil(8), self.out, used);
        self.kernels.pack(self.codes, count, &mut self.out[used..]);
        used + count.div_ceil(2)
    }

    /// The table, the words whose symbol was guessed wrongly, and their symbols.
    #[inline(always)]
    fn symbols(&mut self, words: usize, misses: usize, mut used: usize) -> usize {
        let Choice { misses: row, missed, .. } = &mut *self.choice;
        let row = &row[..misses];
        let own;
        let table = if self.effort.own_table {
            own = most_frequent(row);
            let table = own.as_slice();
            self.out[used] = table.len() as u8;
            let mut from_reference = 0_u16;
            for (code, &symbol) in table.iter().enumerate() {
                self.out[used + 1 + code] = symbol as u8;
                from_reference |= symbol >> 8 << code;
            }
            used += 1 + table.len();
            self.out[used..used + 2].copy_from_slice(&from_reference.to_le_bytes());
            used += 2;
            table
        } else {
            &STATIC_TABLE
        };
        used = suppress(self.kernels, missed, words.div_ceil(8), self.out, used);

        let mut flags = [0; size_of::<super::kernels::Flags>()];
        let row = &self.choice.misses;
        let escapes = self.kernels.code(row, misses, table, self.codes, self.rest, &mut flags);
        self.kernels.pack(self.codes, misses, &mut self.out[used..]);
        used += misses.div_ceil(2);
        self.out[used..used + escapes].copy_from_slice(&self.rest[..escapes]);
        used += escapes;
        let bits = escapes.div_ceil(8);
        self.out[used..used + bits].copy_from_slice(&flags[..bits]);
        used + bits
    }

    /// The literals with short codes for the common ones, if that saves enough.
    #[inline(always)]
    fn pack(&mut self, count: usize, mut used: usize) -> Option<usize> {
        let literals = &self.choice.literals;
        let common = super::rank::common(self.kernels, &literals[..count], self.effort)?;
        let with = self.kernels.split(literals, count, &common, self.packed, self.codes, self.rest);
        self.out[used..used + COMMON].copy_from_slice(&common);
        used += COMMON;
        let bits = count.div_ceil(8);
        self.out[used..used + bits].copy_from_slice(&self.packed[..bits]);
        used += bits;
        self.kernels.pack(self.codes, with, &mut self.out[used..]);
        used += with.div_ceil(2);
        self.out[used..used + count - with].copy_from_slice(&self.rest[..count - with]);
        Some(used + count - with)
    }
}

/// The guess for the symbols of each granule: those of its reference.
#[inline(always)]
fn guess(granules: usize, distances: &[u16], choice: &mut Choice) {
    let mut back = [0; super::format::MAX_DISTANCES];
    for (back, &distance) in back.iter_mut().zip(distances) {
        *back = words_back(usize::from(distance));
    }
    choice.symbols[..4].fill(0);
    let Choice { index, symbols, guesses, .. } = choice;
    let index = index[1..=granules].iter();
    for (g, (guesses, &index)) in guesses.chunks_exact_mut(4).zip(index).enumerate() {
        let from = (4 + 4 * g).saturating_sub(back[usize::from(index & 15)]);
        guesses.copy_from_slice(&symbols[from..from + 4]);
    }
}

/// Distances below 4096 in 12 bits each, the first in the low bits.
#[inline(always)]
fn narrow(distances: &[u16], out: &mut [u8], used: usize) -> usize {
    for (i, pair) in distances.chunks(2).enumerate() {
        let second = pair.get(1).copied().unwrap_or(0);
        let both = u32::from(pair[0]) | u32::from(second) << 12;
        out[used + 3 * i..used + 3 * i + 3].copy_from_slice(&both.to_le_bytes()[..3]);
    }
    used + (3 * distances.len()).div_ceil(2)
}

/// Zero suppression: a bit for each byte that is not zero, then those bytes. The row has `len` bytes,
/// followed by zeros.
#[inline(always)]
fn suppress(kernels: impl Kernels, row: &BitRow, len: usize, out: &mut [u8], used: usize) -> usize {
    let flags = len.div_ceil(8);
    let which = kernels.suppress(row, &mut out[used + flags..]);
    out[used..used + flags].copy_from_slice(&which.to_le_bytes()[..flags]);
    used + flags + which.count_ones() as usize
}

/// Whether the bytes look like noise, judged by one word of each line: in noise, two bytes at random places
/// are equal hardly more often than by chance.
#[inline(always)]
fn flat(segment: &[u8]) -> bool {
    // Most segments have more zeros than noise would, and need no counting.
    let (mut zeros, mut i) = (0, 0);
    while 256 * i + 64 <= segment.len() {
        let word = scalar::word(segment, 256 * i + 8 * (i % 8));
        zeros += 8 - scalar::nonzero(word).count_ones();
        i += 1;
    }
    if zeros > 8 {
        return false;
    }
    let mut counts = [0_u16; 256];
    let mut total = 0_u32;
    for (i, line) in segment.chunks_exact(64).enumerate() {
        for &byte in &line[8 * (i % 8)..][..8] {
            counts[usize::from(byte)] += 1;
        }
        total += 8;
    }
    // Ordered pairs of equal bytes: noise has total² / 256, give or take 5 %; a table of numbers or a text
    // has several times that.
    let pairs: u32 = counts.iter().map(|&count| u32::from(count) * u32::from(count)).sum();
    total >= 256 && u64::from(pairs - total) * 256 * 2 < u64::from(total) * u64::from(total) * 3
}
