//! Plots: modules for axes and colours, and three kinds of drawings that use them. Each drawing is SVG that needs
//! nothing from the page around it, so it can be saved as a file.
//!
//! ```text
//!   axes     round steps, their labels, and numbers in words
//!   paint    colours and strokes, as a page's style and as attributes
//!   frame    a plot that is stretched to the window, with labels that are not; maps of cells
//!   alone    what a frame's plot has in addition when it is a file of its own: labels, names, colours
//!   picture  a picture of fixed proportions: bars, histograms, ratios, lines
//!   scatter  marks in a file of its own, with names where there is room (labels)
//! ```

mod alone;
pub mod axes;
pub mod frame;
#[cfg(feature = "bench")]
mod labels;
pub mod paint;
#[cfg(feature = "analyze")]
pub mod picture;
#[cfg(feature = "bench")]
pub mod scatter;
