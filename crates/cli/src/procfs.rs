//! What `/proc` says about a process. Reading is cheap, because the supervisor asks every few milliseconds.
//!
//! Every function returns None when the process is gone or may not be read; a process can end between any two
//! questions.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

pub use memfold_cgroup::field_kib;

use crate::failure::Failure;
use crate::sys::{Ending, PAGE};

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// R, S, D, Z, ...
    pub state: u8,
    /// Parent.
    pub parent: i32,
    /// Page faults that needed no disk, since it started: every first write to a page shared by fork is one.
    pub faults: u64,
    /// Threads.
    pub threads: u32,
    /// When it started, in ticks since boot: together with the id, this identifies a process for ever.
    pub start_time: u64,
    /// The program image that it runs.
    pub image: Image,
}

/// A program image in a process: every exec changes it (addresses are random), fork keeps it. Zero or one where
/// the kernel does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Image {
    /// The address of `argc` on the first stack.
    pub stack: u64,
    /// Where the program's code begins.
    pub code: u64,
}

impl Image {
    /// Whether the kernel told.
    pub fn is_known(self) -> bool {
        self.stack > 1
    }
}

fn read<const N: usize>(path: &str) -> Option<([u8; N], usize)> {
    let mut buffer = [0; N];
    let mut file = File::open(path).ok()?;
    let mut length = 0;
    while length < N {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some((buffer, length))
}

/// Fails if `/proc` is not mounted.
pub fn must_be_mounted() -> Result<(), Failure> {
    if std::path::Path::new("/proc/self/status").exists() {
        return Ok(());
    }
    Err(Failure::new(
        "/proc is missing, where memfold reads how much memory processes use; mount it first (mount -t proc proc /proc)",
    ))
}

/// Reads `/proc/PID/stat`.
pub fn stat(pid: i32) -> Option<Stat> {
    let (buffer, length) = read::<1024>(&format!("/proc/{pid}/stat"))?;
    parse_stat(&buffer[..length])
}

fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may contain anything, parentheses included.
    let after_name = bytes.iter().rposition(|b| *b == b')')? + 2;
    let text = std::str::from_utf8(bytes.get(after_name..)?).ok()?;
    let image = Image::default();
    let mut stat = Stat { state: 0, parent: 0, faults: 0, threads: 0, start_time: 0, image };
    let mut last = 0;
    for (field, word) in (3..=28).zip(text.split_ascii_whitespace()) {
        match field {
            3 => stat.state = *word.as_bytes().first()?,
            4 => stat.parent = word.parse().ok()?,
            10 => stat.faults = word.parse().ok()?,
            20 => stat.threads = word.parse().ok()?,
            22 => stat.start_time = word.parse().ok()?,
            26 => stat.image.code = word.parse().ok()?,
            28 => stat.image.stack = word.parse().ok()?,
            _ => {}
        }
        last = field;
    }
    (last == 28).then_some(stat)
}

/// Private anonymous memory of a process in bytes, by the kernel's counters: pages shared by fork count in full.
/// Zero when the process is ending.
pub fn anonymous(pid: i32) -> Option<u64> {
    let (buffer, length) = read::<128>(&format!("/proc/{pid}/statm"))?;
    parse_statm(&buffer[..length])
}

fn parse_statm(bytes: &[u8]) -> Option<u64> {
    parse_memory(bytes).map(|memory| memory.anonymous)
}

/// Private memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident anonymous memory.
    pub anonymous: u64,
    /// Writable memory, touched or not.
    pub writable: u64,
}

/// Parses the contents of `statm`.
pub fn parse_memory(bytes: &[u8]) -> Option<Memory> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut words = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let resident = words.next()?.ok()?;
    let shared = words.next()?.ok()?;
    let writable = words.nth(2)?.ok()?;
    Some(Memory { anonymous: resident.saturating_sub(shared) * PAGE, writable: writable * PAGE })
}

/// The state of a thread: R, S, D ...
pub fn thread_state(pid: i32, tid: i32) -> Option<u8> {
    let (buffer, length) = read::<1024>(&format!("/proc/{pid}/task/{tid}/stat"))?;
    parse_stat(&buffer[..length]).map(|stat| stat.state)
}

/// How a process ended that has not been waited for yet, as the kernel will report it then; None where the kernel
/// does not tell.
pub fn ending(pid: i32) -> Option<Ending> {
    // To a reader that may not trace the process the kernel reports zero. The file below needs the same right or
    // more, and has no other reason to refuse.
    read::<64>(&format!("/proc/{pid}/personality"))?;
    let (buffer, length) = read::<1024>(&format!("/proc/{pid}/stat"))?;
    parse_ending(&buffer[..length])
}

fn parse_ending(bytes: &[u8]) -> Option<Ending> {
    let after_name = bytes.iter().rposition(|b| *b == b')')? + 2;
    let text = std::str::from_utf8(bytes.get(after_name..)?).ok()?;
    // This is field 52; the first one here is field 3.
    let mut words = text.split_ascii_whitespace();
    let is_zombie = words.next()? == "Z";
    let status: i32 = words.nth(48)?.parse().ok()?;
    is_zombie.then_some(match status & 0x7f {
        0 => Ending::Exited(status >> 8 & 0xff),
        signal => Ending::Signalled(signal),
    })
}

/// The threads of a process.
pub fn threads(pid: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Signals of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals {
    /// It was killed and has not noticed yet.
    pub is_killed: bool,
    /// It blocks every signal that can be blocked, including those that the C library keeps for itself.
    pub blocks_all: bool,
}

/// The signals of a thread of a process.
pub fn signals(pid: i32, tid: i32) -> Option<Signals> {
    let (buffer, length) = read::<4096>(&format!("/proc/{pid}/task/{tid}/status"))?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    let mask = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    const KILL: u64 = 1 << 8;
    const STOP: u64 = 1 << 18;
    Some(Signals {
        is_killed: mask("SigPnd:")? & KILL != 0,
        blocks_all: mask("SigBlk:")? | KILL | STOP == u64::MAX,
    })
}

/// Whether a process has ended: it is gone, or only an entry is left that waits for its parent.
pub fn has_ended(pid: i32) -> bool {
    match stat(pid) {
        None => true,
        // A process whose first thread has ended while others run looks like this too, but still has threads.
        Some(stat) => matches!(stat.state, b'Z' | b'X') && stat.threads <= 1,
    }
}

/// Anonymous memory by the page tables: (counted in full, each page divided by the number of its users). Costs
/// about 5 ms per GiB.
pub fn anonymous_shared(pid: i32) -> Option<(u64, u64)> {
    let (buffer, length) = read::<2048>(&format!("/proc/{pid}/smaps_rollup"))?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    Some((field_kib(text, "Anonymous:")?, field_kib(text, "Pss_Anon:")?))
}

/// Adds the children of a process to `children`. False if the kernel does not have these files.
pub fn children(pid: i32, threads: u32, children: &mut Vec<i32>) -> bool {
    if threads <= 1 {
        return children_of_thread(pid, pid, children);
    }
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    tasks
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .all(|tid| children_of_thread(pid, tid, children))
}

fn children_of_thread(pid: i32, tid: i32, children: &mut Vec<i32>) -> bool {
    let path = format!("/proc/{pid}/task/{tid}/children");
    match std::fs::read_to_string(path) {
        Ok(text) => {
            children.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
            true
        }
        // The directory of a thread that has just ended is gone.
        Err(_) => !std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists(),
    }
}

/// All processes of the machine.
pub fn all() -> Vec<(i32, Stat)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| Some((pid, stat(pid)?)))
        .collect()
}

/// The same, with their parents, for kernels without the files that `children` reads.
pub fn all_with_parents() -> Vec<(i32, i32)> {
    all().into_iter().map(|(pid, stat)| (pid, stat.parent)).collect()
}

/// Its id in the innermost namespace that it lives in: the id that it sees itself.
pub fn inner_pid(pid: i32) -> Option<i32> {
    let (buffer, length) = read::<4096>(&format!("/proc/{pid}/status"))?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    let line = text.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// The process that traces it, if there is one in this pid namespace.
pub fn tracer(pid: i32) -> Option<i32> {
    let (buffer, length) = read::<4096>(&format!("/proc/{pid}/status"))?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    let line = text.lines().find_map(|l| l.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|tracer| *tracer > 0)
}

/// How often a thread has gone to sleep.
pub fn switches(pid: i32, tid: i32) -> Option<u64> {
    let (buffer, length) = read::<4096>(&format!("/proc/{pid}/task/{tid}/status"))?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    let line = text.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Whether a thread waits in this function of the kernel; false where the kernel does not tell.
pub fn waits_in(pid: i32, tid: i32, function: &str) -> bool {
    read::<64>(&format!("/proc/{pid}/task/{tid}/wchan"))
        .is_some_and(|(buffer, length)| &buffer[..length] == function.as_bytes())
}

/// The file it was started from.
pub fn executable(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The user it runs as.
pub fn user(pid: i32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|meta| std::os::unix::fs::MetadataExt::uid(&meta))
}

/// Its short name, which may contain any bytes.
pub fn name(pid: i32) -> Option<Vec<u8>> {
    let (buffer, length) = read::<64>(&format!("/proc/{pid}/comm"))?;
    Some(buffer[..length].trim_ascii_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_an_evil_name() {
        let line = b"12 (a) R 1 (b) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 100 200 300 94000 95000 140000 0 0\n";
        let stat = parse_stat(line).unwrap();
        let image = Image { stack: 140_000, code: 94_000 };
        assert_eq!(stat, Stat { state: b'S', parent: 7, faults: 1, threads: 9, start_time: 4711, image });
        assert_eq!(parse_stat(b"12 (a) S 7 12"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn the_status_of_one_that_has_ended() {
        let line = |state: &str, status: i32| {
            format!(
                "12 (a) b) {state} 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 100 200 300 1 2 3 4 5 6 7 8 9 10 11 12 17 1 0 0 0 0 0 1 2 3 4 5 6 7 {status}\n"
            )
        };
        assert_eq!(parse_ending(line("Z", 3 << 8).as_bytes()), Some(Ending::Exited(3)));
        assert_eq!(parse_ending(line("Z", 0).as_bytes()), Some(Ending::Exited(0)));
        assert_eq!(parse_ending(line("Z", 11 | 0x80).as_bytes()), Some(Ending::Signalled(11)));
        assert_eq!(parse_ending(line("S", 0).as_bytes()), None);
    }

    #[test]
    fn statm_is_resident_without_shared() {
        assert_eq!(parse_statm(b"1000 250 50 10 0 90 0\n"), Some(200 * PAGE));
        assert_eq!(parse_statm(b"0 0 0 0 0 0 0\n"), Some(0));
        assert_eq!(parse_statm(b""), None);
    }

    #[test]
    fn of_this_process() {
        let own = std::process::id() as i32;
        let stat = stat(own).unwrap();
        assert!(stat.threads >= 2 && stat.image.is_known(), "{stat:?}");
        assert_eq!(inner_pid(own), Some(own));
        assert!(!has_ended(own));
        // Without the black box an optimised build would remove the allocation.
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        assert!(anonymous(own).unwrap() >= 32 << 20);
        let (all, each) = anonymous_shared(own).unwrap();
        assert!(all >= 32 << 20 && each <= all && each > all / 2, "{all} {each}");
        assert_eq!(block[12345], 1);
    }

    #[test]
    fn a_child_is_found_and_its_end_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, pid) = (std::process::id() as i32, child.id() as i32);
        let mut found = Vec::new();
        if children(own, 2, &mut found) {
            assert!(found.contains(&pid));
        }
        assert!(all_with_parents().contains(&(pid, own)));
        assert!(!has_ended(pid));
        child.kill().unwrap();
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        assert_eq!(anonymous(pid), Some(0));
        child.wait().unwrap();
        assert!(has_ended(pid));
        assert_eq!(anonymous(pid), None);
    }
}
