//! Grouping by element: nodes of one size, transposed before they are compressed.
//!
//! ```text
//!   | node 0 | node 1 | node 2 | ..        each node: elements a b c ..
//!   | a a a ..  | b b b ..  | c c c ..     after that
//! ```
//!
//! What stands at the same place in each node is mostly alike (compll, section 4.2): sizes beside sizes, flags beside flags, and the upper bytes of small numbers
//! all zero. Elements are single bytes, or words of eight where the nodes are made of those.

/// What is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Grouping {
    /// Nodes stay as they are.
    Nodes = 0,
    Bytes = 1,
    Words = 2,
}

impl Grouping {
    /// All of them.
    pub const ALL: [Grouping; 3] = [Grouping::Nodes, Grouping::Bytes, Grouping::Words];

    /// The one of this number.
    pub fn from_number(number: u8) -> Self {
        Self::ALL[usize::from(number).min(2)]
    }
}

/// Bytes of a word, and nodes that are transposed at a time.
const WORD: usize = 8;

/// Transposes an 8 x 8 matrix of bytes, a row in each word, the first byte lowest (Warren, Hacker's Delight, 7-3).
fn transpose(rows: &mut [u64; WORD]) {
    for (width, mask) in
        [(1, 0x00ff_00ff_00ff_00ff), (2, 0x0000_ffff_0000_ffff), (4, 0x0000_0000_ffff_ffff_u64)]
    {
        for i in (0..WORD).filter(|i| i & width == 0) {
            let (low, high) = (rows[i], rows[i + width]);
            let shift = 8 * width as u32;
            rows[i] = low & mask | (high & mask) << shift;
            rows[i + width] = (low >> shift) & mask | high & !mask;
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(to) = bytes[at..].first_chunk_mut() {
        *to = word.to_le_bytes();
    }
}

/// Moves every byte of `from` to its place in `to`: one are nodes of `stride` bytes, the other groups, one for each byte of a node.
fn bytes(from: &[u8], to: &mut [u8], stride: usize, back: bool) {
    let count = from.len() / stride;
    let (tiles, columns) = (count / WORD * WORD, stride / WORD * WORD);
    for first in (0..tiles).step_by(WORD) {
        for column in (0..columns).step_by(WORD) {
            let node = |i: usize| (first + i) * stride + column;
            let group = |i: usize| (column + i) * count + first;
            let mut rows = core::array::from_fn(|i| word(from, if back { group(i) } else { node(i) }));
            transpose(&mut rows);
            for (i, row) in rows.into_iter().enumerate() {
                set_word(to, if back { node(i) } else { group(i) }, row);
            }
        }
    }
    for node in 0..count {
        for byte in if node < tiles { columns } else { 0 }..stride {
            let (node, group) = (node * stride + byte, byte * count + node);
            if back { to[node] = from[group] } else { to[group] = from[node] }
        }
    }
}

/// As `bytes`, for words; `stride` is a multiple of eight.
fn words(from: &[u8], to: &mut [u8], stride: usize, back: bool) {
    let count = from.len() / stride;
    for node in 0..count {
        for column in 0..stride / WORD {
            let (node, group) = (node * stride + column * WORD, (column * count + node) * WORD);
            if back { set_word(to, node, word(from, group)) } else { set_word(to, group, word(from, node)) }
        }
    }
}

/// Whether nodes of this many bytes can be grouped so.
pub fn can_group(grouping: Grouping, stride: usize) -> bool {
    match grouping {
        Grouping::Nodes => true,
        Grouping::Bytes => stride > 1,
        Grouping::Words => stride > WORD && stride.is_multiple_of(WORD),
    }
}

/// Groups nodes, or makes nodes of groups (`back`); both are as long.
pub fn group(grouping: Grouping, from: &[u8], to: &mut [u8], stride: usize, back: bool) {
    debug_assert!(from.len() == to.len() && from.len().is_multiple_of(stride));
    match grouping {
        Grouping::Nodes => to.copy_from_slice(from),
        Grouping::Bytes => bytes(from, to, stride, back),
        Grouping::Words => words(from, to, stride, back),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::vec;

    #[test]
    fn groups_become_nodes_again() {
        let mut random = Random(11);
        for stride in [1, 2, 3, 7, 8, 9, 16, 24, 40, 100, 1000] {
            for count in [1, 5, 8, 16, 17, 200] {
                for grouping in Grouping::ALL.into_iter().filter(|&grouping| can_group(grouping, stride)) {
                    let old = random.bytes(stride * count);
                    let (mut groups, mut nodes) = (vec![0; stride * count], vec![9; stride * count]);
                    group(grouping, &old, &mut groups, stride, false);
                    for (at, &byte) in groups.iter().enumerate() {
                        let (node, within) = match grouping {
                            Grouping::Nodes => (at / stride, at % stride),
                            Grouping::Bytes => (at % count, at / count),
                            Grouping::Words => (at / 8 % count, at / 8 / count * 8 + at % 8),
                        };
                        assert_eq!(byte, old[node * stride + within], "{grouping:?} {stride} {count} {at}");
                    }
                    group(grouping, &groups, &mut nodes, stride, true);
                    assert_eq!(nodes, old);
                }
            }
        }
    }
}
