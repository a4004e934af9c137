//! Allocating and freeing nodes.
//!
//! ```text
//!   allocator    which block a session allocates from: a few blocks of its own
//!   current      such a block, and what is known to be free in it
//!   supply       where it gets the next one: a new block, or one that others left with room
//!   free_space   the lists of blocks that have room
//!   free         freeing and resizing; deferred: what could not be freed at once
//! ```

pub mod allocator;
pub mod current;
pub mod deferred;
pub mod free;
pub mod free_space;
pub mod supply;
