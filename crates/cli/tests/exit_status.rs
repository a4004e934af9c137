//! The exit status: the program's own, 128+n, 125, 126, 127.

mod common;

use common::{MEMFOLD, file, finish, run, run_with, shell};
use std::process::Command;

#[test]
fn the_programs_own() {
    for status in [0, 1, 3, 124, 125, 126, 127, 128, 200, 255] {
        assert_eq!(finish(shell(&format!("exit {status}"))).status, status);
    }
}

#[test]
fn by_signal() {
    // What was ignored when the test began, stays ignored: a shell starts jobs in the background so.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 15, 34, 64] {
        // The standard library has this one ignored here, and not in what it starts.
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
    // No first line: execvp falls back on the shell.
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
fn help_and_version_are_no_errors() {
    for words in [&["--help"][..], &["--version"], &["run", "--help"], &["doctor", "--help"]] {
        let mut command = Command::new(MEMFOLD);
        command.args(words);
        let said = finish(command);
        assert_eq!((said.status, said.err.as_str()), (0, ""), "{words:?}");
        assert!(said.out.contains("memfold"), "{}", said.out);
    }
}
