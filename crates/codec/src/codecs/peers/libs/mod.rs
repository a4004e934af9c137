//! Well-known libraries to compare with, available only if the crate is built with their features. The
//! preload library does without them.

#[cfg(any(feature = "bzip2", feature = "xz"))]
mod arena;
#[cfg(feature = "bzip2")]
pub(crate) mod bzip2;
#[cfg(feature = "deflate")]
pub(crate) mod deflate;
#[cfg(feature = "lzo")]
pub(crate) mod lzo;
#[cfg(feature = "snappy")]
pub(crate) mod snappy;
#[cfg(feature = "xz")]
pub(crate) mod xz;

use crate::Codec;

/// The codecs without levels.
pub(crate) const SINGLE: &[&dyn Codec] = &[
    #[cfg(feature = "snappy")]
    &snappy::SNAPPY,
    #[cfg(feature = "lzo")]
    &lzo::LZO,
    #[cfg(feature = "bzip2")]
    &bzip2::BZIP2,
];

/// Names of the codecs with levels, for messages.
pub(crate) const LEVEL_NAMES: &str = match (cfg!(feature = "deflate"), cfg!(feature = "xz")) {
    (true, true) => "deflate:LEVEL from 1 to 12, xz:LEVEL from 0 to 9, ",
    (true, false) => "deflate:LEVEL from 1 to 12, ",
    (false, true) => "xz:LEVEL from 0 to 9, ",
    (false, false) => "",
};
