//! For programs that export a device: [`fuse`] serves it as a file, [`status`] reports about it to others,
//! and [`swap`] prepares the process to serve swap.

#[cfg(feature = "fuse")]
pub mod fuse;
pub mod status;
pub mod swap;
