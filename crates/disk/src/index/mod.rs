//! The index: which blob holds a page, or that none does.
//!
//! [`leaf`] is the state of neighbouring pages, [`stripes`] the table of leaves and its locks, [`shared`] the
//! table of blobs that several pages have in common, and [`owner`] says who has a blob and what becomes of
//! it.

pub mod leaf;
pub mod owner;
pub mod shared;
pub mod stripes;
