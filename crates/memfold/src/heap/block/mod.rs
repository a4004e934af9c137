//! Blocks: where each of them is, how its nodes lie in it, and the handles that name nodes.
//!
//! ```text
//!   handle ──> table: state, copy, counts of a block ──> frame or stored copy
//!   layout     bytes of a block: nodes of many sizes, of one size, ascending numbers
//!   marks      which places have nodes, and which check a handle must carry
//! ```

pub mod handle;
pub mod layout;
pub mod marks;
pub mod segments;
pub mod table;
