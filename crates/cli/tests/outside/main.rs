//! Processes without a thread of memfold: they are watched from outside, and get a keeper in time.

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{MEMFOLD, Said, compile, finish, run_with, stats, until};

fn grow(here: &tempfile::TempDir) -> Option<PathBuf> {
    compile(here.path(), "grow", include_str!("grow.c"), &["-pthread"])
}

/// A limit plus its tolerance: 5 % and 8 MiB.
fn most(limit_mib: u64) -> u64 {
    (limit_mib << 20) + (limit_mib << 20) / 20 + (8 << 20)
}

/// Runs a program at this limit. Checks that each process is right and had `threads` threads before it grew,
/// and that the limit was held.
fn holds(limit_mib: u64, words: &[&str]) {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = grow(&here) else { return };
    let json = here.path().join("s.json");
    let limit = format!("{limit_mib}M");
    let options = ["-q", "--limit", &limit, "--stats", json.to_str().unwrap(), "--"];
    let all: Vec<&str> = std::iter::once(program.to_str().unwrap()).chain(words.iter().copied()).collect();
    let said = finish(run_with(&options, &all));
    assert_eq!(said.status, 0, "{words:?}: {}{}", said.out, said.err);
    for line in said.out.lines() {
        assert_eq!(line, "threads 1, wrong 0, signals 0", "{words:?}");
    }
    let stats = stats(&json);
    let peak = stats["peak_resident_bytes"].as_u64().unwrap();
    assert!(peak <= most(limit_mib), "{words:?} in {limit_mib} MiB: {} MiB", peak >> 20);
    assert!(stats["pages_compressed"].as_u64().unwrap() > 0, "{words:?}: {stats}");
}

#[test]
fn a_process_far_from_its_limit_has_no_thread_of_memfold() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "tasks", include_str!("tasks.c"), &[]) else { return };
    let plain = finish(Command::new(&program).into_quiet());
    let said = finish(run_with(&["-q", "--limit", "2G", "--"], &[&program]));
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    assert_eq!(said.out, plain.out);
    assert!(said.out.lines().filter(|line| !line.starts_with("unshare")).all(|line| line.ends_with(" 1 1")));
}

trait Quiet {
    fn into_quiet(self) -> Self;
}

impl Quiet for Command {
    fn into_quiet(mut self) -> Self {
        self.stdin(Stdio::null());
        self
    }
}

#[test]
fn growth_by_touching_alone_stays_below_the_limit() {
    holds(170, &["250"]);
    holds(300, &["400"]);
}

#[test]
fn growth_by_touching_huge_pages_is_held() {
    holds(200, &["300", "huge"]);
}

#[test]
fn growth_of_several_threads_is_held() {
    holds(200, &["300", "threads=3"]);
}

#[test]
fn growth_of_several_processes_is_held() {
    holds(200, &["100", "processes=3"]);
}

#[test]
fn growth_beneath_blocked_signals_is_held() {
    holds(170, &["250", "blocked"]);
}

#[test]
fn growth_of_a_program_that_handles_all_signals_is_held_and_it_gets_none() {
    holds(170, &["250", "handlers"]);
}

/// 300 subshells near the limit. The extra cost of each is measured in CPU time, so that other load does not
/// matter.
#[test]
fn a_child_that_uses_next_to_nothing_costs_little_near_the_limit() {
    const SCRIPT: &str = "i=0; while [ $i -lt 300 ]; do x=$(echo $i); i=$((i+1)); done; times";
    let plain = cpu_of(&finish(command_of("bash", SCRIPT)));
    let near = cpu_of(&finish(run_with(&["-q", "--limit", "24M", "--"], &["bash", "-c", SCRIPT])));
    let each = near.saturating_sub(plain) / 300;
    assert!(
        each < Duration::from_millis(2),
        "{each:?} each; plainly {plain:?} in all, {near:?} near the limit"
    );
}

fn command_of(shell: &str, script: &str) -> Command {
    let mut command = Command::new(shell);
    command.args(["-c", script]).stdin(Stdio::null());
    command
}

/// The sum of the four times, like `0m0.052s`, that bash's `times` prints.
fn cpu_of(said: &Said) -> Duration {
    assert_eq!(said.status, 0, "{}", said.err);
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    Duration::from_secs_f64(said.out.split_whitespace().map(seconds).sum())
}

/// A process that is left of a tree when its supervisor ends watches itself.
#[test]
fn a_process_that_outlives_the_supervisor_gets_its_keeper() {
    let here = tempfile::tempdir().unwrap();
    let pid = here.path().join("pid");
    let script = format!("sleep 30 > /dev/null 2>&1 & echo $! > {}", pid.display());
    let said = finish(run_with(&["-q", "--limit", "1G", "--"], &["sh", "-c", &script]));
    assert_eq!(said.status, 0, "{}", said.err);
    let pid = std::fs::read_to_string(&pid).unwrap();
    let tasks = format!("/proc/{}/task", pid.trim());
    let threads = || std::fs::read_dir(&tasks).map_or(0, |tasks| tasks.count());
    until("the keeper", || threads() == 2);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid.trim().parse().unwrap()),
        nix::sys::signal::SIGKILL,
    )
    .unwrap();
}

/// A supervisor that was killed notifies no process. The next large request notices that it is gone.
#[test]
fn growth_is_held_although_the_supervisor_was_killed() {
    let here = tempfile::tempdir().unwrap();
    let Some(python) = common::python() else { return };
    const PROGRAM: &str = "\
import os, sys
print('ready', os.getpid(), flush=True)
sys.stdin.readline()
page = b'the quick brown fox jumps over the lazy dog; ' * 91
blocks = [bytearray(b''.join(page[:4000] + b'%096d' % (i * 256 + j) for j in range(256))) for i in range(200)]
anonymous = [line for line in open('/proc/self/status') if line.startswith('RssAnon')]
print(int(anonymous[0].split()[1]) >> 10, all(block[:9] == b'the quick' for block in blocks), flush=True)
";
    let mut child = Command::new(MEMFOLD)
        .args(["run", "-q", "--limit", "100M", "--", python, "-c", PROGRAM])
        .current_dir(here.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::{BufRead, BufReader, Write};
    let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    let program = line.trim().strip_prefix("ready ").unwrap().to_owned();
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let said = Command::new(MEMFOLD).args(["limit", &program]).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("whose supervisor has ended"), "{said:?}");
    to.write_all(b"\n").unwrap();
    line.clear();
    from.read_line(&mut line).unwrap();
    let (mib, right) = line.trim().split_once(' ').unwrap();
    assert_eq!(right, "True");
    assert!(mib.parse::<u64>().unwrap() <= most(100) >> 20, "{mib} MiB");
}

/// Counts threads while the tree is near its limit: small processes have none of memfold's.
#[test]
fn small_processes_near_the_limit_have_no_thread_of_memfold() {
    let here = tempfile::tempdir().unwrap();
    let go = here.path().join("go");
    let script = "i=0; while [ $i -lt 20 ]; do sleep 4 & i=$((i+1)); done; echo $! > go; wait";
    let mut child = Command::new(MEMFOLD)
        .args(["run", "-q", "--limit", "40M", "--", "sh", "-c", script])
        .current_dir(here.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until("the last child", || std::fs::read_to_string(&go).is_ok_and(|text| text.ends_with('\n')));
    let begin = Instant::now();
    let last = std::fs::read_to_string(&go).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", last.trim())).unwrap().count();
    assert_eq!(tasks, 1, "{:?}", begin.elapsed());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::SIGTERM).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_that_is_far_from_its_limit_again_gives_its_threads_back() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "cycles", include_str!("cycles.c"), &[]) else { return };
    let said = finish(run_with(&["-q", "--limit", "200M", "--"], &[program.to_str().unwrap(), "260", "2"]));
    let round = "during several, after 1, wrong 0, child 0\n";
    assert_eq!((said.status, said.out.as_str(), said.err.as_str()), (0, [round; 2].concat().as_str(), ""));
}
