//! What is printed instead of browsing: directories down to some level, the largest files, and all of it as JSON.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufWriter, Write};

use memfold::heap::Heap;
use memfold_du::Error;
use memfold_du::entry::{BLOCK, Kind, Sum};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::below::{Below, Step};
use serde::Serialize;

use super::args::DuArgs;
use super::input::Input;
use crate::failure::Failure;
use crate::machine;
use crate::size::Human;

/// A path with its sizes.
#[derive(Serialize)]
struct Item {
    path: String,
    /// If the path is not UTF-8: all of its bytes.
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
}

/// What the tree takes.
#[derive(Serialize)]
struct Memory {
    peak_resident_bytes: Option<u64>,
    heap_bytes: u64,
    payload_bytes: u64,
}

/// `--json`.
#[derive(Serialize)]
struct Page {
    version: u32,
    #[serde(flatten)]
    root: Item,
    failures: u64,
    memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    directories: Option<Vec<Item>>,
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
    }
}

/// A directory with all below it.
fn directory(source: &dyn Source, number: u32) -> Result<Item, Error> {
    let row = source.row(number)?;
    let sum = source.own_entry(number)?.entry().sum().plus(row.sum());
    Ok(Item {
        items: Some(row.items),
        shared_disk_bytes: Some(row.shared_blocks.saturating_mul(BLOCK)),
        ..item(source.path(number)?, sum)
    })
}

/// Prints what is asked for.
pub fn print(args: &DuArgs, input: &Input<'_>, heap: &Heap) -> Result<(), Failure> {
    let source = input.source();
    let failed = |error: Error| Failure::new(format!("the tree can't be read: {error}"));
    let directories = args.depth.map(|depth| directories(source, depth)).transpose().map_err(failed)?;
    let files = args.top.map(|top| largest(source, top, args.apparent_size)).transpose().map_err(failed)?;
    let mut out = BufWriter::new(std::io::stdout());
    let written = if args.json {
        let stats = heap.stats();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak =
            machine::status_field(&status, "VmHWM:").and_then(|text| text.split(' ').next()?.parse().ok());
        let page = Page {
            version: 1,
            root: directory(source, ROOT).map_err(failed)?,
            failures: source.row(ROOT).map_err(failed)?.failures.into(),
            memory: Memory {
                peak_resident_bytes: peak.map(|kib: u64| kib << 10),
                heap_bytes: stats.memory_bytes(),
                payload_bytes: stats.payload_bytes,
            },
            directories,
            files,
        };
        serde_json::to_writer_pretty(&mut out, &page).map_err(Into::into).and_then(|()| writeln!(out))
    } else {
        let all = directories.iter().chain(&files).flatten();
        all.into_iter().try_for_each(|item| line(&mut out, item, args))
    };
    written.and_then(|()| out.flush()).map_err(|error| Failure::new(format!("standard output: {error}")))
}

fn line(out: &mut dyn Write, item: &Item, args: &DuArgs) -> std::io::Result<()> {
    let bytes = if args.apparent_size { item.apparent_bytes } else { item.disk_bytes };
    let size = if args.si { si(bytes) } else { Human(bytes).to_string() };
    write!(out, "{size:>10}  ")?;
    // A name may hold anything: nothing of it is to be taken for the terminal's, or for another line.
    for chunk in item.raw.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                letter if letter.is_control() => write!(out, "{}", letter.escape_default())?,
                letter => write!(out, "{letter}")?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))?;
    }
    writeln!(out)
}

/// As [`Human`], by powers of 1000.
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

/// Directories down to a level below the root, each before those in it.
fn directories(source: &dyn Source, depth: u32) -> Result<Vec<Item>, Error> {
    let (mut items, mut way) = (Vec::new(), Below::new(ROOT).down_to(depth));
    while let Some(step) = way.step(source)? {
        if let Step::Into(number) = step {
            items.push(directory(source, number)?);
        }
    }
    Ok(items)
}

/// The largest files, the largest first; those of several names once for each.
fn largest(source: &dyn Source, count: usize, apparent: bool) -> Result<Vec<Item>, Error> {
    let mut largest = BinaryHeap::new();
    let mut way = Below::new(ROOT);
    while let Some(step) = way.step(source)? {
        let Step::Into(number) = step else { continue };
        source.each(source.row(number)?.contents(), &mut |slot, entry| {
            if !matches!(entry.kind, Kind::File | Kind::Other) {
                return Ok(());
            }
            let size = if apparent { entry.size } else { entry.blocks };
            if largest.len() < count {
                largest.push(Reverse((size, Reverse((number, slot)))));
            } else if let Some(mut least) = largest.peek_mut()
                && least.0.0 < size
            {
                *least = Reverse((size, Reverse((number, slot))));
            }
            Ok(())
        })?;
    }
    let sorted = largest.into_sorted_vec().into_iter();
    sorted
        .map(|Reverse((_, Reverse((number, slot))))| {
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
