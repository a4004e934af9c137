//! Functions by which the program changes its rights: its user, its limits, its namespaces, its filters.

pub mod credentials;

#[cfg(feature = "preload")]
pub mod identity;
#[cfg(feature = "preload")]
pub mod limits;
#[cfg(feature = "preload")]
pub mod namespaces;
#[cfg(feature = "preload")]
pub mod seccomp;
