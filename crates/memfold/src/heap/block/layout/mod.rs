//! How nodes lie in a block: of different sizes (`mixed`) or all of one (`equal`).
//!
//! Nothing here knows of frames, threads or compression: a block is an [`Image`](image::Image), and the
//! caller has the right to change it.

pub mod ascending;
pub mod equal;
pub mod fields;
pub mod image;
pub mod mixed;
#[cfg(test)]
mod tests;

use crate::heap::block::marks::Form;

/// The layout that a block's kind stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Mixed(mixed::Shape),
    Equal(equal::Shape),
}

impl Shape {
    /// Whether a single node has the block for itself.
    pub fn is_alone(self) -> bool {
        matches!(self, Shape::Equal(shape) if shape.nodes() == 1)
    }

    /// How many places nodes can have.
    pub fn places(self) -> usize {
        match self {
            Shape::Mixed(shape) => shape.total_units(),
            Shape::Equal(shape) => shape.nodes(),
        }
    }

    /// Bytes of the block without marks.
    pub fn image(self, block_size: usize) -> usize {
        match self {
            Shape::Mixed(_) => block_size,
            Shape::Equal(shape) => shape.used().next_multiple_of(8),
        }
    }

    /// Where things lie in the copy of a block that has checks.
    pub fn form(self, block_size: usize) -> Form {
        Form::new(self.image(block_size), self.places())
    }
}
