//! The trees of programs that run under memfold on this machine, seen from outside: by the page that each supervisor shares with its tree.
//!
//! A supervisor is a process with a memory file of that name open. Who may open it (its own user, or root) sees all counters, and may set the limit; of others
//! only the number is known.

use std::fs::{File, OpenOptions, read_dir, read_link};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use memfold_runtime::shared::{MAGIC, Shared, VERSION};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::failure::Failure;
use crate::{procfs, sys};

/// How the memory file's name begins, as the kernel shows it.
const NAME: &str = "/memfd:memfold-shared";

/// A tree.
#[derive(Clone)]
pub struct Tree {
    /// Its supervisor.
    pub supervisor: i32,
    /// When that began, so that another process of the same number is not taken for it.
    pub start_time: u64,
    /// Its page, which stays mapped.
    pub page: &'static Shared,
}

/// Why a tree can't be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// It belongs to somebody else.
    Refused,
    /// It runs under another version of memfold.
    Version(u32),
}

/// The trees, and those that can't be seen, by supervisor. `known` are those of the last time, which are not mapped again.
pub fn all(known: &[Tree]) -> (Vec<Tree>, Vec<(i32, Hidden)>) {
    let (mut trees, mut hidden) = (Vec::new(), Vec::new());
    for (pid, _) in procfs::all_with_parents() {
        // A member has the page mapped, not open: only supervisors have it open. Their short name may be anything.
        match seen(pid, known) {
            Some(Ok(tree)) => trees.push(tree),
            Some(Err(why)) => hidden.push((pid, why)),
            None => {}
        }
    }
    trees.sort_by_key(|tree| tree.supervisor);
    (trees, hidden)
}

fn seen(pid: i32, known: &[Tree]) -> Option<Result<Tree, Hidden>> {
    let start_time = procfs::stat(pid)?.start_time;
    let same = |tree: &&Tree| tree.supervisor == pid && tree.start_time == start_time;
    if let Some(tree) = known.iter().find(same) {
        return Some(Ok(tree.clone()));
    }
    let file = match page_of(pid) {
        Ok(file) => file?,
        // Of other users' processes only the name tells.
        Err(()) => return (procfs::name(pid).as_deref() == Some("memfold")).then_some(Err(Hidden::Refused)),
    };
    let page: &Shared = match sys::map_shared(&file) {
        Ok(page) => page,
        // A page of another version may be shorter.
        Err(_) => return Some(Err(Hidden::Version(0))),
    };
    if page.magic.load(Acquire) != MAGIC {
        return None;
    }
    let version = page.version.load(Relaxed);
    Some(if version == VERSION {
        Ok(Tree { supervisor: pid, start_time, page })
    } else {
        Err(Hidden::Version(version))
    })
}

/// The open page of a process, if it has one; an error if nobody may look.
fn page_of(pid: i32) -> Result<Option<OwnedFd>, ()> {
    let entries = read_dir(format!("/proc/{pid}/fd")).map_err(|_| ())?;
    let is_page = |path: &PathBuf| read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(NAME));
    let Some(path) = entries.flatten().map(|entry| entry.path()).find(is_page) else { return Ok(None) };
    let file: File = OpenOptions::new().read(true).write(true).open(path).map_err(|_| ())?;
    Ok(Some(file.into()))
}

/// The tree that a process is the supervisor or a member of.
pub fn of(pid: i32) -> Result<Tree, Failure> {
    if procfs::stat(pid).is_none() {
        return Err(Failure::new(format!(
            "there is no process {pid}; 'memfold top --json' lists those under memfold"
        )));
    }
    let (trees, hidden) = all(&[]);
    let mut at = pid;
    loop {
        let has_slot = |tree: &&Tree| tree.page.live_slots().any(|slot| slot.pid.load(Relaxed) as i32 == at);
        let found = trees.iter().find(|tree| tree.supervisor == at).or_else(|| trees.iter().find(has_slot));
        if let Some(tree) = found {
            return Ok(tree.clone());
        }
        match hidden.iter().find(|(supervisor, _)| *supervisor == at) {
            Some((_, Hidden::Refused)) => {
                let user = procfs::user(at).unwrap_or(0);
                return Err(Failure::new(format!(
                    "process {pid} runs under memfold for user {user}: try with sudo"
                )));
            }
            Some((_, Hidden::Version(_))) => {
                return Err(Failure::new(format!(
                    "process {pid} runs under another version of memfold: use the command that started it"
                )));
            }
            None => {}
        }
        // Members that are not managed are known by their parents.
        match procfs::stat(at) {
            Some(stat) if stat.parent > 1 => at = stat.parent,
            _ => break,
        }
    }
    Err(Failure::new(format!(
        "process {pid} does not run under memfold: start it with 'memfold run --limit SIZE -- PROGRAM'"
    )))
}

impl Tree {
    /// What was started, as well as it is known.
    pub fn command(&self) -> String {
        let words = std::fs::read(format!("/proc/{}/cmdline", self.supervisor)).unwrap_or_default();
        let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let begin = words.iter().position(|word| word == "--").map_or(1, |at| at + 1);
        words[begin.min(words.len())..].join(" ").trim_end().to_owned()
    }
}
