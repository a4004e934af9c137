//! Processes that share memory since a fork, near their limit: their data, and the memory they need.

use std::fs;
use std::path::Path;

use crate::common::{alone, compile, finish, run_with, start, stats, watched};

const MIB: u64 = 1 << 20;

fn program(here: &Path, name: &str, source: &str) -> Option<String> {
    Some(compile(here, name, source, &["-pthread"])?.to_str()?.to_owned())
}

/// Runs the program that shares memory, and returns the peak of resident memory and the closing line. `None`
/// without a compiler.
fn peak_of_sharing(limit: &str, mib: &str, children: &str, way: &str) -> Option<(u64, String)> {
    let here = tempfile::tempdir().unwrap();
    let program = program(here.path(), "share", include_str!("c/share.c"))?;
    let (_, peak, said) = watched(start(&["--limit", limit, "--"], &[&program, mib, children, way]));
    Some((peak, said.err))
}

#[test]
fn each_sees_its_own_pages() {
    let _alone = alone();
    let here = tempfile::tempdir().unwrap();
    let Some(program) = program(here.path(), "relatives", include_str!("c/relatives.c")) else {
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
        // Otherwise this tests nothing.
        let clean = stats(&json)["pages_clean"].as_u64().unwrap();
        assert!(clean > 100 || !protects(), "{clean} pages, {}", said.err);
    }
}

/// Whether this kernel can write-protect pages for a userfaultfd, and move them (Linux 6.8).
fn protects() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(8))
}

/// Compressed copies would exist once for each process, and take more memory than the shared pages. Without
/// memfold the program takes 97 MiB.
#[test]
fn widely_shared_pages_stay_shared() {
    let _alone = alone();
    for children in ["4", "8"] {
        let Some((peak, said)) = peak_of_sharing("88M", "80", children, "read") else { return };
        assert!(peak <= 97 * MIB * 105 / 100 + 8 * MIB, "{peak} bytes at most, {said}");
    }
}

/// Half of the pages that the children read were evicted before the fork. Without memfold the program takes
/// 120 MiB.
#[test]
fn readers_of_evicted_pages_need_no_copies() {
    let _alone = alone();
    let Some((peak, said)) = peak_of_sharing("72M", "100", "4", "read") else { return };
    assert!(peak <= 120 * MIB * 105 / 100 + 8 * MIB, "{peak} bytes at most, {said}");
}

/// Six children write to all pages at once. Without memfold the program takes 560 MiB.
#[test]
fn copies_in_several_children_wait_for_room() {
    let _alone = alone();
    let Some((peak, said)) = peak_of_sharing("336M", "80", "6", "write") else { return };
    assert!(peak <= 336 * MIB * 105 / 100 + 8 * MIB, "{peak} bytes at most, {said}");
}
