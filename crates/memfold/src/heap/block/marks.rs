//! Which places of a block have nodes, and which had others before.
//!
//! ```text
//!   in a frame:   starts: a bit a place       checks: a byte a place       each in memory of its own, `residency/frames/memory.rs`
//!   kept:         | block image | starts | checks |
//!                               ^ a multiple of 64
//! ```
//!
//! **Starts** say where the nodes of a block of different sizes begin, so that no other place is ever taken for a node. They are made from the headers
//! when the block comes into a frame. (Where all nodes have one size, the block's live bits say it.)
//!
//! What is freed in a block is not used again at once: only when a session has used up what it found free, and looks again. With that the next
//! **generation** of the block begins, if something was freed in the one before. The check of a handle is the generation in which its node was made, modulo 256.
//! As long as all nodes are of the first one, all checks are 0. After that the block has **checks**: for each place, the generation of
//! the node that was made there last. A handle is stale if that is another one. So a stale handle passes once in 256 reuses of its place at most, and the
//! first 255 never. Blocks of one generation keep nothing of this in the store; else both are compressed with their block.

use std::ops::Range;

use crate::heap::block::layout::image::{Damaged, Image};

/// Where marks lie in what is kept of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    start: usize,
    places: usize,
}

impl Form {
    /// For a block of `image` bytes with so many places.
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

    /// The marks in what is kept of a block.
    pub fn within(self, kept: Image) -> Result<Marks, Damaged> {
        Ok(Marks { starts: kept.part(self.starts())?, checks: kept.part(self.checks())? })
    }
}

/// The marks of a block: of what it has none, there are no bytes.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    starts: Image,
    checks: Image,
}

impl Marks {
    /// No marks.
    pub const NONE: Self = Marks { starts: Image::NOTHING, checks: Image::NOTHING };

    /// Those with their bytes there.
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

    /// No node starts anywhere.
    pub fn clear_starts(self) -> Result<(), Damaged> {
        self.starts.zero(0, self.starts.len())
    }

    /// No place was used again.
    pub fn clear_checks(self) -> Result<(), Damaged> {
        self.checks.zero(0, self.checks.len())
    }

    /// A node starts at this place, or no longer.
    pub fn set_start(self, place: u16, starts: bool) -> Result<(), Damaged> {
        let at = usize::from(place / 64) * 8;
        let (word, bit) = (self.starts.get64(at)?, 1 << (place % 64));
        self.starts.set64(at, if starts { word | bit } else { word & !bit })
    }

    /// The check of the node that is made at this place.
    #[inline]
    pub fn set_check(self, place: u16, check: u8) -> Result<(), Damaged> {
        self.checks.set8(place.into(), check)
    }
}
