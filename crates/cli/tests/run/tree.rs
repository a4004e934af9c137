//! The supervisor's view of a tree of processes.

use std::process::Command;

use crate::common::{compile, finish, run_with, stats};

/// Allocates `argv[1]` MiB, writes to every page, forks `argv[2]` children, and all of them wait.
const FORKS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
int main(int argc, char **argv) {
    size_t size = (size_t)atoi(argv[1]) << 20;
    int children = atoi(argv[2]), writes = argc > 3;
    char *memory = malloc(size);
    for (size_t i = 0; i < size; i += 4096) memory[i] = (char)i;
    for (int i = 0; i < children; i++)
        if (fork() == 0) {
            if (writes) memset(memory, i, size);
            usleep(2500000);
            _exit(memory[size / 2] == 77);
        }
    while (wait(NULL) > 0) {}
    return 0;
}
"#;

fn peak(words: &[&str]) -> (u64, serde_json::Value) {
    let here = tempfile::tempdir().unwrap();
    let json = here.path().join("s.json");
    let options = ["-q", "--limit", "2G", "--stats", json.to_str().unwrap(), "--"];
    let said = finish(run_with(&options, words));
    assert_eq!(said.status, 0, "{}", said.err);
    let stats = stats(&json);
    (stats["peak_resident_bytes"].as_u64().unwrap(), stats)
}

#[test]
fn pages_shared_by_fork_count_once() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "forks", FORKS, &[]) else { return };
    let (bytes, stats) = peak(&[program.to_str().unwrap(), "80", "4"]);
    assert!((80 << 20..100 << 20).contains(&bytes), "{stats}");
    assert_eq!(stats["processes"], 5, "{stats}");
    assert_eq!(stats["peak_resident_source"], "page tables", "{stats}");
}

#[test]
fn pages_that_were_copied_after_fork_count_each() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "forks", FORKS, &[]) else { return };
    let (bytes, stats) = peak(&[program.to_str().unwrap(), "60", "2", "write"]);
    assert!((180 << 20..215 << 20).contains(&bytes), "{stats}");
}

#[test]
fn a_static_member_is_counted_and_named_once() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "fixed", FORKS, &["-static"]) else { return };
    let json = here.path().join("s.json");
    let options = ["--limit", "1G", "--stats", json.to_str().unwrap(), "--", "sh", "-c"];
    let script = format!("{} 50 1; true", program.display());
    let said = finish(run_with(&options, &[&script]));
    assert_eq!(said.status, 0);
    let named: Vec<&str> = said.err.lines().filter(|line| line.contains("cannot be managed")).collect();
    assert!(!named.is_empty() && named.len() <= 2, "{}", said.err);
    assert!(named[0].contains("'fixed'") && named[0].contains("statically linked"), "{}", said.err);
    let stats = stats(&json);
    let bytes = stats["peak_resident_bytes"].as_u64().unwrap();
    assert!((50 << 20..70 << 20).contains(&bytes), "{stats}");
    assert!(stats["processes_unmanaged"].as_u64().unwrap() >= 1, "{stats}");
}

/// A managed process that executes a static program keeps its id.
#[test]
fn a_member_that_becomes_static_is_not_taken_for_managed() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "fixed", FORKS, &["-static"]) else { return };
    let script = format!("exec {} 40 1", program.display());
    let (bytes, stats) = peak(&["sh", "-c", &script]);
    assert!((40 << 20..60 << 20).contains(&bytes), "{stats}");
    assert!(stats["processes_unmanaged"].as_u64().unwrap() >= 1, "{stats}");
}

#[test]
fn a_member_of_another_user_that_cannot_be_reached_is_named_so() {
    if !crate::common::is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    // Abstract sockets belong to a network namespace, so a process in a new one cannot reach the page server.
    if !Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no network namespace can be made here");
        return;
    }
    let script = "exec unshare --net setpriv --reuid 65534 --clear-groups sleep 3";
    let said = finish(run_with(&["--limit", "1G", "--"], &["sh", "-c", script]));
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(said.err.contains("cannot be managed (runs as another user, and"), "{}", said.err);
}

/// Between vfork and exec a child shares its parent's memory.
#[test]
fn a_child_of_vfork_counts_nothing() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    size_t size = 60 << 20;
    char *memory = malloc(size);
    for (size_t i = 0; i < size; i += 4096) memory[i] = (char)i;
    if (vfork() == 0) { usleep(2500000); _exit(0); }
    return 0;
}
"#;
    let Some(program) = compile(here.path(), "vforks", source, &[]) else { return };
    let (bytes, stats) = peak(&[program.to_str().unwrap()]);
    assert!((60 << 20..75 << 20).contains(&bytes), "{stats}");
    assert_eq!(stats["processes_unmanaged"], 0, "{stats}");
}

/// Runs on request only, because it makes a cgroup on the machine.
#[test]
fn a_cgroup_measures_the_same() {
    if std::env::var_os("MEMFOLD_TEST_CGROUP").is_none() {
        eprintln!("skipped: set MEMFOLD_TEST_CGROUP=1 to let a cgroup be made");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "forks", FORKS, &[]) else { return };
    let json = here.path().join("s.json");
    let options = ["-q", "--cgroup", "--limit", "2G", "--stats", json.to_str().unwrap(), "--"];
    let said = finish(run_with(&options, &[program.to_str().unwrap(), "80", "4"]));
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    let stats = stats(&json);
    assert_eq!(stats["peak_resident_source"], "cgroup");
    assert!((80 << 20..100 << 20).contains(&stats["peak_resident_bytes"].as_u64().unwrap()), "{stats}");
}

#[test]
fn the_supervisor_is_small() {
    let (_, stats) = peak(&["sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 0.5 & i=$((i+1)); done; wait"]);
    let own = stats["supervisor_resident_bytes"].as_u64().unwrap();
    assert!(own < 1 << 20, "{own}");
    assert!(stats["supervisor_cpu_seconds"].as_f64().unwrap() < 0.5, "{stats}");
}
