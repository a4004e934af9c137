//! Processes that share memory since a fork, near their limit: what each of them sees, and what all together take.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Said, compile, finish, run_with, said, stats};

const MIB: u64 = 1 << 20;

/// What is measured here is when things happen: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program(here: &Path, name: &str, source: &str) -> Option<String> {
    Some(compile(here, name, source, &["-pthread"])?.to_str()?.to_owned())
}

fn start(options: &[&str], words: &[&str]) -> Child {
    let mut command = run_with(options, words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Private anonymous memory of all below a process, bytes, each page once.
fn resident_below(pid: u32) -> u64 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let sum = |child: &str| {
        let below = child.parse().map_or(0, resident_below);
        let rollup = fs::read_to_string(format!("/proc/{child}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find(|line| line.starts_with("Pss_Anon:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024 + below
    };
    children.split_whitespace().map(sum).sum()
}

/// The most that it takes until it ends with the right answer.
fn peak(mut child: Child) -> (u64, Said) {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(resident_below(child.id()));
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = said(child.wait_with_output().unwrap());
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    (peak, said)
}

#[test]
fn each_sees_its_own_pages() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), "relatives", include_str!("relatives/relatives.c")) else {
        return;
    };
    let json = here.path().join("s.json");
    let ways: [&[&str]; 3] = [&["40M"], &["40M", "--paranoid"], &["64M"]];
    for (number, way) in ways.iter().enumerate() {
        let mut options = vec!["--limit"];
        options.extend(*way);
        options.extend(["--stats", json.to_str().unwrap(), "--"]);
        let seed = std::process::id() as usize + number;
        let words = [&program, "40", "3", "4", &seed.to_string()];
        let words: Vec<&str> = ["timeout", "-s", "KILL", "100"].into_iter().chain(words).collect();
        let said = finish(run_with(&options, &words));
        assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "seed {seed}, {way:?}: {}", said.err);
        // Otherwise what is tested here was not tried. Older kernels protect no pages.
        let clean = stats(&json)["pages_clean"].as_u64().unwrap();
        assert!(clean > 100 || !protects(), "{clean} pages, {}", said.err);
    }
}

/// Whether this kernel can write-protect pages for a userfaultfd, and move them: Linux 6.8.
fn protects() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(8))
}

/// Most of what the children read was evicted before they were forked. Plainly all take 120 MiB.
#[test]
fn who_reads_what_was_evicted_takes_no_copies_of_its_own() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), "share", include_str!("relatives/share.c")) else { return };
    let (peak, said) = peak(start(&["--limit", "72M", "--"], &[&program, "100", "4", "read"]));
    assert!(peak <= 120 * MIB * 105 / 100 + 8 * MIB, "{peak} bytes at most, {}", said.err);
}

/// Six children write to all pages at once. Plainly they take 560 MiB.
#[test]
fn copies_in_several_children_wait_for_room() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), "share", include_str!("relatives/share.c")) else { return };
    let (peak, said) = peak(start(&["--limit", "336M", "--"], &[&program, "80", "6", "write"]));
    assert!(peak <= 336 * MIB * 105 / 100 + 8 * MIB, "{peak} bytes at most, {}", said.err);
}
