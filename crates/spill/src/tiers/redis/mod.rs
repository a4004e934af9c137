//! Redis or Valkey: a batch is the value of one key.
//!
//! ```text
//!   memfold:RUN:BATCH  ->  the batch's bytes            SET, GETRANGE, UNLINK
//!   memfold:RUN:trial      the same, once, before the first batch; expires after a minute
//! ```
//!
//! A server that evicts keys to make room would lose batches, so `maxmemory-policy` must be `noeviction`, the
//! default. This is checked before the first batch, and again every few seconds, on each master of a cluster.
//! Keys of batches never expire, and are removed when their batches are deleted. Their names contain the run,
//! so that the keys of a run that was killed together with its supervisor can be found (see `runs`).

mod nodes;
mod runs;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult};

use self::nodes::{Link, Nodes};
use self::runs::Runs;
use super::display::shown;
use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

/// The interval between checks that the server does not evict keys.
const LOOK: Duration = Duration::from_secs(5);
/// Keys that one command removes.
const UNLINKS: usize = 1024;
/// Batches that are sent without waiting for answers between them.
const PIPELINED: usize = 4;
/// The start of a server's error for lack of permission.
const NO_RIGHT: &str = "NOPERM";

/// See the module.
pub struct RedisTier {
    nodes: Mutex<Arc<Nodes>>,
    is_cluster: bool,
    name: String,
    prefix: String,
    deadline: Duration,
    most: u64,
    idle: Mutex<Vec<Link>>,
    kept: Mutex<Kept>,
    looked: Mutex<Instant>,
    runs: Mutex<Runs>,
    /// The last call was not answered.
    is_away: AtomicBool,
}

#[derive(Default)]
struct Kept {
    bytes: u64,
    batches: HashMap<u64, u32>,
    /// Batches for which there was no answer: a server may still execute the commands.
    in_doubt: Vec<u64>,
}

impl RedisTier {
    /// Opens a server, or a cluster of which the URLs name some servers.
    pub fn open(urls: &[String], run: &str, terms: Terms) -> Result<Self, BadTarget> {
        let nodes = Nodes::find(urls, terms.deadline)?;
        let tier = RedisTier {
            is_cluster: matches!(nodes, Nodes::Cluster { .. }),
            nodes: Mutex::new(Arc::new(nodes)),
            name: shown(urls.first().map_or("", String::as_str)),
            prefix: format!("memfold:{run}:"),
            deadline: terms.deadline,
            most: terms.most.unwrap_or(u64::MAX),
            idle: Mutex::default(),
            kept: Mutex::default(),
            looked: Mutex::new(Instant::now()),
            runs: Mutex::new(Runs::new(run)),
            is_away: AtomicBool::new(false),
        };
        tier.look()
            .and_then(|()| tier.try_out())
            .map_err(|trouble| BadTarget(format!("{}: {trouble}", tier.name)))?;
        Ok(tier)
    }

    /// Tries every needed command once with a trial key, so that a lack of permission is reported before
    /// anything relies on the server. Other errors may be temporary, and puts handle them. If the key cannot
    /// be removed, it expires.
    fn try_out(&self) -> Result<(), Trouble> {
        const TRIAL: &[u8] = b"trial";
        let key = format!("{}trial", self.prefix);
        let mut runs = locked(&self.runs);
        let mut may_not = false;
        let tried = self.with_link(|link| {
            let read = runs
                .say(link, false)
                .and_then(|()| link.ask::<()>(redis::cmd("SET").arg(&key).arg(TRIAL).arg("EX").arg(60)))
                .and_then(|()| {
                    link.ask::<Vec<u8>>(redis::cmd("GETRANGE").arg(&key).arg(0).arg(TRIAL.len() - 1))
                });
            // An unresponsive server is not waited for a second time.
            if !is_answered(&read) {
                return read;
            }
            // The key is removed even after a refusal.
            let gone = link.ask::<()>(redis::cmd("UNLINK").arg(&key));
            let taken_back = if is_answered(&gone) { runs.take_back(link) } else { Ok(()) };
            let all = read.and_then(|read| gone.and(taken_back).map(|()| read));
            may_not = all.as_ref().is_err_and(|error| error.code() == Some(NO_RIGHT));
            all
        });
        match tried {
            Ok(read) if read != TRIAL => {
                Err(Trouble::Unfit("it does not return the data that it was given".into()))
            }
            Err(trouble) if may_not => Err(trouble),
            _ => Ok(()),
        }
    }

    fn nodes(&self) -> Arc<Nodes> {
        locked(&self.nodes).clone()
    }

    /// Checks that no server evicts keys.
    fn look(&self) -> Result<(), Trouble> {
        if let Some(others) = self.nodes().look(self.deadline)? {
            *locked(&self.nodes) = Arc::new(others);
        }
        Ok(())
    }

    /// Does all checks and announcements that must precede a put.
    fn be_ready(&self) -> Result<(), Trouble> {
        let mut looked = locked(&self.looked);
        if looked.elapsed() >= LOOK {
            *looked = Instant::now();
            drop(looked);
            self.look()?;
        }
        let mut runs = locked(&self.runs);
        if runs.is_said_here() { Ok(()) } else { self.with_link(|link| runs.say(link, false)) }
    }

    fn link(&self) -> RedisResult<Link> {
        if let Some(link) = locked(&self.idle).pop() {
            return Ok(link);
        }
        self.nodes().connect(self.deadline)
    }

    /// Sends a command over a connection; a failed connection is not used again. A restarted server may have
    /// closed an idle connection; then the command is sent again.
    fn ask<R: FromRedisValue>(&self, command: &Cmd) -> Result<R, Trouble> {
        self.with_link(|link| link.ask(command))
    }

    fn with_link<R>(&self, work: impl FnMut(&mut Link) -> RedisResult<R>) -> Result<R, Trouble> {
        let result = self.try_links(work);
        self.is_away.store(matches!(result, Err(Trouble::Away(_))), Relaxed);
        result
    }

    fn try_links<R>(&self, mut work: impl FnMut(&mut Link) -> RedisResult<R>) -> Result<R, Trouble> {
        let mut tries = locked(&self.idle).len() + 1;
        loop {
            tries -= 1;
            let mut link = self.link().map_err(trouble)?;
            match work(&mut link) {
                Ok(answer) => {
                    locked(&self.idle).push(link);
                    return Ok(answer);
                }
                Err(error) if tries > 0 && error.is_connection_dropped() => {}
                Err(error) => {
                    // After any error other than a server's answer, the state of the connection is unknown.
                    if error.code().is_some() {
                        locked(&self.idle).push(link);
                    }
                    return Err(trouble(error));
                }
            }
        }
    }

    fn unlink(&self, batches: &[u64]) -> Result<(), Trouble> {
        self.with_link(|link| match link {
            Link::One(_) => {
                let mut command = redis::cmd("UNLINK");
                batches.iter().for_each(|batch| {
                    command.arg(self.key(*batch));
                });
                link.ask::<u64>(&command).map(drop)
            }
            // Keys are on different servers, so there is a command for each, sent together.
            Link::Cluster(connection) => {
                let mut commands = redis::cluster::cluster_pipe();
                batches.iter().for_each(|batch| {
                    commands.cmd("UNLINK").arg(self.key(*batch)).ignore();
                });
                let Err(error) = commands.query::<()>(connection) else { return Ok(()) };
                // If a key is moving from one server to another, only a separate command follows it.
                let Some(refused) = error.clone().into_server_errors() else { return Err(error) };
                refused.iter().try_for_each(|(at, _)| {
                    redis::cmd("UNLINK").arg(self.key(batches[*at])).query::<()>(connection)
                })
            }
        })
    }

    fn has_room(&self, bytes: usize) -> Result<(), Trouble> {
        if locked(&self.kept).bytes + bytes as u64 > self.most { Err(Trouble::Full) } else { Ok(()) }
    }

    fn set(&self, batch: u64, bytes: &[u8]) -> Cmd {
        let mut command = redis::cmd("SET");
        command.arg(self.key(batch)).arg(bytes);
        command
    }

    fn note_kept(&self, batch: u64, bytes: usize) {
        let mut kept = locked(&self.kept);
        let before = kept.batches.insert(batch, bytes as u32).unwrap_or(0);
        kept.bytes = kept.bytes + bytes as u64 - u64::from(before);
    }

    /// Notes puts that were not answered and may still be executed.
    fn doubt(&self, batches: impl Iterator<Item = u64>, trouble: Trouble) -> Trouble {
        if matches!(trouble, Trouble::Away(_)) {
            locked(&self.kept).in_doubt.extend(batches);
        }
        trouble
    }

    /// Sends several batches over one connection, and reads the answers afterwards.
    fn pipeline(&self, batches: &[(u64, &[u8])]) -> Result<Vec<Result<(), Trouble>>, Trouble> {
        self.be_ready()?;
        self.has_room(batches.iter().map(|(_, bytes)| bytes.len()).sum())?;
        let mut commands = redis::pipe();
        commands.ignore_errors();
        batches.iter().for_each(|(batch, bytes)| {
            commands.add_command(self.set(*batch, bytes));
        });
        let answers = self.with_link(|link| match link {
            Link::One(connection) => commands.query::<Vec<RedisResult<()>>>(connection),
            Link::Cluster(_) => {
                Err((ErrorKind::Client, "keys of a cluster do not go over one connection").into())
            }
        });
        let answers =
            answers.map_err(|trouble| self.doubt(batches.iter().map(|(batch, _)| *batch), trouble))?;
        let of = |((batch, bytes), answer): (&(u64, &[u8]), RedisResult<()>)| {
            answer.map_err(trouble)?;
            self.note_kept(*batch, bytes.len());
            Ok(())
        };
        Ok(batches.iter().zip(answers).map(of).collect())
    }

    fn key(&self, batch: u64) -> String {
        format!("{}{batch:x}", self.prefix)
    }
}

impl Tier for RedisTier {
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.be_ready()?;
        self.has_room(bytes.len())?;
        self.ask::<()>(&self.set(batch, bytes))
            .map_err(|trouble| self.doubt(std::iter::once(batch), trouble))?;
        self.note_kept(batch, bytes.len());
        Ok(())
    }

    fn put_all(&self, batches: &[(u64, &[u8])]) -> Vec<Result<(), Trouble>> {
        if batches.len() < 2 || self.is_cluster {
            return batches.iter().map(|(batch, bytes)| self.put(*batch, bytes)).collect();
        }
        let failed = |trouble: Trouble| batches.iter().map(|_| Err(trouble.clone())).collect();
        self.pipeline(batches).unwrap_or_else(failed)
    }

    /// In a cluster, batches go to different servers.
    fn puts_at_once(&self) -> usize {
        if self.is_cluster { 1 } else { PIPELINED }
    }

    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        if into.is_empty() {
            return Ok(());
        }
        let last = u64::from(from) + into.len() as u64 - 1;
        let answer: Vec<u8> = self.ask(redis::cmd("GETRANGE").arg(self.key(batch)).arg(from).arg(last))?;
        if answer.len() != into.len() {
            return Err(Trouble::Lost);
        }
        into.copy_from_slice(&answer);
        Ok(())
    }

    fn delete(&self, batches: &[u64]) -> Result<(), Trouble> {
        for some in batches.chunks(UNLINKS) {
            self.unlink(some)?;
            let mut kept = locked(&self.kept);
            for batch in some {
                let bytes = kept.batches.remove(batch).unwrap_or(0);
                kept.bytes -= u64::from(bytes);
            }
        }
        Ok(())
    }

    fn probe(&self) -> Result<(), Trouble> {
        self.look()
    }

    fn tend(&self) -> Result<(), Trouble> {
        let mut runs = locked(&self.runs);
        let nodes = self.nodes();
        // Errors are ignored, since this run does not depend on the renewal.
        let _ = self.try_links(|link| runs.renew(link));
        if self.try_links(|link| runs.clean(link, &nodes, self.deadline)).is_err() {
            runs.give_up();
        }
        Ok(())
    }

    fn pass_on(&self) {
        let mut runs = locked(&self.runs);
        if runs.is_said() {
            let _ = self.with_link(|link| runs.say(link, true));
        }
    }

    fn leave(&self) {
        let mut runs = locked(&self.runs);
        let kept = locked(&self.kept);
        if !runs.is_said() || self.is_away.load(Relaxed) {
            return;
        }
        let is_gone = kept.in_doubt.chunks(UNLINKS).all(|some| self.unlink(some).is_ok());
        // A late command may be executed even after this; the next run then finds its key.
        if is_gone && kept.batches.is_empty() && kept.in_doubt.is_empty() {
            let _ = self.with_link(|link| runs.take_back(link));
        } else if !runs.is_said_here() {
            // The tier was passed on, but no other process took over. So it belongs to this process, which is
            // about to end.
            let _ = self.with_link(|link| runs.say(link, false));
        }
    }

    fn left_at(&self) -> Option<String> {
        Some(format!("keys {}*", self.prefix))
    }

    fn room(&self) -> Room {
        Room { used: locked(&self.kept).bytes, most: self.most }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for RedisTier {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a server has answered, if only with a refusal.
fn is_answered<R>(result: &RedisResult<R>) -> bool {
    result.as_ref().err().is_none_or(|error| error.code().is_some())
}

fn trouble(error: RedisError) -> Trouble {
    match error.code() {
        Some("OOM") => Trouble::Full,
        Some(NO_RIGHT) => Trouble::Away(format!("{error}; docs/spill.md says what memfold needs there")),
        _ if error.is_timeout() => Trouble::Away("it does not answer in time".into()),
        _ => Trouble::Away(error.to_string()),
    }
}
