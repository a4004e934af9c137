//! The user's settings, checked, and the shared page that passes them on to the processes of the tree.
//!
//! ```text
//!   options of `memfold run` ──> limit, show, codecs, ... ──> Settings ──> shared_page ──> the processes
//! ```

pub mod codecs;
pub mod cpu;
pub mod limit;
pub mod shared_page;
pub mod show;
pub mod spill;

use memfold_args::{OnFull, RunArgs};
use memfold_codec::cpu::Path;
use memfold_shared::page;

use crate::output::failure::Failure;
use codecs::Codecs;
use limit::{AUTO, limit, most};
use spill::Spill;

/// Checked options.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The limit in bytes.
    pub limit: u64,
    /// Codecs.
    pub codecs: Codecs,
    /// Fill ratio in 1/64.
    pub fill_ratio: u32,
    /// The action when the limit cannot be held.
    pub on_full: OnFull,
    /// Bits of `page::flags`.
    pub flags: u32,
    /// Eviction while there is room.
    pub proactive: Proactive,
    /// How much memory programs are told that there is: one of `page::show`, or bytes.
    pub show: u64,
    /// The tier for data that do not fit.
    pub spill: Option<Spill>,
    /// The instructions for codecs to use, if not the fastest.
    pub cpu: Option<Path>,
}

/// How memory is evicted while there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proactive {
    /// The share of time in which a thread may wait, in millionths; 0 turns this eviction off.
    pub stall_ppm: u32,
    /// How long memory must be untouched, in ms; 0: as little as that share allows.
    pub idle_ms: u32,
}

/// The share if `--stall` is not given.
pub const STALL_PPM: u32 = 10_000;

impl Settings {
    /// Checks the options.
    pub fn new(args: &RunArgs) -> Result<Self, Failure> {
        let mut flags = 0;
        for (wanted, bit) in [
            (args.paranoid, page::flags::PARANOID),
            (args.no_reserve, page::flags::NO_RESERVE),
            (args.report.is_some(), page::flags::REPORT),
            // Others that take memory are no reason to end a program.
            (has_no_size(args) && args.on_full == OnFull::Grow, page::flags::FOLLOWS),
        ] {
            flags |= if wanted { bit } else { 0 };
        }
        Ok(Self {
            limit: match args.limit.as_deref() {
                None if args.proactive.is_some() => most(None)?,
                text => limit(text.unwrap_or(AUTO))?,
            },
            proactive: proactive(args)?,
            show: show::show(args.show.as_deref(), is_auto(args))?,
            codecs: codecs::parse(&args.codec)?,
            fill_ratio: fill_ratio(&args.fill_ratio)?,
            on_full: args.on_full,
            flags,
            spill: Spill::new(args)?,
            cpu: crate::settings::cpu::from_environment()?,
        })
    }
}

/// Whether the limit is `auto`, also by default.
fn is_auto(args: &RunArgs) -> bool {
    args.limit.as_deref().map_or(args.proactive.is_none(), |limit| limit.trim() == AUTO)
}

/// Whether the user gave no size for the limit.
fn has_no_size(args: &RunArgs) -> bool {
    args.limit.as_deref().is_none_or(|limit| limit.trim() == AUTO)
}

fn proactive(args: &RunArgs) -> Result<Proactive, Failure> {
    let stall_ppm = stall(&args.stall)?;
    let is_auto = is_auto(args);
    let idle_ms = match args.proactive {
        None => 0,
        Some(_) if is_auto => {
            return Err(Failure::new(
                "--limit auto and --proactive cannot be combined; use --limit auto to compress as much as the program tolerates, or --proactive to compress what was not touched for a set time",
            ));
        }
        Some(seconds) if (0.1..=1e6).contains(&seconds) => (seconds * 1000.0) as u32,
        Some(seconds) => {
            return Err(Failure::new(format!(
                "--proactive={seconds} is not a time from 0.1 to 1000000 seconds; give one like --proactive=30"
            )));
        }
    };
    let wanted = is_auto || args.proactive.is_some();
    if !wanted && stall_ppm != STALL_PPM {
        return Err(Failure::new(
            "--stall says how long threads may wait for memory that is evicted although there is room; give --limit auto or --proactive with it",
        ));
    }
    Ok(Proactive { stall_ppm: if wanted { stall_ppm } else { 0 }, idle_ms })
}

/// `1%`, or `0.01`; stored in millionths.
fn stall(text: &str) -> Result<u32, Failure> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match parsed {
        Ok(share) if (1e-4..=0.5).contains(&share) => Ok((share * 1e6).round() as u32),
        _ => Err(Failure::new(format!(
            "the share '{text}' is not between 0.01% and 50%; give one like --stall 1%"
        ))),
    }
}

/// `56/64`, or any fraction; stored in 1/64.
fn fill_ratio(text: &str) -> Result<u32, Failure> {
    let parsed = text.split_once('/').and_then(|(above, below)| {
        let (above, below) = (above.trim().parse::<u32>().ok()?, below.trim().parse::<u32>().ok()?);
        let ratio = (u64::from(above) * 64).checked_div(u64::from(below))?;
        (1..=64).contains(&ratio).then_some(ratio as u32)
    });
    parsed.ok_or_else(|| {
        Failure::new(format!(
            "the fill ratio '{text}' is not a fraction from 1/64 to 64/64; give one like --fill-ratio 56/64"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Settings {
        /// Settings for tests.
        pub fn example() -> Self {
            Self {
                limit: 100 << 20,
                codecs: codecs::parse("lz4,zstd:1").unwrap(),
                fill_ratio: 56,
                on_full: OnFull::Grow,
                flags: 0,
                proactive: Proactive::default(),
                show: page::show::OFF,
                spill: None,
                cpu: None,
            }
        }
    }

    #[test]
    fn shares_of_time() {
        assert_eq!((stall("1%"), stall("0.05"), stall("0.01 %")), (Ok(10_000), Ok(50_000), Ok(100)));
        let default =
            <memfold_args::Cli as clap::Parser>::try_parse_from(["memfold", "run", "true"]).unwrap();
        let memfold_args::Command::Run(default) = default.command else { panic!() };
        assert_eq!(stall(&default.stall), Ok(STALL_PPM));
        for bad in ["", "1", "%", "0%", "0.001%", "51%", "-1%", "much", "NaN"] {
            assert!(stall(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ratios() {
        assert_eq!(fill_ratio("56/64"), Ok(56));
        assert_eq!(fill_ratio("7/8"), Ok(56));
        assert_eq!(fill_ratio("1/1"), Ok(64));
        for bad in ["", "56", "0/64", "65/64", "1/0", "1/65", "-1/2", "a/b", "4294967295/1"] {
            assert!(fill_ratio(bad).is_err(), "{bad}");
        }
    }
}
