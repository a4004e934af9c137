//! Collections whose elements are stored in a compressed heap.
//!
//! ```text
//!   SlabList ──> sublayers in plain memory ──> leaves in the heap: slabs of elements, side by side
//!   List     ──> node <──> node <──> node      an element each, linked by their handles
//!   Tree     ──> node ──> its children         parent, children, siblings; entries of one file in a ring
//!   Table    ──> columns ──> block groups      a column's elements side by side, or references to them
//! ```

#[cfg(test)]
mod bounds;
mod content;
#[cfg(test)]
mod figures;
mod links;
pub mod list;
#[cfg(test)]
mod panics;
pub mod slablist;
pub mod slabmap;
mod sorted;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tree;

pub use content::Content;
pub use list::List;
pub use slablist::{Compare, Cursor, Element, Natural, Ordered, Packing, SlabList};
pub use slabmap::SlabMap;
pub use table::Table;
pub use tree::Tree;
