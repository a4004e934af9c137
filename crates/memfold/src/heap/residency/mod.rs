//! Which blocks are resident, that is uncompressed in a frame, and how many may be.
//!
//! ```text
//!   pager       faults blocks in and evicts them
//!   policy      chooses which resident block to evict
//!   budget      how many frames there may be
//!   headroom    the same where the limit follows free memory; machine: what is free
//!   background  evicts ahead of need and loads ahead of use, in a thread of the heap's own; board: its tasks
//!   frames      the memory
//! ```
//!
//! The invariant of this module: a block is evicted only under its lock, after its tenancy has ended, and
//! only if no guard holds one of its stripes and no session has pinned it.

pub mod background;
pub mod board;
pub mod budget;
pub mod frames;
pub mod headroom;
pub mod machine;
pub mod pager;
pub mod pledge;
pub mod policy;
