//! The exit status: the program's own, 128+n, 125, 126, 127.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{MEMFOLD, Medium, compile, file, finish, run, run_with, shell};

#[test]
fn the_programs_own() {
    for status in [0, 1, 3, 124, 125, 126, 127, 128, 200, 255] {
        assert_eq!(finish(shell(&format!("exit {status}"))).status, status);
    }
}

#[test]
fn by_signal() {
    // Signals that were ignored when the test began stay ignored: a shell starts background jobs that way.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 15, 34, 64] {
        // The standard library ignores SIGPIPE in this process, but not in the processes that it starts.
        const PIPE: i32 = 13;
        if ignored >> (signal - 1) & 1 != 0 && signal != PIPE {
            continue;
        }
        let said = finish(shell(&format!("ulimit -c 0; kill -{signal} $$")));
        assert_eq!(said.status, 128 + signal, "{}", said.err);
    }
}

#[test]
fn of_a_program_that_is_not_there() {
    let here = tempfile::tempdir().unwrap();
    finish(run(&["memfold-test-no-such-program"])).is_refusal(127, &["memfold-test-no-such-program", "PATH"]);
    finish(run(&[here.path().join("absent")])).is_refusal(127, &["no such file"]);
    finish(run(&["/etc/passwd/absent"])).is_refusal(127, &[]);
    finish(run(&[""])).is_refusal(127, &["empty"]);
    let script = file(here.path(), "script", "#!/no/such/interpreter\n", 0o755);
    finish(run(&[script])).is_refusal(127, &["interpreter"]);
}

#[test]
fn of_a_program_that_is_not_executable() {
    finish(run(&["/"])).is_refusal(126, &["'/'", "directory"]);
    let here = tempfile::tempdir().unwrap();
    let text = file(here.path(), "text", "hello\n", 0o644);
    finish(run(&[text])).is_refusal(126, &["chmod +x"]);
    finish(run(&[here.path()])).is_refusal(126, &[]);
    let mut path = std::env::var_os("PATH").unwrap();
    path.push(":");
    path.push(here.path());
    let mut command = run(&["text"]);
    command.env("PATH", path);
    finish(command).is_refusal(126, &["'text'"]);
}

#[test]
fn scripts_run_as_the_shell_would_run_them() {
    let here = tempfile::tempdir().unwrap();
    let with = file(here.path(), "with", "#!/bin/sh -e\necho with $1; exit 4\n", 0o755);
    let said = finish(run(&[with.as_os_str(), "x".as_ref()]));
    assert_eq!((said.status, said.out.as_str()), (4, "with x\n"));
    // Without a `#!` line, execvp falls back on the shell.
    let without = file(here.path(), "without", "echo without $1; exit 5\n", 0o755);
    let said = finish(run(&[without.as_os_str(), "y".as_ref()]));
    assert_eq!((said.status, said.out.as_str()), (5, "without y\n"));
}

#[test]
fn without_path_the_default_one_is_searched() {
    let mut command = shell("exit 6");
    command.env_remove("PATH");
    assert_eq!(finish(command).status, 6);
}

#[test]
fn of_a_command_line_that_is_wrong() {
    finish(run_with(&["--limit", "1G"], &[] as &[&str])).is_refusal(125, &["CMD"]);
    finish(run_with(&["--limti", "1G"], &["true"])).is_refusal(125, &["--limti"]);
    finish(run_with(&["--limit", "1G", "--codec", "gzip"], &["true"]))
        .is_refusal(125, &["gzip", "lz4", "zstd"]);
    finish(run_with(&["--limit", "1G", "--fill-ratio", "9/8"], &["true"])).is_refusal(125, &["56/64"]);
    finish(run_with(&["--limit", "1G", "--on-full", "explode"], &["true"]))
        .is_refusal(125, &["grow", "kill"]);
    let mut nothing = Command::new(MEMFOLD);
    nothing.stdin(std::process::Stdio::null());
    finish(nothing).is_refusal(125, &["memfold run --limit"]);
}

#[test]
fn help_and_version_are_not_errors() {
    for words in [&["--help"][..], &["--version"], &["run", "--help"], &["doctor", "--help"]] {
        let mut command = Command::new(MEMFOLD);
        command.args(words);
        let said = finish(command);
        assert_eq!((said.status, said.err.as_str()), (0, ""), "{words:?}");
        assert!(said.out.contains("memfold"), "{}", said.out);
    }
}

/// Simulates a thread of memfold's that was killed and gets no CPU time. The thread blocks all signals, as
/// memfold's threads do, and cannot exit because it writes to a frozen file system. The rest of the program
/// exits, or is killed by a signal.
const LEAVES_A_THREAD: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>
static int file;
static void *thread(void *blocks)
{
    unsigned long all = -1;
    if (blocks)
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    write(file, "x", 1);
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t id;
    file = open(argv[1], O_WRONLY);
    puts("ready"), fflush(stdout), getchar();
    if (file < 0 || pthread_create(&id, NULL, thread, argv[2]))
        return 1;
    usleep(300000);
    puts("ends"), fflush(stdout);
    if (argv[2] && atoi(argv[2]) > 0)
        kill(getpid(), atoi(argv[2]));
    _exit(7);
}
"#;

#[test]
fn threads_of_memfold_that_do_not_die_hold_up_no_end() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "leaves", LEAVES_A_THREAD, &["-pthread"]) else { return };
    let Some(medium) = Medium::new(here.path(), 32 << 20) else { return };
    let written = file(&medium.path, "written", "0", 0o644);
    // Starts the program, freezes the file system, and lets all but that thread end.
    let start = |signal: Option<&str>| {
        let words = [program.as_os_str(), written.as_os_str()].into_iter().chain(signal.map(str::as_ref));
        let mut command = run(&words.collect::<Vec<_>>());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ready\n");
        assert!(medium.freeze());
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child
    };
    for (signal, status) in [("0", 7), ("10", 128 + 10)] {
        let (mut child, begin) = (start(Some(signal)), Instant::now());
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(ended) => break ended,
                None if begin.elapsed() < Duration::from_secs(15) => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                None => {
                    medium.thaw();
                    panic!("it waits for a thread that can't end: {:?}", child.wait());
                }
            }
        };
        assert_eq!(ended.code(), Some(status));
        assert!(medium.thaw());
    }
    // memfold waits for a thread of the program's own, as in a plain run.
    let mut child = start(None);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(medium.thaw());
    assert_eq!(child.wait().unwrap().code(), Some(7));
}
