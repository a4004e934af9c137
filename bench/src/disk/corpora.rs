//! Measures each codec on each file, as chapter 4 of B. Warnke's *zBeWalgo* (Hamburg 2018), "that evaluation"
//! below, does with zram.
//!
//! The ratio is original bytes per byte of [`memfold_disk::Stats::payload_bytes`]. The second table has two
//! more ratios: to the growth of the device's memory, which includes the index and the store's headers and
//! ends; and to all of its memory ([`memfold_disk::Stats::memory_bytes`]), which for files of a few MiB is
//! mostly working memory. The memory for the effective speeds (see `effective.rs`) is as large as the best
//! contender needs. The contender whose data become denser only in the background does not count for this,
//! because at first its data need more room.
//!
//! Unlike in that evaluation, duplicate pages are kept (the device does not share pages here, so they have no
//! advantage), and time is the CPU time of the only thread, which never waits.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::effective::{self, Device};
use crate::measure::{Contender, Measured, measure};
use crate::pages;

/// The available codecs of that evaluation, and memfold's own.
pub const CODECS: &str = "842,lzo,lz4,lz4hc,deflate,zstd:3,bewalgo,bewalgo2,wkdm,stride:1,stride:2";

/// The codecs of that evaluation, and their counterparts here.
const THEIRS: [(&str, Option<&str>); 7] = [
    ("842", Some("842")),
    ("deflate", Some("deflate")),
    ("lz4", Some("lz4")),
    ("lz4hc", Some("lz4hc")),
    ("lzo", Some("lzo")),
    ("zstd", Some("zstd:3")),
    ("zBeWalgo", None),
];

const MIB: f64 = (1 << 20) as f64;

/// A file with the results of each contender.
struct Row {
    file: String,
    room: u64,
    cells: Vec<Cell>,
}

struct Cell {
    measured: Measured,
    /// `None` if no page of the file takes memory.
    ratio: Option<f64>,
    /// Write, read, and both effective speeds: MiB/s.
    speeds: [f64; 4],
}

/// Measures and prints.
pub fn run(codecs: &[String], device: Device, out: Option<&Path>, files: &[PathBuf]) -> Result<(), String> {
    let contenders = contenders(codecs)?;
    let mut rows = vec![row("/dev/zero", &vec![0; 16 << 20], &contenders, device)?];
    for file in files {
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        rows.push(row(&name, &pages(file)?, &contenders, device)?);
        eprintln!("{name}: done");
    }
    println!(
        "Cells: ratio write/read @write/@read, MiB/s; @ is effective, with a device that writes {:.2} and reads {:.2} MiB/s.",
        device.write / MIB,
        device.read / MIB
    );
    println!("{}", whom_we_lack(codecs));
    println!("\n| file |{}", contenders.iter().map(|it| format!(" {} |", it.name)).collect::<String>());
    println!("| --- |{}", " --- |".repeat(contenders.len()));
    for row in &rows {
        println!("| {} |{}", row.file, row.cells.iter().map(cell).collect::<String>());
    }
    means(&contenders, &rows);
    match out {
        Some(out) => {
            let text = format!("{:#}\n", as_json(device, &rows));
            std::fs::write(out, text).map_err(|error| format!("{}: {error}", out.display()))
        }
        None => Ok(()),
    }
}

fn contenders(codecs: &[String]) -> Result<Vec<Contender>, String> {
    let mut all = Vec::new();
    for name in codecs {
        memfold_codec::codec(name).map_err(|error| format!("{name}: {error}"))?;
        all.push(Contender { name: name.clone(), codec: format!("{name},none"), dense: false });
    }
    all.push(Contender { name: "auto".into(), codec: "auto:fast,none".into(), dense: false });
    let name = "auto,auto:dense after the background".into();
    all.push(Contender { name, codec: "auto".into(), dense: true });
    Ok(all)
}

fn whom_we_lack(codecs: &[String]) -> String {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (theirs, ours) in THEIRS {
        match ours.filter(|ours| codecs.iter().any(|codec| codec == ours)) {
            Some(ours) if ours == theirs => there.push(ours.to_owned()),
            Some(ours) => there.push(format!("{theirs} ({ours})")),
            None => missing.push(theirs),
        }
    }
    format!(
        "Codecs of zBeWalgo's evaluation in memfold: {}; not in memfold: {}. (zBeWalgo itself, which tries chains of steps on each page, is not a codec of memfold: \
         'bewalgo' and 'bewalgo2' are two of its steps, and 'auto' follows its idea.)",
        there.join(", "),
        missing.join(", ")
    )
}

fn row(file: &str, pages: &[u8], contenders: &[Contender], device: Device) -> Result<Row, String> {
    let all: Result<Vec<_>, _> = contenders.iter().map(|contender| measure(file, pages, contender)).collect();
    let all = all?;
    let at_once = all.iter().zip(contenders).filter(|(_, contender)| !contender.dense);
    let room = effective::room(at_once.map(|(measured, _)| measured));
    let cells = all.into_iter().map(|measured| {
        let original = measured.original_bytes as f64;
        let [write, read] = effective::speeds(&measured, room, device);
        let speeds = [original / measured.write_s, original / measured.read_s, write, read];
        let ratio = (measured.payload_bytes > 0).then(|| original / measured.payload_bytes as f64);
        Cell { measured, ratio, speeds: speeds.map(|speed| speed / MIB) }
    });
    Ok(Row { file: file.to_owned(), room, cells: cells.collect() })
}

fn cell(cell: &Cell) -> String {
    let [write, read, effective_write, effective_read] = cell.speeds;
    let ratio = cell.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
    format!(" {ratio} {write:.0}/{read:.0} @{effective_write:.0}/@{effective_read:.0} |")
}

/// Geometric means over all files except the one of zeros, whose pages reach no codec.
fn means(contenders: &[Contender], rows: &[Row]) {
    println!("\nGeometric means over the {} files:\n", rows.len() - 1);
    println!(
        "| codec | ratio | with index and store | of all memory | incompressible | write | read | @write | @read |\n| --- |{}",
        " ---: |".repeat(8)
    );
    for (i, contender) in contenders.iter().enumerate() {
        let cells: Vec<&Cell> = rows[1..].iter().map(|row| &row.cells[i]).collect();
        let mean = |of: &dyn Fn(&Cell) -> f64| {
            (cells.iter().map(|&cell| of(cell).ln()).sum::<f64>() / cells.len().max(1) as f64).exp()
        };
        let sum = |of: fn(&Measured) -> u64| cells.iter().map(|cell| of(&cell.measured)).sum::<u64>() as f64;
        let speeds: String = (0..4).map(|n| format!(" {:.0} |", mean(&|cell| cell.speeds[n]))).collect();
        println!(
            "| {} | {:.3} | {:.3} | {:.3} | {:.1} % |{speeds}",
            contender.name,
            mean(&|cell| cell.ratio.unwrap_or(1.0)),
            mean(&|cell| of_memory(&cell.measured, cell.measured.empty_memory_bytes)),
            mean(&|cell| of_memory(&cell.measured, 0)),
            sum(|it| it.incompressible_bytes) / sum(|it| it.original_bytes) * 100.0,
        );
    }
}

/// Original bytes per byte of memory, not counting `but` bytes of memory.
fn of_memory(one: &Measured, but: u64) -> f64 {
    one.original_bytes as f64 / one.memory_bytes.saturating_sub(but).max(1) as f64
}

fn as_json(device: Device, rows: &[Row]) -> serde_json::Value {
    let cell = |cell: &Cell| {
        let [write, read, effective_write, effective_read] = cell.speeds;
        json!({
            "measured": cell.measured, "ratio": cell.ratio, "write_mib_s": write, "read_mib_s": read,
            "effective_write_mib_s": effective_write, "effective_read_mib_s": effective_read,
        })
    };
    let row = |row: &Row| {
        json!({
            "file": row.file, "room_bytes": row.room, "cells": row.cells.iter().map(cell).collect::<Vec<_>>(),
        })
    };
    json!({
        "version": 1, "device_write_mib_s": device.write / MIB, "device_read_mib_s": device.read / MIB,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
