//! memfold keeps more in memory than fits.
#![no_std]

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
