//! Real servers, which are killed during the run.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::unistd::Pid;

use super::common::{finish, run_with, stats};
use super::started::{Nbdkit, Redis, cluster};
use super::table::Table;
use super::{LIMIT, MIB, alone, beside_others, check, directory, is_ended, number, on_file};

/// The export is a file, so a restarted server still has all data.
fn lasting(at: &Path) -> Nbdkit {
    let export = at.join("export");
    std::fs::File::create(&export).unwrap().set_len(1 << 30).unwrap();
    Nbdkit::start(at, &["file", export.to_str().unwrap()])
}

#[test]
fn faults_wait_for_an_nbd_server_that_restarts() {
    let _beside = beside_others();
    let at = directory();
    let mut server = lasting(at.path());
    let Some(mut table) = Table::start(at.path(), &server.uri, &LIMIT, "120", "64") else { return };
    table.asked("look");
    server.kill();
    table.tell("touch 5000");
    // By now memfold has tried twice, and will not try a third time while the program lives. The reading
    // thread notices that the server is back.
    std::thread::sleep(Duration::from_millis(2300));
    server.restart();
    assert_eq!(table.answer().as_deref(), Some("right"));
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("does not answer") && ended.err.contains("again"), "{}", ended.err);
}

/// All processes are stopped, as by Ctrl-Z.
#[test]
fn a_stopped_job_does_not_wait() {
    goes_on_when_it_was_stopped(|all| all);
}

/// Only the program is stopped, as by a debugger.
#[test]
fn a_stopped_program_does_not_wait() {
    goes_on_when_it_was_stopped(|all| &all[1..]);
}

/// The program waits for a tier. Some of its processes are stopped until its patience would have ended, and
/// the tier comes back soon after they continue.
fn goes_on_when_it_was_stopped(some: fn(&[Pid]) -> &[Pid]) {
    let _beside = beside_others();
    let at = directory();
    let mut server = lasting(at.path());
    let options = ["--limit", "64M", "--spill-patience", "10"];
    let Some(mut table) = Table::start(at.path(), &server.uri, &options, "120", "64") else { return };
    server.kill();
    table.tell("touch 100");
    std::thread::sleep(Duration::from_secs(2));
    let all = table.processes();
    let send = |signal| some(&all).iter().for_each(|pid| kill(*pid, signal).unwrap());
    send(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(10));
    send(Signal::SIGCONT);
    std::thread::sleep(Duration::from_secs(1));
    server.restart();
    assert_eq!(table.answer().as_deref(), Some("right"));
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
}

/// The export has the claim of a run on another machine. memfold waits for half a minute to see whether that
/// run renews it, and does not start the program before.
#[test]
fn a_run_that_waits_for_an_export_can_be_ended() {
    let at = directory();
    let server = lasting(at.path());
    let mut claim = [0; 4096];
    let text = b"memfold spills here\nrun far\n7\nelsewhere 1 2 3\n";
    claim[..text.len()].copy_from_slice(text);
    let export = std::fs::File::options().write(true).open(at.path().join("export")).unwrap();
    export.write_all_at(&claim, 0).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let words = ["--limit", "64M", "--spill", &server.uri];
        let mut command = run_with(&words, &["--", "echo", "begun"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Shells start background jobs with SIGINT ignored.
        let default = move || {
            // SAFETY: installs no handler.
            unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
            Ok(())
        };
        // SAFETY: makes one system call between fork and exec.
        unsafe { command.pre_exec(default) };
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        assert!(first.contains("30 seconds"), "{first}");
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let begin = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!((output.status.signal(), &output.stdout[..]), (Some(signal as i32), &b""[..]));
    }
}

#[test]
fn an_nbd_server_holds_what_does_not_fit() {
    let _alone = alone();
    let at = directory();
    let server = Nbdkit::start(at.path(), &["memory", "1G"]);
    let Some(mut table) = Table::start(at.path(), &server.uri, &LIMIT, "120", "64") else { return };
    table.asked("touch 5000");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    check(at.path(), 64 * MIB, 50 * MIB);
}

/// While a thread waits for a page from a server that does not answer, another thread forks.
#[test]
fn a_fork_waits_for_no_server() {
    let _beside = beside_others();
    let at = directory();
    let server = Nbdkit::start(at.path(), &["memory", "1G"]);
    let Some(mut table) = Table::start(at.path(), &server.uri, &LIMIT, "120", "64") else { return };
    table.asked("touch 100");
    server.stop_for_now(true);
    (0..2).for_each(|_| table.asked("apart"));
    server.stop_for_now(false);
    table.asked("look");
    table.asked("fork 2");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
}

/// Stopped processes do not take their answers, and would soon occupy all request slots.
#[test]
fn processes_that_are_stopped_hold_up_no_other() {
    let _beside = beside_others();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &["--limit", "64M", "--spill-patience", "10"], "60", "64")
    else {
        return;
    };
    // Each process is stopped while several of its threads read all memory.
    table.asked("stopped 6");
    (0..3).for_each(|_| table.asked("touch 2000"));
    table.asked("forks 3");
    table.asked("resumed");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
}

#[test]
fn zeros_of_a_server_that_lost_its_data_are_not_data() {
    let _beside = beside_others();
    let at = directory();
    let mut server = Nbdkit::start(at.path(), &["memory", "1G"]);
    let Some(mut table) = Table::start(at.path(), &server.uri, &LIMIT, "120", "64") else { return };
    table.asked("touch 100");
    server.kill();
    server.restart();
    is_ended(table, "returned other data");
}

#[test]
fn patience_ends_with_the_process() {
    let _beside = beside_others();
    let at = directory();
    let mut server = Nbdkit::start(at.path(), &["memory", "1G"]);
    let options = ["--limit", "64M", "--spill-patience", "1"];
    let Some(mut table) = Table::start(at.path(), &server.uri, &options, "120", "64") else { return };
    table.asked("touch 100");
    server.kill();
    is_ended(table, "--spill-patience");
}

#[test]
fn a_program_with_nothing_spilled_goes_on_without_the_server() {
    let _alone = alone();
    let at = directory();
    let mut server = Nbdkit::start(at.path(), &["memory", "1G"]);
    // Compressed, all data fit into the limit, so nothing is spilled.
    let Some(mut table) = Table::start(at.path(), &server.uri, &["--limit", "100M"], "200", "2") else {
        return;
    };
    server.kill();
    table.asked("touch 1000");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert_eq!(number(&stats(&at.path().join("stats.json"))["pages_spilled"]), 0);
}

#[test]
fn redis_holds_what_does_not_fit_and_no_key_is_left() {
    let _alone = alone();
    let at = directory();
    let server = Redis::start(at.path(), &[]);
    let Some(mut table) = Table::start(at.path(), &server.url, &LIMIT, "120", "64") else { return };
    table.asked("fork 1");
    table.asked("touch 5000");
    table.asked("look");
    let keys = || server.cli(&["DBSIZE"]).trim().to_owned();
    assert_ne!(keys(), "0");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["pages_spilled"]) > 10_000 && number(&stats["pages_fetched"]) > 5_000, "{stats:#}");
    assert_eq!(keys(), "0");
}

#[test]
fn a_cluster_holds_what_does_not_fit_and_no_key_is_left() {
    let _alone = alone();
    let at = directory();
    let servers = cluster(at.path());
    let Some(mut table) = Table::start(at.path(), &servers[2].url, &LIMIT, "120", "64") else { return };
    table.asked("touch 5000");
    let keys = || servers.iter().map(|server| server.cli(&["DBSIZE"]).trim().parse().unwrap());
    assert!(keys().all(|count: u32| count > 20));
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    check(at.path(), 64 * MIB, 50 * MIB);
    assert_eq!(keys().sum::<u32>(), 0);
}

/// The run ends although its data on the server cannot be deleted, and names the data.
#[test]
fn a_server_that_is_stopped_holds_up_no_end() {
    let _beside = beside_others();
    let at = directory();
    let (redis, nbd) = (Redis::start(at.path(), &[]), Nbdkit::start(at.path(), &["memory", "1G"]));
    let start = |target| Table::start(at.path(), target, &LIMIT, "120", "64");
    let (Some(on_redis), Some(on_nbd)) = (start(&redis.url), start(&nbd.uri)) else { return };
    redis.stop_for_now(true);
    nbd.stop_for_now(true);
    let begin = Instant::now();
    let ends = std::thread::spawn(|| on_nbd.end());
    let ended = on_redis.end();
    assert_eq!(ends.join().unwrap().status, 0);
    assert!(ended.status == 0 && begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    redis.stop_for_now(false);
    let (_, pattern) = ended.err.split_once("could not be deleted: keys ").expect(&ended.err);
    // The server may execute requests late. The run's remaining data are those that were named.
    let keys = redis.keys(pattern.lines().next().unwrap());
    assert_eq!(keys.len(), redis.keys("memfold:*:*").len(), "{}: {keys:?}", ended.err);
}

/// The server may execute unanswered requests late, so the run's name must stay on it. The name must belong
/// to a process that has ended, so that the next run knows that this run is over.
#[test]
fn a_redis_that_was_stopped_keeps_the_name_of_the_run() {
    let _beside = beside_others();
    let at = directory();
    let redis = Redis::start(at.path(), &[]);
    let Some(mut table) = Table::start(at.path(), &redis.url, &["--limit", "24M"], "80", "64") else {
        return;
    };
    table.tell("touch 60000");
    std::thread::sleep(Duration::from_millis(1000));
    redis.stop_for_now(true);
    std::thread::sleep(Duration::from_secs(7));
    redis.stop_for_now(false);
    assert_eq!(table.answer().as_deref(), Some("right"));
    let ended = table.end();
    assert!(ended.status == 0 && ended.err.contains("does not answer"), "{}", ended.err);
    let holders = redis.keys("memfold:*:holder");
    if holders.is_empty() {
        eprintln!("nothing tested: no batch was on its way when the server stopped");
    }
    for holder in holders {
        let held = redis.cli(&["GET", &holder]);
        assert_ne!(held.trim(), "", "{holder} of {:?}", redis.keys("*"));
    }
}

#[test]
fn a_redis_that_was_started_again_has_forgotten() {
    let _beside = beside_others();
    let at = directory();
    let mut server = Redis::start(at.path(), &[]);
    let Some(mut table) = Table::start(at.path(), &server.url, &LIMIT, "120", "64") else { return };
    table.asked("touch 100");
    server.kill();
    server.restart();
    is_ended(table, "no longer has it");
}

#[test]
fn a_redis_that_evicts_is_refused() {
    let at = directory();
    let server = Redis::start(at.path(), &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    finish(run_with(&["--limit", "64M", "--spill", &server.url], &["--", "true"]))
        .is_refusal(125, &["noeviction"]);
}

/// If nobody reads from the terminal, only the messages about a server are delayed.
#[test]
fn unread_messages_delay_nothing_else() {
    let _beside = beside_others();
    let at = directory();
    let mut server = lasting(at.path());
    let (reader, writer) = std::io::pipe().unwrap();
    let words = writer.try_clone().unwrap();
    let Some(mut table) = Table::start_with(at.path(), &server.uri, &LIMIT, "120", "64", words) else {
        return;
    };
    // Fill the pipe, so that every write to it blocks.
    let set = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    set(OFlag::O_NONBLOCK);
    while (&writer).write(&[b'.'; 4096]).is_ok() {}
    set(OFlag::empty());
    server.kill();
    table.tell("touch 3000");
    std::thread::sleep(Duration::from_millis(1500));
    server.restart();
    assert_eq!(table.answer().as_deref(), Some("right"));
    table.asked("look");
    table.child.kill().unwrap();
    drop((reader, writer));
}

/// Without the supervisor, no process can fetch from a server, so the program is terminated instead of
/// waiting forever.
#[test]
fn the_supervisors_end_is_noticed() {
    let _beside = beside_others();
    let at = directory();
    let server = Nbdkit::start(at.path(), &["memory", "1G"]);
    let Some(mut table) = Table::start(at.path(), &server.uri, &LIMIT, "120", "64") else {
        return;
    };
    table.asked("touch 100");
    table.child.kill().unwrap();
    table.tell("look");
    assert_eq!(table.answer(), None);
}

/// Forks, which must be reported, do not each wait for the missing supervisor.
#[test]
fn requests_do_not_wait_for_a_dead_supervisor() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "120", "64") else { return };
    table.child.kill().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let begin = Instant::now();
    table.asked("forks 20");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}
