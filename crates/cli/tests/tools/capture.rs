//! `memfold bench --capture PID -o FILE`.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Killed, MEMFOLD, Said, compile, finish, is_root};

const PAGE: usize = 4096;

/// 300 pages that contain their number, 20 equal pages, 10 written pages of zeros, 10 written pages of a
/// file's private mapping, and 64 MiB that were never touched.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char *pages(int n) {
    return mmap(0, n * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(int argc, char **argv) {
    char *own = pages(300), *equal = pages(20), *zero = pages(10);
    pages(16384);
    for (uint64_t i = 0; i < 300; i++) {
        memcpy(own + i * 4096, "known page", 10);
        memcpy(own + i * 4096 + 4088, &i, 8);
    }
    for (int i = 0; i < 20; i++) memcpy(equal + i * 4096, "equal page", 10);
    for (int i = 0; i < 10; i++) { zero[i * 4096] = 1; zero[i * 4096] = 0; }
    int fd = open(argv[0], O_RDONLY);
    char *file = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    memcpy(file, "of a file!", 10);
    mprotect(own, 4096, PROT_NONE);
    puts("ready"); fflush(stdout);
    char c;
    while (read(0, &c, 1) == 1) { printf("%c", c); fflush(stdout); }
    return 0;
}
"#;

fn start(program: &Path) -> Killed {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Killed(child)
}

fn capture(pid: &str, file: &Path, options: &[&str]) -> Said {
    let mut command = Command::new(MEMFOLD);
    command.args(["bench", "--capture", pid, "-o"]).arg(file).args(options);
    finish(command)
}

fn count(pages: &[u8], starts: &[u8]) -> usize {
    pages.chunks(PAGE).filter(|page| page.starts_with(starts)).count()
}

#[test]
fn known_pages_of_a_running_process() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "known", PROGRAM, &[]) else { return };
    let mut running = start(&program);
    let pid = running.0.id().to_string();
    let file = here.path().join("pages");
    let said = capture(&pid, &file, &["--json"]);
    assert_eq!(said.status, 0, "{}", said.err);
    said.only_ours_on_stderr();
    let pages = std::fs::read(&file).unwrap();
    // The file may contain passwords.
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(pages.len() % PAGE, 0);
    assert_eq!((&told["pages"], &told["bytes"]), (&(pages.len() / PAGE).into(), &pages.len().into()));

    let known = pages.chunks(PAGE).filter(|page| page.starts_with(b"known page"));
    let numbers: Vec<u64> =
        known.map(|page| u64::from_le_bytes(page[PAGE - 8..].try_into().unwrap())).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    assert_eq!(count(&pages, b"equal page"), 20);
    assert_eq!(count(&pages, b"of a file!"), 1);
    assert!(count(&pages, &[0; PAGE]) >= 10);
    // The rest belongs to the C library. Pages that were never touched are not in the file.
    assert!(pages.len() < 4 << 20, "{}", pages.len());

    let fewer = here.path().join("fewer");
    let said = capture(&pid, &fewer, &["--drop-zero", "--drop-duplicates"]);
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(said.err.contains("copies") && said.err.contains("of zeros"), "{}", said.err);
    let pages = std::fs::read(&fewer).unwrap();
    assert_eq!((count(&pages, b"known page"), count(&pages, b"equal page")), (300, 1));
    assert_eq!(count(&pages, &[0; PAGE]), 0);

    // The process is undisturbed.
    use std::io::{Read, Write};
    running.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    let mut answer = [0; 1];
    running.0.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"x");

    // An existing file keeps the permissions that its owner has set.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(capture(&pid, &file, &[]).status, 0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);

    // The captured file can be measured.
    let mut bench = Command::new(MEMFOLD);
    bench.args(["bench", "--json", "--codec=lz4"]).arg(&file);
    let measured: Value = serde_json::from_str(&finish(bench).out).unwrap();
    assert!(measured["rows"][0]["ratio"].as_f64().unwrap() > 2.0);
}

#[test]
fn processes_that_cannot_be_captured() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("pages");
    for (pid, words) in [
        ("2147483647", &["no process 2147483647"][..]),
        ("0", &["not a process ID"]),
        ("-5", &["not a process ID"]),
        ("init", &["'init'", "pidof"]),
    ] {
        let mut command = Command::new(MEMFOLD);
        command.arg("bench").arg(format!("--capture={pid}")).arg("-o").arg(&file);
        finish(command).is_refusal(125, words);
    }
    let mut ended = Command::new("true").spawn().unwrap();
    crate::common::until("the end of true", || {
        std::fs::read_to_string(format!("/proc/{}/stat", ended.id())).unwrap().contains(") Z ")
    });
    capture(&ended.id().to_string(), &file, &[]).is_refusal(125, &["has ended"]);
    ended.wait().unwrap();
    capture(&std::process::id().to_string(), &here.path().join("no/such"), &[]).is_refusal(125, &["no/such"]);
    assert!(!file.exists());
}

#[test]
fn processes_of_others() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let copy = here.path().join("memfold");
    std::fs::copy(MEMFOLD, &copy).unwrap();
    let mut command = Command::new(&copy);
    command
        .args(["bench", "--capture", &std::process::id().to_string(), "-o"])
        .arg(here.path().join("pages"));
    command.uid(65534).gid(65534);
    let said = finish(command);
    said.is_refusal(125, &["may not read", "user 0"]);
    crate::offers_to_root(&said, "memfold bench --capture");
    assert!(!here.path().join("pages").exists());
}
