//! Blocks that are arrays of ascending numbers, in runs that can be read independently.
//!
//! A **run** is a sequence of words of which none is less than the one before, up to [`MOST`] of them,
//! perhaps followed by repeats of the last one. The differences to the first word are in Elias-Fano form
//! (Elias 1974, Fano 1971): the high bits in unary, the low bits as they are. That takes two bits a word more
//! than the logarithm of the mean distance, which is half a bit above the minimum. So an element is found
//! without restoring all of its block.
//!
//! ```text
//!   | words, 2 | runs, 2 | runs | starts, 4 each | zeros, 8 |
//!
//!   start:   of a run: the number of its first word, 2 | its place in units of 4 bytes, 2
//!   run:     | check, 4 | first word, 8 | low, 1 | repeats, 1 | low bits | high bits | up to 4 |
//!   low:     how many low bits each word has; or RAW: then whole words follow
//!   high:    for each word but the first a one, after as many zeros as its high bits exceed the previous word's
//! ```
//!
//! Words and bits are stored lowest first. The check covers the run and its place: a run is read only if its
//! check matches, whatever else of the block is damaged. If the whole block has been checked, the checks of
//! runs are ignored. No input can make a read go outside the block.

mod border;
mod pack;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use pack::pack;

use crate::store::{hash, mix, will_read_all};

const WORD: usize = size_of::<u64>();
/// The most words of a run, without repeats: a slab of the usual length is one run, not parts of two.
const MOST: usize = 126;
/// Bytes before runs.
const HEAD: usize = 4;
/// Bytes of a place's unit.
const UNIT: usize = 4;
/// Bytes of a run's check, and of everything before its bits.
const CHECK: usize = 4;
const RUN: usize = CHECK + WORD + 2;
/// Zeros after all runs: eight bytes can be read from any bit on.
const SLACK: usize = WORD;
/// The most low bits: those of a word are read at once, with up to seven bits before them.
const MOST_LOW: u8 = 56;
/// In place of the number of low bits.
const RAW: u8 = 255;

/// A block packed by `pack`.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'p> {
    bytes: &'p [u8],
    words: usize,
    runs: usize,
    /// Where starts lie.
    starts: usize,
}

/// A run, as far as it is known without reading its bits.
#[derive(Debug)]
pub struct Run<'p> {
    /// The bytes from its check to the end of the block.
    bytes: &'p [u8],
    /// How many of them belong to the run.
    len: usize,
    /// Which words of the block are in it.
    pub words: Range<usize>,
    place: u16,
}

impl<'p> Packed<'p> {
    /// The packed form of a block of `len` bytes, if `bytes` can be that.
    pub fn new(bytes: &'p [u8], len: usize) -> Option<Self> {
        let words = usize::from(number(bytes, 0)?);
        let runs = usize::from(number(bytes, 2)?);
        let starts = bytes.len().checked_sub(SLACK + 4 * runs).filter(|&starts| starts >= HEAD)?;
        (words * WORD == len).then_some(Packed { bytes, words, runs, starts })
    }

    /// The first word of a run; for the number after the last run, the number of words.
    #[inline]
    fn start(&self, run: usize) -> Option<usize> {
        if run == self.runs {
            Some(self.words)
        } else {
            number(self.bytes, self.starts + 4 * run).map(usize::from)
        }
    }

    fn place(&self, run: usize) -> Option<u16> {
        number(self.bytes, self.starts + 4 * run + 2)
    }

    fn run(&self, run: usize) -> Option<Run<'p>> {
        let place = self.place(run)?;
        let from = usize::from(place) * UNIT;
        let to = if run + 1 == self.runs { self.starts } else { usize::from(self.place(run + 1)?) * UNIT };
        let bytes = self.bytes.get(from..)?;
        let len = to.checked_sub(from).filter(|&len| len >= RUN && len <= bytes.len())?;
        Some(Run { bytes, len, words: self.start(run)?..self.start(run + 1)?, place })
    }

    /// Unpacks the whole block, whose bytes have been checked.
    pub fn unpack(&self, to: &mut [u8]) -> Option<()> {
        let to = words_mut(to).get_mut(..self.words)?;
        let mut next = 0;
        for number in 0..self.runs {
            let run = self.run(number)?;
            if run.words.start != next {
                return None;
            }
            next = run.words.end;
            run.read(to.get_mut(run.words.clone())?)?;
        }
        (next == self.words).then_some(())
    }

    /// Unpacks the words in this range of bytes, and perhaps some around it; each run is checked. `to` is as
    /// long as the block.
    pub fn unpack_part(&self, range: Range<usize>, to: &mut [u8]) -> Option<()> {
        let (from, end) = (range.start / WORD, range.end.div_ceil(WORD));
        let to = words_mut(to).get_mut(..self.words)?;
        let mut number = self.run_with(from)?;
        let mut next = None;
        loop {
            let run = self.run(number)?;
            let follows = next.map_or(run.words.start <= from, |next| run.words.start == next);
            will_read_all(run.bytes.as_ptr(), run.len);
            if !follows || !run.is_right() {
                return None;
            }
            next = Some(run.words.end);
            run.read(to.get_mut(run.words.clone())?)?;
            if run.words.end >= end {
                return Some(());
            }
            number += 1;
        }
    }

    /// The run that contains a whole range of bytes, if one does.
    pub fn run_of(&self, range: Range<usize>) -> Option<Run<'p>> {
        let run = self.run(self.run_with(range.start / WORD)?)?;
        will_read_all(run.bytes.as_ptr(), run.len);
        let is_in_it = run.words.start <= range.start / WORD && range.end <= run.words.end * WORD;
        is_in_it.then_some(run)
    }

    /// The run with a word, if the starts are right.
    fn run_with(&self, word: usize) -> Option<usize> {
        let (mut low, mut high) = (0, self.runs);
        while low < high {
            let middle = (low + high) / 2;
            if self.start(middle)? <= word { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }
}

impl Run<'_> {
    /// Whether the run is intact.
    pub fn is_right(&self) -> bool {
        let (kept, run) = self.bytes[..self.len].split_at(CHECK);
        kept == check(run, self.words.clone(), self.place).to_le_bytes()
    }

    #[inline]
    fn read(&self, to: &mut [[u8; WORD]]) -> Option<()> {
        let base = u64::from_le_bytes(*self.bytes[CHECK..].first_chunk()?);
        let (low, repeats) = (self.bytes[CHECK + WORD], usize::from(self.bytes[CHECK + WORD + 1]));
        let (words, repeated) = to.split_at_mut_checked(to.len().checked_sub(repeats)?)?;
        let bits = &self.bytes[RUN..];
        if low == RAW {
            let from = bits.get(..words.len() * WORD)?;
            words.as_flattened_mut().copy_from_slice(from);
        } else if low <= MOST_LOW {
            read_bits(base, low.into(), bits, words)?;
        } else {
            return None;
        }
        repeated.fill(*words.last()?);
        Some(())
    }
}

/// Reads words, of which the first is `base`.
#[inline]
fn read_bits(base: u64, low: usize, bits: &[u8], words: &mut [[u8; WORD]]) -> Option<()> {
    let (first, rest) = words.split_first_mut()?;
    *first = base.to_le_bytes();
    if rest.is_empty() {
        return Some(());
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the CPU has the required features.
        return unsafe { read_rest_with_bmi(base, low, bits, rest) };
    }
    read_rest(base, low, bits, rest)
}

/// The same code with these CPU features, which takes a quarter less time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn read_rest_with_bmi(base: u64, low: usize, bits: &[u8], rest: &mut [[u8; WORD]]) -> Option<()> {
    read_rest(base, low, bits, rest)
}

/// Reads the words after the first one; there is at least one.
#[inline(always)]
fn read_rest(base: u64, low: usize, bits: &[u8], mut rest: &mut [[u8; WORD]]) -> Option<()> {
    let high_at = rest.len() * low;
    let mask = (1 << low) - 1;
    let mut byte = high_at / 8;
    let mut ones = load(bits, byte)? & (!0 << (high_at % 8));
    // The position of the first bit of `ones` after the start of the high bits, less the words that were
    // read.
    let mut high = ((byte * 8) as u64).wrapping_sub(high_at as u64);
    let mut at = 0;
    loop {
        let (these, others) = rest.split_at_mut(rest.len().min(ones.count_ones() as usize));
        for word in these {
            let upper = high.wrapping_add(ones.trailing_zeros().into());
            ones &= ones - 1;
            high = high.wrapping_sub(1);
            let lower = load(bits, at / 8)? >> (at % 8) & mask;
            at += low;
            *word = base.wrapping_add(upper << low | lower).to_le_bytes();
        }
        if others.is_empty() {
            return Some(());
        }
        rest = others;
        byte += WORD;
        ones = load(bits, byte)?;
        high = high.wrapping_add(64);
    }
}

#[inline(always)]
fn load(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + WORD)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.first_chunk().map(|number| u16::from_le_bytes(*number))
}

fn words_mut(bytes: &mut [u8]) -> &mut [[u8; WORD]] {
    bytes.as_chunks_mut().0
}

fn check(run: &[u8], words: Range<usize>, place: u16) -> u32 {
    mix(hash(run), words.start as u64 | (words.end as u64) << 16 | u64::from(place) << 32)
}
