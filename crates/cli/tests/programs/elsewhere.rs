//! Programs that go on in another root directory or namespace, and programs that a tracer stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::{compile, finish, run_with};

const SMALL: [&str; 3] = ["--limit", "24M", "--"];

fn program(here: &Path, name: &str, source: &str) -> Option<String> {
    Some(compile(here, name, source, &["-w"])?.to_str().unwrap().to_owned())
}

#[test]
fn elsewhere_memory_is_what_it_was() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), "elsewhere", include_str!("c/elsewhere.c")) else { return };
    let empty = here.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let ways = ["root", "mounts", "network", "user", "processes", "all"];
    for (way, child) in
        ways.iter().flat_map(|way| ["fork", "_Fork", "instruction"].map(|child| (*way, child)))
    {
        let words = [&program, way, empty.to_str().unwrap(), child];
        let mut plain = Command::new(words[0]);
        plain.args(&words[1..]);
        let plain = finish(plain);
        if plain.status == 9 {
            eprintln!("skipped in part: {way}, {child}: {}", plain.out.trim());
            continue;
        }
        assert_eq!((plain.status, plain.out.as_str()), (0, "right\n"), "{way}, {child}");
        let said = finish(run_with(&SMALL, &words));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{way}, {child}: {}", said.err);
    }
}

fn start(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// It cannot be helped from outside, and is not left without a word.
#[test]
fn a_tracer_that_waits_for_what_it_has_stopped_is_named() {
    let here = tempfile::tempdir().unwrap();
    let (Some(held), Some(tracer)) = (
        program(here.path(), "held", include_str!("c/held.c")),
        program(here.path(), "tracer", include_str!("c/tracer.c")),
    ) else {
        return;
    };
    let (mut memfold, mut out) = start(run_with(&SMALL, &[&held]));
    let mut errors = BufReader::new(memfold.stderr.take().unwrap());
    let said = line(&mut out);
    let mut command = Command::new(tracer);
    command.args(said.split(' '));
    let (mut tracing, mut traced) = start(command);
    let told = line(&mut traced);
    if told != "all are stopped" {
        eprintln!("skipped: a process may not be traced here: {told}");
        memfold.kill().unwrap();
        memfold.wait().unwrap();
        return;
    }
    let wchan = || std::fs::read_to_string(format!("/proc/{}/wchan", tracing.id())).unwrap_or_default();
    crate::common::until("the tracer's wait", || wchan() != "0" && !wchan().is_empty());
    if wchan() != "handle_userfault" {
        eprintln!("skipped: the kernel does not tell where a thread waits");
        tracing.kill().unwrap();
        memfold.kill().unwrap();
        return;
    }
    let mut word = String::new();
    errors.read_line(&mut word).unwrap();
    let tracing_pid = format!("'tracer' (process {})", tracing.id());
    assert!(word.contains(&tracing_pid) && word.contains("kill ") && word.contains("'held'"), "{word}");
    tracing.kill().unwrap();
    tracing.wait().unwrap();
    assert_eq!(line(&mut traced), "", "nothing was evicted");
    // The program goes on as if nothing had been.
    writeln!(memfold.stdin.take().unwrap()).unwrap();
    assert_eq!(line(&mut out), "right");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(memfold.wait().unwrap().success(), "{rest}");
    assert!(!rest.contains("tracer"), "{rest}");
}
