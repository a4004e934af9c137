//! Codecs with a form of their own: memfold's, those of libraries, and [`peers`] to compare them with.

pub(crate) mod copy;
pub(crate) mod lz4;
pub(crate) mod peers;
pub(crate) mod stride;
pub(crate) mod zstd;
