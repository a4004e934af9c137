//! Finds codecs by name or number: codecs with a format of their own, pipelines of them, and `auto`.
//!
//! A **name** says how to compress: `zstd:-5`. A **number** ([`CodecId`]) says how to decompress; the table
//! of numbers is in [`codecs`]. All names are parsed here, except for the steps of a pipeline.

use core::fmt;

use crate::codecs::{self, peers, zstd};
use crate::{Chain, Codec, CodecId, MOST_STEPS, Pipeline, UnknownCodec, auto, pipeline};

/// The message lists the existing names.
impl fmt::Display for UnknownCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no codec of that name; the codecs are ")?;
        for codec in single() {
            write!(f, "{}, ", codec.name())?;
        }
        write!(
            f,
            "lz4hc:LEVEL with LEVEL from 2 to {}, {}and zstd:LEVEL with LEVEL from {} to -1 (fast) or from \
             1 to {} (dense), where zstd alone means zstd:1{}; pipelines of up to {MOST_STEPS} of these and of {}, such as \
             delta:8x2+shuffle:8+zstd:1; and auto=A/B/C, which chooses from your own list (up to {} lists per process)",
            if cfg!(feature = "lz4hc-optimal") { 12 } else { 9 },
            peers::libs::LEVEL_NAMES,
            zstd::MIN_LEVEL,
            zstd::MAX_LEVEL,
            if cfg!(feature = "dict") { ", and zstd-dict:LEVEL, which trains dictionaries" } else { "" },
            pipeline::STEP_NAMES,
            auto::MOST_NAMED,
        )
    }
}

impl core::error::Error for UnknownCodec {}

/// The codecs without levels; those with levels are added elsewhere.
fn single() -> impl Iterator<Item = &'static dyn Codec> {
    let auto = auto::PRESETS.iter().map(|codec| codec as &dyn Codec);
    codecs::OURS.iter().chain(peers::PAPERS).copied().chain(auto).chain(peers::libs::SINGLE.iter().copied())
}

/// The codec of that name, which may be a pipeline.
///
/// A process can get up to 256 different pipelines from this function, because they are never freed. For
/// more, parse a [`Pipeline`].
///
/// ```
/// assert_eq!(memfold_codec::codec("zstd").unwrap().name(), "zstd:1");
/// assert_eq!(memfold_codec::codec("shuffle:8+zstd").unwrap().name(), "shuffle:8+zstd:1");
/// assert!(memfold_codec::codec("zstd:99").is_err());
/// ```
pub fn codec(name: &str) -> Result<&'static dyn Codec, UnknownCodec> {
    if let Some(found) = all().find(|codec| codec.name() == codecs::alias(name)) {
        return Ok(found);
    }
    if name.starts_with(auto::PREFIX) {
        return auto::interned(name);
    }
    let pipeline = pipeline::interned(name.parse::<Pipeline>()?).ok_or(UnknownCodec)?;
    Ok(pipeline)
}

/// The codec that decompresses data stored under that number. If several codecs share the number, it is any
/// of them.
pub fn decoder(id: CodecId) -> Option<&'static dyn Codec> {
    match id {
        CodecId::PIPELINE => Some(&pipeline::ANY),
        CodecId::AUTO => Some(&auto::PRESETS[1]),
        #[cfg(feature = "dict")]
        CodecId::ZSTD_DICT => {
            crate::dict::Dictionaries::of_name("zstd-dict:1").map(|codec| codec as &dyn Codec)
        }
        _ => codecs::decoder(id),
    }
}

/// All codecs except pipelines, the faster ones of a family first.
pub fn all() -> impl Iterator<Item = &'static dyn Codec> {
    single().chain(codecs::with_levels()).chain(with_dictionaries())
}

/// The codecs that train dictionaries.
fn with_dictionaries() -> impl Iterator<Item = &'static dyn Codec> {
    #[cfg(feature = "dict")]
    let found = crate::dict::LEVELS.iter().map(|codec| codec as &dyn Codec);
    #[cfg(not(feature = "dict"))]
    let found = core::iter::empty();
    found
}

/// Whether a codec, or a step of a pipeline, exists only because this crate was built with a feature. Other
/// programs, and the preload library, may lack it.
pub fn is_optional(codec: &dyn Codec) -> bool {
    let optional = |name: &str| peers::all().any(|codec| codec.name() == name);
    // The name of a custom chooser is its list; without one of its codecs it would be a different list.
    let list = codec.name().strip_prefix(auto::PREFIX).unwrap_or(codec.name());
    let mut chains = list.split('/').filter_map(|entry| entry.parse::<Chain>().ok());
    codec.id() == CodecId::ZSTD_DICT || chains.any(|chain| chain.codecs().any(|step| optional(step.name())))
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
    fn each_level_has_a_name() {
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
            "auto:",
            "auto:slow",
            "auto=",
            "auto=lz4/",
            "auto=lz4/x",
            "auto=auto",
            "auto=lz4,zstd:1",
            "auto+lz4",
            "shuffle:8+auto",
            "zstd-dict:",
            "zstd-dict:0",
            "zstd-dict:23",
            "zstd-dict:1+lz4",
            "shuffle:8+zstd-dict:1",
            "auto=zstd-dict:1",
            "lz4+",
            "lz4+x",
            "pipeline",
        ] {
            assert!(codec(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_error_lists_the_names() {
        let text = codec("lzma").unwrap_err().to_string();
        for name in [
            "copy",
            "lz4",
            "stride:1",
            "stride:3",
            "pbpm:word",
            "bewalgo2",
            "zstd:LEVEL",
            "-1",
            "22",
            "delta",
            "lagdelta",
            "huffman",
        ] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn numbers_never_change() {
        let numbers = [
            ("copy", 1),
            ("lz4", 2),
            ("zstd:1", 3),
            ("stride:1", 4),
            ("pbpm", 5),
            ("pbpm:tapes", 6),
            ("pbpm:word", 7),
            ("wkdm", 8),
            ("bewalgo", 9),
            ("bewalgo2", 10),
            ("pipeline", 11),
            ("deflate:1", 12),
            ("snappy", 13),
            ("bzip2", 14),
            ("xz:0", 15),
            ("lzo", 16),
            ("842", 17),
            ("lzrw1a", 18),
            ("auto", 19),
            ("zstd-dict:1", 20),
            ("weft:1", 21),
        ];
        for id in 0..=255 {
            let name = numbers.iter().find(|(_, number)| *number == id).map(|(name, _)| *name);
            match decoder(CodecId(id)) {
                Some(codec) => {
                    assert_eq!(Some(codec.name()), name);
                    assert_ne!(codec.id(), CodecId::OWN);
                }
                // The codec does not exist without its feature.
                None => assert!(name.is_none() || (12..=16).contains(&id) || id == 20, "{id}"),
            }
        }
    }

    #[test]
    fn codecs_that_need_a_feature_are_optional() {
        for found in all() {
            let peer = matches!(found.id().0, 5..=10 | 12..=18) || found.name().starts_with("lz4hc:");
            assert_eq!(is_optional(found), peer || found.id() == CodecId::ZSTD_DICT, "{found:?}");
            if [CodecId::AUTO, CodecId::ZSTD_DICT].contains(&found.id()) {
                continue;
            }
            let name = std::format!("shuffle:2+{}", found.name());
            assert_eq!(is_optional(codec(&name).unwrap()), is_optional(found));
        }
        for name in ["auto=lz4/zstd:1", "auto=stride:2", "auto=delta:8x1+lz4/copy", "auto:max"] {
            assert!(!is_optional(codec(name).unwrap()), "{name}");
        }
        let lists = [
            "auto=xz:6",
            "auto=lz4/bzip2",
            "auto=lz4/shuffle:8+deflate:6/copy",
            "auto=lz4hc:2/lz4",
            "auto=lz4/wkdm",
        ];
        for found in lists.into_iter().flat_map(codec) {
            assert!(is_optional(found), "{found:?}");
        }
    }
}
