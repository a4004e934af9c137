//! Rows of a segment. Each is longer than its content by as much as a vector may write or read past the end.

use super::format::{SEGMENT, WORDS};

/// How far a vector may reach past the end of a row.
pub(super) const SLACK: usize = 64;

/// A row of bytes that vectors may overrun.
pub(super) type Row<const N: usize> = [u8; N];
/// Room for the literals of a segment.
pub(super) type Literals = Row<{ SEGMENT + SLACK }>;
/// A bit for each literal of a segment.
pub(super) type LiteralBits = Row<{ SEGMENT / 8 + SLACK }>;

/// Room for the sampled places of a segment.
pub(super) type Places = [u16; SEGMENT + SLACK];
/// Room for the symbols that were guessed wrongly.
pub(super) type Misses = [u16; WORDS + SLACK / 2];
/// A byte for each of them.
pub(super) type ByteRow = [u8; WORDS + SLACK];
/// A bit for each of them, with room for 64 more.
pub(super) type Flags = [u8; WORDS / 8 + 16];
/// A row of bits that is stored with its zero bytes suppressed.
pub(super) type BitRow = [u8; 64];
