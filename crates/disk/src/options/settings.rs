//! Options as users write them: names and values, the same for all front ends.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use memfold::size::{self, Size};
use memfold_codec::Codec;
use memfold_spill::Target;

use crate::options::{BackingTier, BadOption, Options};

/// The name and meaning of each setting, for help texts.
pub const HELP: &str = "\
size=SIZE         Size of the device, like 8G or 1.5T (powers of 1024): required.
limit=SIZE        Memory that it may use, or a share of all memory, like 25%. The default
                  is 50%. memory-limit=SIZE is the same, because nbdkit's filter 'limit'
                  takes limit= for itself.
codec=FAST,DENSE  Codecs for written data, and for data that were not used for a while;
                  'none' leaves those as they are. The default is auto, which is
                  auto:fast,auto:dense.
block=SIZE        Bytes that the dense codec compresses together: 8K, 16K or 32K.
                  Larger blocks are smaller when compressed, and slower to read from.
                  The default is 32K.
cold=SECONDS      Data that were not used for this long go to the dense codec. The default
                  is 5.
resident=SIZE     The most memory for uncompressed copies of pages that are read often. The
                  default is a 32nd of the limit.
share=yes         Store pages with the same content only once. Takes four to eight bytes of
                  memory for each page of the device, and time to compare. The default is no.
swap=yes          Make the device fit for swap: all memory is locked and allocated in
                  advance, and the device never waits for memory to be freed. Needs root.
backing=TARGET    A directory, a new file, an unused block device, nbd://HOST/EXPORT or
                  redis://HOST, for data that do not compress and, at the limit, for data
                  that were used least. They are encrypted, and removed with the device.
backing-size=SIZE Bytes of it that may be used. The default is all of a block device or
                  server; of a file, a little more than the size of the device.";

/// The settings given so far.
#[derive(Default)]
pub struct Settings {
    size: Option<u64>,
    limit: Option<Size>,
    codec: Option<(&'static dyn Codec, Option<&'static dyn Codec>)>,
    block_pages: Option<usize>,
    resident: Option<Size>,
    cold: Option<Duration>,
    share: bool,
    swap: bool,
    backing: Option<Target>,
    backing_size: Option<u64>,
}

/// Why a setting is refused. The text says what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSetting(String);

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSetting {}

impl From<BadOption> for BadSetting {
    fn from(bad: BadOption) -> Self {
        BadSetting(bad.to_string())
    }
}

impl Settings {
    /// Takes a setting; returns false if none has that name. Only a path may have bytes that are not UTF-8.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) -> Result<bool, BadSetting> {
        let value = value.as_ref();
        if name == "backing" {
            self.backing = Some(Target::named(value).map_err(|bad| BadSetting(format!("backing: {bad}")))?);
            return Ok(true);
        }
        let value = value
            .to_str()
            .ok_or_else(|| BadSetting(format!("{name}={} is not UTF-8", value.as_bytes().escape_ascii())))?;
        match name {
            "size" => self.size = Some(bytes(name, value)?),
            "limit" | "memory-limit" => self.limit = Some(size_of(name, value)?),
            "codec" => self.codec = Some(codecs(value)?),
            "block" => self.block_pages = Some(block_pages(value)?),
            "resident" => {
                self.resident = Some(if value == "0" { Size::Bytes(0) } else { size_of(name, value)? });
            }
            "cold" => self.cold = Some(seconds(value)?),
            "swap" => self.swap = yes(name, value)?,
            "share" => self.share = yes(name, value)?,
            "backing-size" => self.backing_size = Some(bytes(name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the limit was given.
    pub fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether the process must be prepared as [`crate::swap`] says.
    pub fn is_for_swap(&self) -> bool {
        self.swap
    }

    /// The options for a machine with this much memory.
    pub fn options(&self, memory: u64) -> Result<Options, BadSetting> {
        let Some(size) = self.size else {
            return Err(BadSetting("the device needs a size, like size=8G".into()));
        };
        let mut options = Options::new(size);
        options.limit = self.limit.unwrap_or(Size::Percent(50.0)).of(memory);
        if let Some((fast, dense)) = self.codec {
            (options.fast, options.dense) = (fast, dense);
        }
        options.block_pages = self.block_pages.unwrap_or(options.block_pages);
        options.resident = self.resident.map(|size| size.of(options.limit));
        options.cold = self.cold.unwrap_or(options.cold);
        if self.backing.is_none() && self.backing_size.is_some() {
            return Err(BadSetting(
                "backing-size needs a backing device; name one with backing=TARGET".into(),
            ));
        }
        (options.share, options.swap) = (self.share, self.swap);
        options.backing = self.backing.clone().map(|target| BackingTier { target, size: self.backing_size });
        if self.swap && !matches!(options.backing, None | Some(BackingTier { target: Target::File(_), .. })) {
            return Err(BadSetting(
                "a device for swap can't wait for a server, which may wait for memory: name a file or block device with backing=PATH".into(),
            ));
        }
        options.check()?;
        Ok(options)
    }
}

fn size_of(name: &str, value: &str) -> Result<Size, BadSetting> {
    size::parse(value).map_err(|why| {
        BadSetting(format!("{name}={value} {why}; give a size like {name}=512M, or a share like {name}=25%"))
    })
}

fn bytes(name: &str, value: &str) -> Result<u64, BadSetting> {
    match size::parse(value) {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(Size::Percent(_)) => {
            Err(BadSetting(format!("{name}={value} is a share; give bytes, like {name}=8G")))
        }
        Err(why) => Err(BadSetting(format!("{name}={value} {why}; give a size like {name}=8G"))),
    }
}

fn yes(name: &str, value: &str) -> Result<bool, BadSetting> {
    match value {
        "yes" | "on" | "true" | "1" => Ok(true),
        "no" | "off" | "false" | "0" => Ok(false),
        _ => Err(BadSetting(format!("{name}={value} is neither yes nor no"))),
    }
}

fn seconds(value: &str) -> Result<Duration, BadSetting> {
    let seconds = value.strip_suffix('s').unwrap_or(value).parse::<f64>().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| BadSetting(format!("cold={value} is not a number of seconds, like cold=5")))
}

fn block_pages(value: &str) -> Result<usize, BadSetting> {
    match bytes("block", value)? {
        bytes @ (8192 | 16384 | 32768) => Ok(bytes as usize / crate::PAGE),
        _ => Err(BadSetting(format!("block={value} is none of 8K, 16K and 32K"))),
    }
}

fn codecs(value: &str) -> Result<(&'static dyn Codec, Option<&'static dyn Codec>), BadSetting> {
    let find = |name: &str| {
        memfold_codec::codec(name)
            .map_err(|unknown| BadSetting(format!("codec={value}: '{name}': {unknown}")))
    };
    let (fast, dense) = match value.split_once(',') {
        Some(both) => both,
        None if value == "auto" => ("auto:fast", "auto:dense"),
        None => (value, "auto:dense"),
    };
    let dense = if dense == "none" { None } else { Some(find(dense)?) };
    let fast = find(fast)?;
    for codec in [Some(fast), dense].into_iter().flatten() {
        // Blocks of this codec can be read only with data that another part of the process has.
        if codec.id() == memfold_codec::CodecId::OWN || codec.id() == memfold_codec::CodecId::ZSTD_DICT {
            return Err(BadSetting(format!("codec={value}: a device can't use '{}'", codec.name())));
        }
    }
    Ok((fast, dense))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(settings: &[(&str, &str)]) -> Result<Options, BadSetting> {
        let mut all = Settings::default();
        for (name, value) in settings {
            assert!(all.set(name, value)?, "{name}");
        }
        all.options(1 << 30)
    }

    #[test]
    fn settings_become_options() {
        let given = options(&[
            ("size", "8G"),
            ("limit", "25%"),
            ("codec", "lz4,none"),
            ("block", "32K"),
            ("resident", "0"),
        ]);
        let given = given.unwrap();
        assert_eq!(
            (given.size, given.limit, given.block_pages, given.resident),
            (8 << 30, 256 << 20, 8, Some(0))
        );
        assert_eq!((given.fast.name(), given.dense.is_none()), ("lz4", true));
        let given = options(&[("size", "7E"), ("codec", "auto")]).unwrap();
        assert_eq!(
            (given.limit, given.fast.name(), given.dense.unwrap().name()),
            (512 << 20, "auto:fast", "auto:dense")
        );
    }

    #[test]
    fn paths_have_any_bytes() {
        let odd = OsStr::from_bytes(b"/tmp/\xff");
        let mut settings = Settings::default();
        assert_eq!(settings.set("backing", odd), Ok(true));
        assert_eq!(settings.backing, Some(Target::File(odd.into())));
        let bad = settings.set("size", OsStr::from_bytes(b"8\xff")).unwrap_err().to_string();
        assert_eq!(bad, "size=8\\xff is not UTF-8");
    }

    #[test]
    fn bad_settings_say_what_would_do() {
        let text = |settings: &[(&str, &str)]| options(settings).err().unwrap().to_string();
        assert!(text(&[]).contains("size=8G"));
        assert!(text(&[("size", "8X")]).contains("size=8G"));
        assert!(text(&[("size", "50%")]).contains("size=8G"));
        assert!(text(&[("size", "16E")]).contains("is too large"));
        assert!(text(&[("size", "1G"), ("limit", "1M")]).contains("the limit must be at least"));
        assert!(text(&[("size", "1G"), ("block", "12K")]).contains("16K"));
        assert!(text(&[("size", "1G"), ("codec", "lz5")]).contains("zstd:LEVEL"));
        assert!(!Settings::default().set("sise", "1G").unwrap());
    }
}
