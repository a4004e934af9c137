//! `--spill`: what is spilled comes back, through forks, execs and the end of the program that was started; and what becomes of it when a
//! tier is full, gone, or has forgotten.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "servers")]
mod servers;
#[cfg(feature = "servers")]
#[path = "../../../spill/tests/servers/started.rs"]
mod started;
mod table;

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(feature = "servers")]
use std::sync::RwLockReadGuard;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use common::{MEMFOLD, Medium, compile, finish, run_with, stats, until};
use table::Table;

const MIB: u64 = 1 << 20;

static ONE: RwLock<()> = RwLock::new(());

/// One at a time: they measure how much is resident or how long something takes, or load two CPUs.
fn alone() -> RwLockWriteGuard<'static, ()> {
    ONE.write().unwrap_or_else(PoisonError::into_inner)
}

/// For those that wait for most of their time.
#[cfg(feature = "servers")]
fn beside_others() -> RwLockReadGuard<'static, ()> {
    ONE.read().unwrap_or_else(PoisonError::into_inner)
}

/// A directory on a disk.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

const LIMIT: [&str; 2] = ["--limit", "64M"];

/// Spilled to a file beside the program.
fn on_file(at: &Path, options: &[&str], mib: &str, noise: &str) -> Option<Table> {
    Table::start(at, at.to_str().unwrap(), options, mib, noise)
}

/// The limit was held, and much was spilled and fetched.
fn check(at: &Path, limit: u64, spilled: u64) {
    let stats = stats(&at.join("stats.json"));
    assert!(number(&stats["peak_resident_bytes"]) < limit + limit / 20 + 8 * MIB, "{stats:#}");
    assert!(
        number(&stats["pages_spilled"]) * 4096 > spilled && number(&stats["pages_fetched"]) > 1000,
        "{stats:#}"
    );
    assert!(
        number(&stats["spill"]["bytes_put"]) > 0 && number(&stats["spill"]["troubles"]) == 0,
        "{stats:#}"
    );
}

/// The process is ended, with this word, and has never said that all was right.
#[track_caller]
#[cfg(feature = "servers")]
fn is_ended(table: Table, word: &str) {
    is_ended_with(table, &[word]);
}

/// As `is_ended`, with one of these words.
#[track_caller]
fn is_ended_with(mut table: Table, words: &[&str]) {
    table.tell("look");
    assert_eq!(table.answer(), None);
    let ended = table.end();
    let is_said = words.iter().any(|word| ended.err.contains(word));
    assert!(ended.status == 128 + 6 && is_said, "{}: {}", ended.status, ended.err);
}

/// The file that has no name, as its owner could open it. (Another one is for the statistics, and empty.)
fn file_of(table: &Table, at: &Path) -> File {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", table.child.id())).unwrap();
    let mut paths = fds.map(|fd| fd.unwrap().path());
    let is_it = |path: &PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|to| to.starts_with(at) && to.to_string_lossy().ends_with("(deleted)"))
            && std::fs::metadata(path).is_ok_and(|it| it.len() > 0)
    };
    let path = paths.find(is_it).expect("the supervisor has the file open");
    File::options().write(true).open(path).unwrap()
}

/// Whether files there can be read past the page cache.
fn has_direct(at: &Path) -> bool {
    let flags = nix::libc::O_TMPFILE | nix::libc::O_DIRECT;
    File::options().read(true).write(true).custom_flags(flags).open(at).is_ok()
}

/// Who forks or reads before somebody serves does it as if nothing were spilled: so the program waits for who serves, however late that is.
#[test]
fn no_program_begins_before_somebody_serves() {
    let _alone = alone();
    let at = directory();
    let target = at.path().to_str().unwrap();
    for _ in 0..10 {
        let mut supervisor =
            run_with(&["--quiet", "--limit", "64M", "--spill", target], &["--", "sleep", "60"])
                .spawn()
                .unwrap();
        let (pid, proc) = (Pid::from_raw(supervisor.id() as i32), format!("/proc/{}", supervisor.id()));
        let threads = || std::fs::read_dir(format!("{proc}/task")).unwrap().count();
        let child = || std::fs::read_to_string(format!("{proc}/task/{pid}/children")).unwrap();
        let has_tier = || {
            let mut fds = std::fs::read_dir(format!("{proc}/fd")).unwrap();
            fds.any(|fd| std::fs::read_link(fd.unwrap().path()).is_ok_and(|to| to.starts_with(at.path())))
        };
        // As soon as there is the process that the program can become, the supervisor gets no further. (Those before it try out something.)
        while !has_tier() || child().is_empty() {
            std::hint::spin_loop();
        }
        kill(pid, Signal::SIGSTOP).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        // Children that try something out come and go.
        let is_program = |child: &str| {
            std::fs::read_link(format!("/proc/{child}/exe"))
                .is_ok_and(|exe| exe != Path::new(common::MEMFOLD))
        };
        let has_begun = || child().split_whitespace().any(is_program);
        assert!(!has_begun() || threads() > 4, "{} threads", threads());
        kill(pid, Signal::SIGCONT).unwrap();
        until("the program begins", has_begun);
        assert!(threads() > 4, "{} threads", threads());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(!supervisor.wait().unwrap().success());
    }
}

/// The tier is in use by then.
#[test]
fn what_can_not_be_executed_leaves_nothing() {
    let _alone = alone();
    let at = directory();
    let script = at.path().join("script");
    std::fs::write(&script, "#!/there/is/no/such/shell\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = run_with(
        &["--limit", "64M", "--spill", at.path().to_str().unwrap(), "--", script.to_str().unwrap()],
        &[""; 0],
    );
    finish(command).is_refusal(127, &["script"]);
    assert_eq!(std::fs::read_dir(at.path()).unwrap().count(), 1);
}

#[test]
fn other_bytes_in_the_file_are_no_data() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "150", "64") else { return };
    table.asked("touch 100");
    let file = file_of(&table, at.path());
    let bytes = file.metadata().unwrap().len();
    let same = vec![0x55; 1 << 20];
    for begin in (0..bytes).step_by(same.len()) {
        file.write_all_at(&same[..same.len().min((bytes - begin) as usize)], begin).unwrap();
    }
    is_ended_with(table, &["returned other data"]);
}

#[test]
fn what_is_not_in_the_file_is_asked_for_and_lost() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "150", "64") else { return };
    table.asked("touch 100");
    file_of(&table, at.path()).set_len(0).unwrap();
    // What is written after that leaves a hole before it.
    is_ended_with(table, &["no longer has it", "returned other data"]);
}

/// What lies in a file the process reads by itself, with or without a supervisor.
#[test]
fn a_file_is_read_without_the_supervisor() {
    let _alone = alone();
    let at = directory();
    if !has_direct(at.path()) {
        return;
    }
    let Some(mut table) = on_file(at.path(), &LIMIT, "150", "64") else { return };
    table.asked("touch 100");
    table.child.kill().unwrap();
    // Not `wait`, which closes the program's input.
    until("the supervisor is gone", || table.child.try_wait().unwrap().is_some());
    table.asked("look");
}

#[test]
fn what_does_not_compress_goes_to_a_file_and_comes_back() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "200", "64") else { return };
    table.asked("look");
    table.asked("touch 20000");
    table.asked("free");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    check(at.path(), 64 * MIB, 100 * MIB);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["spill"]["batches_deleted"]) > 100, "{stats:#}");
    if has_direct(at.path()) {
        // The process has read what it needed by itself, all but what moved from sparse batches.
        let [all, direct] = ["reads", "direct_reads"].map(|name| number(&stats["spill"][name]));
        assert!(direct > 1000 && direct > all / 2, "{stats:#}");
    }
    let fetched = &stats["spill"]["fault_us"];
    assert!(fetched["p50"].as_f64() > Some(1.0) && fetched["p50"].as_f64() <= fetched["max"].as_f64());
    assert_eq!(
        std::fs::read_dir(at.path()).unwrap().count(),
        3,
        "the program, its source and the statistics"
    );
}

#[test]
fn what_compresses_too_little_does_so_too() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "48M", "--spill-unencrypted"];
    let Some(mut table) = on_file(at.path(), &options, "300", "20") else {
        return;
    };
    table.asked("touch 30000");
    // Threads that wait for something to fetch take on the program's identity at once.
    let begin = std::time::Instant::now();
    (0..5).for_each(|_| table.asked("identity"));
    assert!(begin.elapsed().as_millis() < 1000, "{:?}", begin.elapsed());
    table.asked("look");
    let ended = table.end();
    assert!(ended.status == 0 && !ended.err.contains("is late"), "{}: {}", ended.status, ended.err);
    check(at.path(), 48 * MIB, 50 * MIB);
}

/// Pages come back one by one from all over the tier, and leave for it again: what little is needed of a batch moves, or the tier would soon be full.
#[test]
fn sparse_batches_do_not_fill_the_tier() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "64M", "--spill-limit", "240M"];
    let Some(mut table) = on_file(at.path(), &options, "200", "64") else { return };
    table.asked("touch 40000");
    table.asked("look");
    let ended = table.end();
    assert!(ended.status == 0 && !ended.err.contains("is full"), "{}: {}", ended.status, ended.err);
    check(at.path(), 64 * MIB, 140 * MIB);
}

/// Of three neighbours one compresses well and stays: a sequence has gaps in its batches.
#[test]
fn sequences_with_gaps_come_back() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "250", "64/3") else { return };
    for _ in 0..2 {
        table.asked("look");
        table.asked("touch 10000");
    }
    assert_eq!(table.end().status, 0);
    let stats = stats(&at.path().join("stats.json"));
    let (fetched, reads) = (number(&stats["pages_fetched"]), number(&stats["spill"]["reads"]));
    assert!(fetched > reads * 3 / 2, "{stats:#}");
}

/// All memory is locked: what was spilled has to be there, and is not managed from then on.
#[test]
fn what_was_spilled_is_brought_back_before_the_runtime_stops() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    table.asked("lock");
    table.asked("look");
    // It deletes every half second, and what is deleted after the end is not in the statistics.
    std::thread::sleep(Duration::from_millis(1500));
    let ended = table.end();
    assert!(ended.status == 0 && ended.err.contains("is restored"), "{}: {}", ended.status, ended.err);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["pages_fetched"]) > 5_000, "{stats:#}");
    assert_eq!(stats["spill"]["batches_put"], stats["spill"]["batches_deleted"], "{stats:#}");
    // What has come back does not count twice. (Resident is more than the program's: all of memfold's memory is locked, too.)
    let [logical, resident] = ["peak_logical_bytes", "peak_resident_bytes"].map(|name| number(&stats[name]));
    assert!(logical < resident + 8 * MIB, "{stats:#}");
}

#[test]
fn children_have_what_their_parents_had() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    table.asked("fork 3");
    table.asked("free");
    table.asked("fork 2");
    table.asked("look");
    let ended = table.end();
    assert_eq!((ended.status, ended.err.contains("bug")), (0, false), "{}", ended.err);
}

/// What is set aside for a child that never says a word is for nobody when all of the run have ended.
#[test]
fn a_child_that_ends_in_its_fork_is_not_waited_for() {
    let _alone = alone();
    let at = directory();
    // What is preloaded besides begins first, so in the child its handler goes first.
    let library = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
static void end(void) { if (strcmp(program_invocation_short_name, "forks") == 0) kill(getpid(), SIGKILL); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(0, 0, end); }
"#;
    let program = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum { BYTES = 100 << 20 };
int main(void) {
    unsigned random = 1;
    unsigned char *noise = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) noise[i] = (random = random * 1664525 + 1013904223) >> 24;
    int status;
    pid_t child = fork();
    if (child == 0) _exit(0);
    return waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
}
"#;
    let Some(library) = compile(at.path(), "ends.so", library, &["-shared", "-fPIC"]) else { return };
    let Some(program) = compile(at.path(), "forks", program, &[]) else { return };
    let (target, json) = (at.path().to_str().unwrap(), at.path().join("stats.json"));
    let options = ["-q", "--limit", "30M", "--spill", target, "--stats", json.to_str().unwrap()];
    let mut command = run_with(&options, &["--", program.to_str().unwrap()]);
    command.env("LD_PRELOAD", library);
    let said = finish(command);
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(number(&stats(&json)["pages_spilled"]) > 5_000);
    let is_of_it = |process: std::io::Result<std::fs::DirEntry>| {
        let words = std::fs::read(process.unwrap().path().join("cmdline")).unwrap_or_default();
        words.windows(target.len()).any(|part| part == target.as_bytes())
    };
    until("nobody is left", || !std::fs::read_dir("/proc").unwrap().any(is_of_it));
}

#[test]
fn another_program_begins_with_nothing() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    table.asked("look");
    table.tell("exec");
    assert_eq!(table.answer().as_deref(), Some("filled"));
    table.asked("touch 5000");
    table.asked("look");
    assert_eq!(table.end().status, 0);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["spill"]["batches_deleted"]) > 50, "{stats:#}");
}

#[test]
fn what_goes_on_in_the_background_is_served() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    let file = at.path().join("said");
    table.tell(&format!("daemon {}", file.display()));
    assert_eq!(table.end().status, 0);
    common::until("the daemon's word", || std::fs::read(&file).is_ok_and(|text| !text.is_empty()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "right");
    // Nobody is left.
    let name = at.path().join("table").display().to_string();
    common::until("the end of who served it", || {
        let list = Command::new("pgrep").args(["-f", &name]).output().unwrap();
        list.stdout.is_empty()
    });
}

/// It has not spilled anything when the program ends, and is served all the same.
#[test]
fn what_spills_only_in_the_background_is_served() {
    let _alone = alone();
    let at = directory();
    if common::compile(at.path(), "table", table::TABLE, &["-pthread"]).is_none() {
        return;
    }
    let program = at.path().join("table").display().to_string();
    let script = format!(
        "(echo look | {program} 150 64 1 > {program}.said; echo $? >> {program}.said) > {program}.err 2>&1 & sleep 0.3"
    );
    let options = ["--limit", "64M", "--spill", at.path().to_str().unwrap(), "--"];
    let ended = finish(run_with(&options, &["sh", "-c", &script]));
    assert_eq!(ended.status, 0, "{}", ended.err);
    let said = || std::fs::read_to_string(format!("{program}.said")).unwrap_or_default();
    let spilled = || {
        let list = Command::new("pgrep").args(["-f", &format!("^{program} 150")]).output().unwrap();
        let pid = String::from_utf8_lossy(&list.stdout).trim().to_owned();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("").to_owned();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
    };
    let mut most = 0;
    common::until("the end in the background", || {
        most = most.max(spilled());
        said().lines().count() == 3
    });
    assert_eq!(said(), "filled\nright\n0\n");
    assert!(most > 20 << 10 && most < 110 << 10, "{most} KiB: of 150 MiB most had to be spilled");
}

/// There its number is that of another process, for which what it says would be taken.
#[test]
fn in_a_pid_namespace_of_its_own_nothing_is_spilled_and_all_is_there() {
    if !common::is_root() {
        return eprintln!("skipped: takes root");
    }
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    table.tell("alone");
    match table.answer().as_deref() {
        Some("right") => {}
        None => return eprintln!("skipped: {}", table.end().err),
        other => panic!("{other:?}: {}", table.end().err),
    }
    table.asked("look");
    let ended = table.end();
    assert!(ended.status == 0 && ended.err.contains("PID namespace"), "{}: {}", ended.status, ended.err);
    assert!(!ended.err.contains("bug"), "{}", ended.err);
    // What begins there knows it from the beginning.
    let program = at.path().join("table").display().to_string();
    let options = ["--limit", "64M", "--spill", at.path().to_str().unwrap(), "--"];
    let script = format!("echo look | {program} 30 64");
    let said = finish(run_with(&options, &["unshare", "--pid", "--fork", "sh", "-c", &script]));
    assert_eq!((said.status, said.out.as_str()), (0, "filled\nright\n"), "{}", said.err);
    assert!(said.err.contains("PID namespace"), "{}", said.err);
}

#[test]
fn a_full_tier_is_said_and_nothing_is_lost() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "64M", "--spill-limit", "30M"];
    let Some(mut table) = on_file(at.path(), &options, "150", "64") else {
        return;
    };
    table.asked("touch 5000");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("is full"), "{}", ended.err);
}

/// Pages that a supervisor's programs have touched in vain so far.
fn faults(supervisor: u32) -> u64 {
    let told = Command::new(MEMFOLD).args(["top", "--prometheus", &supervisor.to_string()]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let line = told.lines().find(|line| line.starts_with("memfold_tree_faults_total{")).expect(&told);
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn everything_is_spilled_all_the_time() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "1G", "--paranoid"];
    let Some(mut table) = on_file(at.path(), &options, "30", "32") else {
        return;
    };
    // Where other programs keep the CPUs busy little is taken away in time: until enough has come back.
    let begin = Instant::now();
    while faults(table.child.id()) < 20_000 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{} faults", faults(table.child.id()));
        table.asked("touch 5000");
    }
    table.asked("fork 2");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["pages_spilled"]) > 10_000 && number(&stats["pages_fetched"]) > 5_000, "{stats:#}");
}

/// A loop device is one; it ends with this.
struct Loop(String);

impl Loop {
    fn of(file: &Path, options: &[&str]) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output();
        let made = made.ok().filter(|made| made.status.success())?;
        Some(Loop(String::from_utf8_lossy(&made.stdout).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_is_spilled_to_unless_it_takes_nothing() {
    let _alone = alone();
    let at = directory();
    let file = at.path().join("medium");
    File::create(&file).and_then(|file| file.set_len(200 << 20)).unwrap();
    let [Some(device), Some(read_only)] = [&[][..], &["--read-only"]].map(|options| Loop::of(&file, options))
    else {
        return eprintln!("skipped: takes root, and loop devices");
    };
    let options = ["--limit", "64M", "--spill", &read_only.0];
    finish(run_with(&options, &["--", "true"])).is_refusal(125, &[&read_only.0, "read-only"]);
    let Some(mut table) = Table::start(at.path(), &device.0, &LIMIT, "150", "64") else { return };
    table.asked("touch 5000");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    check(at.path(), 64 * MIB, 60 * MIB);
}

/// Programs wait for an answer when they begin: they must not if nobody can give one.
#[test]
fn where_no_threads_may_be_started_the_program_runs_without_spilling() {
    if !common::is_root() {
        return eprintln!("skipped: takes root");
    }
    let at = directory();
    std::os::unix::fs::chown(at.path(), Some(65534), Some(65534)).unwrap();
    let mut command = Command::new("timeout");
    // Of threads there may be fewer than serve. Root's are not counted. The capability (CAP_SYS_PTRACE) is for userfaultfd.
    command.args(["20", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=+sys_ptrace", "--ambient-caps=+sys_ptrace"]);
    command.args(["prlimit", "--nproc=6", common::MEMFOLD, "run", "--limit", "64M", "--spill"]);
    command.arg(at.path()).args(["--", "echo", "here"]);
    let said = finish(command);
    assert_eq!((said.status, said.out.as_str()), (0, "here\n"), "{}", said.err);
    assert!(said.err.contains("nothing is spilled"), "{}", said.err);
}

#[test]
fn what_can_not_be_spilled_to_is_refused() {
    let refused = |options: &[&str], words: &[&str]| {
        let mut all = vec!["--limit", "64M"];
        all.extend(options);
        finish(run_with(&all, &["--", "true"])).is_refusal(125, words);
    };
    refused(&["--spill", ""], &["--spill", "the target is empty"]);
    refused(&["--spill", "/nowhere/at/all"], &["/nowhere/at"]);
    refused(&["--spill", "file://"], &["--spill", "the target is empty"]);
    refused(&["--spill", "/dev/shm"], &["memory"]);
    let at = directory();
    let link = at.path().join("link");
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    refused(&["--spill", link.to_str().unwrap()], &["dangling symbolic link"]);
    refused(&["--spill", "http://h"], &["no tier for http"]);
    refused(&["--spill", "redis://127.0.0.1:1"], &["127.0.0.1:1"]);
    refused(&["--spill", ".", "--spill-limit", "50%"], &["--spill-limit", "20G"]);
    for patience in ["-1", "0"] {
        refused(&["--spill", ".", "--spill-patience", patience], &["--spill-patience"]);
    }
    refused(&["--spill-limit", "1G"], &["--spill TARGET"]);
}

/// What the tier can't take now it takes in a second: who wants more memory waits for that.
#[test]
fn a_tier_that_stops_again_and_again_lets_the_limit_be_held() {
    let _alone = alone();
    let at = directory();
    let Some(medium) = Medium::new(at.path(), 600 << 20) else { return };
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                assert!(medium.freeze());
                std::thread::sleep(Duration::from_millis(1300));
                assert!(medium.thaw());
            }
        });
        let table = Table::start(at.path(), medium.path.to_str().unwrap(), &LIMIT, "160", "64");
        let ended = table.map(|mut table| {
            table.asked("touch 500");
            table.end()
        });
        is_over.store(true, Relaxed);
        ended
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.status, 0, "{}", ended.err);
    let stats = stats(&at.path().join("stats.json"));
    let peak = number(&stats["peak_resident_bytes"]);
    assert!(peak < 64 * MIB + 64 * MIB / 20 + 8 * MIB, "{}\n{stats:#}", ended.err);
    assert!(number(&stats["pages_spilled"]) > 20_000, "{}\n{stats:#}", ended.err);
}
