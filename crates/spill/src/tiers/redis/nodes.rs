//! The servers, their properties, and connections to them.

use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{Client, Cmd, Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisResult};

use super::super::{BadTarget, Trouble};
use super::trouble;
use crate::tiers::display::shown;

/// A server, or the servers of a cluster.
pub enum Nodes {
    One(Client),
    Cluster {
        client: ClusterClient,
        /// The servers that the user named, followed by all that the cluster reports: a named server may end,
        /// and another may become master in its place.
        urls: Vec<String>,
        named: usize,
    },
}

/// A connection to one of them.
pub enum Link {
    One(Connection),
    Cluster(Box<ClusterConnection>),
}

impl Link {
    pub fn ask<R: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<R> {
        match self {
            Link::One(connection) => command.query(connection),
            Link::Cluster(connection) => command.query(&mut **connection),
        }
    }
}

impl Nodes {
    /// Asks the servers for their properties, until one answers.
    pub fn find(urls: &[String], deadline: Duration) -> Result<Self, BadTarget> {
        let name = shown(urls.first().map_or("", String::as_str));
        let bad = |why: String| BadTarget(format!("{name}: {why}"));
        let mut last = String::from("no server is named");
        for url in urls {
            match client(url).and_then(|client| Ok((said(&client, deadline)?, client))) {
                Ok((said, _)) if said.of("cluster_enabled") == "1" => {
                    let client = cluster(urls, deadline).map_err(|error| bad(error.to_string()))?;
                    return Ok(Nodes::Cluster { client, urls: urls.to_vec(), named: urls.len() });
                }
                Ok(_) if urls.len() > 1 => {
                    return Err(bad(
                        "several servers are named, but this one is not part of a cluster; name one".into(),
                    ));
                }
                Ok((_, client)) => return Ok(Nodes::One(client)),
                Err(error) => last = format!("{}: {}", shown(url), trouble(error)),
            }
        }
        Err(BadTarget(last))
    }

    pub fn connect(&self, deadline: Duration) -> RedisResult<Link> {
        match self {
            Nodes::One(client) => connect(client, deadline).map(Link::One),
            Nodes::Cluster { client, .. } => {
                client.get_connection().map(|connection| Link::Cluster(Box::new(connection)))
            }
        }
    }

    /// The masters, each of which has a part of the keys.
    pub fn masters(&self, deadline: Duration) -> Result<Vec<Client>, Trouble> {
        match self {
            Nodes::One(client) => Ok(vec![client.clone()]),
            Nodes::Cluster { urls, .. } => {
                let known = known(urls, deadline)?;
                let masters = known.iter().filter(|node| node.is_master);
                masters.map(|node| client(&node.url).map_err(trouble)).collect()
            }
        }
    }

    /// Checks that no server evicts keys. Returns the nodes if they have changed.
    pub fn look(&self, deadline: Duration) -> Result<Option<Nodes>, Trouble> {
        match self {
            Nodes::One(client) => {
                let said = said(client, deadline).map_err(trouble)?;
                // It may become master again, or its name may soon lead to another server.
                if said.is_replica() {
                    return Err(Trouble::Away(
                        "it is a replica, which accepts no writes; name its master".into(),
                    ));
                }
                said.keeps().map(|()| None).map_err(Trouble::Unfit)
            }
            Nodes::Cluster { urls, named, .. } => {
                let known = known(urls, deadline)?;
                for node in known.iter().filter(|node| node.is_master) {
                    let said =
                        client(&node.url).and_then(|client| said(&client, deadline)).map_err(trouble)?;
                    // A server that has just become a replica accepts no writes; the next check finds its
                    // master.
                    if !said.is_replica() {
                        said.keeps().map_err(|why| Trouble::Unfit(format!("{}: {why}", shown(&node.url))))?;
                    }
                }
                let mut now = urls[..*named].to_vec();
                now.extend(known.into_iter().map(|node| node.url));
                if now == *urls {
                    return Ok(None);
                }
                let client = cluster(&now, deadline).map_err(trouble)?;
                Ok(Some(Nodes::Cluster { client, urls: now, named: *named }))
            }
        }
    }
}

/// What a server reports about itself.
struct Said(String);

impl Said {
    fn of(&self, field: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or("").trim()
    }

    fn is_replica(&self) -> bool {
        self.of("role") == "slave"
    }

    /// Whether it keeps all keys; the error says why not.
    fn keeps(&self) -> Result<(), String> {
        let policy = self.of("maxmemory_policy");
        if policy == "noeviction" {
            return Ok(());
        }
        Err(format!(
            "its maxmemory-policy is {}: it would evict the memory that is kept there. Set it with \
             `redis-cli CONFIG SET maxmemory-policy noeviction`, or use a server that nobody else uses",
            if policy.is_empty() { "unknown" } else { policy }
        ))
    }
}

fn said(client: &Client, deadline: Duration) -> RedisResult<Said> {
    redis::cmd("INFO").query(&mut connect(client, deadline)?).map(Said)
}

/// A client that sends no optional information about itself: each answer at the start of a connection takes
/// time, and these answers are not needed.
fn client(url: &str) -> RedisResult<Client> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Client::open(info.set_redis_settings(settings))
}

/// The cluster client tries a call up to three times.
fn cluster(urls: &[String], deadline: Duration) -> RedisResult<ClusterClient> {
    ClusterClient::builder(urls.to_vec())
        .connection_timeout(deadline / 3)
        .response_timeout(deadline / 3)
        .retries(2)
        .build()
}

/// Connects within one deadline: the steps (connect, password, database) must not each take a deadline.
pub fn connect(client: &Client, deadline: Duration) -> RedisResult<Connection> {
    let connection = client.get_connection_with_timeout(deadline / 3)?;
    connection.set_read_timeout(Some(deadline))?;
    connection.set_write_timeout(Some(deadline))?;
    Ok(connection)
}

/// A server of a cluster.
struct Known {
    url: String,
    is_master: bool,
}

/// The cluster's servers that have not failed, as reported by the first one that answers, with the user name
/// and password that the user gave.
fn known(urls: &[String], deadline: Duration) -> Result<Vec<Known>, Trouble> {
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
        let asked = client(url).map(|client| client.get_connection_info().addr().clone());
        let host = match asked {
            Ok(ConnectionAddr::Tcp(host, _)) => host,
            _ => String::new(),
        };
        let mut known: Vec<_> = nodes.lines().filter_map(|line| node(line, who, &host)).collect();
        // They are reported in no particular order.
        known.sort_by(|a, b| a.url.cmp(&b.url));
        return Ok(known);
    }
    Err(last)
}

/// Parses a line of CLUSTER NODES that `host` reported.
fn node(line: &str, who: &str, host: &str) -> Option<Known> {
    let mut words = line.split(' ').skip(1);
    let (address, flags) = (words.next()?, words.next()?);
    let is = |flag: &str| flags.split(',').any(|word| word == flag);
    if is("fail") || is("noaddr") || is("handshake") {
        return None;
    }
    // ip:port@bus port, and perhaps a host name. A server that does not know its own address leaves it empty.
    let (ip, port) = address.split('@').next()?.rsplit_once(':')?;
    let ip = if ip.is_empty() { host } else { ip };
    let ip = ip.trim_matches(['[', ']']);
    let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    let at = if who.is_empty() { "" } else { "@" };
    Some(Known { url: format!("redis://{who}{at}{ip}:{port}"), is_master: is("master") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_forget_are_unfit() {
        let said = |text: &str| Said(text.replace('\n', "\r\n"));
        let good = said("# Memory\nmaxmemory:0\nmaxmemory_policy:noeviction\nrole:master\n");
        assert!(good.keeps().is_ok() && !good.is_replica());
        for bad in ["maxmemory_policy:allkeys-lru\n", "maxmemory_policy:volatile-ttl\n", ""] {
            assert!(said(bad).keeps().is_err(), "{bad}");
        }
        assert!(said("role:slave\nmaxmemory_policy:noeviction\n").is_replica());
    }

    #[test]
    fn nodes_of_a_cluster() {
        let node = |line: &str| node(line, "u:p", "h").map(|node| (node.url, node.is_master));
        let own = "07c3 :7000@17000 myself,master - 0 0 1 connected 0-5460";
        assert_eq!(node(own), Some(("redis://u:p@h:7000".into(), true)));
        let replica = "07c4 ::1:7001@17001,name slave 07c3 0 0 1 connected";
        assert_eq!(node(replica), Some(("redis://u:p@[::1]:7001".into(), false)));
        let in_doubt = "07c5 10.0.0.1:7002@17002 master,fail? - 0 0 1 connected";
        assert_eq!(node(in_doubt), Some(("redis://u:p@10.0.0.1:7002".into(), true)));
        assert_eq!(node("07c6 10.0.0.1:7003@17003 master,fail - 0 0 1 connected"), None);
    }
}
