//! Redis or Valkey: a batch is the value of one key.
//!
//! ```text
//!   memfold:RUN:BATCH  ->  the batch's bytes            SET, GETRANGE, UNLINK
//!   memfold:RUN:trial      the same, once, before the first batch; expires after a minute
//! ```
//!
//! A server that evicts keys to make room would lose what it was given, so `maxmemory-policy` has to be `noeviction`, which is its
//! default: it is looked at before the first batch, and again every few seconds, of each master of a cluster. Keys of batches never
//! expire, and are removed when their batches are deleted; they have their run in their name, so that what a run has left that was killed
//! together with its supervisor can be found, see `runs`.

mod nodes;
mod runs;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult};

use self::nodes::{Link, Nodes};
use self::runs::Runs;
use super::target::shown;
use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

/// So often it is looked whether the server still keeps what it has.
const LOOK: Duration = Duration::from_secs(5);
/// Keys that are removed with one command.
const UNLINKS: usize = 1024;
/// Batches that are sent without waiting for an answer between.
const PIPELINED: usize = 4;
/// How a server begins to say that the user may not do that.
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
    /// The last call had no answer.
    is_away: AtomicBool,
}

#[derive(Default)]
struct Kept {
    bytes: u64,
    batches: HashMap<u64, u32>,
    /// Those for which there was no answer: a server may still do what it was told.
    in_doubt: Vec<u64>,
}

impl RedisTier {
    /// A server, or a cluster of which some servers are named.
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

    /// Does once with a key all that will be needed: what the user may not do there is said before anything relies on it. Other trouble may
    /// pass, and is dealt with when something is put. The key goes by itself where it may not be removed.
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
            // Who does not answer is not waited for once more.
            if !is_answered(&read) {
                return read;
            }
            // Also of what was done before something was refused.
            let gone = link.ask::<()>(redis::cmd("UNLINK").arg(&key));
            let taken_back = if is_answered(&gone) { runs.take_back(link) } else { Ok(()) };
            let all = read.and_then(|read| gone.and(taken_back).map(|()| read));
            may_not = all.as_ref().is_err_and(|error| error.code() == Some(NO_RIGHT));
            all
        });
        match tried {
            Ok(read) if read != TRIAL => {
                Err(Trouble::Unfit("it does not give back what it was given".into()))
            }
            Err(trouble) if may_not => Err(trouble),
            _ => Ok(()),
        }
    }

    fn nodes(&self) -> Arc<Nodes> {
        locked(&self.nodes).clone()
    }

    /// Whether all servers keep what they have.
    fn look(&self) -> Result<(), Trouble> {
        if let Some(others) = self.nodes().look(self.deadline)? {
            *locked(&self.nodes) = Arc::new(others);
        }
        Ok(())
    }

    /// What has to be known, and said, before anything is put.
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

    /// Asks over a connection; one that failed is not used again. An idle one may have been closed by a server that started anew: then
    /// it is asked once more.
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
                    // After anything but a server's word nobody knows what comes next over it.
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
            // Keys lie on different servers: a command for each, sent together.
            Link::Cluster(connection) => {
                let mut commands = redis::cluster::cluster_pipe();
                batches.iter().for_each(|batch| {
                    commands.cmd("UNLINK").arg(self.key(*batch)).ignore();
                });
                let Err(error) = commands.query::<()>(connection) else { return Ok(()) };
                // Of a key that is moving from one server to another: only a command by itself goes after it.
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

    /// Puts for which there was no answer may yet be done.
    fn doubt(&self, batches: impl Iterator<Item = u64>, trouble: Trouble) -> Trouble {
        if matches!(trouble, Trouble::Away(_)) {
            locked(&self.kept).in_doubt.extend(batches);
        }
        trouble
    }

    /// Sends one after the other over one connection, and looks at the answers afterwards.
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

    /// In a cluster they go to different servers.
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
        // This run needs nothing of that.
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
        // What was told late may be done even after that: then the next run finds it.
        if is_gone && kept.batches.is_empty() && kept.in_doubt.is_empty() {
            let _ = self.with_link(|link| runs.take_back(link));
        } else if !runs.is_said_here() {
            // It was passed on, and nobody has come: now it is of a process that will have ended.
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

/// Whether a server has said this, even if it was no.
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
