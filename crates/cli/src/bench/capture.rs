//! `memfold bench --capture PID -o FILE`: the private anonymous pages that a
//! process has resident, one behind the other in the order of their addresses.
//!
//! The process is not stopped: each page is copied while it runs, so pages may
//! be of slightly different moments. To a measurement that compresses each
//! block alone it makes no difference, and nothing in the process notices. What
//! is swapped out or was never touched is not read, and so not brought in.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use memfold_codec::same_filled;
use nix::errno::Errno;
use serde::Serialize;

use crate::bench::plan::Plan;
use crate::failure::{Failure, say};
use crate::output::Output;
use crate::size::Human;
use crate::stats::grouped;
use crate::sys::{self, PAGE, Region};
use crate::{machine, procfs};

/// Pages that are read at once.
const TOGETHER: usize = 64;
const PAGE_BYTES: usize = PAGE as usize;

/// What came of it; with `--json` printed as it is.
#[derive(Debug, Default, Serialize)]
struct Captured {
    version: &'static str,
    pid: i32,
    file: String,
    /// Pages in the file.
    pages: usize,
    bytes: u64,
    /// Pages of zeros that were left out.
    dropped_zero: usize,
    /// Copies of earlier pages that were left out.
    dropped_duplicates: usize,
    /// Pages that the process gave back meanwhile.
    vanished: usize,
}

/// An open process: all three are of the same memory, even if it execs or ends.
struct Process {
    maps: File,
    pagemap: File,
    memory: File,
}

/// Captures `process`. The result is the exit status.
pub fn capture(process: &str, path: &Path, plan: &Plan, json: bool) -> Result<i32, Failure> {
    let pid = match process.parse::<i32>() {
        Ok(pid) if pid > 0 => pid,
        _ => {
            return Err(Failure::new(format!(
                "--capture '{process}' is no process id; give a number, for example --capture $(pidof python3)"
            )));
        }
    };
    let process = Process::open(pid)?;
    let ranges = process.ranges().map_err(|e| cannot(pid, &e))?;
    if ranges.is_empty() {
        return Err(no_memory(pid));
    }
    let mut output = Output::prepare_private(path, "--output")?;
    let mut sink = Sink::new(pid, path, plan, BufWriter::with_capacity(1 << 20, output.file()));
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let (regions, next) = process.resident(at, range.end).map_err(|e| cannot(pid, &e))?;
            for region in regions {
                process.copy(region, &mut sink).map_err(|e| cannot_write(path, &e))?;
            }
            at = next;
        }
    }
    let captured = sink.end().map_err(|e| cannot_write(path, &e))?;
    if captured.pages == 0 {
        return Err(Failure::new(format!(
            "process {pid} has no private anonymous page resident, or none but those left out; nothing was written"
        )));
    }
    output.finish().map_err(|e| cannot_write(path, &e))?;
    say(&captured.sentence());
    if json {
        let text = serde_json::to_string_pretty(&captured)
            .map_err(|e| Failure::new(format!("cannot write the result as JSON: {e}")))?;
        super::print(&(text + "\n"))?;
    }
    Ok(0)
}

impl Captured {
    fn sentence(&self) -> String {
        let mut text = format!(
            "{} pages ({}) of process {} are in {}",
            grouped(self.pages as u64),
            Human(self.bytes),
            self.pid,
            self.file
        );
        let left_out = [
            (self.dropped_zero, "of zeros"),
            (self.dropped_duplicates, "copies"),
            (self.vanished, "given back meanwhile"),
        ];
        let mut words = left_out.iter().filter(|(count, _)| *count > 0).peekable();
        if words.peek().is_some() {
            let words: Vec<_> =
                words.map(|(count, what)| format!("{} {what}", grouped(*count as u64))).collect();
            text += &format!("; left out: {}", words.join(", "));
        }
        text
    }
}

impl Process {
    fn open(pid: i32) -> Result<Self, Failure> {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).map_err(|e| cannot(pid, &e));
        Ok(Self { maps: open("maps")?, pagemap: open("pagemap")?, memory: open("mem")? })
    }

    /// The private mappings.
    fn ranges(&self) -> std::io::Result<Vec<Region>> {
        let mut text = Vec::new();
        (&self.maps).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).lines().filter_map(private).collect())
    }

    /// The first regions of resident anonymous pages from `start` on, and where to go on searching.
    fn resident(&self, start: u64, end: u64) -> std::io::Result<(Vec<Region>, u64)> {
        let mut found = vec![Region::default(); 256];
        match sys::scan_anonymous(&self.pagemap, start, end, &mut found) {
            Ok((count, next)) => {
                found.truncate(count);
                // The kernel always gets on; should it not, this must end all the same.
                Ok((found, next.max(start + PAGE)))
            }
            // Kernels before 6.7.
            Err(Errno::ENOTTY | Errno::EINVAL) => self.resident_by_page(start, end),
            Err(e) => Err(e.into()),
        }
    }

    fn resident_by_page(&self, start: u64, end: u64) -> std::io::Result<(Vec<Region>, u64)> {
        const PRESENT: u64 = 1 << 63;
        const FILE: u64 = 1 << 61;
        let next = end.min(start + (64 << 20));
        let mut entries = vec![0; ((next - start) / PAGE * 8) as usize];
        let got = self.pagemap.read_at(&mut entries, start / PAGE * 8)?;
        let mut found: Vec<Region> = Vec::new();
        for (i, entry) in entries[..got].chunks_exact(8).enumerate() {
            let bits = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
            if bits & PRESENT == 0 || bits & FILE != 0 {
                continue;
            }
            let at = start + i as u64 * PAGE;
            match found.last_mut() {
                Some(last) if last.end == at => last.end += PAGE,
                _ => found.push(Region::new(at, at + PAGE)),
            }
        }
        Ok((found, next))
    }

    /// Copies pages that were there a moment ago. Errors are those of the sink.
    fn copy(&self, region: Region, sink: &mut Sink<'_>) -> std::io::Result<()> {
        let mut buffer = vec![0; TOGETHER * PAGE_BYTES];
        let mut at = region.start;
        while at < region.end {
            let bytes = buffer.len().min((region.end - at) as usize);
            let got = self.memory.read_at(&mut buffer[..bytes], at).unwrap_or(0) / PAGE_BYTES * PAGE_BYTES;
            buffer[..got].chunks_exact(PAGE_BYTES).try_for_each(|page| sink.take(page))?;
            at += got as u64;
            if got < bytes {
                sink.captured.vanished += 1;
                at += PAGE;
            }
        }
        Ok(())
    }
}

/// Where pages go.
struct Sink<'a> {
    out: BufWriter<&'a mut File>,
    captured: Captured,
    drop_zero: bool,
    /// What was seen, if copies are to be left out: as hashes of 128 bits, since the pages would fill the memory.
    seen: Option<HashSet<(u64, u64)>>,
}

impl<'a> Sink<'a> {
    fn new(pid: i32, path: &Path, plan: &Plan, out: BufWriter<&'a mut File>) -> Self {
        let file = path.display().to_string();
        let captured = Captured { version: env!("CARGO_PKG_VERSION"), pid, file, ..Captured::default() };
        let seen = plan.drop_duplicates.then(HashSet::new);
        Self { out, captured, drop_zero: plan.drop_zero, seen }
    }

    fn take(&mut self, page: &[u8]) -> std::io::Result<()> {
        if self.drop_zero && same_filled(page) == Some(0) {
            self.captured.dropped_zero += 1;
            return Ok(());
        }
        if self.seen.as_mut().is_some_and(|seen| !seen.insert((hash(page, 0), hash(page, 1)))) {
            self.captured.dropped_duplicates += 1;
            return Ok(());
        }
        self.captured.pages += 1;
        self.captured.bytes += page.len() as u64;
        self.out.write_all(page)
    }

    fn end(mut self) -> std::io::Result<Captured> {
        self.out.flush()?;
        Ok(self.captured)
    }
}

fn hash(page: &[u8], seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, page).hash(&mut hasher);
    hasher.finish()
}

/// The range of a line of `maps`, if it can hold private anonymous pages: those of files that were written to
/// are such pages too.
fn private(line: &str) -> Option<Region> {
    // Names may hold blanks; what counts is how they begin.
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let name = words.nth(3).unwrap_or("");
    let special = name.starts_with("[v") || name.starts_with("/dev/");
    if !permissions.ends_with('p') || special {
        return None;
    }
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(Region::new(address(start)?, address(end)?))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("the pages could not be written to '{}': {error}", path.display()))
}

fn no_memory(pid: i32) -> Failure {
    Failure::new(format!("process {pid} has no memory of its own: it has ended, or it is part of the kernel"))
}

/// Why a process cannot be read, and what helps.
fn cannot(pid: i32, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => {
            return Failure::new(format!("there is no process {pid}; 'ps -e' lists those that there are"));
        }
        ErrorKind::PermissionDenied => {}
        _ if error.raw_os_error() == Some(Errno::ESRCH as i32) => return no_memory(pid),
        _ => return Failure::new(format!("cannot read the memory of process {pid}: {error}")),
    }
    let name = procfs::name(pid).unwrap_or_default();
    let own = nix::unistd::geteuid();
    let user = procfs::user(pid).unwrap_or(own.as_raw());
    let scope = machine::setting("/proc/sys/kernel/yama/ptrace_scope").unwrap_or(0);
    let remedy = if own.is_root() {
        "a container or a security module stands in the way: run it outside of the container, or give that SYS_PTRACE".to_owned()
    } else if user != own.as_raw() {
        format!("it belongs to user {user}: try sudo memfold bench --capture {pid} -o FILE")
    } else if scope > 0 {
        "kernel.yama.ptrace_scope keeps even your own processes from you: run this with sudo, or, until the next start of the \
         machine, sudo sysctl -w kernel.yama.ptrace_scope=0"
            .to_owned()
    } else {
        format!(
            "it has more rights than you, or does not let itself be traced: try sudo memfold bench --capture {pid} -o FILE"
        )
    };
    Failure::new(format!("you may not read the memory of process {pid} ({name}); {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_can_hold_private_pages() {
        let range = |start, end| Some(Region::new(start, end));
        assert_eq!(private("1000-3000 rw-p 00000000 00:00 0 "), range(0x1000, 0x3000));
        assert_eq!(private("1000-3000 rw-p 00000000 00:00 0          [heap]"), range(0x1000, 0x3000));
        assert_eq!(private("1000-3000 r--p 00002000 08:01 77   /usr/lib/a b.so"), range(0x1000, 0x3000));
        assert_eq!(private("1000-3000 rw-s 00000000 00:01 9    /memfd:x (deleted)"), None);
        assert_eq!(private("1000-3000 rw-p 00000000 00:05 9    /dev/nvidia0"), None);
        assert_eq!(private("1000-3000 r--p 00000000 00:00 0    [vvar]"), None);
        assert_eq!(private(""), None);
    }

    #[test]
    fn both_ways_find_the_same_pages() {
        let process = Process::open(std::process::id() as i32).unwrap();
        // A block of its own, with a page in the middle that is not there.
        let mut block = vec![1u8; 4 << 20];
        let start = (block.as_mut_ptr() as u64).next_multiple_of(PAGE) + PAGE;
        let end = start + 100 * PAGE;
        let hole = start + 50 * PAGE;
        // SAFETY: within the block, whose bytes may have any value; they read as zero afterwards.
        let given = unsafe { nix::libc::madvise(hole as *mut _, PAGE_BYTES, nix::libc::MADV_DONTNEED) };
        assert_eq!(given, 0);
        let pages = |regions: Vec<Region>| regions.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
        let wanted = vec![(start, hole), (hole + PAGE, end)];
        assert_eq!(pages(process.resident_by_page(start, end).unwrap().0), wanted);
        assert_eq!(pages(process.resident(start, end).unwrap().0), wanted);
        assert_eq!(block[0], 1);
    }
}
