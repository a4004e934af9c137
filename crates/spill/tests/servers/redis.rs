//! The Redis tier with redis-server: a single server, and a cluster of three.

use std::time::{Duration, Instant};

use super::common::*;
use super::started::*;
use memfold_spill::{Target, Trouble};

#[test]
fn batches_are_read_back_and_no_key_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock");
    let server = Redis::start(directory.path(), &["--unixsocket", socket.to_str().unwrap()]);
    for url in [server.url.clone(), format!("redis+unix://{}", socket.display())] {
        let tier = open(&url);
        exercise(&*tier, 300);
        let ours = ["memfold:runs", "memfold:test:holder"];
        assert_eq!(server.keys("*"), ours);
        tier.put(0xabc, &[1; 10]).unwrap();
        assert_eq!(server.keys("*"), ["memfold:runs", "memfold:test:abc", ours[1]]);
        tier.delete(&[0xabc]).unwrap();
        drop(tier);
        assert_eq!(server.cli(&["DBSIZE"]).trim(), "0");
    }
}

#[test]
fn with_a_password_and_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(
        directory.path(),
        &["--user", "default", "off", "--user", "fold", "on", ">secret", "~*", "+@all"],
    );
    let url = format!("redis://fold:secret@127.0.0.1:{}/3", server.port);
    let tier = open(&url);
    exercise(&*tier, 30);
    assert_eq!(tier.name(), format!("redis://fold@127.0.0.1:{}/3", server.port));
    let wrong = refusal(&format!("redis://fold:wrong@127.0.0.1:{}", server.port));
    assert!(!wrong.contains("wrong@"), "{wrong}");
}

/// It is reported before anything is spilled and the program relies on it.
#[test]
fn missing_rights_of_the_user_are_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &[]);
    let with = |rights: &[&str]| {
        let user = ["ACL", "SETUSER", "fold", "reset", "on", ">secret"];
        assert_eq!(server.cli(&[&user, rights].concat()).trim(), "OK");
        format!("redis://fold:secret@127.0.0.1:{}", server.port)
    };
    for rights in [
        &["~other:*", "+@all"][..],
        &["~memfold:*", "+@all", "-set"],
        &["~memfold:*", "+@all", "-getrange"],
        &["~memfold:*", "+@all", "-sadd"],
        &["~memfold:*", "+@all", "-srem"],
        &["~memfold:*", "+@all", "-info"],
        &["~memfold:*", "+@all", "-unlink"],
    ] {
        let why = refusal(&with(rights)).to_lowercase();
        let what = rights.last().unwrap().trim_start_matches('-');
        assert!(why.contains("permission") && (what.starts_with('+') || why.contains(what)), "{why}");
    }
    // Only keys that the user may not remove are left, and they expire.
    let keys = server.keys("*");
    assert_eq!(keys, ["memfold:test:holder", "memfold:test:trial"]);
    for key in keys {
        assert!(server.cli(&["TTL", &key]).trim().parse::<i64>().unwrap() > 0, "{key}");
    }
    // Each server of a cluster has its own users.
    let cluster = cluster(directory.path());
    for server in &cluster {
        server.cli(&["ACL", "SETUSER", "fold", "reset", "on", ">secret", "~memfold:*", "+@all", "-unlink"]);
    }
    let why = refusal(&format!("redis://fold:secret@127.0.0.1:{}", cluster[1].port));
    assert!(why.contains("unlink"), "{why}");
    server.cli(&["FLUSHALL"]);
    let tier = open(&with(&["~memfold:*", "+@all"]));
    assert_eq!(server.cli(&["DBSIZE"]).trim(), "0");
    exercise(&*tier, 30);
}

/// It accepts batches later.
#[test]
fn a_server_that_takes_nothing_now_is_not_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &["--min-replicas-to-write", "1"]);
    let tier = open(&server.url);
    assert!(matches!(tier.put(1, &[1]), Err(Trouble::Away(_))));
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    tier.put(1, &[1]).unwrap();
    server.stop_for_now(true);
    assert!(refusal(&server.url).contains("in time"));
    server.stop_for_now(false);
}

/// An unfinished resharding, in which commands must go to either of two servers.
#[test]
fn keys_that_are_moving_are_read_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let servers = cluster(directory.path());
    let tier = open(&servers[1].url);
    (0..200).for_each(|batch| tier.put(batch, &bytes(batch, 5000)).unwrap());
    let [from, to] = [0, 2].map(|at: usize| servers[at].cli(&["CLUSTER", "MYID"]));
    for slot in 0..2000 {
        let slot = slot.to_string();
        servers[2].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", from.trim()]);
        servers[0].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", to.trim()]);
    }
    (200..400).for_each(|batch| tier.put(batch, &bytes(batch, 5000)).unwrap());
    let asked = |server: &Redis| server.cli(&["INFO", "errorstats"]).contains("errorstat_ASK:");
    assert!(asked(&servers[0]));
    (0..400).for_each(|batch| assert!(read(&*tier, batch, 0, 5000).unwrap() == bytes(batch, 5000)));
    tier.delete(&(0..400).collect::<Vec<_>>()).unwrap();
    drop(tier);
    assert!(servers.iter().all(|server| server.keys("*").is_empty()));
}

/// There may be room later.
#[test]
fn a_server_that_is_full_already_is_not_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &["--maxmemory", "1"]);
    let tier = open(&server.url);
    assert_eq!(tier.put(1, &[1; 1000]), Err(Trouble::Full));
    assert_eq!(server.cli(&["DBSIZE"]).trim(), "0");
    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    tier.put(1, &[1; 1000]).unwrap();
}

#[test]
fn a_server_that_evicts_is_refused_now_and_later() {
    let directory = tempfile::tempdir().unwrap();
    let server =
        Redis::start(directory.path(), &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let why = refusal(&server.url);
    assert!(why.contains("allkeys-lru") && why.contains("CONFIG SET maxmemory-policy noeviction"), "{why}");
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let tier = open(&server.url);
    tier.put(1, &bytes(1, 1000)).unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    until("the policy", || matches!(tier.put(2, &[2]), Err(Trouble::Unfit(_))));
    assert!(read(&*tier, 1, 0, 1000).unwrap() == bytes(1, 1000));
}

/// A server that became a replica may become a master again, and still have its keys.
#[test]
fn a_replica_is_refused_and_a_server_that_becomes_one_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = [(); 2].map(|()| Redis::start(directory.path(), &[]));
    let tier = open(&one.url);
    tier.put(1, &bytes(1, 1000)).unwrap();
    other.cli(&["REPLICAOF", "127.0.0.1", &one.port.to_string()]);
    assert!(refusal(&other.url).contains("it is a replica"));
    one.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(matches!(tier.put(2, &[2]), Err(Trouble::Away(_))));
    assert!(matches!(tier.probe(), Err(Trouble::Away(_))));
    one.cli(&["REPLICAOF", "NO", "ONE"]);
    tier.probe().unwrap();
    assert!(read(&*tier, 1, 0, 1000).unwrap() == bytes(1, 1000));
}

#[test]
fn a_full_server_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &["--maxmemory", "8mb"]);
    let tier = open(&server.url);
    let full =
        (0..100).find(|batch| tier.put(*batch, &bytes(*batch, 256 << 10)) == Err(Trouble::Full)).unwrap();
    assert!(full > 10);
    (0..full)
        .for_each(|batch| assert!(read(&*tier, batch, 0, 256 << 10).unwrap() == bytes(batch, 256 << 10)));
    tier.delete(&(0..8).collect::<Vec<_>>()).unwrap();
    until("room", || tier.put(full, &bytes(full, 256 << 10)).is_ok());
}

/// Each of several batches sent together has its own answer.
#[test]
fn of_several_at_once_some_may_be_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &["--maxmemory", "8mb"]);
    let tier = open(&server.url);
    let all: Vec<_> = (0..40).map(|batch| (batch, bytes(batch, 256 << 10))).collect();
    let some: Vec<_> = all.iter().map(|(batch, bytes)| (*batch, bytes.as_slice())).collect();
    let results = tier.put_all(&some);
    let kept = results.iter().position(|result| *result == Err(Trouble::Full)).unwrap();
    assert!(kept > 10 && results[..kept].iter().all(Result::is_ok), "{results:?}");
    for (batch, result) in results.iter().enumerate() {
        let read = read(&*tier, batch as u64, 0, 256 << 10);
        assert!(if result.is_ok() { read.unwrap() == all[batch].1 } else { read == Err(Trouble::Lost) });
    }
    assert_eq!(tier.room().used, (results.iter().flatten().count() as u64) << 18);
}

#[test]
fn data_that_a_server_forgot_are_lost_and_never_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Redis::start(directory.path(), &[]);
    let tier = open(&server.url);
    tier.put(1, &bytes(1, 100_000)).unwrap();
    server.kill();
    assert!(matches!(read(&*tier, 1, 0, 10), Err(Trouble::Away(_))));
    assert!(matches!(tier.put(2, &[2]), Err(Trouble::Away(_))));
    server.restart();
    assert_eq!(read(&*tier, 1, 0, 10), Err(Trouble::Lost));
    tier.put(2, &bytes(2, 100_000)).unwrap();
    assert!(read(&*tier, 2, 7, 99_993).unwrap() == bytes(2, 100_000)[7..]);
    server.cli(&["SETRANGE", "memfold:test:3", "5", "short"]);
    assert_eq!(read(&*tier, 3, 0, 11), Err(Trouble::Lost));
}

#[test]
fn an_answer_that_comes_late_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &["--enable-debug-command", "yes"]);
    let short = terms(None, Duration::from_millis(300));
    let tier = server.url.parse::<Target>().unwrap().open("test", short).unwrap();
    tier.put(1, &bytes(1, 10_000)).unwrap();
    let port = server.port;
    let sleeper = std::thread::spawn(move || cli(port, &["DEBUG", "SLEEP", "2"]));
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    assert!(matches!(read(&*tier, 1, 0, 100), Err(Trouble::Away(_))));
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    sleeper.join().unwrap();
    assert!(read(&*tier, 1, 0, 10_000).unwrap() == bytes(1, 10_000));
}

/// Over existing connections, and over new ones, which begin with a password.
#[test]
fn no_thread_waits_long_for_a_stopped_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &["--user", "fold", "on", ">secret", "~*", "+@all"]);
    let short = terms(None, Duration::from_millis(600));
    let url = format!("redis://fold:secret@127.0.0.1:{}/3", server.port);
    let tier = url.parse::<Target>().unwrap().open("test", short).unwrap();
    (0..8).for_each(|batch| tier.put(batch, &bytes(batch, 10_000)).unwrap());
    server.stop_for_now(true);
    for call in [
        &(|| read(&*tier, 1, 0, 100).map(drop)) as &dyn Fn() -> Result<(), Trouble>,
        &|| tier.put(9, &bytes(9, 10_000)),
        &|| tier.delete(&[0, 2, 4, 6]),
        &|| tier.probe(),
    ] {
        let begin = Instant::now();
        let Err(Trouble::Away(why)) = call() else { panic!("it was done") };
        assert!(why.contains("in time"), "{why}");
        assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    }
    server.stop_for_now(false);
    tier.delete(&[0, 2, 4, 6]).unwrap();
    (1..8)
        .step_by(2)
        .for_each(|batch| assert!(read(&*tier, batch, 0, 10_000).unwrap() == bytes(batch, 10_000)));
}

#[test]
fn a_connection_that_is_cut_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &[]);
    let cut = Cut::before(server.port);
    let tier = open(&format!("redis://127.0.0.1:{}", cut.port));
    tier.put(1, &bytes(1, 100_000)).unwrap();
    for bytes_more in [10, 60_000] {
        cut.after(bytes_more);
        assert!(matches!(tier.put(2, &bytes(2, 100_000)), Err(Trouble::Away(_))));
        cut.after(bytes_more);
        assert!(matches!(read(&*tier, 1, 0, 100_000), Err(Trouble::Away(_))));
        cut.after(usize::MAX);
        assert!(read(&*tier, 1, 0, 100_000).unwrap() == bytes(1, 100_000));
        tier.put(2, &bytes(2, 100_000)).unwrap();
        assert!(read(&*tier, 2, 0, 100_000).unwrap() == bytes(2, 100_000));
        let (one, other) = (bytes(3, 100_000), bytes(4, 100_000));
        let both = [(3, &one[..]), (4, &other[..])];
        cut.after(100_000 + bytes_more);
        assert!(matches!(tier.put_all(&both)[..], [Err(Trouble::Away(_)), Err(Trouble::Away(_))]));
        cut.after(usize::MAX);
        assert_eq!(tier.put_all(&both), [Ok(()), Ok(())]);
        assert!(read(&*tier, 3, 0, 100_000).unwrap() == one && read(&*tier, 4, 0, 100_000).unwrap() == other);
    }
}

#[test]
fn a_cluster_shares_the_batches() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = cluster(directory.path());
    let tier = open(&servers[1].url);
    exercise(&*tier, 100);
    let held = || -> Vec<usize> {
        let keys = |server: &Redis| {
            server.keys("memfold:test:*").iter().filter(|key| !key.ends_with("holder")).count()
        };
        servers.iter().map(keys).collect()
    };
    assert_eq!(held(), [0; 3]);
    (0..60).for_each(|batch| tier.put(batch, &bytes(batch, 5000)).unwrap());
    let held = held();
    assert!(held.iter().sum::<usize>() == 60 && held.iter().all(|count| *count > 5), "{held:?}");
    // Batches on the other servers can still be read when one server ends.
    servers[0].kill();
    let read: Vec<_> = (0..60).map(|batch| (batch, read(&*tier, batch, 0, 5000))).collect();
    let there =
        read.iter().filter(|(batch, read)| read.as_ref().is_ok_and(|it| *it == bytes(*batch, 5000))).count();
    let away = read.iter().filter(|(_, read)| matches!(read, Err(Trouble::Away(_)))).count();
    assert_eq!((there, away), (60 - held[0], held[0]));
}

/// The only server that was named ends, and its replica becomes master.
#[test]
fn a_cluster_goes_on_without_the_server_that_was_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = cluster(directory.path());
    let replica = in_cluster(directory.path(), 3);
    let master = servers[0].cli(&["CLUSTER", "MYID"]);
    let (new, old) = (format!("127.0.0.1:{}", replica.port), format!("127.0.0.1:{}", servers[0].port));
    redis_cli(&[
        "--cluster",
        "add-node",
        &new,
        &old,
        "--cluster-slave",
        "--cluster-master-id",
        master.trim(),
    ]);
    let tier = open(&format!("redis://{old}"));
    (0..60).for_each(|batch| tier.put(batch, &bytes(batch, 5000)).unwrap());
    until("the copy", || !replica.keys("*").is_empty() && replica.keys("*") == servers[0].keys("*"));
    tier.probe().unwrap();
    servers[0].kill();
    until("the new master", || replica.cli(&["ROLE"]).starts_with("master"));
    until("the cluster", || tier.probe().is_ok());
    // New connections work, too.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tier = &*tier;
            scope.spawn(move || {
                (0..60).for_each(|batch| {
                    until("what was put before", || {
                        read(tier, batch, 0, 5000).is_ok_and(|read| read == bytes(batch, 5000))
                    });
                });
                (0..20).map(|nth| 100 + 20 * thread + nth).for_each(|batch| {
                    until("a put", || tier.put(batch, &bytes(batch, 5000)).is_ok());
                    assert!(read(tier, batch, 0, 5000).unwrap() == bytes(batch, 5000));
                });
            });
        }
    });
}

/// A key of each run names its process; see `tiers/redis/runs.rs`.
#[test]
fn keys_of_runs_that_were_killed_are_removed_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let alone = [Redis::start(directory.path(), &[])];
    let cluster = cluster(directory.path());
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let ask = |server: &Redis, words: &[&str]| {
        redis_cli(&[&["-c", "-p", &server.port.to_string()], words].concat()).trim().to_owned()
    };
    let begin = |server: &Redis, run: &str| {
        let tier = server.url.parse::<Target>().unwrap().open(run, terms(None, DEADLINE)).unwrap();
        (0..300).for_each(|batch| tier.put(batch, b"batch").unwrap());
        std::mem::forget(tier);
        let holder = format!("memfold:{run}:holder");
        let this = ask(server, &["GET", &holder]);
        let words: Vec<_> = this.split(' ').collect();
        let [boot, space, pid, began] = words[..] else { panic!("{this}") };
        (holder, [boot, space, pid, began].map(str::to_owned))
    };
    for servers in [&alone[..], &cluster] {
        let server = &servers[0];
        for run in ["1-killed", "2-elsewhere", "3-expired", "4-lives"] {
            let (holder, [boot, space, pid, began]) = begin(server, run);
            let ended = child.id().to_string();
            match run {
                "1-killed" => ask(
                    server,
                    &["SET", &holder, &[&boot, &space, &ended, &began].map(String::as_str).join(" ")],
                ),
                "2-elsewhere" => {
                    ask(server, &["SET", &holder, &["elsewhere", &space, &ended, &began].join(" ")])
                }
                "3-expired" => ask(server, &["DEL", &holder]),
                _ => pid,
            };
        }
        ask(server, &["SADD", "memfold:runs", "*", "4-live?"]);
        ask(server, &["SET", "memfold:1-killed", "not a batch"]);
    }
    let tiers = [&alone[0], &cluster[0]].map(|server| open(&server.url));
    let keys = |servers: &[Redis], run: &str| -> usize {
        servers.iter().map(|server| server.keys(&format!("memfold:{run}:*")).len()).sum()
    };
    // Start both, so that their waiting times overlap.
    tiers.iter().for_each(|tier| tier.tend().unwrap());
    std::thread::sleep(Duration::from_secs(2));
    for (servers, tier) in [&alone[..], &cluster].into_iter().zip(&tiers) {
        tier.tend().unwrap();
        assert_eq!(keys(servers, "1-killed"), 301, "it may have been passed on");
    }
    for (servers, tier) in [&alone[..], &cluster].into_iter().zip(&tiers) {
        until("the end of their keys", || {
            tier.tend().unwrap();
            std::thread::sleep(Duration::from_millis(100));
            keys(servers, "1-killed") + keys(servers, "3-expired") == 0
        });
        (0..3).for_each(|_| tier.tend().unwrap());
        assert_eq!((keys(servers, "2-elsewhere"), keys(servers, "4-lives")), (301, 301));
        let mut runs: Vec<_> =
            ask(&servers[0], &["SMEMBERS", "memfold:runs"]).lines().map(str::to_owned).collect();
        runs.sort();
        assert_eq!(runs, ["*", "2-elsewhere", "4-live?", "4-lives"]);
        assert_eq!(ask(&servers[0], &["GET", "memfold:1-killed"]), "not a batch");
    }
}

/// It may execute a command even after the run.
#[test]
fn keys_that_a_server_sets_late_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Redis::start(directory.path(), &[]);
    let short = terms(None, Duration::from_millis(300));
    let tier = server.url.parse::<Target>().unwrap().open("test", short).unwrap();
    tier.put(1, b"batch").unwrap();
    server.stop_for_now(true);
    assert!(matches!(tier.put(2, b"batch"), Err(Trouble::Away(_))));
    server.stop_for_now(false);
    until("what it was told before", || server.keys("*").contains(&"memfold:test:2".to_owned()));
    tier.delete(&[1]).unwrap();
    drop(tier);
    assert_eq!(server.keys("*"), ["memfold:runs", "memfold:test:holder"], "the next one looks again");
}

#[test]
fn a_cluster_of_which_one_evicts_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let servers = cluster(directory.path());
    servers[2].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    let why = refusal(&format!("redis://127.0.0.1:{},127.0.0.1:{}", servers[0].port, servers[1].port));
    assert!(why.contains(&servers[2].port.to_string()) && why.contains("allkeys-lfu"), "{why}");
}
