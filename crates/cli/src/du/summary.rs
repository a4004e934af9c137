//! Output instead of browsing: directories down to a level, the largest files, or all results as JSON.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::io::{BufWriter, Write};

use memfold::heap::Heap;
use memfold::size::Human;
use memfold_args::DuArgs;
use memfold_du::Error;
use memfold_du::browse::Ranked;
use memfold_du::entry::{BLOCK, Kind, Sum};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::below::{Below, Step};
use memfold_du::tree::flags;
use memfold_escape::shown;
use memfold_proc::process;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};

use super::input::Input;
use super::order;
use crate::output::failure::{Failure, say};

/// A path with its sizes.
#[derive(Serialize)]
struct Item {
    path: String,
    /// The bytes of the path in hexadecimal, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    apparent_bytes: u64,
    disk_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_disk_bytes: Option<u64>,
    #[serde(skip)]
    raw: Vec<u8>,
    /// '!' if it could not be read, '.' if something in it could not be read, as in the browser.
    #[serde(skip)]
    mark: char,
}

/// The memory of the tree itself.
#[derive(Serialize)]
struct Memory {
    peak_resident_bytes: Option<u64>,
    heap_bytes: u64,
    payload_bytes: u64,
}

/// The object of `--json`.
#[derive(Serialize)]
struct Page<'s> {
    version: u32,
    #[serde(flatten)]
    root: Item,
    failures: u64,
    memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    directories: Option<Directories<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<Item>>,
}

fn item(path: Vec<u8>, sum: Sum) -> Item {
    let text = String::from_utf8_lossy(&path).into_owned();
    let is_text = text.as_bytes() == path;
    Item {
        path: text,
        path_hex: (!is_text).then(|| path.iter().map(|byte| format!("{byte:02x}")).collect()),
        apparent_bytes: sum.size,
        disk_bytes: sum.blocks.saturating_mul(BLOCK),
        items: None,
        shared_disk_bytes: None,
        raw: path,
        mark: ' ',
    }
}

/// A directory with everything below it.
fn directory(source: &dyn Source, number: u32) -> Result<Item, Error> {
    let row = source.row(number)?;
    let sum = source.own_entry(number)?.entry().sum().plus(row.sum());
    let mark = match row.failures {
        _ if row.flags & flags::FAILED != 0 => '!',
        0 => ' ',
        _ => '.',
    };
    Ok(Item {
        mark,
        items: Some(row.items),
        shared_disk_bytes: Some(row.shared_blocks.saturating_mul(BLOCK)),
        ..item(source.path(number)?, sum)
    })
}

/// Prints the requested summary.
pub fn print(args: &DuArgs, input: &Input<'_>, heap: &Heap) -> Result<(), Failure> {
    let source = input.source();
    let failed = |error: Error| Failure::new(format!("the tree can't be read: {error}"));
    let session = heap.session().map_err(|error| failed(error.into()))?;
    let ranked = args.depth.filter(|_| args.sort.is_some());
    let ranked = ranked.map(|depth| Ranked::new(&session, source, depth, order(args)));
    let ranked = ranked.transpose().map_err(failed)?;
    let directories = args.depth.map(|depth| Directories { source, depth, ranked, error: Cell::new(None) });
    let files = args.top.map(|top| largest(source, top, args.apparent_size)).transpose().map_err(failed)?;
    let mut out = BufWriter::new(std::io::stdout());
    let written = if args.json {
        let mut out = Escaped(&mut out);
        let stats = heap.stats();
        let page = Page {
            version: 1,
            root: directory(source, ROOT).map_err(failed)?,
            failures: source.row(ROOT).map_err(failed)?.failures.into(),
            memory: Memory {
                peak_resident_bytes: process::own_peak(),
                heap_bytes: stats.memory_bytes(),
                payload_bytes: stats.payload_bytes,
            },
            directories,
            files,
        };
        let written = serde_json::to_writer_pretty(&mut out, &page);
        if let Some(error) = page.directories.as_ref().and_then(|directories| directories.error.take()) {
            return Err(failed(error));
        }
        written.map_err(Into::into).and_then(|()| writeln!(out))
    } else {
        let listed = directories.map(|directories| directories.each(|item| line(&mut out, &item, args)));
        let listed = listed.transpose().map_err(failed)?.unwrap_or(Ok(()));
        listed.and_then(|()| files.iter().flatten().try_for_each(|item| line(&mut out, item, args)))
    };
    written.and_then(|()| out.flush()).map_err(|error| Failure::new(format!("standard output: {error}")))?;
    // The JSON object has a field for failures.
    if args.json { Ok(()) } else { say_failures(source) }
}

/// Prints one line on standard error if something could not be read.
pub fn say_failures(source: &dyn Source) -> Result<(), Failure> {
    let row = source.row(ROOT).map_err(|error| Failure::new(format!("the tree can't be read: {error}")))?;
    match u64::from(row.failures) + u64::from(row.flags & flags::FAILED != 0) {
        0 => (),
        1 => say("1 directory or file could not be read, and what is in it is not counted"),
        count => say(&format!(
            "{count} directories or files could not be read, and what is in them is not counted"
        )),
    }
    Ok(())
}

fn line(out: &mut dyn Write, item: &Item, args: &DuArgs) -> std::io::Result<()> {
    let bytes = if args.apparent_size { item.apparent_bytes } else { item.disk_bytes };
    // Without a blank before the unit, `sort -h` can sort the lines.
    let size = if args.si { si(bytes) } else { Human(bytes).to_string() };
    let size = size.replace(" bytes", "B").replace(' ', "");
    write!(out, "{size:>10}{} ", item.mark)?;
    // A name may contain anything, so escape it: no part of it may control the terminal or look like another
    // line.
    writeln!(out, "{}", shown(&item.raw))
}

/// Like [`Human`], but with powers of 1000.
fn si(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "kB", "MB", "GB", "TB", "PB"] {
        if value < 999.5 || unit == "PB" {
            let digits = if unit == "bytes" || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    String::new()
}

/// Writes JSON that is safe for a terminal.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // serde_json never splits a character between two writes.
        match str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(memfold_escape::json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The directories down to a level below the root. There may be many, so in the order of the tree none is
/// kept in memory; each directory comes before its subdirectories. The alternative is a sorted order.
struct Directories<'s> {
    source: &'s dyn Source,
    depth: u32,
    ranked: Option<Ranked<'s>>,
    /// The error, if there was one.
    error: Cell<Option<Error>>,
}

impl Directories<'_> {
    fn each<E>(&self, mut look: impl FnMut(Item) -> Result<(), E>) -> Result<Result<(), E>, Error> {
        for number in self.ranked.iter().flat_map(Ranked::numbers) {
            if let Err(error) = look(directory(self.source, number?)?) {
                return Ok(Err(error));
            }
        }
        if self.ranked.is_some() {
            return Ok(Ok(()));
        }
        let mut way = Below::new(ROOT).down_to(self.depth);
        while let Some(step) = way.step(self.source)? {
            if let Step::Into(number) = step
                && let Err(error) = look(directory(self.source, number)?)
            {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

impl Serialize for Directories<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        match self.each(|item| list.serialize_element(&item)) {
            Ok(written) => written?,
            Err(error) => {
                self.error.set(Some(error));
                return Err(S::Error::custom("the tree"));
            }
        }
        list.end()
    }
}

/// A file, ordered by size. Among equal sizes, the last in the tree is the least.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    size: u64,
    at: Reverse<(u32, u32)>,
    /// Its file system and inode, if it may have other names.
    link: Option<(u32, u64)>,
}

/// The largest files, largest first. A file that has several names is listed under one of them.
fn largest(source: &dyn Source, count: usize, apparent: bool) -> Result<Vec<Item>, Error> {
    // `linked`: files among the largest so far that have several names, which the scan will meet again.
    let (mut largest, mut linked) = (BinaryHeap::new(), HashSet::new());
    let mut way = Below::new(ROOT);
    while let Some(step) = way.step(source)? {
        let Step::Into(number) = step else { continue };
        let row = source.row(number)?;
        source.each(row.contents(), &mut |slot, entry| {
            if !matches!(entry.kind, Kind::File | Kind::Other) {
                return Ok(());
            }
            let size = if apparent { entry.size } else { entry.blocks };
            let link = entry.link.map(|link| (link.device.unwrap_or(row.device), link.inode));
            let is_large = match largest.peek() {
                Some(Reverse(Candidate { size: least, .. })) if largest.len() == count => *least < size,
                _ => largest.len() < count,
            };
            if is_large && link.is_none_or(|link| linked.insert(link)) {
                largest.push(Reverse(Candidate { size, at: Reverse((number, slot)), link }));
                let least = if largest.len() > count { largest.pop() } else { None };
                if let Some(Reverse(Candidate { link: Some(link), .. })) = least {
                    linked.remove(&link);
                }
            }
            Ok(())
        })?;
    }
    let sorted = largest.into_sorted_vec().into_iter();
    sorted
        .map(|Reverse(Candidate { at: Reverse((number, slot)), .. })| {
            let entry = source.entry(source.row(number)?.contents(), slot)?;
            let mut path = source.path(number)?;
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            Ok(item(path, entry.entry().sum()))
        })
        .collect()
}
