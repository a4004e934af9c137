//! From the decompressed bytes to the block.

use super::super::{Shape, mixed};
use super::{Fields, HEADER, MOST_COLUMNS, Of, Predictor, WORD, is_long, unfold, word};

/// Nodes that are read at a time.
const TILE: usize = 32;

/// Reads the output of `group`.
struct Reader<'f> {
    from: &'f [u8],
}

impl<'f> Reader<'f> {
    #[inline]
    fn take(&mut self, len: usize) -> Option<&'f [u8]> {
        let (part, rest) = self.from.split_at_checked(len)?;
        self.from = rest;
        Some(part)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

impl Fields {
    /// Restores a block from the output of `group`; `None` if it is not such output.
    pub fn ungroup(&mut self, of: Of, from: &[u8], block: &mut [u8]) -> Option<()> {
        let mut input = Reader { from };
        let columns = usize::from(input.take(1)?[0]);
        let mut predictors = [Predictor::Zero; MOST_COLUMNS];
        for (to, &from) in predictors.get_mut(..columns)?.iter_mut().zip(input.take(columns)?) {
            *to = *Predictor::ALL.get(usize::from(from))?;
        }
        match of.shape {
            Shape::Mixed(shape) => self.read_headers(shape, &mut input, block, columns)?,
            // A column has at least one byte of each node.
            Shape::Equal(shape) if columns > shape.stride().div_ceil(WORD) => return None,
            Shape::Equal(shape) => self.note_equal(of, shape, columns),
        }
        self.read_planes(of, &predictors[..columns], &mut input, block)?;
        let (lead, trailing) = of.around(block.len());
        let mut put = |range| {
            let to: &mut [u8] = block.get_mut(range)?;
            to.copy_from_slice(input.take(to.len())?);
            Some(())
        };
        put(lead)?;
        self.rests.iter().try_for_each(|&(from, end)| put(from as usize..end as usize))?;
        put(trailing)
    }

    /// Puts headers back, and notes what follows each.
    fn read_headers(
        &mut self,
        shape: mixed::Shape,
        input: &mut Reader<'_>,
        block: &mut [u8],
        columns: usize,
    ) -> Option<()> {
        self.clear();
        let count =
            input.number().map(|count| count as usize).filter(|&count| count <= shape.total_units())?;
        let (low, high) = (input.take(count)?, input.take(count)?);
        let mut at = shape.first();
        for (&low, &high) in low.iter().zip(high) {
            let header = u16::from_le_bytes([low, high]);
            let long = if is_long(header) { input.number()? } else { 0 };
            let left = shape.end().saturating_sub(at);
            let stride = shape.stride_of(header, long).filter(|&stride| stride <= left)?;
            block.get_mut(at - HEADER..at)?.copy_from_slice(&header.to_le_bytes());
            self.push(shape, at, stride, header, columns);
            at += stride;
        }
        (at == shape.end()).then_some(())
    }

    fn read_planes(
        &mut self,
        of: Of,
        predictors: &[Predictor],
        input: &mut Reader<'_>,
        block: &mut [u8],
    ) -> Option<()> {
        let (varying, base) = (input.take(predictors.len())?, input.take(predictors.len() * WORD)?);
        let mut columns = [Column::default(); MOST_COLUMNS];
        for (index, &predictor) in predictors.iter().enumerate() {
            let column = &mut columns[index];
            column.predictor = predictor;
            column.base = word(base, index).to_le_bytes();
            for byte in (0..WORD).filter(|byte| varying[index] >> byte & 1 != 0) {
                column.planes[byte] = Some(input.take(self.members.len())?);
            }
        }
        let mut last = [0; MOST_COLUMNS];
        let are_together = of.shape.is_alone() && predictors.len() == 1;
        // A few nodes at a time, so that they and their planes stay in the cache.
        for (tile, members) in self.members.chunks(TILE).enumerate() {
            for (index, column) in columns[..predictors.len()].iter().enumerate() {
                let mut words = column.words(tile * TILE, members.len());
                self.restore(
                    of,
                    tile * TILE,
                    column.predictor,
                    &mut last[index],
                    &mut words[..members.len()],
                );
                let from = index * WORD;
                let width = of.taken(index + 1) - from;
                if are_together {
                    let to = block.get_mut(members[0].at as usize..)?.get_mut(..members.len() * WORD)?;
                    to.as_chunks_mut()
                        .0
                        .iter_mut()
                        .zip(&words)
                        .for_each(|(to, word)| *to = word.to_le_bytes());
                    continue;
                }
                for (member, word) in members.iter().zip(&words) {
                    let to = block.get_mut(member.at as usize + from..)?;
                    match to.first_chunk_mut().filter(|_| width == WORD) {
                        Some(to) => *to = word.to_le_bytes(),
                        None => to.get_mut(..width)?.copy_from_slice(&word.to_le_bytes()[..width]),
                    }
                }
            }
        }
        Some(())
    }

    /// Restores the words of members from `first` on: adds the predictions to the residues.
    fn restore(&self, of: Of, first: usize, predictor: Predictor, last: &mut u64, words: &mut [u64]) {
        let handle = |i: usize| self.members.get(i).map_or(0, |member| of.handle + u64::from(member.place));
        let words = words.iter_mut().zip(first..);
        match predictor {
            Predictor::Zero => {}
            Predictor::Same => words.for_each(|(word, _)| {
                *word = unfold(*word).wrapping_add(*last);
                *last = *word;
            }),
            Predictor::Next => words.for_each(|(word, i)| *word = unfold(*word).wrapping_add(handle(i + 1))),
            Predictor::Previous => {
                words.for_each(|(word, i)| *word = unfold(*word).wrapping_add(handle(i.wrapping_sub(1))));
            }
        }
    }
}

/// A column being read: the first word, whose bytes hold for all words where they don't vary, and the planes
/// of the bytes that do.
#[derive(Debug, Clone, Copy)]
struct Column<'f> {
    base: [u8; WORD],
    predictor: Predictor,
    planes: [Option<&'f [u8]>; WORD],
}

impl Default for Column<'_> {
    fn default() -> Self {
        Column { base: [0; WORD], predictor: Predictor::Zero, planes: [None; WORD] }
    }
}

impl Column<'_> {
    /// The words of `count` members from `first` on.
    #[inline]
    fn words(&self, first: usize, count: usize) -> [u64; TILE] {
        let mut planes = [[0; TILE]; WORD];
        for (byte, to) in planes.iter_mut().enumerate() {
            match self.planes[byte].and_then(|plane| plane.get(first..first + count)) {
                None => *to = [self.base[byte]; TILE],
                Some(plane) => match plane.first_chunk() {
                    Some(plane) => *to = *plane,
                    None => to[..count].copy_from_slice(plane),
                },
            }
        }
        words_of(&planes)
    }
}

/// The words that these planes make up. Eight bytes of each plane form a square, which is transposed: first
/// its quarters, then their quarters (Warren, Hacker's Delight, 7-3).
#[inline]
fn words_of(planes: &[[u8; TILE]; WORD]) -> [u64; TILE] {
    let mut words = [0; TILE];
    for (square, words) in words.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
        let mut rows = planes.map(|plane| u64::from_le_bytes(plane.as_chunks().0[square]));
        // The row numbers of each step are constants, so all rows stay in registers.
        swap_quarters::<4>(&mut rows, 0x0000_0000_ffff_ffff);
        swap_quarters::<2>(&mut rows, 0x0000_ffff_0000_ffff);
        swap_quarters::<1>(&mut rows, 0x00ff_00ff_00ff_00ff);
        *words = rows;
    }
    words
}

/// In squares of twice `LEN` bytes, swaps the two quarters off the main diagonal.
#[inline(always)]
fn swap_quarters<const LEN: usize>(rows: &mut [u64; WORD], mask: u64) {
    for low in (0..WORD).filter(|row| row & LEN == 0) {
        let swapped = (rows[low] >> (8 * LEN) ^ rows[low + LEN]) & mask;
        rows[low] ^= swapped << (8 * LEN);
        rows[low + LEN] ^= swapped;
    }
}
