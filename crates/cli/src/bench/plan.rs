//! The plan of a measurement: the options of `memfold bench`, checked.

use memfold::size::{self, Size};
use memfold_args::BenchArgs;
use memfold_codec::cpu::{self, Path};
use memfold_codec::{Codec, MAX_BLOCK, all, codec};

use crate::output::failure::Failure;

/// Smaller blocks are not worth compressing.
const SMALLEST_BLOCK: usize = 64;

/// The meaning of `default`: codecs that such a comparison should contain, as far as the registry has them.
const DEFAULT: &str = "lz4,zstd:-5,zstd:1,zstd:3,lzo,snappy,deflate:6,wkdm,pbpm,bewalgo2,842,stride:1,stride:2,stride:3,\
                       auto:fast,auto,auto:dense";

/// The levels that represent their family in `all`, which would otherwise contain far too many codecs.
const LEVELS: [(&str, &[i32]); 5] = [
    ("zstd-dict", &[-5, 1, 6]),
    ("zstd", &[-50, -20, -10, -5, -3, -1, 1, 3, 6, 9, 12, 19]),
    ("lz4hc", &[3, 9, 12]),
    ("deflate", &[1, 6, 9, 12]),
    ("xz", &[0, 6]),
];

/// A codec and the instructions that it uses.
#[derive(Debug, Clone, Copy)]
pub struct Contender {
    /// The codec.
    pub codec: &'static dyn Codec,
    /// The instructions.
    pub path: Path,
}

/// The most that a compressed form may take, as a share of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    above: usize,
    below: usize,
}

/// The speed, in bytes per second, of the device for data that do not fit into memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Writing.
    pub write: f64,
    /// Reading.
    pub read: f64,
}

/// The checked options.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Block size in bytes.
    pub block: usize,
    /// The maximum size of a compressed form; beyond it, a block counts as stored raw.
    pub threshold: Threshold,
    /// The number of passes, if the user set it.
    pub passes: Option<usize>,
    /// The contenders, one row each.
    pub contenders: Vec<Contender>,
    /// The device for the effective speed.
    pub device: Device,
    /// Whether blocks of zeros are omitted.
    pub drop_zero: bool,
    /// Whether copies of earlier blocks are omitted.
    pub drop_duplicates: bool,
    /// Whether there is a row with the best form of each block.
    pub virtual_best: bool,
    /// The speed, in bytes per second, that a codec needs to count for that row.
    pub floor: f64,
}

impl Plan {
    /// Checks the options.
    pub fn new(args: &BenchArgs) -> Result<Self, Failure> {
        let codecs = codecs(&args.codec)?;
        let paths = match &args.cpu {
            Some(list) => crate::settings::cpu::parse_list(list)?,
            None => vec![cpu::path()],
        };
        let contenders =
            codecs.into_iter().flat_map(|codec| paths.iter().map(move |&path| Contender { codec, path }));
        Ok(Self {
            block: block(&args.block)?,
            threshold: Threshold::parse(&args.threshold)?,
            passes: args.passes.as_deref().map(passes).transpose()?,
            contenders: contenders.collect(),
            device: Device::parse(&args.device_speed)?,
            drop_zero: args.drop_zero,
            drop_duplicates: args.drop_duplicates,
            virtual_best: args.virtual_best,
            floor: args.floor.as_deref().map(|text| speed(text, "--floor")).transpose()?.unwrap_or(0.0),
        })
    }

    /// Whether rows differ in the instructions used.
    pub fn has_several_paths(&self) -> bool {
        self.contenders.iter().any(|other| other.path != self.contenders[0].path)
    }
}

/// A block size, which the codecs must support.
pub fn block(text: &str) -> Result<usize, Failure> {
    const HOW: &str = "give --block a size from 64 bytes to 512K, for example 4K or 16K";
    match size::parse(text) {
        Ok(Size::Bytes(bytes)) if (SMALLEST_BLOCK as u64..=MAX_BLOCK as u64).contains(&bytes) => {
            Ok(bytes as usize)
        }
        Ok(Size::Bytes(_)) => {
            Err(Failure::new(format!("codecs do not support blocks of '{text}' bytes; {HOW}")))
        }
        Ok(Size::Percent(_)) => {
            Err(Failure::new(format!("the block size '{text}' must not be a share; {HOW}")))
        }
        Err(why) => Err(Failure::new(format!("the block size '{text}' {why}; {HOW}"))),
    }
}

/// The codecs in a list, each once.
fn codecs(list: &str) -> Result<Vec<&'static dyn Codec>, Failure> {
    let mut found: Vec<&'static dyn Codec> = Vec::new();
    let mut add = |codec: &'static dyn Codec| {
        if !found.iter().any(|other| other.name() == codec.name()) {
            found.push(codec);
        }
    };
    for name in crate::settings::codecs::split(list) {
        match name.trim() {
            "default" => DEFAULT.split(',').flat_map(codec).for_each(&mut add),
            "all" => all().filter(|codec| stands_for_its_family(codec.name())).for_each(&mut add),
            name => add(codec(name).map_err(|error| {
                Failure::new(format!(
                    "--codec '{name}': {error}; and for this command 'default' and 'all'; give names separated by commas"
                ))
            })?),
        }
    }
    Ok(found)
}

fn stands_for_its_family(name: &str) -> bool {
    let Some((family, level)) = name.split_once(':') else { return true };
    match (LEVELS.iter().find(|(other, _)| *other == family), level.parse()) {
        (Some((_, levels)), Ok(level)) => levels.contains(&level),
        _ => true,
    }
}

fn passes(text: &str) -> Result<usize, Failure> {
    match text.parse() {
        Ok(passes @ 1..=1000) => Ok(passes),
        _ => Err(Failure::new(format!("--passes '{text}' is not a number from 1 to 1000; the default is 7"))),
    }
}

/// The highest speed accepted, in megabytes per second: faster than any device, and sums of times stay
/// finite.
const FASTEST: f64 = 1e9;

/// Megabytes (10^6 bytes) per second.
fn speed(text: &str, option: &str) -> Result<f64, Failure> {
    match text.trim().parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed <= FASTEST => Ok(speed * 1e6),
        _ => Err(Failure::new(format!(
            "{option} '{text}' is not a speed; give megabytes (10^6 bytes) per second, at most a thousand million, for example \
             {option} 500"
        ))),
    }
}

impl Device {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (write, read) = text.split_once(',').unwrap_or((text, text));
        Ok(Self { write: speed(write, "--device-speed")?, read: speed(read, "--device-speed")? })
    }
}

impl Threshold {
    fn parse(text: &str) -> Result<Self, Failure> {
        let share = match text.split_once('/') {
            Some((above, below)) => (above.trim().parse().ok(), below.trim().parse().ok()),
            None => (text.trim().parse().ok(), Some(4096)),
        };
        match share {
            (Some(above), Some(below)) if 1 <= above && above <= below && below <= 1 << 20 => {
                Ok(Self { above, below })
            }
            _ => Err(Failure::new(format!(
                "--threshold '{text}' is not a share of a block; give it in 4096ths of the block's size, from 1 to 4096 (the \
                 default is 3264), or as a fraction like 3/4"
            ))),
        }
    }

    /// The maximum compressed size of a block of `len` bytes.
    pub fn of(self, len: usize) -> usize {
        len * self.above / self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        assert_eq!(block("4K"), Ok(4096));
        assert_eq!(block("64"), Ok(64));
        assert_eq!(block("512K"), Ok(MAX_BLOCK));
        for bad in ["0", "63", "524289", "1G", "50%", "x", "", "-4096"] {
            let failure = block(bad).unwrap_err();
            assert!(failure.text.contains("64 bytes to 512K"), "{failure}");
        }
    }

    #[test]
    fn thresholds() {
        let of = |text, len| Threshold::parse(text).unwrap().of(len);
        assert_eq!(of("3264", 4096), 3264);
        assert_eq!(of("3264", 16384), 13056);
        assert_eq!(of("3264/4096", 4096), 3264);
        assert_eq!(of("3/4", 100), 75);
        assert_eq!(of("4096", 512 << 10), 512 << 10);
        for bad in ["", "0", "4097", "3/2", "1/0", "a", "-1", "0.8", "/"] {
            assert!(Threshold::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_of_codecs() {
        let names =
            |list| codecs(list).map(|found| found.iter().map(|codec| codec.name()).collect::<Vec<_>>());
        assert_eq!(names("lz4,zstd, lz4,zstd:1"), Ok(vec!["lz4", "zstd:1"]));
        assert_eq!(names("shuffle:8+zstd"), Ok(vec!["shuffle:8+zstd:1"]));
        let all = names("all").unwrap();
        for name in ["copy", "lz4", "xz:6", "bzip2", "pbpm:word", "stride:3", "842", "lzrw1a", "lz4hc:12"] {
            assert!(all.contains(&name), "{name}");
        }
        assert!(!all.contains(&"zstd:2") && all.len() < 60);
        let default = names("default").unwrap();
        assert!(default.contains(&"lz4") && default.contains(&"stride:2"));
        for bad in ["", "lz4,", "lzx", "zstd:99"] {
            let text = names(bad).unwrap_err().text;
            assert!(text.contains("lz4") && text.contains("zstd:LEVEL") && text.contains("'all'"), "{text}");
        }
    }

    #[test]
    fn speeds() {
        assert_eq!(Device::parse("100"), Ok(Device { write: 1e8, read: 1e8 }));
        assert_eq!(Device::parse("100,250.5"), Ok(Device { write: 1e8, read: 250.5e6 }));
        for bad in ["", "0", "-1", "inf", "nan", "1,", "fast"] {
            assert!(Device::parse(bad).is_err(), "{bad}");
        }
        assert!(passes("7").is_ok() && passes("0").is_err() && passes("1001").is_err());
    }
}
