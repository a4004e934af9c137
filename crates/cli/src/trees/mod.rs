//! The trees of programs that run under memfold on this machine. They are read through the page that each
//! supervisor shares with its tree.
//!
//! A supervisor is a process that has the memory file of a shared page open. A caller that may open the file
//! (the same user, or root) sees all counters and may set the limit. Any other caller learns only the process
//! id. A page stays mapped while a [`Tree`] for it exists.

pub mod limit;
pub mod top;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, read_dir, read_link};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::{Duration, Instant};

use clap::Parser;
use memfold_args::{Cli, Command};
use memfold_proc::namespace;
use memfold_proc::process::{self, Image, Stat};
use memfold_shared::page::{ENV_SHARED, LARGEST_LIMIT, MAGIC, Shared, VERSION, flags};

use crate::output::failure::Failure;
use crate::settings::limit::Limit;
use crate::settings::{self, shared_page};
use crate::sys::{self, Mapped};

/// The beginning of the memory file's name, as the kernel shows it.
const NAME: &str = "/memfd:memfold-shared";
/// A program that has run for this long without a page will not make one. Its open files, which may be many,
/// are not examined again.
const SETTLED: Duration = Duration::from_secs(5);

/// A tree.
#[derive(Clone)]
pub struct Tree {
    /// The supervisor's process id.
    pub supervisor: i32,
    /// When the supervisor started, to distinguish it from a later process with the same id.
    pub start_time: u64,
    /// The shared page.
    pub page: Rc<Mapped<Shared>>,
    /// The file of the page: its inode.
    file: u64,
}

/// The reason why a tree cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// It belongs to another user.
    Refused,
    /// It runs under another version of memfold.
    Version,
}

/// Results of the last search, which the next search need not repeat.
#[derive(Default)]
pub struct Known {
    /// The trees, by supervisor.
    pub trees: Vec<Tree>,
    /// Processes that are not supervisors: their program images, and since when they have run them.
    others: HashMap<i32, Other>,
}

struct Other {
    start_time: u64,
    image: Image,
    since: Instant,
}

impl Known {
    /// Finds the trees. Returns those that cannot be read, by supervisor.
    pub fn look(&mut self) -> Vec<(i32, Hidden)> {
        let before = std::mem::take(self);
        let mut hidden = Vec::new();
        for (pid, stat) in process::all() {
            match self.seen(pid, &stat, &before) {
                Some(Ok(tree)) => self.trees.push(tree),
                Some(Err(why)) => hidden.push((pid, why)),
                None => {}
            }
        }
        // Of the processes that have a page open, its supervisor comes first: when that has ended, up to two
        // others may serve what is left of the tree.
        let is_other = |tree: &Tree| tree.page.supervisor.load(Relaxed) as i32 != tree.supervisor;
        let mut files = HashSet::new();
        self.trees.sort_by_key(|tree| (is_other(tree), tree.supervisor));
        self.trees.retain(|tree| files.insert(tree.file));
        self.trees.sort_by_key(|tree| tree.supervisor);
        hidden.sort_by_key(|(supervisor, _)| *supervisor);
        hidden
    }

    /// The tree that a process supervises. Only supervisors have the page open; members have it mapped. The
    /// short name of a supervisor may be anything.
    fn seen(&mut self, pid: i32, stat: &Stat, before: &Known) -> Option<Result<Tree, Hidden>> {
        // A zombie supervises nothing.
        if matches!(stat.state, b'Z' | b'X') {
            return None;
        }
        let start_time = stat.start_time;
        let same = |tree: &&Tree| tree.supervisor == pid && tree.start_time == start_time;
        if let Some(tree) = before.trees.iter().find(same) {
            return Some(Ok(tree.clone()));
        }
        let other = before.others.get(&pid);
        let other = other.filter(|other| (other.start_time, other.image) == (start_time, stat.image));
        let since = other.map_or_else(Instant::now, |other| other.since);
        // A supervisor makes its page soon after it starts.
        if since.elapsed() < SETTLED {
            match page_of(pid) {
                Ok(Some(file)) => return tree_of(pid, start_time, file),
                Ok(None) => {}
                // Only the command line identifies supervisors of other users.
                Err(()) => return is_supervisor_by_name(pid).then_some(Err(Hidden::Refused)),
            }
        }
        if stat.image.is_known() {
            self.others.insert(pid, Other { start_time, image: stat.image, since });
        }
        None
    }
}

fn tree_of(supervisor: i32, start_time: u64, file: File) -> Option<Result<Tree, Hidden>> {
    if version_of(&file)? != VERSION {
        return Some(Err(Hidden::Version));
    }
    // Reading a page that its owner can truncate could kill this process.
    if !shared_page::is_sealed(&file) {
        return None;
    }
    let number = file.metadata().ok()?.ino();
    let page = Mapped::new(&file.into()).ok()?;
    Some(Ok(Tree { supervisor, start_time, page: Rc::new(page), file: number }))
}

/// The open page of a process, if it has one; an error if the caller has no access.
fn page_of(pid: i32) -> Result<Option<File>, ()> {
    let entries = read_dir(format!("/proc/{pid}/fd")).map_err(|_| ())?;
    let is_page = |path: &PathBuf| read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(NAME));
    let Some(path) = entries.flatten().map(|entry| entry.path()).find(is_page) else { return Ok(None) };
    OpenOptions::new().read(true).write(true).open(path).map(Some).map_err(|_| ())
}

/// The inode of the page that a process has mapped as a member of a tree.
fn mapped_page(pid: i32) -> Option<u64> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mut lines = maps.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.find_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let (inode, path) = (words.next()?, words.next()?);
        inode.parse().ok().filter(|_| path.starts_with(NAME))
    })
}

/// Whether a process has the page of a tree mapped, as far as this user may know.
#[cfg(feature = "analyze")]
pub fn is_member(pid: i32) -> bool {
    mapped_page(pid).is_some()
}

/// The version of a page's layout, once the supervisor has written it. The first fields are the same in all
/// versions.
fn version_of(file: &File) -> Option<u32> {
    let mut head = [0; 12];
    file.read_exact_at(&mut head, 0).ok()?;
    let (magic, version) = head.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*magic) == MAGIC)
        .then(|| u32::from_le_bytes(*version.first_chunk().unwrap_or(&[0; 4])))
}

fn is_supervisor_by_name(pid: i32) -> bool {
    process::name(pid).as_deref() == Some(b"memfold") && words(pid).get(1).is_some_and(|word| word == "run")
}

/// The words of the command line.
fn words(pid: i32) -> Vec<OsString> {
    let words = process::command_line(pid, u64::MAX).unwrap_or_default();
    words
        .strip_suffix(b"\0")
        .unwrap_or(&words)
        .split(|byte| *byte == 0)
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect()
}

/// The tree whose supervisor or member is this process.
pub fn of(pid: i32) -> Result<Tree, Failure> {
    if process::has_ended(pid) {
        return Err(Failure::new(format!(
            "there is no process {pid}; 'memfold top' shows those under memfold"
        )));
    }
    let mut known = Known::default();
    let hidden = known.look();
    let trees = known.trees;
    let mut at = pid;
    loop {
        // Ids in a page may be those of another pid namespace, and any process can make a page. So check
        // both. A daemon descends from nobody that is left, but has the page mapped.
        let mapped = mapped_page(at);
        let has_slot = |tree: &&Tree| {
            if mapped == Some(tree.file) {
                return true;
            }
            tree.page
                .live_slots()
                .any(|slot| namespace::is(at, slot.pid.load(Relaxed) as i32, tree.supervisor))
        };
        let found = trees.iter().find(|tree| tree.supervisor == at).or_else(|| trees.iter().find(has_slot));
        if let Some(tree) = found {
            return Ok(tree.clone());
        }
        match hidden.iter().find(|(supervisor, _)| *supervisor == at) {
            Some((_, Hidden::Refused)) => {
                let user = process::user(at).unwrap_or(0);
                return Err(Failure::new(format!(
                    "process {pid} runs under memfold for user {user}: try as root"
                )));
            }
            Some((_, Hidden::Version)) => {
                return Err(Failure::new(format!(
                    "process {pid} runs under another version of memfold: use the command that started it"
                )));
            }
            None => {}
        }
        // An unmanaged member is found through its parents.
        match process::stat(at) {
            Some(stat) if stat.parent > 1 => at = stat.parent,
            _ => break,
        }
    }
    if has_our_environment(pid) {
        return Err(Failure::new(format!(
            "process {pid} was started under memfold, whose supervisor has ended: its limit can no longer be seen or changed"
        )));
    }
    Err(Failure::new(format!(
        "process {pid} does not run under memfold: start it with 'memfold run --limit SIZE -- PROGRAM'"
    )))
}

fn has_our_environment(pid: i32) -> bool {
    let words = process::environment(pid).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word.starts_with(format!("{ENV_SHARED}=").as_bytes()))
}

impl Tree {
    /// The command that was started, byte for byte as it was given.
    pub fn command(&self) -> Vec<u8> {
        let words = words(self.supervisor);
        match Cli::try_parse_from(&words).map(|cli| cli.command) {
            Ok(Command::Run(run)) => run.command.join(OsStr::new(" ")).into_vec(),
            // The supervisor is just ending.
            _ => words.join(OsStr::new(" ")).into_vec(),
        }
    }

    /// Whether its supervisor still runs.
    pub fn is_there(&self) -> bool {
        process::stat(self.supervisor)
            .is_some_and(|stat| stat.start_time == self.start_time && !matches!(stat.state, b'Z' | b'X'))
    }

    /// Whether memfold terminates a process whose data do not compress enough for its limit.
    pub fn kills(&self) -> bool {
        self.page.on_full.load(Relaxed) == memfold_shared::page::on_full::KILL
    }

    /// Whether its limit adapts itself.
    pub fn is_auto(&self) -> bool {
        self.page.stall_ppm.load(Relaxed) > 0 && self.page.idle_ms.load(Relaxed) == 0
    }

    /// Whether its limit follows what the machine and the cgroup have free.
    pub fn follows(&self) -> bool {
        self.page.flags.load(Relaxed) & flags::FOLLOWS != 0
    }

    /// Sets its limit, and whether the limit adapts itself; returns the previous limit.
    pub fn set_limit(&self, limit: &Limit) -> u64 {
        if limit.is_auto {
            self.page.idle_ms.store(0, Relaxed);
            // Keep a share that the user gave.
            let _ = self.page.stall_ppm.compare_exchange(0, settings::STALL_PPM, Relaxed, Relaxed);
        } else if self.is_auto() {
            // Compression by age continues, unlike that by share.
            self.page.stall_ppm.store(0, Relaxed);
        }
        let before = self.set_bytes(limit.bytes);
        if limit.is_auto && !self.kills() {
            self.page.flags.fetch_or(flags::FOLLOWS, Relaxed);
        }
        before
    }

    /// Sets its limit in bytes, which does not follow what is free any more; returns the previous one.
    pub fn set_bytes(&self, bytes: u64) -> u64 {
        self.page.flags.fetch_and(!flags::FOLLOWS, Relaxed);
        let before = self.page.limit_bytes.swap(bytes.min(LARGEST_LIMIT), Relaxed);
        // The supervisor sees the limit at once, the processes within a tenth of a second.
        self.page.pressure.fetch_add(1, AcqRel);
        sys::futex_wake(&self.page.pressure);
        before
    }
}
