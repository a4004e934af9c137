//! Redis or Valkey: a batch is the value of one key.
//!
//! ```text
//!   memfold:RUN:BATCH  ->  the batch's bytes            SET, GETRANGE, UNLINK
//! ```
//!
//! A server that evicts keys to make room would lose what it was given, so `maxmemory-policy` has to be `noeviction`, which is its
//! default: it is looked at before the first batch, and again every few seconds, of each master of a cluster. Keys never
//! expire, and are removed when their batches are deleted; they have their run in their name, so that what a run has left that was killed
//! together with its supervisor can be found.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{Client, Cmd, Connection, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult};

use super::target::shown;
use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

/// So often it is looked whether the server still keeps what it has.
const LOOK: Duration = Duration::from_secs(5);
/// Keys that are removed with one command.
const UNLINKS: usize = 1024;
/// Batches that are sent without waiting for an answer between.
const PIPELINED: usize = 4;

/// See the module.
pub struct RedisTier {
    client: Kind,
    name: String,
    prefix: String,
    deadline: Duration,
    most: u64,
    idle: Mutex<Vec<Link>>,
    kept: Mutex<Kept>,
    looked: Mutex<Instant>,
}

#[derive(Default)]
struct Kept {
    bytes: u64,
    batches: HashMap<u64, u32>,
}

enum Kind {
    One(Client),
    Cluster(ClusterClient, Vec<String>),
}

enum Link {
    One(Connection),
    Cluster(Box<ClusterConnection>),
}

impl Link {
    fn ask<R: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<R> {
        match self {
            Link::One(connection) => command.query(connection),
            Link::Cluster(connection) => command.query(&mut **connection),
        }
    }
}

/// What a server says of itself.
struct Said(String);

impl Said {
    fn of(&self, field: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or("").trim()
    }

    /// Why it would not keep what it is given.
    fn unfit(&self) -> Option<String> {
        let policy = self.of("maxmemory_policy");
        if self.of("role") == "slave" {
            return Some("it is a replica, which takes nothing; name its master".into());
        }
        (policy != "noeviction").then(|| {
            format!(
                "its maxmemory-policy is {}: it would throw away what memory is kept there. Set it with \
                 `redis-cli CONFIG SET maxmemory-policy noeviction`, or use a server that nobody else uses",
                if policy.is_empty() { "unknown" } else { policy }
            )
        })
    }
}

impl RedisTier {
    /// A server, or a cluster of which some servers are named.
    pub fn open(urls: &[String], run: &str, terms: Terms) -> Result<Self, BadTarget> {
        let name = shown(urls.first().map_or("", String::as_str));
        let bad = |why: String| BadTarget(format!("{name}: {why}"));
        let mut last = String::from("no server is named");
        let mut found = None;
        for url in urls {
            match client(url).and_then(|client| Ok((said(&client, terms.deadline)?, client))) {
                Ok(answered) => {
                    found = Some(answered);
                    break;
                }
                Err(error) => last = format!("{}: {error}", shown(url)),
            }
        }
        let Some((said, client)) = found else { return Err(BadTarget(last)) };
        let client = if said.of("cluster_enabled") == "1" {
            // The client tries a call up to three times.
            let client = ClusterClient::builder(urls.to_vec())
                .connection_timeout(terms.deadline / 3)
                .response_timeout(terms.deadline / 3)
                .retries(2)
                .build()
                .map_err(|error| bad(error.to_string()))?;
            Kind::Cluster(client, urls.to_vec())
        } else if urls.len() > 1 {
            return Err(bad(
                "several servers are named, but this one is not part of a cluster; name one".into()
            ));
        } else {
            Kind::One(client)
        };
        let tier = RedisTier {
            client,
            prefix: format!("memfold:{run}:"),
            deadline: terms.deadline,
            most: terms.most.unwrap_or(u64::MAX),
            idle: Mutex::default(),
            kept: Mutex::default(),
            looked: Mutex::new(Instant::now()),
            name,
        };
        tier.look().map_err(|trouble| BadTarget(format!("{}: {trouble}", tier.name)))?;
        Ok(tier)
    }

    /// Whether all servers keep what they have.
    fn look(&self) -> Result<(), Trouble> {
        let unfit = |client: &Client| -> Result<(), Trouble> {
            said(client, self.deadline)
                .map_err(trouble)?
                .unfit()
                .map_or(Ok(()), |why| Err(Trouble::Unfit(why)))
        };
        match &self.client {
            Kind::One(client) => unfit(client),
            Kind::Cluster(_, urls) => {
                for master in masters(urls, self.deadline)? {
                    let client = client(&master).map_err(trouble)?;
                    unfit(&client).map_err(|why| match why {
                        Trouble::Unfit(why) => Trouble::Unfit(format!("{}: {why}", shown(&master))),
                        other => other,
                    })?;
                }
                Ok(())
            }
        }
    }

    fn look_again(&self) -> Result<(), Trouble> {
        let mut looked = locked(&self.looked);
        if looked.elapsed() < LOOK {
            return Ok(());
        }
        *looked = Instant::now();
        drop(looked);
        self.look()
    }

    fn link(&self) -> RedisResult<Link> {
        if let Some(link) = locked(&self.idle).pop() {
            return Ok(link);
        }
        match &self.client {
            Kind::One(client) => connect(client, self.deadline).map(Link::One),
            Kind::Cluster(client, _) => {
                client.get_connection().map(|connection| Link::Cluster(Box::new(connection)))
            }
        }
    }

    /// Asks over a connection; one that failed is not used again. An idle one may have been closed by a server that started anew: then
    /// it is asked once more.
    fn ask<R: FromRedisValue>(&self, command: &Cmd) -> Result<R, Trouble> {
        self.with_link(|link| link.ask(command))
    }

    fn with_link<R>(&self, mut work: impl FnMut(&mut Link) -> RedisResult<R>) -> Result<R, Trouble> {
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

    /// Sends one after the other over one connection, and looks at the answers afterwards.
    fn pipeline(&self, batches: &[(u64, &[u8])]) -> Result<Vec<Result<(), Trouble>>, Trouble> {
        self.look_again()?;
        self.has_room(batches.iter().map(|(_, bytes)| bytes.len()).sum())?;
        let mut commands = redis::pipe();
        commands.ignore_errors();
        batches.iter().for_each(|(batch, bytes)| {
            commands.add_command(self.set(*batch, bytes));
        });
        let answers = self.with_link(|link| match link {
            Link::One(connection) => commands.query::<Vec<RedisResult<()>>>(connection),
            Link::Cluster(_) => Ok(Vec::new()),
        })?;
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
        self.look_again()?;
        self.has_room(bytes.len())?;
        self.ask::<()>(&self.set(batch, bytes))?;
        self.note_kept(batch, bytes.len());
        Ok(())
    }

    fn put_all(&self, batches: &[(u64, &[u8])]) -> Vec<Result<(), Trouble>> {
        if batches.len() < 2 || matches!(self.client, Kind::Cluster(..)) {
            return batches.iter().map(|(batch, bytes)| self.put(*batch, bytes)).collect();
        }
        let failed = |trouble: Trouble| batches.iter().map(|_| Err(trouble.clone())).collect();
        self.pipeline(batches).unwrap_or_else(failed)
    }

    /// In a cluster they go to different servers.
    fn puts_at_once(&self) -> usize {
        if matches!(self.client, Kind::Cluster(..)) { 1 } else { PIPELINED }
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
            match &self.client {
                Kind::One(_) => {
                    let mut command = redis::cmd("UNLINK");
                    some.iter().for_each(|batch| {
                        command.arg(self.key(*batch));
                    });
                    self.with_link(|link| link.ask::<u64>(&command))?;
                }
                // Keys lie on different servers: a command for each, sent together.
                Kind::Cluster(..) => {
                    let mut commands = redis::cluster::cluster_pipe();
                    some.iter().for_each(|batch| {
                        commands.cmd("UNLINK").arg(self.key(*batch)).ignore();
                    });
                    self.with_link(|link| match link {
                        Link::Cluster(connection) => commands.query::<()>(connection),
                        Link::One(_) => Ok(()),
                    })?;
                }
            }
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

/// Of one that says no more of itself than it has to: each answer at the beginning has a time of its own, and nobody looks at these.
fn client(url: &str) -> RedisResult<Client> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Client::open(info.set_redis_settings(settings))
}

/// The beginning (a connection, a password, a database) must not take a deadline for each step of it.
fn connect(client: &Client, deadline: Duration) -> RedisResult<Connection> {
    let connection = client.get_connection_with_timeout(deadline / 3)?;
    connection.set_read_timeout(Some(deadline))?;
    connection.set_write_timeout(Some(deadline))?;
    Ok(connection)
}

fn said(client: &Client, deadline: Duration) -> RedisResult<Said> {
    redis::cmd("INFO").query(&mut connect(client, deadline)?).map(Said)
}

/// URLs of a cluster's masters, with the name and password of those that the user gave.
fn masters(urls: &[String], deadline: Duration) -> Result<Vec<String>, Trouble> {
    let mut last = Trouble::Away("no server of the cluster answers".into());
    for url in urls {
        let nodes = client(url)
            .and_then(|client| redis::cmd("CLUSTER").arg("NODES").query(&mut connect(&client, deadline)?));
        let nodes: String = match nodes {
            Ok(nodes) => nodes,
            Err(error) => {
                last = trouble(error);
                continue;
            }
        };
        let who =
            url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map_or("", |(who, _)| who);
        let at = if who.is_empty() { "" } else { "@" };
        let asked = client(url).map(|client| client.get_connection_info().addr().clone());
        let host = match asked {
            Ok(redis::ConnectionAddr::Tcp(host, _)) => host,
            _ => String::new(),
        };
        let of = |line: &str| {
            let mut words = line.split(' ').skip(1);
            let (address, flags) = (words.next()?, words.next()?);
            let is = |flag: &str| flags.split(',').any(|word| word == flag);
            if !is("master") || is("fail") || is("noaddr") {
                return None;
            }
            // ip:port@bus port, and a host's name perhaps. A server that does not know its own address says none.
            let (ip, port) = address.split('@').next()?.rsplit_once(':')?;
            let ip = if ip.is_empty() { host.as_str() } else { ip };
            let ip = ip.trim_matches(['[', ']']);
            let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
            Some(format!("redis://{who}{at}{ip}:{port}"))
        };
        return Ok(nodes.lines().filter_map(of).collect());
    }
    Err(last)
}

fn trouble(error: RedisError) -> Trouble {
    match error.code() {
        Some("OOM") => Trouble::Full,
        _ if error.is_timeout() => Trouble::Away("it does not answer in time".into()),
        _ => Trouble::Away(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_forget_are_unfit() {
        let said = |text: &str| Said(text.replace('\n', "\r\n"));
        assert_eq!(said("# Memory\nmaxmemory:0\nmaxmemory_policy:noeviction\nrole:master\n").unfit(), None);
        for bad in [
            "maxmemory_policy:allkeys-lru\n",
            "maxmemory_policy:volatile-ttl\n",
            "",
            "role:slave\nmaxmemory_policy:noeviction\n",
        ] {
            assert!(said(bad).unfit().is_some(), "{bad}");
        }
    }
}
