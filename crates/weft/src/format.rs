//! The compressed form: its parts, its codes and its limits, which encoders and decoders share.
//!
//! A unit is cut into **pieces** of 64 lines. The last one may be shorter: then its length follows its head,
//! and it counts as filled up with zeros. The forms of the pieces follow one another. A piece that does not
//! shrink is stored as it is.
//!
//! ```text
//!   head | bits 0 | bits 1 | distances | flags | codes      | masks | literals, in the order of the words
//!    1       8        8        0..128     64     half a byte   a      plain, or
//!                                                each          byte   table | bits  | common | others
//!                                                              each     16    1 each   1/2      1 each
//!
//!   head       0 plain literals, 1 packed literals, 2 other parts (see `dense`), 3 the piece as it is;
//!              4 more: two bytes of length follow; 8 more: the last piece
//!   bits 0, 1  a line's distance, bit 1 first: 00 that of the line before; 01 the next byte of `distances`;
//!              10 the next byte and 256, or in units of several pieces the next two bytes; 11 the one before
//!              the last change
//!   flags      a byte for each line; bit k: the code of word k is not the predicted one, but the next of `codes`
//!   masks      of the words whose code says so
//! ```
//!
//! All parts begin at whole bytes; of two codes in a byte, the first has the low half. No part has a length
//! of its own: each length follows from the parts before it.

/// Bytes of a word.
pub(crate) const WORD: usize = 8;
/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;
/// Bytes of a line.
pub(crate) const LINE: usize = WORD * LINE_WORDS;
/// Lines of a piece.
pub(crate) const LINES: usize = 64;
/// Words of a piece.
pub(crate) const WORDS: usize = LINES * LINE_WORDS;
/// Bytes of a piece.
pub(crate) const PIECE: usize = WORDS * WORD;

/// Bytes of the largest unit.
pub const MOST_BYTES: usize = 64 << 10;
/// Words of the largest unit.
pub(crate) const MOST_WORDS: usize = MOST_BYTES / WORD;

/// The smallest distance, in words: half a line never refers to itself.
pub(crate) const LEAST_DISTANCE: usize = 4;
/// The distance before the first line, and the one before that.
pub(crate) const FIRST_DISTANCES: [usize; 2] = [8, 16];

/// Values of a piece's head.
pub(crate) mod head {
    /// The literals are plain.
    pub const PLAIN: u8 = 0;
    /// The literals are packed; the table of common ones comes first.
    pub const PACKED: u8 = 1;
    /// The literals are in parts, with Huffman codes: see `dense`.
    pub const DENSE: u8 = 2;
    /// The piece follows as it is.
    pub const STORED: u8 = 3;
    /// Added for a piece that is shorter than others; its length follows.
    pub const SHORT: u8 = 4;
    /// Added for the last piece of a unit.
    pub const LAST: u8 = 8;
}

/// The mask of each code, of its literals; of codes that have a mask of their own it is 0.
pub(crate) const MASKS: [u8; 16] =
    [0, 0, 0xff, 0x01, 0xc0, 0x30, 0x02, 0xf0, 0x10, 0x3f, 0x07, 0x0f, 0x01, 0x03, 0, 0];
/// Words with these codes, a bit for each, have zeros where they have no literals; the others have the bytes
/// of the word at the line's distance before them.
pub(crate) const FROM_ZERO: u16 = 1 << 0 | 1 << RAW | 1 << 3 | 1 << ZERO;
/// A word with a mask of its own, other bytes zero.
pub(crate) const OWN_ZERO: u8 = 0;
/// A word with a mask of its own, other bytes from the reference.
pub(crate) const OWN_REFERENCE: u8 = 1;
/// A word of eight literals.
pub(crate) const RAW: u8 = 2;
/// A word that is zero; also the code of all words before the unit.
pub(crate) const ZERO: u8 = 15;

/// The most literals of which the common ones are found by a sample.
pub(crate) const SAMPLES: usize = 255;
/// The sixteen classes of literals: the low half of a byte xor this, by its high half. The table of a packed
/// piece has one literal of each class.
pub(crate) const HIGHS: [u8; 16] = [11, 1, 8, 2, 15, 8, 12, 14, 7, 5, 4, 15, 5, 10, 6, 11];

/// The class of a literal.
#[inline]
pub(crate) const fn class(literal: u8) -> u8 {
    literal & 15 ^ HIGHS[literal as usize >> 4]
}

/// The largest distance in a unit of this many words.
pub(crate) const fn most_distance(words: usize) -> usize {
    if words > 1 { words - 1 } else { 1 }
}

/// The code that is predicted for word `at`: that of the word at the line's distance before it, or at twice
/// the distance if that could lie in the same line.
#[inline]
pub(crate) const fn predicted_from(distance: usize) -> usize {
    if distance < LINE_WORDS { 2 * distance } else { distance }
}
