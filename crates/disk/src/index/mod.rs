//! The index: which blob holds a page, if any.
//!
//! [`leaf`] is the state of neighbouring pages, [`stripes`] is the table of leaves with its locks, [`shared`]
//! is the table of blobs that several pages share, and [`owner`] maps blobs to their owners.

pub mod leaf;
pub mod owner;
pub mod shared;
pub mod stripes;
