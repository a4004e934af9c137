//! memfold keeps more in memory than fits: a compressed heap, collections in it, and the store below.
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
//! With default options nothing is compressed as long as it fits into half of the memory that is free: see
//! [`Limit`](heap::Limit) for less, and for more.
//!
//! # Features
//!
//! | feature | |
//! | --- | --- |
//! | `std` (default) | [`heap`], [`collections`], and the system's memory for the [`store`], which alone is there without it |
//! | `rayon` | lists are folded and mapped by several threads (`SlabList::par_fold`, `par_map`) |
//! | `serde` | lists as sequences: `Serialize`, and [`collections::slablist::Fill`] to read them |
//! | `spill` | a heap goes on in a file, on an NBD server or in Redis when its limit in bytes is reached (`Options::spill`) |
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
pub mod size;
pub mod store;
#[cfg(feature = "std")]
mod sys;

/// Tiers for what does not fit into memory, see [`heap::Options::spill`].
#[cfg(feature = "spill")]
pub use memfold_spill as spill;
#[cfg(feature = "std")]
pub use sys::SystemMemory;
/// What says which types are plain data, for [`heap::Plain`].
#[cfg(feature = "std")]
pub use zerocopy;
