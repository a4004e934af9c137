//! Programs that continue in another root directory or namespace, and programs that a tracer stops.

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

/// memfold cannot resolve this deadlock from outside, but reports it.
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
    // The program continues normally.
    writeln!(memfold.stdin.take().unwrap()).unwrap();
    assert_eq!(line(&mut out), "right");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(memfold.wait().unwrap().success(), "{rest}");
    assert!(!rest.contains("tracer"), "{rest}");
}

/// A process that cannot learn its id outside must not use the one inside: that is another process's.
#[test]
fn a_process_that_cannot_ask_for_its_id_takes_no_others() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), "unreachable", include_str!("c/unreachable.c")) else { return };
    let (mut memfold, mut out) = start(run_with(&SMALL, &[&program, "40"]));
    let said = line(&mut out);
    if said.is_empty() && memfold.wait().unwrap().code() == Some(9) {
        return eprintln!("skipped: no namespaces may be made here");
    }
    let inner: u64 = said.strip_suffix(" right").and_then(|pid| pid.parse().ok()).expect(&said);
    let mut look = Command::new(crate::common::MEMFOLD);
    look.args(["top", "--json", "--count", "1", "--interval", "0.1", &memfold.id().to_string()]);
    let look: serde_json::Value = serde_json::from_str(&finish(look).out).unwrap();
    let processes = look["trees"][0]["processes"].as_array().unwrap();
    let pids: Vec<_> = processes.iter().map(|process| process["pid"].as_u64().unwrap()).collect();
    assert!(!pids.is_empty() && !pids.contains(&inner), "{inner}: {pids:?}");
    memfold.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(memfold.wait().unwrap().code(), Some(0));
    let mut errors = String::new();
    memfold.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(errors.contains("cannot ask memfold for its process id"), "{errors}");
}
