//! An export of an NBD server, through libnbd.
//!
//! Batches are stored as in a file (see `file`), after the claim of the run (see `claim`), and are trimmed
//! when they are deleted. A connection to a server that does not answer is dropped, and a new one is made
//! (see `connection`). Several connections are used if the server guarantees that all see the same data
//! (multi-conn).
//!
//! Invariant: a request that was sent and not answered may still be executed at any time. Its units are not
//! reused, since it could overwrite another batch; and the export is not free until the request can no longer
//! be executed.

mod connection;
mod extents;
mod requests;

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use self::connection::{Connection, Failure, MAXIMUM, MINIMUM};
use self::extents::{Kept, byte_of, units};
use self::requests::Pool;
use super::claim::{self, Claim};
use super::display::shown;
use super::space::Space;
use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

const UNIT: u64 = 4096;
/// The most connections.
const CONNECTIONS: usize = 4;
/// The most units from the first to the last batch that are trimmed together.
const AT_ONCE: u64 = (1 << 30) / UNIT;

/// See the module.
pub struct NbdTier {
    uri: CString,
    name: String,
    deadline: Duration,
    can_trim: bool,
    /// The most bytes of one request.
    longest: usize,
    size: u64,
    pool: Mutex<Pool>,
    /// A connection was put back, or a new one may be made.
    free: Condvar,
    kept: Mutex<Kept>,
    claim: Mutex<Claim>,
    /// The export belongs to another run, or to none. Nothing is written or trimmed any more.
    is_lost: AtomicBool,
    /// A request was not answered, and may be executed after the run.
    is_in_doubt: AtomicBool,
}

fn anothers() -> Trouble {
    Trouble::Unfit("another run of memfold uses this export: each needs one of its own".into())
}

impl NbdTier {
    /// Opens an otherwise unused export for that run.
    pub fn open(uri: &str, run: &str, terms: Terms) -> Result<Self, BadTarget> {
        let name = shown(uri);
        let bad = |why: &str| BadTarget(format!("{name}: {why}"));
        let uri = CString::new(uri).map_err(|_| bad("it contains a zero byte"))?;
        let connection = Connection::open(&uri, Instant::now() + terms.deadline).map_err(|why| bad(&why))?;
        if connection.ask(|lib| lib.is_read_only) {
            return Err(bad("the export is read-only; start the server without -r"));
        }
        let size = connection.size().map_err(|why| bad(&why))?;
        // One unit is for the claim.
        let most = (size / UNIT).saturating_sub(1).min(terms.most.unwrap_or(u64::MAX) / UNIT);
        if most == 0 {
            return Err(bad(
                "there is no room: the export, and --spill-limit, must have at least 8192 bytes",
            ));
        }
        if connection.block_size(MINIMUM) > UNIT {
            return Err(bad("the server wants requests of more than 4096 bytes"));
        }
        let longest = match connection.block_size(MAXIMUM) / UNIT * UNIT {
            0 => 1 << 20,
            bytes => bytes.min(1 << 20) as usize,
        };
        let can_trim = connection.ask(|lib| lib.can_trim);
        let most_connections = if connection.ask(|lib| lib.can_multi_conn) { CONNECTIONS } else { 1 };
        let tier = NbdTier {
            uri,
            deadline: terms.deadline,
            can_trim,
            longest,
            size,
            pool: Mutex::new(Pool { idle: vec![connection], made: 1, most: most_connections }),
            free: Condvar::new(),
            kept: Mutex::new(Kept { space: Space::new(most), batches: HashMap::new() }),
            claim: Mutex::new(Claim::new(run)),
            is_lost: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            name,
        };
        tier.claim(terms.told).map_err(|why| BadTarget(format!("{}: {why}", tier.name)))?;
        Ok(tier)
    }

    /// Claims the export for this run, if it is free. Reports what it waits for.
    fn claim(&self, told: fn(&str)) -> Result<(), Trouble> {
        let begin = Instant::now();
        let mut unit = vec![0; UNIT as usize];
        self.read(0, &mut unit)?;
        let is_anothers = locked(&self.claim).is_anothers(&unit);
        if let Some(found) = claim::found(&unit).filter(|_| is_anothers).map(str::to_owned) {
            let mut now = unit.clone();
            match claim::has_ended(&found) {
                Some(false) => {}
                Some(true) => told(&format!(
                    "{}: the last run here was killed; waiting for requests that it may have sent ({} seconds)",
                    self.name,
                    claim::LATE.as_secs()
                )),
                None => told(&format!(
                    "{}: a run on another machine, or in another container, may use it; if it does not claim it within {} seconds, this run takes it",
                    self.name,
                    claim::STALE.as_secs()
                )),
            }
            // This counts checks, not time, since this process may be stopped in between.
            for _ in 0..claim::LOOKS {
                let has_ended = claim::has_ended(&found);
                if has_ended == Some(false) {
                    return Err(self.lose());
                }
                std::thread::sleep(claim::LOOK);
                self.read(0, &mut now)?;
                match claim::found(&now) {
                    None => break,
                    Some(text) if text != found => return Err(self.lose()),
                    Some(_) if has_ended == Some(true) && begin.elapsed() > claim::LATE => break,
                    Some(_) => {}
                }
            }
        }
        let begin = Instant::now();
        self.renew(&mut locked(&self.claim), false)?;
        std::thread::sleep(claim::SETTLE.max(begin.elapsed() * 4));
        self.read(0, &mut unit)?;
        if locked(&self.claim).is_anothers(&unit) { Err(self.lose()) } else { Ok(()) }
    }

    fn renew(&self, claim: &mut Claim, is_passed_on: bool) -> Result<(), Trouble> {
        let mut unit = vec![0; UNIT as usize];
        claim.next(&mut unit, is_passed_on);
        self.write(0, &unit, Instant::now() + self.deadline)?;
        claim.note_renewed();
        Ok(())
    }

    /// Renews the claim if it was last renewed longer ago than `within`.
    fn keep_claim(&self, within: Duration) -> Result<(), Trouble> {
        let mut claim = locked(&self.claim);
        self.is_ours()?;
        if claim.is_fresh(within) {
            return Ok(());
        }
        let mut unit = vec![0; UNIT as usize];
        self.read(0, &mut unit)?;
        if claim.is_anothers(&unit) {
            return Err(self.lose());
        }
        self.renew(&mut claim, false)
    }

    /// Stops all writes to the export, which now belongs to another run.
    fn lose(&self) -> Trouble {
        self.is_lost.store(true, SeqCst);
        anothers()
    }

    fn is_ours(&self) -> Result<(), Trouble> {
        if self.is_lost.load(SeqCst) { Err(anothers()) } else { Ok(()) }
    }
}

impl Tier for NbdTier {
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble> {
        // If the claim has not been renewed for long, the export may meanwhile belong to another run.
        self.keep_claim(claim::UNSURE)?;
        let deadline = Instant::now() + self.deadline;
        let len = bytes.len() as u32;
        let mut padded = bytes.to_vec();
        padded.resize((units(len) * UNIT) as usize, 0);
        let mut may_repeat = true;
        let first = loop {
            let first = locked(&self.kept).space.take(units(len)).ok_or(Trouble::Full)?;
            match self.write(byte_of(first), &padded, deadline) {
                Ok(()) => break first,
                // Try other units.
                Err(Failure::Unanswered(_)) if may_repeat && Instant::now() < deadline => may_repeat = false,
                // Units that cannot be written would be the first to be taken again, so they are not freed.
                Err(Failure::Unanswered(trouble) | Failure::Failed(trouble)) => return Err(trouble),
                Err(Failure::Unsent(trouble) | Failure::Refused(trouble)) => {
                    locked(&self.kept).space.give_back(first, units(len));
                    return Err(trouble);
                }
            }
        };
        let before = locked(&self.kept).batches.insert(batch, (first, len));
        if let Some((first, bytes)) = before {
            locked(&self.kept).space.give_back(first, units(bytes));
        }
        Ok(())
    }

    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        let (first, bytes) = locked(&self.kept).batches.get(&batch).copied().ok_or(Trouble::Lost)?;
        if (from as usize).checked_add(into.len()).is_none_or(|end| end > bytes as usize) {
            return Err(Trouble::Lost);
        }
        let begin = u64::from(from) / UNIT * UNIT;
        let skip = (u64::from(from) - begin) as usize;
        let mut read = vec![0; (skip + into.len()).next_multiple_of(UNIT as usize)];
        self.read(byte_of(first) + begin, &mut read)?;
        into.copy_from_slice(&read[skip..][..into.len()]);
        Ok(())
    }

    /// Adjacent batches are trimmed together. If the server cannot be reached, the rest stays and can be
    /// deleted later.
    fn delete(&self, batches: &[u64]) -> Result<(), Trouble> {
        match self.keep_claim(claim::UNSURE) {
            Ok(()) => {}
            // The data there belong to another run, and must not be deleted.
            Err(Trouble::Unfit(_)) => {
                locked(&self.kept).forget(batches);
                return Ok(());
            }
            Err(trouble) => return Err(trouble),
        }
        let mut gone: Vec<(u64, u64, u32)> = {
            let mut kept = locked(&self.kept);
            let take = |batch: &u64| kept.batches.remove(batch).map(|(first, bytes)| (first, *batch, bytes));
            batches.iter().filter_map(take).collect()
        };
        gone.sort_unstable();
        let mut rest = gone.as_slice();
        while let Some((begin, ..)) = rest.first() {
            let (mut end, mut count) = (*begin, 0);
            for (first, _, bytes) in rest.iter().take_while(|(first, ..)| *first <= *begin + AT_ONCE) {
                if *first != end {
                    break;
                }
                (end, count) = (end + units(*bytes), count + 1);
            }
            let trimmed = self.trim(*begin, end - begin);
            let mut kept = locked(&self.kept);
            match trimmed {
                // A server that refuses to trim has answered: it will not execute the request later.
                Ok(()) | Err(Failure::Refused(_) | Failure::Failed(_)) => {
                    kept.space.give_back(*begin, end - begin)
                }
                Err(Failure::Unanswered(trouble)) => {
                    kept.batches
                        .extend(rest[count..].iter().map(|(first, batch, bytes)| (*batch, (*first, *bytes))));
                    return Err(trouble);
                }
                Err(Failure::Unsent(trouble)) => {
                    kept.batches.extend(rest.iter().map(|(first, batch, bytes)| (*batch, (*first, *bytes))));
                    return Err(trouble);
                }
            }
            rest = &rest[count..];
        }
        Ok(())
    }

    /// A probe also renews the claim, which must not be lost while the run only probes.
    fn probe(&self) -> Result<(), Trouble> {
        self.keep_claim(Duration::ZERO)
    }

    fn tend(&self) -> Result<(), Trouble> {
        self.keep_claim(claim::RENEW)
    }

    fn pass_on(&self) {
        let mut claim = locked(&self.claim);
        let mut unit = vec![0; UNIT as usize];
        if self.read(0, &mut unit).is_ok() && !claim.is_anothers(&unit) {
            let _ = self.renew(&mut claim, true);
        }
    }

    /// Frees the export, unless a request may still be executed there; then the claim stays, for which the
    /// next run waits.
    fn leave(&self) {
        if self.is_in_doubt.load(SeqCst) {
            self.is_lost.store(true, SeqCst);
            return;
        }
        let claim = locked(&self.claim);
        let mut unit = vec![0; UNIT as usize];
        let may = self.is_ours().is_ok() && self.read(0, &mut unit).is_ok();
        if may && claim::found(&unit).is_some() && !claim.is_anothers(&unit) {
            unit.fill(0);
            let _ = self.write(0, &unit, Instant::now() + self.deadline);
        }
        self.is_lost.store(true, SeqCst);
    }

    fn room(&self) -> Room {
        let kept = locked(&self.kept);
        Room { used: kept.space.used() * UNIT, most: kept.space.most() * UNIT }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for NbdTier {
    fn drop(&mut self) {
        self.leave();
    }
}
