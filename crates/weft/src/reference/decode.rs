//! From the compressed form back to the unit.

use super::dense::{self, Reader};
use crate::dense::{STREAMS, family};
use crate::format::{
    FIRST_DISTANCES, FROM_ZERO, LEAST_DISTANCE, LINE_WORDS, LINES, MASKS, MOST_BYTES, OWN_REFERENCE,
    OWN_ZERO, PIECE, WORD, WORDS, ZERO, head, most_distance, predicted_from,
};
use crate::{Malformed, Scratch};

/// Restores a unit of the length of `unit` from its compressed form. What `unit` holds after an error is not
/// specified.
///
/// # Errors
/// If the input is no compressed form of a unit of that length.
///
/// # Panics
/// If the unit is longer than [`MOST_BYTES`](crate::MOST_BYTES).
pub fn decompress(from: &[u8], unit: &mut [u8], scratch: &mut Scratch) -> Result<(), Malformed> {
    assert!(unit.len() <= MOST_BYTES, "a unit of {} bytes is too long", unit.len());
    let words = unit.len().div_ceil(WORD).next_multiple_of(WORDS);
    scratch.codes[..words].fill(ZERO);
    let mut state = State { words, distances: FIRST_DISTANCES, w: 0 };
    let mut input = In(from);
    for first in (0..words).step_by(WORDS) {
        let end = unit.len().min(first * WORD + PIECE);
        match input.take_head(first + WORDS == words, end - first * WORD)? {
            head::STORED => {
                let piece = &mut unit[first * WORD..end];
                piece.copy_from_slice(input.take(piece.len())?);
                // A stored piece has no codes and no distances.
                scratch.codes[words + first..][..WORDS].fill(ZERO);
            }
            head @ (head::PLAIN | head::PACKED | head::DENSE) => {
                state.piece(head, first, unit, &mut input, scratch)?
            }
            _ => return Err(Malformed),
        }
    }
    if input.0.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// The rest of the input.
pub(super) struct In<'i>(pub(super) &'i [u8]);

impl<'i> In<'i> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'i [u8], Malformed> {
        let (part, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(part)
    }

    /// The head of a piece of `len` bytes.
    fn take_head(&mut self, is_last: bool, len: usize) -> Result<u8, Malformed> {
        let mut head = self.take(1)?[0];
        if (head & head::LAST != 0) != is_last {
            return Err(Malformed);
        }
        head &= !head::LAST;
        if len == PIECE {
            return Ok(head);
        }
        let there = usize::from(u16::from_le_bytes(self.take(2)?.try_into().map_err(|_| Malformed)?));
        if head & head::SHORT != 0 && there == len { Ok(head & !head::SHORT) } else { Err(Malformed) }
    }

    /// `count` values below 16.
    pub(super) fn take_halves(&mut self, count: usize) -> Result<Halves<'i>, Malformed> {
        Ok(Halves { bytes: self.take(count.div_ceil(2))?, next: 0 })
    }
}

/// Values below 16, two in a byte.
pub(super) struct Halves<'i> {
    bytes: &'i [u8],
    next: usize,
}

impl Iterator for Halves<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.next / 2)?;
        let half = byte >> (self.next % 2 * 4) & 15;
        self.next += 1;
        Some(half)
    }
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 != 0
}

/// What goes on from piece to piece.
struct State {
    /// Of the unit.
    words: usize,
    distances: [usize; 2],
    /// Bytes of part W so far, of dense pieces.
    w: usize,
}

impl State {
    fn piece(
        &mut self,
        kind: u8,
        first: usize,
        unit: &mut [u8],
        input: &mut In<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Malformed> {
        let before = input.0.len();
        let bits = [input.take(LINES / 8)?, input.take(LINES / 8)?];
        let mut dense = if kind == head::DENSE { Some(Reader::new(input)?) } else { None };
        let distances = self.distances(bits, input)?;
        if let Some((reader, sizes)) = &mut dense {
            reader.begin(*sizes, input)?;
        }
        let mut dense = dense.map(|(reader, _): (_, [usize; STREAMS - 1])| reader);
        let mut flags = [0; LINES];
        match &mut dense {
            Some(dense) => dense.symbols(family::FLAGS, &mut flags),
            None => flags.copy_from_slice(input.take(LINES)?),
        }
        let count: usize = flags.iter().map(|flags| flags.count_ones() as usize).sum();
        let mut pairs = [0; WORDS / 2];
        let pairs = &mut pairs[..count.div_ceil(2)];
        match &mut dense {
            Some(dense) => dense.symbols(family::CODES, pairs),
            None => pairs.copy_from_slice(input.take(count.div_ceil(2))?),
        }
        let mut codes = Halves { bytes: pairs, next: 0 };
        let words = self.words;
        let code_at = |word: usize| words + first + word;
        for word in 0..WORDS {
            let code = if bit(&flags, word) {
                codes.next().ok_or(Malformed)?
            } else {
                scratch.codes[code_at(word) - predicted_from(distances[word / LINE_WORDS])]
            };
            scratch.codes[code_at(word)] = code;
        }
        let Scratch { codes, piece: rows, dense: dense_rows, .. } = scratch;
        let codes = &codes[code_at(0)..][..WORDS];
        let from_zero = |word: usize| FROM_ZERO >> codes[word] & 1 != 0;
        let is_own = |code: u8| code == OWN_ZERO || code == OWN_REFERENCE;
        let mut masks = [0; WORDS];
        let masks = &mut masks[..codes.iter().filter(|&&code| is_own(code)).count()];
        match &mut dense {
            Some(dense) => dense.symbols(family::MASKS, masks),
            None => masks.copy_from_slice(input.take(masks.len())?),
        }
        let mut masks = masks.iter();
        let mut mask_of = [0; WORDS];
        for (mask, &code) in mask_of.iter_mut().zip(codes) {
            *mask = if is_own(code) { *masks.next().ok_or(Malformed)? } else { MASKS[usize::from(code)] };
        }
        let is_dense = dense.is_some();
        let (of_reference, of_w) = dense::counts(&mask_of, from_zero);
        let count = of_reference.iter().sum::<usize>() + of_w;
        match dense {
            Some(dense) => {
                dense.literals(of_reference, [self.w, of_w], input, dense_rows)?;
                // It would have been stored.
                if before - input.0.len() >= PIECE {
                    return Err(Malformed);
                }
            }
            None => literals(kind, input, &mut rows.literals[..count])?,
        }
        let mut literals = rows.literals[..count].iter();
        let mut parts = [&dense_rows.r0[..], &dense_rows.r1, &dense_rows.r2].map(|part| part.iter());
        let mut of_w = dense_rows.all_w[self.w..][..if is_dense { of_w } else { 0 }].iter();
        self.w += of_w.len();
        for word in 0..WORDS {
            let at = first + word;
            let distance = distances[word / LINE_WORDS];
            for byte in 0..WORD {
                let reference = if from_zero(word) || distance > at {
                    0
                } else {
                    // A reference never lies behind the end of a shorter unit, since it lies before the word.
                    unit.get((at - distance) * WORD + byte).copied().unwrap_or(0)
                };
                let value = match (mask_of[word] >> byte & 1 != 0, is_dense) {
                    (false, _) => reference,
                    (true, false) => *literals.next().ok_or(Malformed)?,
                    (true, true) if from_zero(word) => *of_w.next().ok_or(Malformed)?,
                    (true, true) => reference.wrapping_add(*parts[byte.min(2)].next().ok_or(Malformed)?),
                };
                if let Some(to) = unit.get_mut(at * WORD + byte) {
                    *to = value;
                }
            }
        }
        Ok(())
    }

    /// The distance of each line.
    fn distances(&mut self, bits: [&[u8]; 2], input: &mut In<'_>) -> Result<[usize; LINES], Malformed> {
        let mut result = [0; LINES];
        for (line, result) in result.iter_mut().enumerate() {
            let [now, before] = self.distances;
            let next = match bits.map(|bits| bit(bits, line)) {
                [false, false] => now,
                [true, false] => usize::from(input.take(1)?[0]),
                [false, true] if self.words == WORDS => 256 + usize::from(input.take(1)?[0]),
                [false, true] => {
                    input.take(2)?.iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
                }
                [true, true] => before,
            };
            if !(LEAST_DISTANCE..=self.most()).contains(&next) {
                return Err(Malformed);
            }
            if bits.iter().any(|bits| bit(bits, line)) {
                self.distances = [next, now];
            }
            *result = next;
        }
        Ok(result)
    }

    /// The largest distance.
    fn most(&self) -> usize {
        most_distance(self.words)
    }
}

/// Reads literals, plain or packed.
fn literals(kind: u8, input: &mut In<'_>, literals: &mut [u8]) -> Result<(), Malformed> {
    if kind == head::PLAIN {
        literals.copy_from_slice(input.take(literals.len())?);
        return Ok(());
    }
    let table = input.take(16)?;
    let bits = input.take(literals.len().div_ceil(8))?;
    let common = (0..literals.len()).filter(|&literal| bit(bits, literal)).count();
    let mut classes = input.take_halves(common)?;
    let mut others = input.take(literals.len() - common)?.iter();
    for (at, literal) in literals.iter_mut().enumerate() {
        *literal = if bit(bits, at) {
            table[usize::from(classes.next().ok_or(Malformed)?)]
        } else {
            *others.next().ok_or(Malformed)?
        };
    }
    Ok(())
}
