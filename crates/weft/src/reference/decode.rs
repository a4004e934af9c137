//! From the compressed form back to the unit.

use super::dense::{self, Reader};
use crate::Malformed;
use crate::dense::family;
use crate::format::{
    FIRST_DISTANCES, FROM_ZERO, LEAST_DISTANCE, LINE_WORDS, LINES, MASKS, MOST_BYTES, OWN_REFERENCE,
    OWN_ZERO, PIECE, WORD, WORDS, ZERO, head, most_distance, predicted_from,
};
use crate::scratch::{Scratch, Working};

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
    let scratch = &mut scratch.working;
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
        scratch: &mut Working,
    ) -> Result<(), Malformed> {
        let before = input.0.len();
        let bits = [input.take(LINES / 8)?, input.take(LINES / 8)?];
        let mut dense = if kind == head::DENSE { Some(Reader::new(input)?) } else { None };
        let distances = self.distances(bits, input)?;
        if let Some(dense) = &mut dense {
            dense.begin(input)?;
        }
        let begin = self.words + first;
        codes(&mut dense, begin, &distances, input, scratch)?;
        let Working { codes, piece: rows, dense: dense_rows, .. } = scratch;
        let codes = &codes[begin..][..WORDS];
        let masks = masks(&mut dense, codes, input)?;
        let (of_reference, of_w) = dense::counts(&masks, |word| from_zero(codes[word]));
        let count = of_reference.iter().sum::<usize>() + of_w;
        let Some(dense) = dense else {
            literals(kind, input, &mut rows.literals[..count])?;
            let mut literals = rows.literals[..count].iter();
            return words(first, &distances, codes, &masks, unit, |_, reference| match reference {
                Reference::Kept(byte) => Some(byte),
                _ => literals.next().copied(),
            });
        };
        dense.literals(of_reference, [self.w, of_w], input, dense_rows)?;
        // The format has no longer ones: a whole piece would have been stored.
        if before - input.0.len() >= PIECE {
            return Err(Malformed);
        }
        let mut parts = [&dense_rows.r0[..], &dense_rows.r1, &dense_rows.r2].map(|part| part.iter());
        let mut w = dense_rows.all_w[self.w..][..of_w].iter();
        self.w += of_w;
        words(first, &distances, codes, &masks, unit, |byte, reference| match reference {
            Reference::Kept(byte) => Some(byte),
            Reference::Zero => w.next().copied(),
            Reference::Byte(of) => parts[byte.min(2)].next().map(|differs| of.wrapping_add(*differs)),
        })
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

/// `count` symbols of a family: from the streams of a dense piece, or as they are.
fn symbols(
    dense: &mut Option<Reader<'_>>,
    family: usize,
    to: &mut [u8],
    input: &mut In<'_>,
) -> Result<(), Malformed> {
    match dense {
        Some(dense) => dense.symbols(family, to),
        None => to.copy_from_slice(input.take(to.len())?),
    }
    Ok(())
}

/// Reads the codes of a piece, which begin at `begin` in the scratch.
fn codes(
    dense: &mut Option<Reader<'_>>,
    begin: usize,
    distances: &[usize; LINES],
    input: &mut In<'_>,
    scratch: &mut Working,
) -> Result<(), Malformed> {
    let (mut flags, mut pairs) = ([0; LINES], [0; WORDS / 2]);
    symbols(dense, family::FLAGS, &mut flags, input)?;
    let count: usize = flags.iter().map(|flags| flags.count_ones() as usize).sum();
    let pairs = &mut pairs[..count.div_ceil(2)];
    symbols(dense, family::CODES, pairs, input)?;
    let mut codes = Halves { bytes: pairs, next: 0 };
    for word in 0..WORDS {
        scratch.codes[begin + word] = if bit(&flags, word) {
            codes.next().ok_or(Malformed)?
        } else {
            scratch.codes[begin + word - predicted_from(distances[word / LINE_WORDS])]
        };
    }
    Ok(())
}

/// The mask of each word.
fn masks(dense: &mut Option<Reader<'_>>, codes: &[u8], input: &mut In<'_>) -> Result<[u8; WORDS], Malformed> {
    let is_own = |code: u8| code == OWN_ZERO || code == OWN_REFERENCE;
    let mut own = [0; WORDS];
    let own = &mut own[..codes.iter().filter(|&&code| is_own(code)).count()];
    symbols(dense, family::MASKS, own, input)?;
    let mut own = own.iter();
    let mut masks = [0; WORDS];
    for (mask, &code) in masks.iter_mut().zip(codes) {
        *mask = if is_own(code) { *own.next().ok_or(Malformed)? } else { MASKS[usize::from(code)] };
    }
    Ok(masks)
}

/// Whether a word with this code has zeros where it has no literals.
fn from_zero(code: u8) -> bool {
    FROM_ZERO >> code & 1 != 0
}

/// Where a byte of a word comes from.
enum Reference {
    /// It is this byte of the reference, or zero.
    Kept(u8),
    /// It is a literal, of a word that starts from its reference, which has this byte.
    Byte(u8),
    /// It is a literal, of another word.
    Zero,
}

/// Puts the words of a piece together; `value` makes a byte of its number in the word and what it comes from.
fn words(
    first: usize,
    distances: &[usize; LINES],
    codes: &[u8],
    masks: &[u8; WORDS],
    unit: &mut [u8],
    mut value: impl FnMut(usize, Reference) -> Option<u8>,
) -> Result<(), Malformed> {
    for word in 0..WORDS {
        let (at, distance) = (first + word, distances[word / LINE_WORDS]);
        for byte in 0..WORD {
            let is_of_zero = from_zero(codes[word]);
            let reference = if is_of_zero || distance > at {
                0
            } else {
                // Behind the end of a short unit nothing is kept, and only bytes behind the end depend on it.
                unit.get((at - distance) * WORD + byte).copied().unwrap_or(0)
            };
            let from = match (masks[word] >> byte & 1 != 0, is_of_zero) {
                (false, _) => Reference::Kept(reference),
                (true, false) => Reference::Byte(reference),
                (true, true) => Reference::Zero,
            };
            let value = value(byte, from).ok_or(Malformed)?;
            if let Some(to) = unit.get_mut(at * WORD + byte) {
                *to = value;
            }
        }
    }
    Ok(())
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
