//! `memfold bench --capture PID -o FILE`: writes the resident private anonymous pages of a process, in the
//! order of their addresses.
//!
//! The process is not stopped and notices nothing. Its pages are copied while it runs, so they may come from
//! slightly different moments. This makes no difference to a measurement that compresses each block alone.
//! Pages that are swapped out or were never touched are not read, and so do not become resident.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::path::Path;

use memfold::size::Human;
use memfold_analyze::PAGE;
use memfold_analyze::source::process::Memory;
use memfold_codec::same_filled;
use memfold_proc::pagemap::Region;
use serde::Serialize;

use super::plan::Plan;
use crate::checks::trace;
use crate::output::failure::{Failure, say};
use crate::output::file::Output;
use crate::output::text::{self, grouped, print};

/// The number of pages that are read at once.
const TOGETHER: usize = 64;

/// The result; `--json` prints it as it is.
#[derive(Debug, Default, Serialize)]
struct Captured {
    version: &'static str,
    pid: i32,
    file: String,
    /// Pages in the file.
    pages: usize,
    bytes: u64,
    /// Pages of zeros that were omitted.
    dropped_zero: usize,
    /// Copies of earlier pages that were omitted.
    dropped_duplicates: usize,
    /// Pages that the process released before they were read.
    vanished: usize,
}

/// Captures `process` and returns the exit status.
pub fn capture(process: &str, path: &Path, plan: &Plan, json: bool) -> Result<i32, Failure> {
    let pid = match process.parse::<i32>() {
        Ok(pid) if pid > 0 => pid,
        _ => {
            return Err(Failure::new(format!(
                "--capture '{process}' is not a process ID; give a number, for example --capture $(pidof python3)"
            )));
        }
    };
    let cannot =
        |e: std::io::Error| trace::refused(pid, &e, &format!("memfold bench --capture {pid} -o FILE"));
    let memory = Memory::open(pid).map_err(cannot)?;
    let ranges = memory.private().map_err(cannot)?;
    if ranges.is_empty() {
        return Err(trace::no_memory(pid));
    }
    let mut output = Output::prepare_private(path, "--output")?;
    let mut sink = Sink::new(pid, path, plan, BufWriter::with_capacity(1 << 20, output.file()));
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let (regions, next) = memory.resident(at, range.end).map_err(cannot)?;
            for region in regions {
                copy(&memory, region, &mut sink).map_err(|e| cannot_write(path, &e))?;
            }
            at = next;
        }
    }
    let captured = sink.end().map_err(|e| cannot_write(path, &e))?;
    if captured.pages == 0 {
        return Err(Failure::new(format!(
            "process {pid} has no resident private anonymous page, or only pages that are left out; nothing was written"
        )));
    }
    output.finish().map_err(|e| cannot_write(path, &e))?;
    say(&captured.sentence());
    if json {
        print(&text::json(&captured))?;
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
            (self.vanished, "freed meanwhile"),
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

/// Copies pages that were resident a moment ago. Errors are those of the sink.
fn copy(memory: &Memory, region: Region, sink: &mut Sink<'_>) -> std::io::Result<()> {
    let mut buffer = vec![0; TOGETHER * PAGE];
    let mut at = region.start;
    while at < region.end {
        let bytes = buffer.len().min((region.end - at) as usize);
        let got = memory.read(at, &mut buffer[..bytes]) / PAGE * PAGE;
        buffer[..got].chunks_exact(PAGE).try_for_each(|page| sink.take(page))?;
        at += got as u64;
        if got < bytes {
            sink.captured.vanished += 1;
            at += PAGE as u64;
        }
    }
    Ok(())
}

/// Where the pages go.
struct Sink<'a> {
    out: BufWriter<&'a mut File>,
    captured: Captured,
    drop_zero: bool,
    /// If copies are omitted: 128-bit hashes of the pages seen so far. The pages themselves would take too
    /// much memory.
    seen: Option<HashSet<(u64, u64)>>,
}

impl<'a> Sink<'a> {
    fn new(pid: i32, path: &Path, plan: &Plan, out: BufWriter<&'a mut File>) -> Self {
        let file = memfold_escape::text(path.as_os_str().as_encoded_bytes()).into_owned();
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

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("the pages could not be written to '{}': {error}", memfold_escape::path(path)))
}
