//! Where nodes of different sizes may lie in a block.

use super::{FREE, HEADER, LEAST, MOST_BYTES, MOST_UNITS, SIZE, UNITS};

/// Where nodes may lie in a block of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// A power of two.
    align: u32,
    /// The first node's place.
    first: u32,
    /// The end of the last extent.
    end: u32,
}

impl Shape {
    /// Blocks of `size` bytes with nodes at multiples of `align`, or of what a block of that size requires.
    pub fn new(size: usize, align: usize) -> Self {
        let align = align.max(size.div_ceil(MOST_UNITS).next_power_of_two());
        let end = size / align * align;
        Shape { align: align as u32, first: align.max(HEADER) as u32, end: end as u32 }
    }

    /// Bytes of a unit.
    #[inline]
    pub fn align(self) -> usize {
        self.align as usize
    }

    /// The first place.
    pub fn first(self) -> usize {
        self.first as usize
    }

    /// Where the last extent ends.
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// Bytes of the extent with this header; `long` is the number of units of a free one whose header is too
    /// small for it.
    #[inline]
    pub fn stride_of(self, header: u16, long: u32) -> Option<usize> {
        let stride = match (header & FREE, header & UNITS) {
            (0, _) => self.stride(header.into()),
            (_, UNITS) => (long as usize).saturating_mul(self.align()),
            (_, units) => usize::from(units) * self.align(),
        };
        (header & SIZE != 0 && stride >= HEADER).then_some(stride)
    }

    #[inline]
    pub(super) fn units(self, bytes: usize) -> usize {
        bytes >> self.align.trailing_zeros()
    }

    /// Bytes that a node of `len` takes including its header.
    #[inline]
    pub fn stride(self, len: usize) -> usize {
        (len + HEADER + self.align() - 1) & !(self.align() - 1)
    }

    /// Bytes for nodes and headers in an empty block.
    pub fn room(self) -> usize {
        self.end().saturating_sub(self.first())
    }

    /// The longest node that an empty block can hold, whatever remainder follows it.
    pub fn longest(self) -> usize {
        let rest = if self.align() < LEAST { LEAST } else { 0 };
        self.room().saturating_sub(HEADER + rest).min(MOST_BYTES)
    }

    /// The place of a node by its unit, if it is in the block.
    pub fn place(self, unit: u16) -> Option<usize> {
        let place = usize::from(unit) * self.align();
        (self.first()..self.end()).contains(&place).then_some(place)
    }

    /// The unit of a node by its place.
    #[inline]
    pub fn unit(self, place: usize) -> u16 {
        self.units(place) as u16
    }

    /// Units of a block, including those before the first node.
    pub fn total_units(self) -> usize {
        self.units(self.end())
    }
}
