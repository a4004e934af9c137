//! Codecs with a form of their own, and the table of numbers.
//!
//! A number ([`CodecId`]) says how to decompress, and is what formats store. All numbers are listed here. The
//! table is append-only: a number is assigned once and means the same decoder for ever; otherwise blocks
//! written by an older memfold would decode wrongly.
//!
//! These codecs know nothing of pipelines, which are made of them, or of `auto`, which chooses among
//! pipelines. The [registry](crate::registry) combines all of them.

pub(crate) mod copy;
pub(crate) mod lz4;
pub(crate) mod peers;
pub(crate) mod stride;
pub(crate) mod weft;
pub(crate) mod zstd;

use crate::{Codec, CodecId};

/// Defines the numbers. Each line is a number, and the codecs that share it and have neither levels nor a
/// feature; codecs with levels or features are added in [`all`].
macro_rules! numbers {
    ($($(#[$what:meta])* $name:ident = $number:literal: $($codec:expr),*;)*) => {
        impl CodecId {
            $($(#[$what])* pub const $name: CodecId = CodecId($number);)*
        }

        pub(crate) static OURS: &[&dyn Codec] = &[$($(&$codec,)*)*];
    };
}

numbers! {
    /// The block as it is.
    COPY = 1: copy::Copy;
    /// An LZ4 block, without frame.
    LZ4 = 2: lz4::Lz4;
    /// A Zstandard frame without its magic number, whatever the level.
    ZSTD = 3: ;
    /// memfold's own format of predicted words; see `docs/formats/stride.md`.
    STRIDE = 4: stride::SETTINGS[0], stride::SETTINGS[1], stride::SETTINGS[2];
    /// PBPM with one tape of data.
    PBPM = 5: ;
    /// PBPM with a tape for data of each size.
    PBPM_TAPES = 6: ;
    /// PBPM with data in whole words.
    PBPM_WORD = 7: ;
    /// WKdm.
    WKDM = 8: ;
    /// BeWalgo.
    BEWALGO = 9: ;
    /// BeWalgo2.
    BEWALGO2 = 10: ;
    /// A pipeline, whose form names its steps.
    PIPELINE = 11: ;
    /// Raw DEFLATE, whatever the level.
    DEFLATE = 12: ;
    /// Snappy, without frame.
    SNAPPY = 13: ;
    /// A bzip2 stream.
    BZIP2 = 14: ;
    /// LZMA2, whatever the level.
    XZ = 15: ;
    /// LZO1X.
    LZO = 16: ;
    /// 842, without checksum.
    P842 = 17: ;
    /// LZRW1-A.
    LZRW1A = 18: ;
    /// The form of another codec or pipeline, and which one: see `docs/formats/auto.md`.
    AUTO = 19: ;
    /// The version of a dictionary, and a frame as in [`CodecId::ZSTD`] made with it.
    ZSTD_DICT = 20: ;
    /// The words of heaps by their distances; see `docs/formats/weft.md`.
    WEFT = 21: weft::SETTINGS[0], weft::SETTINGS[1], weft::SETTINGS[2], weft::SETTINGS[3];
}

impl CodecId {
    /// A codec that is not in this crate; the reader of the block must know which. This number will never be
    /// in a table.
    pub const OWN: CodecId = CodecId(127);
}

/// The full name for a short one.
pub(crate) fn alias(name: &str) -> &str {
    match name {
        "zstd" => "zstd:1",
        "zstd-dict" => "zstd-dict:1",
        "stride" => "stride:2",
        "weft" => "weft:3",
        "lz4hc" => "lz4hc:9",
        "deflate" => "deflate:6",
        "xz" => "xz:6",
        _ => name,
    }
}

/// All codecs with a form of their own.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Codec> {
    OURS.iter().chain(peers::PAPERS).chain(peers::libs::SINGLE).copied().chain(with_levels())
}

/// The codecs with levels, the faster ones of a family first.
pub(crate) fn with_levels() -> impl Iterator<Item = &'static dyn Codec> {
    zstd::LEVELS.iter().map(|codec| codec as &dyn Codec).chain(peers::with_levels())
}

/// The codec of this module that decompresses data stored under that number. If several share the number, it
/// is any of them.
pub(crate) fn decoder(id: CodecId) -> Option<&'static dyn Codec> {
    match id {
        // The most frequent numbers need no search.
        CodecId::LZ4 => Some(&lz4::Lz4),
        CodecId::ZSTD => zstd::level(1).map(|codec| codec as &dyn Codec),
        CodecId::STRIDE => Some(&stride::SETTINGS[0]),
        _ => all().find(|codec| codec.id() == id),
    }
}
