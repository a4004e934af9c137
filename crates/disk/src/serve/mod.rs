//! What the programs that offer a device need beside it: [`fuse`] serves it as a file, [`status`] tells
//! others about it, and [`swap`] prepares the process to serve swap.

#[cfg(feature = "fuse")]
pub mod fuse;
pub mod status;
pub mod swap;
