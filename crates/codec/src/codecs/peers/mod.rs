//! Codecs to compare with: [`libs`] has well-known libraries, [`papers`] has codecs that papers and kernels
//! describe, and [`lz4hc`] is the densest encoder of the LZ4 format.
//!
//! Each exists only if the crate is built with its feature, and [`auto`](crate::Auto) names none of them. So
//! the preload library, which is loaded into every program, does without them. All other parts have them,
//! since heaps and files name their codecs and must stay readable.

pub(crate) mod libs;
#[cfg(feature = "lz4hc")]
pub(crate) mod lz4hc;
#[cfg(feature = "papers")]
pub(crate) mod papers;
#[cfg(any(
    feature = "bzip2",
    feature = "deflate",
    feature = "lz4hc",
    feature = "lzo",
    feature = "snappy",
    feature = "xz"
))]
mod staged;

use crate::Codec;

/// The codecs of papers, which have no levels.
pub(crate) const PAPERS: &[&dyn Codec] = &[
    #[cfg(feature = "papers")]
    &papers::pbpm::PBPM,
    #[cfg(feature = "papers")]
    &papers::pbpm::PBPM_TAPES,
    #[cfg(feature = "papers")]
    &papers::pbpm::PBPM_WORD,
    #[cfg(feature = "papers")]
    &papers::wkdm::WKDM,
    #[cfg(feature = "papers")]
    &papers::bewalgo::BEWALGO,
    #[cfg(feature = "papers")]
    &papers::bewalgo2::BEWALGO2,
    #[cfg(feature = "papers")]
    &papers::p842::P842,
    #[cfg(feature = "papers")]
    &papers::lzrw::LZRW1A,
];

/// The codecs with levels.
pub(crate) fn with_levels() -> impl Iterator<Item = &'static dyn Codec> {
    let none = core::iter::empty::<&'static dyn Codec>();
    #[cfg(feature = "lz4hc")]
    let none = none.chain(lz4hc::LEVELS.iter().map(|codec| codec as &dyn Codec));
    #[cfg(feature = "deflate")]
    let none = none.chain(libs::deflate::LEVELS.iter().map(|codec| codec as &dyn Codec));
    #[cfg(feature = "lz4hc-optimal")]
    let none = none.chain(lz4hc::OPTIMAL.iter().map(|codec| codec as &dyn Codec));
    #[cfg(feature = "xz")]
    let none = none.chain(libs::xz::LEVELS.iter().map(|codec| codec as &dyn Codec));
    none
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Codec> {
    PAPERS.iter().chain(libs::SINGLE).copied().chain(with_levels())
}
