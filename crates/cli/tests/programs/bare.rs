//! Children that are created without the handlers of `pthread_atfork`, and emulators.

use std::path::{Path, PathBuf};

use crate::common::{compile, finish, run_with};

/// The next action of a child. The preload library interposes each of these calls.
const ACTS: &[&str] = &[
    "look", "write", "fork", "again", "malloc", "mlock", "mlockall", "direct", "thread", "unshare", "userns",
    "setuid", "remap", "exec", "exit",
];
const VFORK: &str = "0x4000";
const NEW_USER: &str = "0x10000000";

fn program(here: &Path) -> Option<PathBuf> {
    compile(here, "children", include_str!("c/children.c"), &["-pthread", "-Wno-unused-result"])
}

/// Runs the program with a time limit, because a child that hangs may block all signals.
#[track_caller]
fn well(program: &Path, limit: &str, words: &[&str]) -> String {
    let mut all = vec!["timeout", "-s", "KILL", "100", program.to_str().unwrap()];
    all.extend(words);
    let said = finish(run_with(&["--limit", limit, "--"], &all));
    assert_eq!(said.status, 0, "{words:?}: {}", said.err);
    said.err
}

#[test]
fn a_prepared_child_goes_on_whatever_it_does() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path()) else { return };
    for way in ["syscall", "_Fork", "clone", "clone3"] {
        for act in ACTS {
            well(&program, "48M", &[way, act, "1"]);
        }
    }
}

#[test]
fn a_prepared_child_has_what_was_evicted() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path()) else { return };
    for way in ["syscall", "_Fork", "clone", "clone3", "handler"] {
        for act in ["look", "write", "fork", "again", "exec", "exit"] {
            let said = well(&program, "24M", &[way, act, "40"]);
            // The child is managed like a child of `fork`, so not everything is restored in it.
            assert!(!said.contains("restored in the child"), "{way}, {act}: {said}");
        }
    }
}

#[test]
fn flags_of_clone_mean_what_they_mean() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path()) else { return };
    for flags in [VFORK, NEW_USER] {
        if flags == NEW_USER && !crate::common::is_root() {
            continue;
        }
        for way in ["syscall", "clone", "clone3"] {
            for act in ["look", "exec"] {
                well(&program, "24M", &[way, act, "40", flags]);
            }
        }
    }
}

#[test]
fn an_unobserved_child_continues_whatever_it_does() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path()) else { return };
    for act in ACTS {
        well(&program, "300M", &["instruction", act, "1"]);
    }
    // Near the limit, the child can get its memory only with a privilege that root has.
    if crate::common::may_trace_all() {
        for act in ACTS {
            well(&program, "48M", &["instruction", act, "1"]);
        }
    }
}

#[test]
fn an_unobserved_child_has_the_evicted_pages() {
    if !crate::common::may_trace_all() {
        eprintln!("skipped: the kernel tells of forks only with CAP_SYS_PTRACE");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path()) else { return };
    for act in ["look", "write", "fork", "malloc", "exec"] {
        let said = well(&program, "24M", &["instruction", act, "40"]);
        assert!(said.contains("bypasses the C library"), "{said}");
    }
}

#[test]
fn an_unobserved_child_is_not_mistaken_for_that_of_a_fork() {
    if !crate::common::may_trace_all() {
        eprintln!("skipped: the kernel tells of forks only with CAP_SYS_PTRACE");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "crossed", include_str!("c/crossed.c"), &["-pthread"]) else {
        return;
    };
    well(&program, "20M", &["40", "100"]);
}

/// memfold recognizes valgrind by the library that valgrind preloads.
#[test]
fn an_emulator_is_left_alone() {
    let here = tempfile::tempdir().unwrap();
    let flags = ["-shared", "-fPIC"];
    let Some(other) = compile(here.path(), "vgpreload_core-test.so", "int none;", &flags) else { return };
    let mut command = run_with(&["--limit", "1G", "--"], &["sh", "-c", "grep -c memfold /proc/self/maps"]);
    command.env("LD_PRELOAD", &other);
    let said = finish(command);
    assert!(said.err.contains("inside of an emulator"), "{}", said.err);
    // The library is loaded, but has no thread.
    assert_eq!(said.status, 0, "{}", said.err);
}

#[test]
fn valgrind_and_qemu_run_programs() {
    for (emulator, words) in
        [("valgrind", &["valgrind", "-q", "--tool=none"][..]), ("qemu-x86_64", &["qemu-x86_64"][..])]
    {
        let known = std::process::Command::new(emulator).arg("--version").output();
        if known.is_err() || cfg!(not(target_arch = "x86_64")) {
            eprintln!("skipped: {emulator} is not installed");
            continue;
        }
        for limit in ["300M", "40M"] {
            let said = finish(run_with(&["--limit", limit, "--"], &[words, &["/bin/echo", "fine"]].concat()));
            assert_eq!((said.status, said.out.as_str()), (0, "fine\n"), "{emulator}: {}", said.err);
            assert!(said.err.contains("inside of an emulator"), "{emulator}: {}", said.err);
        }
    }
}

#[test]
fn bubblewrap_makes_its_sandbox() {
    let words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"];
    let inside = [&words[..], &["/bin/echo", "fine"]].concat();
    let plainly = std::process::Command::new(inside[0]).args(&inside[1..]).output();
    if !plainly.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: bubblewrap is not installed, or may not make namespaces here");
        return;
    }
    for limit in ["300M", "40M"] {
        let bounded = [&["timeout", "-s", "KILL", "60"][..], &inside].concat();
        let said = finish(run_with(&["--limit", limit, "--"], &bounded));
        assert_eq!((said.status, said.out.as_str()), (0, "fine\n"), "{}", said.err);
    }
}
