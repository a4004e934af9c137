//! Names and numbers of codecs.
//!
//! A **name** says how to compress: `zstd:-5`. A **number** ([`CodecId`]) says
//! how to decompress, and is what formats store. All names are taken apart
//! here and nowhere else; all numbers are listed here. The table of numbers is
//! append-only: a number is given once and means the same decoder for ever, or
//! else blocks written by an older memfold would come back wrong.

use core::fmt;

use crate::copy::Copy;
use crate::lz4::Lz4;
use crate::{Codec, stride, zstd};

/// Which decoder reads a compressed block: the number that formats store.
///
/// Zero is never given to a codec; formats may use it for "no codec".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// The block as it is.
    pub const COPY: CodecId = CodecId(1);
    /// An LZ4 block, without frame.
    pub const LZ4: CodecId = CodecId(2);
    /// A Zstandard frame without its magic number, whatever the level.
    pub const ZSTD: CodecId = CodecId(3);
    /// Our own format of predicted words, see `docs/formats/stride.md`.
    pub const STRIDE: CodecId = CodecId(4);
}

/// No codec has this name. Its text says which names there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCodec;

impl fmt::Display for UnknownCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no codec has that name; there are copy, lz4, stride:1 (fast) to stride:{} (dense), stride \
             alone meaning stride:2, and zstd:LEVEL with LEVEL from {} to -1 (fast) or from 1 to {} \
             (dense), zstd alone meaning zstd:1",
            stride::SETTINGS.len(),
            zstd::MIN_LEVEL,
            zstd::MAX_LEVEL
        )
    }
}

impl core::error::Error for UnknownCodec {}

/// The codec of that name.
///
/// ```
/// assert_eq!(memfold_codec::codec("zstd").unwrap().name(), "zstd:1");
/// assert!(memfold_codec::codec("zstd:99").is_err());
/// ```
pub fn codec(name: &str) -> Result<&'static dyn Codec, UnknownCodec> {
    let (family, parameter) = match name.split_once(':') {
        Some((family, parameter)) => (family, Some(parameter)),
        None => (name, None),
    };
    let found: Option<&'static dyn Codec> = match (family, parameter) {
        ("copy", None) => Some(&Copy),
        ("lz4", None) => Some(&Lz4),
        ("stride", None) => Some(&stride::SETTINGS[1]),
        ("stride", Some(_)) => {
            stride::SETTINGS.iter().map(|codec| codec as &dyn Codec).find(|codec| codec.name() == name)
        }
        ("zstd", None) => zstd::level(1).map(|codec| codec as &dyn Codec),
        ("zstd", Some(level)) => level.parse().ok().and_then(zstd::level).map(|codec| codec as &dyn Codec),
        _ => None,
    };
    // One name for each codec: `zstd:01` and `zstd:+1` parse, but are refused.
    found.filter(|codec| parameter.is_none() || codec.name() == name).ok_or(UnknownCodec)
}

/// The codec that decompresses what is stored under that number. Of codecs
/// that share a number it is one, it does not matter which.
pub fn decoder(id: CodecId) -> Option<&'static dyn Codec> {
    match id {
        CodecId::COPY => Some(&Copy),
        CodecId::LZ4 => Some(&Lz4),
        CodecId::ZSTD => zstd::level(1).map(|codec| codec as &dyn Codec),
        CodecId::STRIDE => Some(&stride::SETTINGS[0]),
        _ => None,
    }
}

/// Every codec there is, the faster ones of a family first.
pub fn all() -> impl Iterator<Item = &'static dyn Codec> {
    let others: [&'static dyn Codec; 2] = [&Copy, &Lz4];
    let ours = stride::SETTINGS.iter().map(|codec| codec as &dyn Codec);
    others.into_iter().chain(ours).chain(zstd::LEVELS.iter().map(|codec| codec as &dyn Codec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_codec_is_found_by_its_name_and_number() {
        for found in all() {
            let again = codec(found.name()).unwrap();
            assert_eq!(again.name(), found.name());
            assert_eq!(again.id(), found.id());
            assert_eq!(decoder(found.id()).unwrap().id(), found.id());
        }
    }

    #[test]
    fn zstd_alone_is_level_1() {
        assert_eq!(codec("zstd").unwrap().name(), "zstd:1");
    }

    #[test]
    fn levels_stand_under_their_own_names() {
        for level in (zstd::MIN_LEVEL..=zstd::MAX_LEVEL).filter(|&level| level != 0) {
            let name = std::format!("zstd:{level}");
            assert_eq!(codec(&name).unwrap().name(), name);
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            ":",
            "copy:",
            "copy:1",
            "lz4:",
            "lz4:1",
            "LZ4",
            " lz4",
            "zstd:",
            "zstd:0",
            "zstd:-0",
            "zstd:01",
            "zstd:+1",
            "zstd:23",
            "zstd:-1000000",
            "zstd:1 ",
            "zstd:1:1",
            "zstd:x",
            "zstd:99999999999999999999",
            "stride:",
            "stride:0",
            "stride:01",
            "stride:4",
            "stride:-1",
            "lz",
            "auto",
            "lz4+copy",
        ] {
            assert!(codec(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_error_says_which_names_there_are() {
        let text = codec("lzma").unwrap_err().to_string();
        for name in ["copy", "lz4", "stride:1", "stride:3", "zstd:LEVEL", "-1", "22"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn numbers_never_change() {
        assert_eq!((CodecId::COPY.0, CodecId::LZ4.0, CodecId::ZSTD.0, CodecId::STRIDE.0), (1, 2, 3, 4));
        for unused in (0..=255).filter(|id| ![1, 2, 3, 4].contains(id)) {
            assert!(decoder(CodecId(unused)).is_none());
        }
    }
}
