//! Searching a run without reading all of it.

use std::ops::Range;

use super::{CHECK, MOST, MOST_LOW, RAW, RUN, Run, SLACK, WORD, load};

/// The border in a run between the words before the one searched for and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Border {
    /// How many words of the run are before it.
    pub before: usize,
    /// The last of them, if there is one.
    pub last: u64,
    /// The word after it, if there is one.
    pub next: u64,
}

impl Run<'_> {
    /// The most bytes that a copy takes, unless the data are forged.
    pub const ROOM: usize = (RUN + MOST * WORD).next_multiple_of(WORD) + SLACK;

    /// A copy of the bytes to read, if they fit.
    pub fn copy_to<'t>(&self, to: &'t mut [u8]) -> Option<Run<'t>> {
        let from = self.bytes.get(..self.len + SLACK)?;
        let bytes = to.get_mut(..from.len())?;
        bytes.copy_from_slice(from);
        Some(Run { bytes, len: self.len, words: self.words.clone(), place: self.place })
    }

    /// Finds the border among the words `within`. `is_before` holds for the first of them and not for the
    /// others; it is called for few of them.
    ///
    /// For each group of 64 bits that holds the high ones of some words, the last of those words is tested
    /// first, and the others only if the border is among them.
    #[inline]
    pub fn border(&self, within: Range<usize>, is_before: impl Fn(u64) -> bool) -> Option<Border> {
        let base = u64::from_le_bytes(*self.bytes[CHECK..].first_chunk()?);
        let (low, repeats) = (self.bytes[CHECK + WORD], usize::from(self.bytes[CHECK + WORD + 1]));
        let words = self.words.len().checked_sub(repeats).filter(|&words| words > 0)?;
        let bits = &self.bytes[RUN..];
        let is_before = |at: usize, word: u64| at < within.start || at < within.end && is_before(word);
        let border = match low {
            RAW => raw(bits, words, is_before)?,
            low if low <= MOST_LOW => packed(base, low.into(), bits, words, is_before)?,
            _ => return None,
        };
        if border.before < words {
            return Some(border);
        }
        let last = border.last;
        let before = (words..self.words.len()).find(|&at| !is_before(at, last));
        Some(Border { before: before.unwrap_or(self.words.len()), last, next: last })
    }
}

fn raw(bits: &[u8], words: usize, is_before: impl Fn(usize, u64) -> bool) -> Option<Border> {
    let all = &bits.get(..words * WORD)?.as_chunks::<WORD>().0;
    let word = |at: usize| all.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    let before = (0..words).find(|&at| !is_before(at, word(at))).unwrap_or(words);
    Some(Border { before, last: word(before.saturating_sub(1)), next: word(before) })
}

fn packed(
    base: u64,
    low: usize,
    bits: &[u8],
    words: usize,
    is_before: impl Fn(usize, u64) -> bool,
) -> Option<Border> {
    let mut last = base;
    if !is_before(0, base) {
        return Some(Border { before: 0, last, next: base });
    }
    let high_at = (words - 1) * low;
    let mask = (1 << low) - 1;
    let mut byte = high_at / 8;
    let mut ones = load(bits, byte)? & (!0 << (high_at % 8));
    let mut at = 1;
    // Word number `at`, whose one is bit number `bit` of those in `ones`.
    let word = |at: usize, byte: usize, bit: u32| {
        let upper = ((byte * 8 + bit as usize) as u64).wrapping_sub((high_at + at - 1) as u64);
        let lower_at = (at - 1) * low;
        let lower = load(bits, lower_at / 8)? >> (lower_at % 8) & mask;
        Some(base.wrapping_add(upper << low | lower))
    };
    while at < words {
        let count = ones.count_ones() as usize;
        if count > 0 && count <= words - at {
            let word = word(at + count - 1, byte, ones.ilog2())?;
            if is_before(at + count - 1, word) {
                (at, last, ones) = (at + count, word, 0);
            }
        }
        while ones != 0 && at < words {
            let next = word(at, byte, ones.trailing_zeros())?;
            if !is_before(at, next) {
                return Some(Border { before: at, last, next });
            }
            ones &= ones - 1;
            (at, last) = (at + 1, next);
        }
        if at < words {
            byte += WORD;
            ones = load(bits, byte)?;
        }
    }
    Some(Border { before: words, last, next: last })
}
