//! Functions by which the program changes its mappings, or makes the kernel hold on to its pages.

pub mod leaving;
pub mod ranges;

#[cfg(feature = "preload")]
pub mod advice;
#[cfg(feature = "preload")]
pub mod growth;
#[cfg(feature = "preload")]
pub mod locked;
#[cfg(feature = "preload")]
pub mod own_uffd;
#[cfg(feature = "preload")]
pub mod pins;
#[cfg(feature = "preload")]
pub mod populate;
#[cfg(feature = "preload")]
pub mod remap;
#[cfg(feature = "preload")]
pub mod remembered;
