//! How hard the compressor tries.

use super::vote::Sampling;

/// How hard to try.
#[derive(Debug)]
pub(super) struct Effort {
    /// How many distances a segment may have, at most 16.
    pub distances: usize,
    /// Where the vote samples.
    pub sampling: Sampling,
    /// Whether each segment has a table of symbols of its own.
    pub own_table: bool,
    /// Whether granules are wide; then symbols are not guessed.
    pub wide: bool,
    /// One literal in this many is counted to find the common ones.
    pub count_every: usize,
    /// Literals are packed if that saves more than one in this many of them plus the table. With 8, packing
    /// pays at all; but unpacking takes time.
    pub packing_saves: usize,
}
