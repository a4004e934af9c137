//! Programs in surroundings that are difficult for memfold: the user's limits, another C library, filters
//! that kill a process for a system call, the program's own userfaultfd, debuggers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memfold_shared::calls::{CALLS, USERFAULTFD};
use nix::libc;

use crate::common::{MEMFOLD, Said, compile, file, finish, run_with};

/// Fills 40 MiB with distinct pages, and reads all of it several times.
const FILL: &str = include_str!("c/fill.c");
const SMALL: [&str; 3] = ["--limit", "20M", "--"];

/// Runs `sh -c SCRIPT` with these words as `$0`, `$1`, ...
fn script(text: &str, words: &[&str]) -> Said {
    let mut command = Command::new("sh");
    command.args(["-c", text]).args(words).stdin(Stdio::null());
    finish(command)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn is_managed(said: &Said) {
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    assert!(said.err.contains("pages compressed"), "{}", said.err);
}

#[test]
fn file_sizes_are_limited_for_the_program_only() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "fill", FILL, &[]) else { return };
    // Makes sure that the library has been written.
    is_managed(&finish(run_with(&SMALL, &[&program])));
    for blocks in ["0", "8"] {
        let run = "ulimit -f $2; exec $0 run --limit 20M -- $1";
        is_managed(&script(run, &[MEMFOLD, text(&program), blocks]));
        let own = "ulimit -f $1; $0 run -q --limit 20M -- sh -c 'ulimit -f; ulimit -H -f; kill -l $(trap -p | wc -l) >/dev/null; echo'";
        let plain =
            "ulimit -f $1; sh -c 'ulimit -f; ulimit -H -f; kill -l $(trap -p | wc -l) >/dev/null; echo'";
        assert_eq!(script(own, &[MEMFOLD, blocks]).out, script(plain, &[MEMFOLD, blocks]).out);
        // A process that writes more than the limit is killed by the signal as usual.
        let writes = "ulimit -f $1; $0 run -q --limit 20M -- head -c 100000 /dev/zero > $2; echo $?";
        let out = here.path().join("out");
        assert_eq!(script(writes, &[MEMFOLD, blocks, text(&out)]).out, "153\n");
    }
}

const HELLO: &str = "#include <stdio.h>\nint main(void){puts(\"hello\");return 3;}\n";

/// Compiles a program; `None` without such a compiler.
fn hello(directory: &Path, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = file(directory, "hello.c", HELLO, 0o644);
    let program = directory.join("hello");
    let done = Command::new(compiler).arg("-o").arg(&program).arg(source).args(flags).output();
    if done.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    eprintln!("skipped: {compiler} {flags:?} makes no programs here");
    None
}

#[test]
fn children_for_which_the_library_is_not_made_run_and_say_nothing() {
    let here = tempfile::tempdir().unwrap();
    for (compiler, flags) in [("musl-gcc", &[][..]), ("cc", &["-m32"]), ("cc", &["-static"])] {
        let Some(program) = hello(here.path(), compiler, flags) else { continue };
        let said = finish(run_with(
            &["-q", "--limit", "100M", "--"],
            &["sh", "-c", "$0; echo $?; exec $0", text(&program)],
        ));
        assert_eq!((said.status, said.out.as_str()), (3, "hello\n3\nhello\n"), "{compiler}: {}", said.err);
        assert_eq!(said.err, "", "{compiler}");
    }
}

/// If the path with the processor's name cannot be used, musl's loader gets the library itself.
#[test]
fn the_library_is_quiet_with_another_c_library() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = hello(here.path(), "musl-gcc", &[]) else { return };
    let library = Path::new(MEMFOLD).with_file_name("libmemfold_preload.so");
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library).env("MEMFOLD_SHARED", "/proc/self/fd/0").stdin(Stdio::null());
    let said = finish(command);
    assert_eq!((said.status, said.out.as_str(), said.err.as_str()), (3, "hello\n", ""));
}

/// `sc ACTION NUMBER PROGRAM ...`: runs the program under a filter that kills a process for this call, or
/// answers the call with EPERM.
const FILTER: &str = include_str!("c/filter.c");

fn filter(directory: &Path, flags: &[&str]) -> Option<(PathBuf, PathBuf)> {
    Some((compile(directory, "filter", FILTER, flags)?, compile(directory, "fill", FILL, &[])?))
}

#[test]
fn a_filter_that_ends_processes_ends_none_for_calls_of_memfold() {
    let here = tempfile::tempdir().unwrap();
    let Some((filter, program)) = filter(here.path(), &[]) else { return };
    for call in CALLS.iter().chain(&[USERFAULTFD]) {
        let number = call.number.to_string();
        let words = [text(&filter), "kill", &number, text(&program)];
        let mut plain = Command::new(words[0]);
        plain.args(&words[1..]);
        let plain = finish(plain);
        let said = finish(run_with(&SMALL, &words));
        let expected = if plain.status == -1 { 128 + libc::SIGSYS } else { plain.status };
        assert_eq!((said.status, &said.out), (expected, &plain.out), "{}: {}", call.name, said.err);
        // If the call kills the program itself, that may happen before or after the message.
        if plain.status == 0 {
            let is_said = said.err.contains("a seccomp filter that may kill it");
            assert_eq!(is_said, call.number != USERFAULTFD.number, "{}: {}", call.name, said.err);
        }
    }
    // Neither a call that memfold does not need nor an error is a problem. 165 is mount on one architecture,
    // and getrusage on the other.
    for (action, number) in [("kill", 165), ("error", 165), ("error", libc::SYS_mincore)] {
        is_managed(&finish(run_with(&SMALL, &[text(&filter), action, &number.to_string(), text(&program)])));
    }
    if Path::new("/dev/userfaultfd").exists() {
        let number = libc::SYS_userfaultfd.to_string();
        is_managed(&finish(run_with(&SMALL, &[text(&filter), "kill", &number, text(&program)])));
    }
}

#[test]
fn a_filter_that_memfold_has_not_read() {
    let here = tempfile::tempdir().unwrap();
    let Some((filter, program)) = filter(here.path(), &["-static"]) else { return };
    for number in [libc::SYS_mincore, libc::SYS_mount] {
        let number = number.to_string();
        let words = ["sh", "-c", "$0 kill $1 $2; echo $?", text(&filter), &number, text(&program)];
        let said = finish(run_with(&SMALL, &words));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n0\n"), "{}", said.err);
        assert!(said.err.contains("a seccomp filter that may kill it"), "{}", said.err);
    }
}

#[test]
fn memfold_under_a_filter_that_ends_processes() {
    let here = tempfile::tempdir().unwrap();
    let Some((filter, program)) = filter(here.path(), &[]) else { return };
    let under = |number: libc::c_long, words: &[&str]| {
        let mut command = Command::new(&filter);
        command.args(["kill", &number.to_string(), MEMFOLD]).args(words).stdin(Stdio::null());
        finish(command)
    };
    let run = ["run", "--limit", "20M", "--", text(&program)];
    for (number, name) in [
        (libc::SYS_mincore, "mincore"),
        (libc::SYS_sched_setattr, "sched_setattr"),
        (libc::SYS_eventfd2, "eventfd2"),
        (libc::SYS_signalfd4, "signalfd4"),
        (libc::SYS_close_range, "close_range"),
    ] {
        under(number, &run).is_refusal(125, &["seccomp", name, "SystemCallFilter="]);
        under(number, &["doctor"]).is_refusal(1, &["seccomp", name, "does not work here"]);
    }
    is_managed(&under(libc::SYS_mount, &run));
    if Path::new("/dev/userfaultfd").exists() {
        is_managed(&under(libc::SYS_userfaultfd, &run));
    }
}

/// Uses a userfaultfd for a region that is filled at faults, and for write protection of memory in use.
const OWN: &str = include_str!("c/own_userfaultfd.c");

#[test]
fn a_userfaultfd_of_the_programs_own() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "own", OWN, &["-pthread", "-w"]) else { return };
    let ways: &[&[&str]] = if Path::new("/dev/userfaultfd").exists() { &[&[], &["device"]] } else { &[&[]] };
    for way in ways {
        let words = [&[text(&program)], *way].concat();
        let mut plain = Command::new(words[0]);
        plain.args(&words[1..]);
        if finish(plain).out != "right\n" {
            eprintln!("skipped: this user may have no userfaultfd {way:?}");
            continue;
        }
        let said = finish(run_with(&SMALL, &words));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
        assert!(said.err.contains("a userfaultfd of its own"), "{}", said.err);
    }
}

/// gdb's gcore writes every mapping that is not marked as excluded.
#[test]
fn reserved_addresses_are_not_dumped() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "fill", FILL, &[]) else { return };
    let mut command = run_with(&["--limit", "20M", "--"], &[text(&program), "60"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "right\n");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let own = children.split_whitespace().find(|pid| name(pid).trim() == "fill").unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{own}/smaps")).unwrap();
    let (mut dumped, mut size, mut reserved) = (0, 0, false);
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "---p", _, _, "0"] => reserved = true,
            [_, access, _, _, ..] if access.len() == 4 => reserved = false,
            ["Size:", kib, _] => size = kib.parse::<u64>().unwrap(),
            ["VmFlags:", ..] if reserved && !words.contains(&"dd") => dumped += size,
            _ => {}
        }
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(own.parse().unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    child.wait().unwrap();
    // The allocator's arenas may reserve some addresses.
    assert!(dumped < 1 << 20, "{dumped} KiB are reserved and would be dumped");
}

/// Whether a program is installed.
fn has(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("skipped in part: there is no {name}");
    }
    is_there
}

/// A directory that other users can read.
fn open_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let here = tempfile::tempdir().unwrap();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    here
}

#[test]
fn programs_of_another_user_or_in_a_pid_namespace_are_managed() {
    let here = open_directory();
    let Some(program) = compile(here.path(), "fill", FILL, &[]) else { return };
    if !crate::common::is_root() || !has("setpriv") || !has("unshare") {
        eprintln!("skipped: needs root, setpriv and unshare");
        return;
    }
    // Keeps the capability to use userfaultfd.
    let user = [
        "--reuid=64917",
        "--regid=64917",
        "--clear-groups",
        "--inh-caps=+sys_ptrace",
        "--ambient-caps=+sys_ptrace",
    ];
    let setpriv = [&["setpriv"], &user[..]].concat();
    let program = text(&program);
    for words in [
        [&setpriv[..], &[program]].concat(),
        vec!["unshare", "--pid", "--fork", "--mount-proc", program],
        vec!["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", "$0; exit 0", program],
        vec!["unshare", "--pid", "--fork", program],
        [&["unshare", "--pid", "--fork", "--mount-proc"], &setpriv[..], &[program]].concat(),
    ] {
        let said = finish(run_with(&SMALL, &words));
        is_managed(&said);
        assert!(!said.err.contains("could not"), "{words:?}: {}", said.err);
    }
    // Both programs have the same process ids inside their namespaces.
    let both = "for i in 1 2; do unshare --pid --fork --mount-proc $0 & done; wait";
    let said = finish(run_with(&["--limit", "40M", "--"], &["sh", "-c", both, program]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\nright\n"), "{}", said.err);
    assert!(
        !said.err.contains("cannot be managed") && !said.err.contains("exceeded the limit"),
        "{}",
        said.err
    );
}

#[test]
fn a_run_inside_of_a_run_is_named() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "fill", FILL, &[]) else { return };
    let (inner, program) = (env!("CARGO_BIN_EXE_memfold"), text(&program));
    // The inner run's program stays long enough to be seen.
    let words = ["sh", "-c", "$0 run -q --limit 100M -- $1 2", inner, program];
    let said = finish(run_with(&["--limit", "100M", "--"], &words));
    assert_eq!(said.status, 0, "{}", said.err);
    let reason =
        "cannot be managed (a memfold run of its own manages it): its memory counts towards this limit, too";
    assert!(said.err.contains(reason) && !said.err.contains("another version"), "{}", said.err);
}

#[test]
fn a_program_that_begins_after_memfold_has_ended_is_managed() {
    let here = tempfile::tempdir().unwrap();
    // Prints its memory before it ends.
    let source = FILL.replace("sleep(atoi(argv[1]));", "system(\"grep RssAnon /proc/$PPID/status\");");
    let Some(program) = compile(here.path(), "fill", &source, &[]) else { return };
    let out = here.path().join("out");
    let script = "(sleep 1; $0 rss > $1.new 2>&1; mv $1.new $1) > /dev/null 2>&1 & exit 0";
    let said = finish(run_with(&SMALL, &["sh", "-c", script, text(&program), text(&out)]));
    assert_eq!(said.status, 0, "{}", said.err);
    crate::common::until("its output", || out.exists());
    let said = std::fs::read_to_string(&out).unwrap();
    let kib = said.split_whitespace().find_map(|word| word.parse::<u64>().ok());
    assert!(said.starts_with("right\n") && kib.is_some_and(|kib| kib < 30 << 10), "{said}");
}

#[test]
fn a_static_launcher_is_run_for_what_it_executes() {
    let here = tempfile::tempdir().unwrap();
    let source = "#include <unistd.h>\nint main(int c,char**v){execvp(v[2],v+2);return 9;}\n";
    let (Some(launcher), Some(program)) =
        (compile(here.path(), "launcher", source, &["-static"]), compile(here.path(), "fill", FILL, &[]))
    else {
        return;
    };
    is_managed(&finish(run_with(&SMALL, &[text(&launcher), "nobody", text(&program)])));
    finish(run_with(&SMALL, &[text(&launcher), "nobody", text(&launcher)]))
        .is_refusal(125, &["statically linked", "launcher ... memfold run -- PROGRAM"]);
}

#[test]
fn a_preload_that_was_replaced_is_named() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "fill", FILL, &[]) else { return };
    let script = "LD_PRELOAD=libdl.so.2 $0 2; env -u LD_PRELOAD $0 2; env -i $0 2";
    let said = finish(run_with(&SMALL, &["sh", "-c", script, text(&program)]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\nright\nright\n"), "{}", said.err);
    for words in
        ["write LD_PRELOAD=LIBRARY:$LD_PRELOAD", "LD_PRELOAD was taken out", "without memfold's environment"]
    {
        assert_eq!(said.err.matches(words).count(), 1, "'{words}': {}", said.err);
    }
}

/// An older installed library, for example, does not know this supervisor.
#[test]
fn a_library_of_another_version_is_named() {
    let here = tempfile::tempdir().unwrap();
    let older = here.path().join("libmemfold_preload.so");
    let (Some(program), Some(library)) = (
        compile(here.path(), "fill", FILL, &[]),
        compile(here.path(), "older", "int x;", &["-shared", "-fPIC"]),
    ) else {
        return;
    };
    std::fs::rename(library, &older).unwrap();
    let script = "LD_PRELOAD=$1 $0 2";
    let said = finish(run_with(&SMALL, &["sh", "-c", script, text(&program), text(&older)]));
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    assert_eq!(said.err.matches("a memfold library of another version").count(), 1, "{}", said.err);
}

/// Fills 60 MiB of a kind of memory that is never managed, and keeps it for a while.
const HELD: &str = include_str!("c/never_managed.c");

#[test]
fn the_closing_line_names_memory_that_is_never_managed() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "held", HELD, &["-w"]) else { return };
    let data = here.path().join("data");
    for (kind, words) in [
        ("file", "are changed pages of files"),
        ("deep", "are the main thread's stack"),
        ("small", "are in mappings of less than 64 KiB"),
    ] {
        let said = script(
            "ulimit -s unlimited; exec $0 run --limit 20M -- $1 $2 $3",
            &[MEMFOLD, text(&program), kind, text(&data)],
        );
        assert_eq!(said.status, 0, "{kind}: {}", said.err);
        assert!(said.err.contains(words) && said.err.contains("never compressed"), "{kind}: {}", said.err);
    }
}
