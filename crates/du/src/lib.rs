//! Disk usage of trees with more files than fit into memory.
//!
//! A tree is kept in a compressed heap and nowhere else: [`tree`]. It comes from a [`scan`] of directories or
//! from a file, and can be read entry by entry.
//!
//! ```text
//!   scan ──┐
//!   import ┴─> listing ─> parts in the heap ─> tree (rows of directories, hard links, sums) ─> browser, export, summaries
//! ```

pub mod browse;
pub mod delete;
pub mod entry;
pub mod error;
pub mod file;
pub mod json;
pub mod part;
pub mod scan;
pub mod source;
mod sys;
pub mod tree;

pub use error::Error;
