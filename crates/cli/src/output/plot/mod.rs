//! Plots: one module for axes, and three kinds of drawings that use it.
//!
//! ```text
//!   axes     round steps, their labels, and numbers in words
//!   frame    a plot that is stretched to the window, with labels that are not; maps of cells
//!   picture  a picture of fixed proportions: bars, histograms, ratios, lines
//!   scatter  marks in a file of its own, with names where there is room (labels)
//! ```

pub mod axes;
pub mod frame;
#[cfg(feature = "bench")]
mod labels;
#[cfg(feature = "analyze")]
pub mod picture;
#[cfg(feature = "bench")]
pub mod scatter;
