//! Which places of a block have nodes, and which are reused.
//!
//! ```text
//!   in a frame:   starts: a bit a place      checks: a byte a place      separate, `residency/frames/memory.rs`
//!   in a copy:    | block image | starts | checks |
//!                               ^ a multiple of 64
//! ```
//!
//! **Starts** say where the nodes of a block of different sizes begin, so that no other place is ever
//! mistaken for a node. They are made from the headers when the block is faulted in. (Where all nodes have
//! one size, the block's live bits say so.)
//!
//! A freed place is not reused at once, but only when a session has used up the space that it found free and
//! looks again. If something was freed in the current **generation** of the block, the next one begins then.
//! The check of a handle is the generation in which its node was made, modulo 256. While all nodes are of the
//! first generation, all checks are 0. After that the block has **checks**: for each place, the generation of
//! the node that was made there last. A handle with another check is stale. So a stale handle is accepted at
//! most once in 256 reuses of its place, and never in the first 255. The copy of a block of one generation
//! has no marks; otherwise both are compressed with their block.

use std::ops::Range;

use crate::heap::block::layout::image::{Damaged, Image};

/// Where marks lie in the copy of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    start: usize,
    places: usize,
}

impl Form {
    /// For a block of `image` bytes with this many places.
    pub fn new(image: usize, places: usize) -> Self {
        Form { start: image.next_multiple_of(64), places }
    }

    /// Where starts lie.
    pub fn starts(self) -> Range<usize> {
        self.start..self.start + self.places.div_ceil(64) * 8
    }

    /// Where checks lie.
    pub fn checks(self) -> Range<usize> {
        self.starts().end..self.end()
    }

    /// Bytes of block and marks together.
    pub fn end(self) -> usize {
        (self.starts().end + self.places).next_multiple_of(8)
    }

    /// The marks in the copy of a block.
    pub fn within(self, kept: Image) -> Result<Marks, Damaged> {
        Ok(Marks { starts: kept.part(self.starts())?, checks: kept.part(self.checks())? })
    }
}

/// The marks of a block; marks that the block lacks are empty.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    starts: Image,
    checks: Image,
}

impl Marks {
    /// No marks.
    pub const NONE: Self = Marks { starts: Image::NOTHING, checks: Image::NOTHING };

    /// Marks with these bytes.
    pub fn new(starts: Image, checks: Image) -> Self {
        Marks { starts, checks }
    }

    /// Bits of starts.
    pub fn starts(self) -> Image {
        self.starts
    }

    /// Bytes of checks.
    pub fn checks(self) -> Image {
        self.checks
    }

    /// Clears all starts: no node begins anywhere.
    pub fn clear_starts(self) -> Result<(), Damaged> {
        self.starts.zero(0, self.starts.len())
    }

    /// Clears all checks: no place is reused.
    pub fn clear_checks(self) -> Result<(), Damaged> {
        self.checks.zero(0, self.checks.len())
    }

    /// Sets whether a node starts at this place.
    pub fn set_start(self, place: u16, starts: bool) -> Result<(), Damaged> {
        let at = usize::from(place / 64) * 8;
        let (word, bit) = (self.starts.get64(at)?, 1 << (place % 64));
        self.starts.set64(at, if starts { word | bit } else { word & !bit })
    }

    /// Sets the check of the node that is made at this place.
    #[inline]
    pub fn set_check(self, place: u16, check: u8) -> Result<(), Damaged> {
        self.checks.set8(place.into(), check)
    }
}
