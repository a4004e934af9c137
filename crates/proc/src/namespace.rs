//! Translates process ids of a tree in another pid namespace to ids of this one.

use crate::process;

/// The most ancestors that are looked up: more than the depth of any tree.
const DEEPEST: usize = 4096;

/// Returns the id here of a process that reports the id `said`, which may be one of its own pid namespace.
pub fn outer(said: i32, supervisor: i32) -> i32 {
    if descends(said, supervisor) {
        return said;
    }
    let others = process::all_with_parents();
    let is_it = |pid: i32| process::inner_pid(pid) == Some(said) && descends(pid, supervisor);
    // The process may have just ended: then the reported id is all that is known.
    others.into_iter().map(|(pid, _)| pid).find(|pid| *pid != said && is_it(*pid)).unwrap_or(said)
}

/// Whether process `pid`, an id here, is the process of `supervisor`'s tree that reports the id `said`.
pub fn is(pid: i32, said: i32, supervisor: i32) -> bool {
    (pid == said || process::inner_pid(pid) == Some(said)) && descends(pid, supervisor)
}

/// Whether a process descends from another one. Orphans stay descendants, because the supervisor adopts the
/// orphans of its tree.
fn descends(pid: i32, from: i32) -> bool {
    let parent = |pid: &i32| process::stat(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), parent).take(DEEPEST).skip(1).any(|parent| parent == from)
}

/// Whether a process sees the same files, processes and users as this one; false if that is unknown.
pub fn are_shared(pid: i32) -> bool {
    ["mnt", "pid", "user"].iter().all(|kind| {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        of("self").is_some_and(|own| of(&pid.to_string()) == Some(own))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_own_number() {
        let own = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(descends(pid, own) && !descends(own, pid) && !descends(own, own));
        assert_eq!(outer(pid, own), pid);
        assert!(is(pid, pid, own) && !is(own, own, pid) && !is(pid, own, own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(outer(pid, own), pid);
    }
}
