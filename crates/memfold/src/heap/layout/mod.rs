//! How nodes lie in a block: of different sizes (`mixed`) or all of one (`equal`).
//!
//! Nothing here knows of frames, threads or compression: a block is an [`Image`](image::Image), and who changes it has the right to.

pub mod equal;
pub mod group;
pub mod image;
pub mod mixed;
#[cfg(test)]
mod tests;
