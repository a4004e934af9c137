//! Copies of blocks that are not in frames: their compressed form, in the store or on a tier.
//!
//! ```text
//!   copies     frame -> copy (compress) and back
//!   grouping   columns first, where that pays; plans: what was found out about that
//!   spill      copies to a tier and back; tier: what a tier is; lost: copies that it has lost
//!   workspace  memory to compress in
//!   own        a codec of the program's own
//! ```

pub mod copies;
pub mod grouping;
pub mod lost;
pub mod own;
pub mod plans;
pub mod spill;
pub mod tier;
pub mod workspace;
