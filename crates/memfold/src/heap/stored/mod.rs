//! Copies of blocks that are not in frames: their compressed form, in the store or on a tier.
//!
//! ```text
//!   copies     frame -> copy (compress) and back; grouping: columns first where plans say that it pays
//!   spill      copies to a tier: a file or a server; lost: copies that the tier has lost
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
