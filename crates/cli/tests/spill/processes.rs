//! Processes of a tree that spills: they start, fork, exec, and outlive the program.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::table::TABLE;
use super::{LIMIT, alone, directory, number, on_file};
use crate::common::{MEMFOLD, compile, finish, is_root, run_with, stats, until};

/// If a process ran before the supervisor serves requests, its forks and reads would proceed as if nothing
/// were spilled. So the program does not start until the supervisor serves, however late that is.
#[test]
fn the_program_does_not_start_before_the_supervisor_serves() {
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
        // Stop the supervisor as soon as there is a child that may become the program. (Earlier children only
        // run trials.)
        while !has_tier() || child().is_empty() {
            std::hint::spin_loop();
        }
        kill(pid, Signal::SIGSTOP).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        // Children that run trials come and go.
        let is_program = |child: &str| {
            std::fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|exe| exe != Path::new(MEMFOLD))
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

/// The tier is already open when the exec fails.
#[test]
fn a_failed_exec_leaves_nothing() {
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

/// Once all processes have ended, the supervisor does not wait for a child that never claims its batches.
#[test]
fn a_child_that_ends_in_its_fork_is_not_waited_for() {
    let _alone = alone();
    let at = directory();
    // The other preloaded library is initialised first, so its fork handler runs first in the child.
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
    until("the end of all processes of the run", || !std::fs::read_dir("/proc").unwrap().any(is_of_it));
}

#[test]
fn an_executed_program_begins_without_spilled_pages() {
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
fn a_process_in_the_background_is_served() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    let file = at.path().join("said");
    table.tell(&format!("daemon {}", file.display()));
    assert_eq!(table.end().status, 0);
    until("the daemon's word", || std::fs::read(&file).is_ok_and(|text| !text.is_empty()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "right");
    // The process that serves the spilled data ends, too.
    let name = at.path().join("table").display().to_string();
    until("the end of the process that served it", || {
        let list = Command::new("pgrep").args(["-f", &name]).output().unwrap();
        list.stdout.is_empty()
    });
}

/// How many of the trees that `memfold top` lists have these words in their command line.
fn trees_of(words: &str) -> usize {
    let mut command = Command::new(crate::common::MEMFOLD);
    command.args(["top", "--json", "--count", "1", "--interval", "0.1"]);
    let look: serde_json::Value = serde_json::from_str(&finish(command).out).unwrap();
    let trees = look["trees"].as_array().unwrap().iter();
    trees.filter(|tree| tree["command"].as_str().unwrap().contains(words)).count()
}

/// A background process is served even if it has not spilled anything when the program ends, or starts only
/// after that.
#[test]
fn a_process_that_spills_only_in_the_background_is_served() {
    let _alone = alone();
    let at = directory();
    if compile(at.path(), "table", TABLE, &["-pthread"]).is_none() {
        return;
    }
    let program = at.path().join("table").display().to_string();
    let resident = || {
        let list = Command::new("pgrep").args(["-f", &format!("^{program} 150")]).output().unwrap();
        let pid = String::from_utf8_lossy(&list.stdout).trim().to_owned();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("").to_owned();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
    };
    for (number, before) in ["", "sleep 1; "].into_iter().enumerate() {
        // The processes that serve the first tree may outlive it by some seconds.
        let name = format!("{program}.tree{number}");
        let _ = std::fs::remove_file(format!("{program}.said"));
        let script = format!(
            ": {name}; ({before}echo look | {program} 150 64 1 > {program}.said; echo $? >> {program}.said) > {program}.err 2>&1 & sleep 0.3"
        );
        let options = ["--limit", "64M", "--spill", at.path().to_str().unwrap(), "--"];
        let ended = finish(run_with(&options, &["sh", "-c", &script]));
        assert_eq!(ended.status, 0, "{}", ended.err);
        let said = || std::fs::read_to_string(format!("{program}.said")).unwrap_or_default();
        let (mut most, mut trees) = (0, 0);
        until("the end in the background", || {
            most = most.max(resident());
            trees = trees.max(trees_of(&name));
            said().lines().count() == 3
        });
        assert_eq!(trees, 1, "two processes may serve the tree, but it must be listed once");
        assert_eq!(said(), "filled\nright\n0\n", "{before}");
        assert!(most > 20 << 10 && most < 110 << 10, "{before}{most} KiB: most of 150 MiB should be spilled");
    }
}

/// In its own PID namespace, a process may have the PID of another process, and its requests would be
/// attributed to that one.
#[test]
fn a_process_in_its_own_pid_namespace_does_not_spill_and_loses_nothing() {
    if !is_root() {
        return eprintln!("skipped: needs root");
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
    // A program that starts in such a namespace knows this from the start.
    let program = at.path().join("table").display().to_string();
    let options = ["--limit", "64M", "--spill", at.path().to_str().unwrap(), "--"];
    let script = format!("echo look | {program} 30 64");
    let said = finish(run_with(&options, &["unshare", "--pid", "--fork", "sh", "-c", &script]));
    assert_eq!((said.status, said.out.as_str()), (0, "filled\nright\n"), "{}", said.err);
    assert!(said.err.contains("PID namespace"), "{}", said.err);
}
