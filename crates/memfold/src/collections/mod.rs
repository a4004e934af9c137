//! Collections whose elements lie in a compressed heap.
//!
//! ```text
//!   SlabList ──> sublayers in plain memory ──> leaves in the heap: slabs of sorted elements, side by side
//! ```

pub mod slablist;
pub mod slabmap;

pub use slablist::{Compare, Cursor, Element, Natural, Ordered, Packing, SlabList};
pub use slabmap::SlabMap;
