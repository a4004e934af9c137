//! Backends for compressed blocks that do not fit into memory: a file, an NBD server, Redis or Valkey.
//!
//! ```text
//!   blocks ──> Batch (64 to 256 KiB, sealed) ──> Tier: put ─── acknowledged: the copy in memory may go
//!   block  <── opened                        <── Tier: get, a part of a batch
//! ```
//!
//! Invariants:
//! - A **batch** is written once, under a number that no other batch of the run has, and read in parts. Its
//!   blocks are **sealed** one by one: encrypted, or with a checksum, for this run, this batch and this
//!   place. A block that does not open is never returned as data.
//! - A **tier** performs each request or returns the reason why not ([`Trouble`]). It never invents bytes:
//!   data that it does not have are lost.
//! - The data on a tier are meaningless without the run's key, and end with the run.
//!
//! Without the feature `tiers` the crate has only the format of a batch, which needs neither allocations nor
//! Rust's `std`.

#![cfg_attr(not(feature = "tiers"), no_std)]

mod batch;
#[cfg(feature = "tiers")]
mod engine;
#[cfg(all(test, feature = "tiers"))]
mod made;
#[cfg(feature = "tiers")]
mod spilled;
#[cfg(feature = "tiers")]
mod tiers;

pub use batch::{BLOCK_HEAD, Batch, Block, BlockRange, Sealer, Unopened, blocks};
#[cfg(feature = "tiers")]
pub use engine::{Counters, Engine, Health, News};
#[cfg(feature = "tiers")]
pub use spilled::{Spilled, run_name};
#[cfg(feature = "tiers")]
pub use tiers::{BadTarget, Room, Target, Terms, Tier, Trouble};
