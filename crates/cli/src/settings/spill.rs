//! `--spill`: the tier for data that do not fit.

use std::time::Duration;

use memfold::size::{self, Size};
use memfold_args::RunArgs;
use memfold_spill::{Target, Terms, Tier};

use crate::output::failure::{Failure, say};
use crate::sys;

/// Checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// The target.
    pub target: Target,
    /// Maximum number of bytes.
    pub most: Option<u64>,
    /// How long a thread waits for a page.
    pub patience: Duration,
    /// Batches are encrypted, not only checksummed.
    pub is_encrypted: bool,
}

impl Spill {
    /// Checks the options; `None` if there is no spill target.
    pub fn new(args: &RunArgs) -> Result<Option<Self>, Failure> {
        let Some(target) = &args.spill else {
            let other = [
                ("--spill-limit", args.spill_limit.is_some()),
                ("--spill-patience", args.spill_patience.is_some()),
                ("--spill-unencrypted", args.spill_unencrypted),
            ];
            return match other.iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => Err(Failure::new(format!(
                    "{name} has no effect without spilling; give --spill TARGET with it"
                ))),
                None => Ok(None),
            };
        };
        let target = Target::named(target).map_err(|bad| Failure::new(format!("--spill: {bad}")))?;
        let most = match args.spill_limit.as_deref().map(size::parse) {
            None => None,
            Some(Ok(Size::Bytes(bytes))) => Some(bytes),
            Some(Ok(_)) => {
                return Err(Failure::new(
                    "--spill-limit takes a size in bytes, not a share: give one like 20G",
                ));
            }
            Some(Err(why)) => {
                return Err(Failure::new(format!("the size of --spill-limit {why}; give one like 20G")));
            }
        };
        let seconds = args.spill_patience.unwrap_or(60.0);
        if !(1.0..=1e6).contains(&seconds) {
            return Err(Failure::new(
                "--spill-patience is not a time from 1 to 1000000 seconds; give one like 60",
            ));
        }
        let patience = Duration::from_secs_f64(seconds);
        Ok(Some(Self { target, most, patience, is_encrypted: !args.spill_unencrypted }))
    }

    /// Opens the tier, so that problems are reported before anything is started.
    pub fn open(&self) -> Result<Box<dyn Tier>, Failure> {
        let run = format!("{}-{:016x}", std::process::id(), u64::from_le_bytes(random()?));
        let terms = Terms { most: self.most, told: say, ..Terms::default() };
        self.target.open(&run, terms).map_err(|bad| Failure::new(format!("--spill: {bad}")))
    }
}

/// Unpredictable bytes.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    sys::random(&mut bytes).map_err(|e| Failure::new(format!("cannot create a key: {e}")))?;
    Ok(bytes)
}
