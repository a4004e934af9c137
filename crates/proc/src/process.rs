//! What `/proc` says about a process and its threads. Reading is cheap, because a supervisor asks every few
//! milliseconds.
//!
//! Every function returns None when the process is gone or may not be read; a process can end between any two
//! questions.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{PAGE, field, field_kib};

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// R, S, D, Z, ...
    pub state: u8,
    /// Parent.
    pub parent: i32,
    /// Page faults since it started that needed no disk. Every first write to a page shared by fork is one.
    pub faults: u64,
    /// CPU time that it has used, in ticks.
    pub ticks: u64,
    /// Threads.
    pub threads: u32,
    /// When it started, in ticks since boot. Together with the id, this identifies a process until the next
    /// boot.
    pub start_time: u64,
    /// The program image that it runs.
    pub image: Image,
}

/// A program image in a process: every exec changes it (addresses are random), fork keeps it. The addresses
/// are zero or one where the kernel hides them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Image {
    /// The address of `argc` on the first stack.
    pub stack: u64,
    /// Where the program's code begins.
    pub code: u64,
}

impl Image {
    /// Whether the kernel shows the addresses.
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
    let mut stat = Stat { state: 0, parent: 0, faults: 0, ticks: 0, threads: 0, start_time: 0, image };
    let mut last = 0;
    for (field, word) in (3..=28).zip(text.split_ascii_whitespace()) {
        match field {
            3 => stat.state = *word.as_bytes().first()?,
            4 => stat.parent = word.parse().ok()?,
            10 => stat.faults = word.parse().ok()?,
            14 | 15 => stat.ticks += word.parse::<u64>().ok()?,
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

/// A process's open `statm`, to be read repeatedly. The file keeps referring to this process, even after its
/// end.
pub struct Statm(File);

impl Statm {
    /// Opens it.
    pub fn open(pid: i32) -> Option<Self> {
        File::open(format!("/proc/{pid}/statm")).ok().map(Self)
    }

    /// The current memory; `None` if the text cannot be parsed.
    pub fn memory(&self) -> io::Result<Option<Memory>> {
        let mut text = [0; 128];
        let length = self.0.read_at(&mut text, 0)?;
        Ok(parse_memory(&text[..length]))
    }
}

fn parse_memory(bytes: &[u8]) -> Option<Memory> {
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

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

impl Ending {
    /// The corresponding exit status.
    pub fn status(self) -> i32 {
        match self {
            Self::Exited(status) => status,
            Self::Signalled(signal) => 128 + signal,
        }
    }
}

/// How a zombie process ended, as the kernel will report it to the parent that waits for it. None where the
/// kernel hides this.
pub fn ending(pid: i32) -> Option<Ending> {
    // The kernel reports zero to a reader that may not trace the process. The file below requires the same
    // right or more, and cannot be refused for another reason.
    read::<64>(&format!("/proc/{pid}/personality"))?;
    let (buffer, length) = read::<1024>(&format!("/proc/{pid}/stat"))?;
    parse_ending(&buffer[..length])
}

fn parse_ending(bytes: &[u8]) -> Option<Ending> {
    let after_name = bytes.iter().rposition(|b| *b == b')')? + 2;
    let text = std::str::from_utf8(bytes.get(after_name..)?).ok()?;
    // The status is field 52; the first word here is field 3.
    let mut words = text.split_ascii_whitespace();
    let is_zombie = words.next()? == "Z";
    let status: i32 = words.nth(48)?.parse().ok()?;
    is_zombie.then_some(match status & 0x7f {
        0 => Ending::Exited(status >> 8 & 0xff),
        signal => Ending::Signalled(signal),
    })
}

/// The threads of a process.
pub fn threads(pid: i32) -> impl Iterator<Item = i32> {
    numbers_in(format!("/proc/{pid}/task"))
}

/// The names in a directory that are numbers.
fn numbers_in(directory: impl AsRef<Path>) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The contents of `status` of a process (its id or `self`) or of a thread (`PID/task/TID`).
pub fn status(of: impl Display) -> Option<String> {
    // No fixed buffer: the lists of groups and CPUs may be long.
    Some(String::from_utf8_lossy(&std::fs::read(format!("/proc/{of}/status")).ok()?).into_owned())
}

/// The most memory that this process has had resident.
pub fn own_peak() -> Option<u64> {
    field_kib(&status("self")?, "VmHWM:")
}

/// Signals of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals {
    /// SIGKILL is pending.
    pub is_killed: bool,
    /// It blocks every signal that can be blocked, including those that the C library keeps for itself.
    pub blocks_all: bool,
}

/// The signals of a thread of a process.
pub fn signals(pid: i32, tid: i32) -> Option<Signals> {
    let text = status(format_args!("{pid}/task/{tid}"))?;
    let mask = |name: &str| u64::from_str_radix(field(&text, name)?, 16).ok();
    const KILL: u64 = 1 << 8;
    const STOP: u64 = 1 << 18;
    Some(Signals {
        is_killed: mask("SigPnd:")? & KILL != 0,
        blocks_all: mask("SigBlk:")? | KILL | STOP == u64::MAX,
    })
}

/// Whether a process has ended: it is gone, or a zombie.
pub fn has_ended(pid: i32) -> bool {
    match stat(pid) {
        None => true,
        // A process whose first thread has ended has this state too, but its other threads still count.
        Some(stat) => matches!(stat.state, b'Z' | b'X') && stat.threads <= 1,
    }
}

/// Anonymous memory according to the page tables: counted in full, and with each page divided by the number
/// of its users. Costs about 5 ms per GiB.
pub fn anonymous_shared(pid: i32) -> Option<(u64, u64)> {
    let (buffer, length) = read::<2048>(&format!("/proc/{pid}/smaps_rollup"))?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    Some((field_kib(text, "Anonymous:")?, field_kib(text, "Pss_Anon:")?))
}

/// Adds the children of a process to `children`. False if the kernel lacks the files that list them.
pub fn children(pid: i32, threads: u32, children: &mut Vec<i32>) -> bool {
    if threads <= 1 {
        return children_of_thread(pid, pid, children);
    }
    self::threads(pid).all(|tid| children_of_thread(pid, tid, children))
}

fn children_of_thread(pid: i32, tid: i32, children: &mut Vec<i32>) -> bool {
    let path = format!("/proc/{pid}/task/{tid}/children");
    match std::fs::read_to_string(path) {
        Ok(text) => {
            children.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
            true
        }
        // If the thread has just ended, its directory is gone, and nothing is missing.
        Err(_) => !std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists(),
    }
}

/// All processes of the machine.
pub fn all() -> Vec<(i32, Stat)> {
    numbers_in("/proc").filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// All processes with their parents, for kernels without the files that `children` reads.
pub fn all_with_parents() -> Vec<(i32, i32)> {
    all().into_iter().map(|(pid, stat)| (pid, stat.parent)).collect()
}

/// Its id in its own pid namespace: the id that it sees itself.
pub fn inner_pid(pid: i32) -> Option<i32> {
    field(&status(pid)?, "NSpid:")?.split_ascii_whitespace().last()?.parse().ok()
}

/// The process that traces it, if there is one in this pid namespace.
pub fn tracer(pid: i32) -> Option<i32> {
    field(&status(pid)?, "TracerPid:")?.parse().ok().filter(|tracer| *tracer > 0)
}

/// How often a thread has gone to sleep.
pub fn switches(pid: i32, tid: i32) -> Option<u64> {
    field(&status(format_args!("{pid}/task/{tid}"))?, "voluntary_ctxt_switches:")?.parse().ok()
}

/// Whether a thread waits in this kernel function; false where the kernel hides this.
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
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

/// At most `at_most` bytes of its command line: words, each followed by a zero byte.
pub fn command_line(pid: i32, at_most: u64) -> Option<Vec<u8>> {
    let mut words = Vec::new();
    File::open(format!("/proc/{pid}/cmdline")).ok()?.take(at_most).read_to_end(&mut words).ok()?;
    Some(words)
}

/// The environment that it was started with: `NAME=VALUE` strings, each followed by a zero byte.
pub fn environment(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

/// The number of the system call that a thread sleeps in.
pub fn system_call(pid: i32, tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    text.split(' ').next()?.parse().ok()
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
        assert_eq!(
            stat,
            Stat { state: b'S', parent: 7, faults: 1, ticks: 5 + 6, threads: 9, start_time: 4711, image }
        );
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
