//! From a unit to its compressed form.

use super::dense;
use super::literals::{is_common, is_worth, table};
use super::search::{Change, Search, Unit};
use crate::Effort;
use crate::format::{
    FROM_ZERO, LINE_WORDS, LINES, MASKS, MOST_BYTES, OWN_REFERENCE, OWN_ZERO, PIECE, RAW, WORD, WORDS, ZERO,
    class, head, predicted_from,
};
use crate::ideas::{Idea, is_left_out};
use crate::scratch::{Scratch, Working};

/// Compresses `unit` into the beginning of `to`, and returns the length; `None` if it would not fit.
///
/// # Panics
/// If the unit is longer than [`MOST_BYTES`](crate::MOST_BYTES).
pub fn compress(unit: &[u8], to: &mut [u8], effort: Effort, scratch: &mut Scratch) -> Option<usize> {
    assert!(unit.len() <= MOST_BYTES, "a unit of {} bytes is too long", unit.len());
    let scratch = &mut scratch.working;
    let words = unit.len().div_ceil(WORD).next_multiple_of(WORDS);
    scratch.codes[..words].fill(ZERO);
    let search = Search::new(effort, words, scratch);
    dense::forget(scratch);
    let mut encoder = Encoder { unit: Unit(unit), words, effort, search, w: 0, out: Out { to, len: 0 } };
    for first in (0..words).step_by(WORDS) {
        let (start, distances, w) = (encoder.out.len, encoder.search.distances, encoder.w);
        let stored = &unit[first * WORD..unit.len().min(first * WORD + PIECE)];
        let head = if stored.len() == PIECE { 1 } else { 3 };
        let is_coded = encoder.piece(first, stored.len(), scratch).is_some();
        if !is_coded || encoder.out.len - start >= head + stored.len() {
            // For the decoder, a stored piece has neither distances nor codes.
            (encoder.search.distances, encoder.w) = (distances, w);
            dense::forget(scratch);
            scratch.codes[words + first..][..WORDS].fill(ZERO);
            encoder.out.len = start;
            encoder.out.put_head(head::STORED, first + WORDS == words, stored.len())?;
            encoder.out.put(stored)?;
        }
    }
    Some(encoder.out.len)
}

/// What goes on from piece to piece.
struct Encoder<'u> {
    unit: Unit<'u>,
    /// Words of the unit, with its last piece filled up.
    words: usize,
    effort: Effort,
    search: Search,
    /// Bytes of part W so far, of dense pieces.
    w: usize,
    out: Out<'u>,
}

/// The compressed form so far.
pub(super) struct Out<'o> {
    pub(super) to: &'o mut [u8],
    pub(super) len: usize,
}

impl Out<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.to.get_mut(self.len..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    /// The head of a piece of `len` bytes.
    fn put_head(&mut self, head: u8, is_last: bool, len: usize) -> Option<()> {
        let head = if is_last { head | head::LAST } else { head };
        if len == PIECE {
            return self.put(&[head]);
        }
        let [low, high] = (len as u16).to_le_bytes();
        self.put(&[head | head::SHORT, low, high])
    }

    /// Values below 16, two in a byte.
    pub(super) fn put_halves(&mut self, values: &[u8]) -> Option<()> {
        values.chunks(2).try_for_each(|pair| self.put(&[pair[0] | pair.get(1).unwrap_or(&0) << 4]))
    }
}

/// A row that grows.
struct Row<const MOST: usize> {
    bytes: [u8; MOST],
    len: usize,
}

impl<const MOST: usize> Row<MOST> {
    fn new() -> Self {
        Row { bytes: [0; MOST], len: 0 }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Encoder<'_> {
    /// Writes the piece of `len` bytes that begins at word `first`.
    fn piece(&mut self, first: usize, len: usize, scratch: &mut Working) -> Option<()> {
        let (mut bits, mut distances) = ([[0u8; LINES / 8]; 2], Row::<{ 2 * LINES }>::new());
        let (mut flags, mut codes, mut masks) = ([0; LINES], Row::<WORDS>::new(), Row::<WORDS>::new());
        let is_dense = self.effort == Effort::Dense;
        let (mut literals, mut of_reference, begin) = (0, [0; 3], self.w);
        for (line, flags) in flags.iter_mut().enumerate() {
            let begin = first + line * LINE_WORDS;
            let how = match self.search.line(&self.unit, begin, scratch) {
                Change::Same => 0,
                Change::Back => 3,
                Change::To(distance @ 0..256) => {
                    distances.push(distance as u8);
                    1
                }
                Change::To(distance) if self.words == WORDS => {
                    distances.push((distance - 256) as u8);
                    2
                }
                Change::To(distance) => {
                    let [low, high] = (distance as u16).to_le_bytes();
                    distances.push(low);
                    distances.push(high);
                    2
                }
            };
            for (bit, bits) in bits.iter_mut().enumerate() {
                bits[line / 8] |= (how >> bit & 1) << (line % 8);
            }
            let distance = self.search.distances[0];
            for word in 0..LINE_WORDS {
                let at = begin + word;
                let (value, reference) =
                    (self.unit.word(at as isize), self.unit.word(at as isize - distance as isize));
                let (code, mask) = code(value, reference);
                if code == OWN_ZERO || code == OWN_REFERENCE {
                    masks.push(mask);
                }
                let is_of_reference = FROM_ZERO >> code & 1 == 0 && !is_left_out(Idea::Parts);
                let bytes = value.to_le_bytes().into_iter().zip(reference.to_le_bytes()).enumerate();
                for (byte, (literal, of)) in bytes.filter(|(byte, _)| mask >> byte & 1 != 0) {
                    if is_dense && is_of_reference {
                        let dense = &mut scratch.dense;
                        let part: [&mut [u8]; 3] = [&mut dense.r0, &mut dense.r1, &mut dense.r2];
                        let number = byte.min(2);
                        let of = if is_left_out(Idea::Differences) { 0 } else { of };
                        part[number][of_reference[number]] = literal.wrapping_sub(of);
                        of_reference[number] += 1;
                    } else if is_dense {
                        scratch.dense.all_w[self.w] = literal;
                        self.w += 1;
                    } else {
                        scratch.piece.literals[literals] = literal;
                        literals += 1;
                    }
                }
                scratch.codes[self.words + at] = code;
                let predicted = scratch.codes[self.words + at - predicted_from(distance)];
                if code != if is_left_out(Idea::Prediction) { ZERO } else { predicted } {
                    *flags |= 1 << word;
                    codes.push(code);
                }
            }
        }
        let is_last = first + WORDS == self.words;
        if is_dense {
            self.out.put_head(head::DENSE, is_last, len)?;
            bits.iter().try_for_each(|bits| self.out.put(bits))?;
            let mut pairs = [0; WORDS / 2];
            let chunks = codes.get().chunks(2);
            let count = chunks.len();
            for (pair, codes) in pairs.iter_mut().zip(chunks) {
                *pair = codes[0] | codes.get(1).unwrap_or(&0) << 4;
            }
            let parts = dense::Parts {
                flags: &flags,
                codes: &pairs[..count],
                masks: masks.get(),
                of_reference,
                distances: distances.get(),
                begin,
                end: self.w,
            };
            return dense::write(&parts, &mut scratch.dense, &mut self.out);
        }
        let literals = &scratch.piece.literals[..literals];
        let common = if self.effort >= Effort::Packed && !is_left_out(Idea::Packing) {
            Some(table(literals))
        } else {
            None
        };
        let count = |table: &[u8; 16]| literals.iter().filter(|&&literal| is_common(table, literal)).count();
        let packed = common.filter(|table| is_worth(literals.len(), count(table)));

        let kind = if packed.is_some() { head::PACKED } else { head::PLAIN };
        let out = &mut self.out;
        out.put_head(kind, is_last, len)?;
        bits.iter().try_for_each(|bits| out.put(bits))?;
        out.put(distances.get())?;
        out.put(&flags)?;
        out.put_halves(codes.get())?;
        out.put(masks.get())?;
        let Some(table) = packed else { return out.put(literals) };
        out.put(&table)?;
        for eight in literals.chunks(8) {
            let bits = eight
                .iter()
                .enumerate()
                .map(|(bit, &literal)| u8::from(is_common(&table, literal)) << bit)
                .sum();
            out.put(&[bits])?;
        }
        let (mut classes, mut others) = (0, 0);
        for &literal in literals {
            if is_common(&table, literal) {
                scratch.piece.common[classes] = class(literal);
                classes += 1;
            } else {
                scratch.piece.others[others] = literal;
                others += 1;
            }
        }
        out.put_halves(&scratch.piece.common[..classes])?;
        out.put(&scratch.piece.others[..others])
    }
}

/// The code of a word and its mask: the one that saves most, among equals the highest. (To prefer the
/// predicted code among equals would save 0.03 % of the form.)
fn code(value: u64, reference: u64) -> (u8, u8) {
    let differs = |from: u64| {
        let bytes = (value ^ from).to_le_bytes();
        (0..8).map(|byte| u8::from(bytes[byte] != 0) << byte).sum::<u8>()
    };
    let (from_zero, from_reference) = (differs(0), differs(reference));
    let saved = |mask: u8, more: u32| 8u32.saturating_sub(mask.count_ones() + more);
    let candidates = (0..16u8).filter_map(|code| {
        let needed = if FROM_ZERO >> code & 1 != 0 { from_zero } else { from_reference };
        match code {
            OWN_ZERO | OWN_REFERENCE => Some((saved(needed, 1), code, needed)),
            RAW => Some((0, code, 0xff)),
            _ => {
                let mask = MASKS[usize::from(code)];
                let is_there = mask == 0 || !is_left_out(Idea::Masks);
                (is_there && needed & !mask == 0).then_some((saved(mask, 0), code, mask))
            }
        }
    });
    let best = candidates.max_by_key(|&(saved, code, _)| (saved, code));
    best.map_or((RAW, 0xff), |(_, code, mask)| (code, mask))
}
