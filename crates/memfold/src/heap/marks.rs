//! Which places of a block have nodes, and which had others before.
//!
//! ```text
//!   | block image | starts: a bit a place | checks: a byte a place |
//!                 ^ a multiple of 64
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

use super::layout::image::{Damaged, Image};

/// Where marks lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    start: usize,
    places: usize,
}

impl Marks {
    /// For a block of `image` bytes with so many places.
    pub fn new(image: usize, places: usize) -> Self {
        Marks { start: image.next_multiple_of(64), places }
    }

    /// Where starts lie.
    pub fn starts_at(self) -> usize {
        self.start
    }

    /// Where checks lie.
    pub fn checks_at(self) -> usize {
        self.start + self.places.div_ceil(64) * 8
    }

    /// Bytes of block and marks together.
    pub fn end(self) -> usize {
        (self.checks_at() + self.places).next_multiple_of(8)
    }

    /// No node starts anywhere.
    pub fn clear_starts(self, image: Image) -> Result<(), Damaged> {
        image.zero(self.start, self.checks_at() - self.start)
    }

    /// No place was used again.
    pub fn clear_checks(self, image: Image) -> Result<(), Damaged> {
        image.zero(self.checks_at(), self.end() - self.checks_at())
    }

    fn word(self, place: u16) -> usize {
        self.start + usize::from(place / 64) * 8
    }

    /// A node starts at this place, or no longer.
    pub fn set_start(self, image: Image, place: u16, starts: bool) -> Result<(), Damaged> {
        let word = image.get64(self.word(place))?;
        let bit = 1 << (place % 64);
        image.set64(self.word(place), if starts { word | bit } else { word & !bit })
    }

    /// The check of the node that is made at this place.
    #[inline]
    pub fn set_check(self, image: Image, place: u16, check: u8) -> Result<(), Damaged> {
        image.set8(self.checks_at() + usize::from(place), check)
    }
}
