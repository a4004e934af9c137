//! A heap with default options in a memory cgroup: it holds more than fits there uncompressed, refuses what does
//! not fit compressed, and is not killed.
#![cfg(target_os = "linux")]

#[path = "../../cli/tests/common/group.rs"]
mod group;

use std::path::Path;
use std::process::Command;

use group::Group;
use memfold::collections::SlabList;
use memfold::heap::{Error, Handle, Heap, Limit, Options, Session};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 64 * MIB;
type Node = [u64; 128];

/// A cgroup with `LIMIT` and, if nested, a group below it that has no limit of its own, for the process.
fn limited(name: &str, is_nested: bool) -> Option<(Group, Option<Group>)> {
    let version_1 = || Group::limited(&["/sys/fs/cgroup/memory"], name, ("memory.limit_in_bytes", LIMIT));
    let group = version_1().or_else(|| Group::limited(&["/sys/fs/cgroup"], name, ("memory.max", LIMIT)))?;
    let inner = is_nested.then(|| Group(group.0.join("inner")));
    let is_made = inner.as_ref().is_none_or(|inner| std::fs::create_dir(&inner.0).is_ok());
    is_made.then_some((group, inner))
}

/// Runs one of the ignored tests below in a cgroup.
fn run(child: &str, is_nested: bool) {
    let name = format!("{child}-{is_nested}");
    let Some((group, inner)) = limited(&name, is_nested) else {
        eprintln!("skipped: no cgroup with a memory limit can be made");
        return;
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", child, "--ignored", "--nocapture"]);
    let inside = inner.as_ref().unwrap_or(&group);
    let output = inside.enter(&command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    // The memory shows that the process was in the group: nothing else is in there.
    assert!(said.contains("1 passed"), "{said}");
    assert!(peak(&group.0) > LIMIT / 2, "only {} MiB were used", peak(&group.0) / MIB);
    drop((inner, group));
}

fn peak(directory: &Path) -> u64 {
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok();
    // memory.peak exists since Linux 5.19.
    read("memory.max_usage_in_bytes").or_else(|| read("memory.peak")).unwrap_or(LIMIT)
}

#[test]
fn more_than_a_cgroup_has_is_compressed() {
    run("holds_more_than_the_limit", false);
}

#[test]
fn a_limit_further_up_counts() {
    run("holds_more_than_the_limit", true);
}

#[test]
fn incompressible_data_are_refused() {
    run("refuses_incompressible_data", false);
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn are_all_there(session: &Session<'_>, handles: &[Handle], node: impl Fn(u64) -> Node) {
    for (number, handle) in (0..).zip(handles) {
        assert_eq!(session.get::<Node>(*handle), Ok(node(number)));
    }
}

#[test]
#[ignore = "runs in a cgroup of another test's"]
fn holds_more_than_the_limit() {
    for options in [Options::new(), Options::new().limit(Limit::All)] {
        let heap = Heap::new(options).unwrap();
        let mut session = heap.session().unwrap();
        let node = |number: u64| std::array::from_fn(|i| if i % 10 == 0 { random(number)() } else { number });
        let handles: Vec<_> =
            (0..3 * LIMIT / 1024).map(|number| session.put(&node(number)).unwrap()).collect();
        are_all_there(&session, &handles, node);
        handles.into_iter().for_each(|handle| session.free(handle).unwrap());
        drop(session);

        let session = heap.session().unwrap();
        let mut list = SlabList::new(&session);
        let count = 2 * LIMIT / 8;
        for number in 0..count {
            list.insert(&number).unwrap();
        }
        assert_eq!(list.fold(0, |sum, number: u64| sum + number), Ok(count * (count - 1) / 2));
    }
}

#[test]
#[ignore = "runs in a cgroup of another test's"]
fn refuses_incompressible_data() {
    for limit in [Limit::Free, Limit::All] {
        let heap = Heap::new(Options::new().limit(limit)).unwrap();
        let mut session = heap.session().unwrap();
        let node = |number: u64| {
            std::array::from_fn::<_, 128, _>({
                let mut next = random(number + 1);
                move |_| next()
            })
        };
        let mut handles = Vec::new();
        let refused = loop {
            match session.put(&node(handles.len() as u64)) {
                Ok(handle) => handles.push(handle),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, Error::Limit);
        assert!(handles.len() as u64 * 1024 > LIMIT / 2, "{} MiB", handles.len() >> 10);
        are_all_there(&session, &handles, node);
        // Freed nodes leave room for others.
        handles.drain(..1000).for_each(|handle| session.free(handle).unwrap());
        session.put(&node(0)).unwrap();
    }
}
