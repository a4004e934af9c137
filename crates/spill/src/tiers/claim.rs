//! The claim on an export, without which two runs on one export would overwrite each other.
//!
//! ```text
//!   unit 0   memfold spills here / run RUN / N / HOLDER      N grows every second; the rest is zeros,
//!                                                            and so is all of it when the run has ended
//! ```
//!
//! The holder is the process that renews the claim, see `holder`. A claim is free when its holder has ended,
//! and never while the holder lives, even if it is stopped and does not renew the claim. If it is unknown
//! whether the holder lives, because it runs on another machine or in another container, a run that finds the
//! claim waits to see whether it is renewed. A process that was killed may have sent requests that the server
//! has not executed yet; a run that finds its claim waits for those, too. A run that finds another run's
//! claim in place of its own stops writing.

use std::sync::Mutex;
use std::time::Duration;

use super::holder::Holder;
use super::locked;

/// The interval at which a claim is renewed, and the time without renewal after which it is free if it is
/// unknown whether its process lives.
pub const RENEW: Duration = Duration::from_secs(1);
pub const STALE: Duration = Duration::from_secs(30);
/// The interval at which a waiting run checks the claim, and the number of checks.
pub const LOOK: Duration = Duration::from_millis(250);
pub const LOOKS: u128 = STALE.as_millis() / LOOK.as_millis();
/// How long after the end of a process its requests may still be executed.
pub const LATE: Duration = Duration::from_secs(10);
/// If the claim was not renewed for this long, it is read before anything is written.
pub const UNSURE: Duration = Duration::from_secs(3);
/// A new claim is read again after this time: another run may have written its own at the same time.
pub const SETTLE: Duration = Duration::from_millis(200);

const MAGIC: &str = "memfold spills here\nrun ";

/// The runs of this process.
static HERE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The claim of a run.
#[derive(Debug)]
pub struct Claim {
    run: String,
    count: u64,
    /// The process that wrote it, and the time of the last write, by a clock that counts time while the
    /// machine is suspended.
    renewed: Option<(u32, Duration)>,
}

impl Claim {
    /// The claim of a run, not yet written.
    pub fn new(run: &str) -> Self {
        locked(&HERE).push(run.to_owned());
        Claim { run: run.to_owned(), count: 0, renewed: None }
    }

    /// Fills `unit` with the next content: held by this process, or without a holder for a successor.
    pub fn next(&mut self, unit: &mut [u8], is_passed_on: bool) {
        self.count += 1;
        let holder = Holder::this().filter(|_| !is_passed_on);
        let holder = holder.map_or_else(String::new, |holder| holder.to_string());
        let text = format!("{MAGIC}{}\n{}\n{holder}\n", self.run, self.count);
        unit.fill(0);
        unit[..text.len()].copy_from_slice(text.as_bytes());
    }

    /// Notes that this process has just written the claim.
    pub fn note_renewed(&mut self) {
        self.renewed = Some((std::process::id(), now()));
    }

    /// Whether this process has written the claim within this time.
    pub fn is_fresh(&self, within: Duration) -> bool {
        self.renewed
            .is_some_and(|(process, at)| process == std::process::id() && now().saturating_sub(at) < within)
    }

    /// Whether the unit holds another run's claim.
    pub fn is_anothers(&self, unit: &[u8]) -> bool {
        found(unit).is_some_and(|text| run(text) != Some(&self.run))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut here = locked(&HERE);
        if let Some(at) = here.iter().position(|run| *run == self.run) {
            here.swap_remove(at);
        }
    }
}

fn run(text: &str) -> Option<&str> {
    text.lines().nth(1)?.strip_prefix("run ")
}

/// The text of the claim in a unit, if there is one.
pub fn found(unit: &[u8]) -> Option<&str> {
    let end = unit.iter().position(|byte| *byte == 0)?;
    str::from_utf8(&unit[..end]).ok().filter(|text| text.starts_with(MAGIC))
}

/// Whether the run whose claim has this text has ended; `None` if that is unknown.
pub fn has_ended(text: &str) -> Option<bool> {
    let holder = Holder::read(text.lines().nth(3)?)?;
    // A run of this process may have ended while the server did not answer, so that it could not remove its
    // claim.
    if Holder::this().as_ref() == Some(&holder) {
        let here = locked(&HERE);
        return Some(!run(text).is_some_and(|run| here.iter().any(|other| other == run)));
    }
    holder.has_ended()
}

/// The time since the machine booted.
fn now() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time that the kernel writes.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_its_runs_own() {
        let mut unit = [9; 4096];
        let (mut ours, theirs) = (Claim::new("12-ab"), Claim::new("12-a"));
        assert_eq!((found(&unit), found(&[0; 4096])), (None, None));
        ours.next(&mut unit, false);
        let first = found(&unit).unwrap().to_owned();
        assert!(!ours.is_anothers(&unit) && theirs.is_anothers(&unit));
        assert_eq!(has_ended(&first), Some(false));
        assert_eq!(has_ended(&first.replace("12-ab", "12-c")), Some(true));
        assert!(!ours.is_fresh(RENEW));
        ours.note_renewed();
        assert!(ours.is_fresh(RENEW));
        ours.next(&mut unit, true);
        assert_ne!(found(&unit), Some(first.as_str()));
        assert_eq!(has_ended(found(&unit).unwrap()), None);
        assert!(!ours.is_anothers(&[0; 4096]), "of a server that has forgotten");
        drop(ours);
        assert_eq!(has_ended(&first), Some(true));
    }
}
