//! memfold keeps more in memory than fits: a compressed heap, collections in it, and the store beneath.
//!
//! ```
//! use memfold::collections::SlabList;
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;                // one for each thread
//! let mut list = SlabList::new(&session);
//! list.insert(&20_u64)?;
//! assert!(list.contains(&20)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With default options nothing is compressed while it fits into half of the free memory: see
//! [`Limit`](heap::Limit) for lower and higher limits.
//!
//! # Features
//!
//! | feature | |
//! | --- | --- |
//! | `std` (default) | [`heap`], [`collections`], memory from the system; without it, only the [`store`] |
//! | `rayon` | lists are folded and mapped by several threads (`SlabList::par_fold`, `par_map`) |
//! | `serde` | lists as sequences: `Serialize`, and [`collections::slablist::Fill`] to read them |
//! | `spill` | a heap at its limit in bytes spills to a file, an NBD server or Redis (`Options::spill`) |
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "std", test))]
extern crate std;

#[cfg(feature = "std")]
pub mod collections;
#[cfg(feature = "std")]
pub mod heap;
pub mod probe;
#[cfg(test)]
mod random;
#[cfg(feature = "std")]
mod room;
#[cfg(feature = "std")]
pub mod size;
pub mod store;
#[cfg(feature = "std")]
mod sys;

/// Tiers for blocks that do not fit into memory, see [`heap::Options::spill`].
#[cfg(feature = "spill")]
pub use memfold_spill as spill;
#[cfg(feature = "std")]
pub use sys::SystemMemory;
/// Decides which types are plain data, for [`heap::Plain`].
#[cfg(feature = "std")]
pub use zerocopy;
