//! Blocks of nodes of one size.
//!
//! ```text
//!  0              first                                    size
//!  | live bits .. | node 0 .. filling | node 1 | node 2 | .. |
//!     8 bytes for each 64 nodes
//! ```
//!
//! A node costs one bit, which says whether it is live, and the filling up to the alignment. Freed nodes are
//! zero.

use super::image::{Damaged, Image};

/// The most nodes of a block: their numbers have 16 bits.
pub const MOST_NODES: usize = 1 << 16;

/// Where the nodes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a node.
    pub len: u32,
    /// Bytes from one node to the next.
    stride: u32,
    first: u32,
    nodes: u32,
}

impl Shape {
    /// Blocks of up to `size` bytes with nodes of `len` bytes, at multiples of `align`.
    pub fn new(size: usize, align: usize, len: usize) -> Self {
        let stride = len.next_multiple_of(align);
        let mut nodes = (size / stride).min(MOST_NODES);
        while nodes > 0 && first(nodes, align) + nodes * stride > size {
            nodes -= 1;
        }
        let first = first(nodes, align);
        Shape { len: len as u32, stride: stride as u32, first: first as u32, nodes: nodes as u32 }
    }

    /// The number of nodes that fit.
    pub fn nodes(self) -> usize {
        self.nodes as usize
    }

    /// Bytes from one node to the next.
    pub fn stride(self) -> usize {
        self.stride as usize
    }

    /// Where the first node lies.
    pub fn first(self) -> usize {
        self.first as usize
    }

    /// Bytes up to the end of the last node.
    pub fn used(self) -> usize {
        self.first() + self.nodes() * self.stride()
    }

    /// Where a node lies, by its number.
    #[inline]
    pub fn place(self, number: u16) -> Option<usize> {
        (u32::from(number) < self.nodes).then(|| self.first() + usize::from(number) * self.stride())
    }

    /// A block of this shape.
    pub fn block(self, image: Image) -> Equal {
        Equal { image, shape: self }
    }

    /// Words of live bits.
    pub fn words(self) -> usize {
        self.nodes().div_ceil(64)
    }
}

fn first(nodes: usize, align: usize) -> usize {
    (nodes.div_ceil(64) * 8).next_multiple_of(align)
}

/// Whether a node is live.
#[cfg(test)]
pub fn is_live(image: Image, number: u16) -> Result<bool, Damaged> {
    let word = image.get64(usize::from(number / 64) * 8)?;
    Ok(word >> (number % 64) & 1 != 0)
}

/// A block in its frame; the caller has the right to change it.
pub struct Equal {
    image: Image,
    shape: Shape,
}

impl Equal {
    /// Which of 64 nodes are free: a bit for each.
    #[inline]
    pub fn free(&self, word: usize) -> Result<u64, Damaged> {
        let live = self.image.get64(word * 8)?;
        let nodes = self.shape.nodes() - word * 64;
        let all = if nodes < 64 { (1 << nodes) - 1 } else { !0 };
        Ok(!live & all)
    }

    /// Makes a free node live.
    #[inline]
    pub fn take(&self, number: u16) -> Result<(), Damaged> {
        let word = usize::from(number / 64) * 8;
        self.image.set64(word, self.image.get64(word)? | 1 << (number % 64))
    }

    /// Checks that free nodes are zero, that the filling of live ones is zero (freeing a node does not clear
    /// its filling), and that no node is live where there is no place. Returns the number of live nodes.
    pub fn check(&self) -> Result<usize, Damaged> {
        let mut nodes = 0;
        for number in 0..self.shape.words() * 64 {
            let live = self.image.get64(number / 64 * 8)? >> (number % 64) & 1 != 0;
            let place = u16::try_from(number).ok().and_then(|number| self.shape.place(number));
            let zero = |at| self.image.get8(at) == Ok(0);
            match place {
                None if live => return Err(Damaged),
                Some(place) => {
                    let used = if live { self.shape.len as usize } else { 0 };
                    if !(place + used..place + self.shape.stride()).all(zero) {
                        return Err(Damaged);
                    }
                    nodes += usize::from(live);
                }
                None => {}
            }
        }
        Ok(nodes)
    }
}
