//! The runs that have keys on a server, so that the next run can remove the keys of one that was killed
//! together with its supervisor.
//!
//! ```text
//!   memfold:runs          a set: runs that may have keys
//! memfold:RUN:holder    the process that the run belongs to, see `holder`; expires a day after its last renewal
//! ```
//!
//! A run has ended when its process has ended, or when its holder key has expired, for example because its
//! machine never came back. This is checked twice; between the checks, a run that has passed to another
//! process announces that. Only then are the keys of the ended run searched for.

use std::time::{Duration, Instant};

use redis::{Client, RedisResult};

use super::super::holder::Holder;
use super::is_answered;
use super::nodes::{Link, Nodes, connect};

const RUNS: &str = "memfold:runs";
/// The interval at which a holder key is renewed, and how long it is valid.
const RENEW: Duration = Duration::from_secs(60);
const EXPIRES: Duration = Duration::from_secs(24 * 60 * 60);
/// The time for a run to announce its new process: a run probes an unresponsive server every ten seconds.
const WHILE: Duration = Duration::from_secs(15);
/// The keys that a server scans for one request, and the number of consecutive requests.
const KEYS: usize = 1000;
const REQUESTS: usize = 8;

pub fn holder_of(run: &str) -> String {
    format!("memfold:{run}:holder")
}

/// The announcement of this run, and its knowledge of others.
pub struct Runs {
    run: String,
    is_said: bool,
    /// The process that last announced it, and when.
    here: Option<(u32, Instant)>,
    others: Others,
}

enum Others {
    Unknown,
    /// These runs seemed to have ended at this time.
    Over(Vec<String>, Instant),
    Removing {
        runs: Vec<String>,
        masters: Vec<Client>,
        cursor: u64,
    },
    Known,
}

impl Runs {
    pub fn new(run: &str) -> Self {
        Runs { run: run.to_owned(), is_said: false, here: None, others: Others::Unknown }
    }

    /// Whether the run has been announced.
    pub fn is_said(&self) -> bool {
        self.is_said
    }

    /// Whether this process has announced it.
    pub fn is_said_here(&self) -> bool {
        self.here.is_some_and(|(process, _)| process == std::process::id())
    }

    /// Announces the run, for this process or for a successor.
    pub fn say(&mut self, link: &mut Link, is_passed_on: bool) -> RedisResult<()> {
        let holder = Holder::this().filter(|_| !is_passed_on);
        let holder = holder.map_or_else(String::new, |holder| holder.to_string());
        // The order matters: a run in the set has a holder key, unless it has ended.
        let mut command = redis::cmd("SET");
        command.arg(holder_of(&self.run)).arg(holder).arg("EX").arg(EXPIRES.as_secs());
        link.ask::<()>(&command)?;
        link.ask::<()>(redis::cmd("SADD").arg(RUNS).arg(&self.run))?;
        self.is_said = true;
        self.here = (!is_passed_on).then(|| (std::process::id(), Instant::now()));
        Ok(())
    }

    /// Renews the announcement when it is due, even on a full server. Errors are ignored, since the
    /// announcement is valid for a day.
    pub fn renew(&mut self, link: &mut Link) -> RedisResult<()> {
        let is_said_here = self.is_said_here();
        match &mut self.here {
            Some((_, at)) if is_said_here && at.elapsed() < RENEW => return Ok(()),
            Some((_, at)) => *at = Instant::now(),
            None if !self.is_said => return Ok(()),
            None => {}
        }
        let mut command = redis::cmd("EXPIRE");
        command.arg(holder_of(&self.run)).arg(EXPIRES.as_secs());
        if is_said_here && link.ask::<bool>(&command)? { Ok(()) } else { self.say(link, false) }
    }

    /// Removes the announcement of this run, which has ended and left nothing behind.
    pub fn take_back(&mut self, link: &mut Link) -> RedisResult<()> {
        (self.is_said, self.here) = (false, None);
        forget(link, &self.run)
    }

    /// Leaves cleaning up after ended runs to the next run.
    pub fn give_up(&mut self) {
        self.others = Others::Known;
    }

    /// Does a part of the cleaning up after ended runs.
    pub fn clean(&mut self, link: &mut Link, nodes: &Nodes, deadline: Duration) -> RedisResult<()> {
        match &mut self.others {
            Others::Known => {}
            Others::Unknown => {
                let runs = named(link)?;
                let over = over(link, runs)?;
                self.others =
                    if over.is_empty() { Others::Known } else { Others::Over(over, Instant::now()) };
            }
            Others::Over(runs, since) if since.elapsed() >= WHILE => {
                let runs = over(link, std::mem::take(runs))?;
                // A server that cannot be reached now is cleaned when the next run begins.
                self.others = match nodes.masters(deadline) {
                    Ok(masters) if !runs.is_empty() => Others::Removing { runs, masters, cursor: 0 },
                    _ => Others::Known,
                };
            }
            Others::Over(..) => {}
            Others::Removing { runs, masters, cursor } => {
                let Some(master) = masters.last() else {
                    for run in std::mem::take(runs) {
                        forget(link, &run)?;
                    }
                    self.others = Others::Known;
                    return Ok(());
                };
                *cursor = remove(master, runs, *cursor, deadline)?;
                if *cursor == 0 {
                    masters.pop();
                }
            }
        }
        Ok(())
    }
}

fn named(link: &mut Link) -> RedisResult<Vec<String>> {
    let mut runs: Vec<String> = link.ask(redis::cmd("SMEMBERS").arg(RUNS))?;
    // An entry that is not the name of a run is ignored.
    runs.retain(|run| {
        !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    Ok(runs)
}

/// The runs among these that have ended.
fn over(link: &mut Link, runs: Vec<String>) -> RedisResult<Vec<String>> {
    let mut over = Vec::new();
    for run in runs {
        let holder: Option<String> = link.ask(redis::cmd("GET").arg(holder_of(&run)))?;
        let is_over = match holder {
            Some(holder) => Holder::read(&holder).and_then(|holder| holder.has_ended()) == Some(true),
            None => true,
        };
        if is_over {
            over.push(run);
        }
    }
    Ok(over)
}

/// Removes a run's announcement; each part is tried even if the other is refused.
fn forget(link: &mut Link, run: &str) -> RedisResult<()> {
    let unlinked = link.ask::<()>(redis::cmd("UNLINK").arg(holder_of(run)));
    if !is_answered(&unlinked) {
        return unlinked;
    }
    link.ask::<()>(redis::cmd("SREM").arg(RUNS).arg(run)).and(unlinked)
}

/// Removes the keys of these runs from one server, continuing at `cursor`. Returns the next cursor, 0 at the
/// end.
fn remove(master: &Client, runs: &[String], mut cursor: u64, deadline: Duration) -> RedisResult<u64> {
    let mut connection = connect(master, deadline)?;
    let prefixes: Vec<_> = runs.iter().map(|run| format!("memfold:{run}:")).collect();
    for _ in 0..REQUESTS {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg("memfold:*").arg("COUNT").arg(KEYS);
        let (next, keys): (u64, Vec<Vec<u8>>) = command.query(&mut connection)?;
        let mut unlinks = redis::pipe();
        keys.iter().filter(|key| prefixes.iter().any(|prefix| key.starts_with(prefix.as_bytes()))).for_each(
            |key| {
                unlinks.cmd("UNLINK").arg(key).ignore();
            },
        );
        unlinks.query::<()>(&mut connection)?;
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    Ok(cursor)
}
