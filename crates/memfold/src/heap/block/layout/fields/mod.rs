//! Grouping by field: the nodes of a block, rearranged before it is compressed.
//!
//! Nodes of a program are mostly structs of one kind or a few, perhaps followed by a name or the like. The
//! first words of all nodes that are long enough become **columns**, as compll does with elements in its
//! section 4.2: sizes beside sizes, links beside links. A **prediction** is subtracted from each word, and
//! the remainder is split into **planes**, one for each byte. A plane whose bytes are all the same is
//! omitted; most planes are.
//!
//! ```text
//!   | columns, 1 | predictors, 1 each | headers | varying, 1 each | base, 8 each | planes | lead | rests |
//!                                                                                     trailing | zeros |
//!
//!   headers:  if nodes differ in size: extents, 4 | low bytes | high bytes | units of the long ones, 4 each
//!   varying:  a bit for each byte of a word that is not the same in all nodes
//!   base:     the words of the first node; of the others, bytes that don't vary are the same
//!   planes:   for each byte that varies, that of each node
//!   lead:     what comes before the first header, or before the first node of one size
//!   rests:    of each node what follows its columns, up to the next header or node; other nodes and free extents
//!   trailing: what follows the last one, with the marks
//! ```
//!
//! A node that is alone in its block is treated as an array: as many words as there are columns form a row,
//! which takes the role of a node. Sorted numbers become small differences.
//!
//! The last word of nodes of one size may have fewer than eight bytes; zeros stand for the others. The result
//! is as long as the block. Invalid input is refused, whatever it holds: payloads may come from a file.

mod group;
mod predict;
#[cfg(test)]
mod tests;
mod ungroup;

use std::ops::Range;
use std::vec::Vec;

use super::Shape;
use super::mixed::{self, FREE, HEADER, UNITS};

/// The most columns.
pub const MOST_COLUMNS: usize = 32;
const WORD: usize = 8;

/// The likely value of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Predictor {
    /// Small.
    Zero = 0,
    /// The same as in the node before.
    Same = 1,
    /// The handle of the next node, or of the previous one, as in a list whose nodes were made in order.
    Next = 2,
    Previous = 3,
}

impl Predictor {
    const ALL: [Predictor; 4] = [Predictor::Zero, Predictor::Same, Predictor::Next, Predictor::Previous];
}

/// How many columns are made, and how each is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub columns: u8,
    pub predictors: [Predictor; MOST_COLUMNS],
}

impl Default for Plan {
    fn default() -> Self {
        Plan { columns: 0, predictors: [Predictor::Zero; MOST_COLUMNS] }
    }
}

/// A node with columns.
#[derive(Debug, Clone, Copy)]
struct Member {
    at: u32,
    place: u16,
}

/// A block's properties.
#[derive(Debug, Clone, Copy)]
pub struct Of {
    pub shape: Shape,
    /// The handle of place 0.
    pub handle: u64,
}

impl Of {
    /// The bytes before all extents, and those after them.
    fn around(self, len: usize) -> (Range<usize>, Range<usize>) {
        match self.shape {
            Shape::Mixed(shape) => (0..shape.first() - HEADER, shape.end() - HEADER..len),
            Shape::Equal(shape) => (0..shape.first(), shape.used()..len),
        }
    }

    /// Bytes of a node that this many columns take; of a node alone in its block, the bytes of a row.
    fn taken(self, columns: usize) -> usize {
        match self.shape {
            Shape::Mixed(_) => columns * WORD,
            Shape::Equal(_) if self.shape.is_alone() => columns * WORD,
            Shape::Equal(shape) => shape.stride().min(columns * WORD),
        }
    }
}

/// Memory to work in, reused from block to block.
#[derive(Debug, Default)]
pub struct Fields {
    members: Vec<Member>,
    /// The shape and columns that `members` and `rests` are for, if nodes have one size: the next block's are
    /// mostly the same.
    noted: Option<(Shape, usize)>,
    /// Headers, if nodes have different sizes.
    headers: Vec<u16>,
    /// The rests of nodes after their columns, and free extents: where each begins and ends.
    rests: Vec<(u32, u32)>,
    /// Words of all members, without predictions.
    rows: Vec<u8>,
}

/// A word of a row.
fn word(row: &[u8], column: usize) -> u64 {
    row[column * WORD..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn set_word(row: &mut [u8], column: usize, word: u64) {
    row[column * WORD..][..WORD].copy_from_slice(&word.to_le_bytes());
}

impl Fields {
    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.members.capacity() * size_of::<Member>()
            + self.headers.capacity() * size_of::<u16>()
            + self.rests.capacity() * size_of::<(u32, u32)>()
            + self.rows.capacity()
    }

    fn clear(&mut self) {
        self.noted = None;
        self.members.clear();
        self.headers.clear();
        self.rests.clear();
    }

    /// Notes a node or a free extent of `stride` bytes, a header included, in a block of nodes of different
    /// sizes.
    #[inline]
    fn push(&mut self, shape: mixed::Shape, at: usize, stride: usize, header: u16, columns: usize) {
        let (mut from, end) = (at, at + stride - HEADER);
        if header & FREE == 0 && end - at >= columns * WORD {
            self.members.push(Member { at: at as u32, place: shape.unit(at) });
            from += columns * WORD;
        }
        self.rests.push((from as u32, end as u32));
    }

    /// Notes the nodes of a block, if they have one size. Freed ones are treated the same as live ones.
    fn note_equal(&mut self, of: Of, shape: super::equal::Shape, columns: usize) {
        if self.noted == Some((of.shape, columns)) {
            return;
        }
        self.clear();
        self.noted = Some((of.shape, columns));
        let (stride, taken) = (shape.stride(), of.taken(columns));
        if of.shape.is_alone() {
            let (first, rows) = (shape.first(), stride / taken.max(1));
            self.members.extend((0..rows).map(|row| Member { at: (first + row * taken) as u32, place: 0 }));
            self.rests.push(((first + rows * taken) as u32, (first + stride) as u32));
            return;
        }
        for place in 0..shape.nodes() {
            let at = shape.first() + place * stride;
            self.members.push(Member { at: at as u32, place: place as u16 });
            self.rests.push(((at + taken) as u32, (at + stride) as u32));
        }
    }

    /// Finds the nodes of a block, and the members, those with `columns` columns; `None` if it is damaged.
    fn walk(&mut self, block: &[u8], of: Of, columns: usize) -> Option<()> {
        let shape = match of.shape {
            Shape::Mixed(shape) => shape,
            Shape::Equal(shape) => {
                self.note_equal(of, shape, columns);
                return Some(());
            }
        };
        self.clear();
        let mut at = shape.first();
        while at < shape.end() {
            let header = u16::from_le_bytes(*block.get(at - HEADER..)?.first_chunk()?);
            let long = if is_long(header) { long_units(block, at)? } else { 0 };
            let stride = shape.stride_of(header, long).filter(|&stride| stride <= shape.end() - at)?;
            self.headers.push(header);
            self.push(shape, at, stride, header, columns);
            at += stride;
        }
        Some(())
    }
}

fn is_long(header: u16) -> bool {
    header >= FREE && header & UNITS == UNITS
}

/// The units of a long free extent.
fn long_units(block: &[u8], at: usize) -> Option<u32> {
    block.get(at + 2..)?.first_chunk().map(|units| u32::from_le_bytes(*units))
}

/// Maps small differences of either sign to small numbers (zigzag coding).
#[inline]
fn fold(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

#[inline]
fn unfold(folded: u64) -> u64 {
    folded >> 1 ^ (folded & 1).wrapping_neg()
}
