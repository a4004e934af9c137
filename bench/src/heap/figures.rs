//! The figures 8.1 to 8.3 of compll's paper: ncdu's four operations by number of resident blocks, block size,
//! and codec. Each setting runs in its own process.
//!
//! As in the paper, everything else stays fixed: ten resident blocks of 32 KiB, here with `zstd:1`. For the
//! comparison of codecs, a hundred blocks are resident: with ten, sorting a directory of 25,000 entries
//! faults at nearly every step, which would measure only the codec's speed, and take minutes with slow
//! codecs.

use serde_json::{Value, json};

use crate::codecs::compared;
use crate::measure::rows::Rows;
use crate::measure::settings::Settings;
use crate::model::trees::Trees;
use crate::once::{Kind, Operation, Outcome, Tree};
use crate::operations::{Failed, child, same};

const RESIDENT: [u32; 7] = [1, 2, 5, 10, 20, 50, 100];
const BLOCKS_KIB: [usize; 8] = [4, 8, 16, 32, 64, 128, 256, 512];
/// Stands for the heap's limit `Share`, to compare with fixed numbers.
const SHARE: u32 = 0;

/// One of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Figure {
    /// 8.1: resident blocks
    Resident,
    /// 8.2: sizes of blocks
    Blocks,
    /// 8.3: codecs
    Codecs,
}

fn settings(kib: usize, resident: u32, codec: &str) -> Settings {
    Settings {
        block_size: Some(kib << 10),
        resident: (resident != SHARE).then_some(resident),
        codec: Some(codec.to_owned()),
        ..Settings::default()
    }
}

impl Figure {
    /// The settings that are measured for this figure.
    pub fn settings(self) -> Vec<Settings> {
        match self {
            Figure::Resident => RESIDENT.iter().map(|&resident| settings(32, resident, "zstd:1")).collect(),
            Figure::Blocks => {
                let each = |resident| BLOCKS_KIB.iter().map(move |&kib| settings(kib, resident, "zstd:1"));
                each(10).chain(each(SHARE)).collect()
            }
            Figure::Codecs => compared().map(|codec| settings(32, 100, codec.name())).collect(),
        }
    }
}

/// Measures and prints the figures for each tree.
pub fn run(
    names: &[String],
    trees: &Trees,
    figures: &[Figure],
    seconds: u64,
    rows: &mut Rows,
) -> Result<(), String> {
    for name in names {
        let tree = trees.find(name)?;
        let none = Settings::default();
        // A first run fills the kernel's caches.
        let known = rows
            .find("figures", &json!({ "tree": tree.name, "kind": Kind::Malloc, "settings": none }))
            .is_some();
        if !known {
            child(Kind::Malloc, name, trees, &none, seconds)?;
        }
        head(&tree);
        let malloc = point(Kind::Malloc, &tree, name, trees, &none, seconds, rows)?
            .ok_or("malloc did not finish in time")?;
        for figure in figures {
            for settings in figure.settings() {
                if let Some(heap) = point(Kind::Heap, &tree, name, trees, &settings, seconds, rows)? {
                    same(&malloc, &heap)?;
                }
            }
        }
        println!();
    }
    Ok(())
}

fn head(tree: &Tree) {
    println!("{}: ms of CPU, MiB of memory after the scan, faults of all operations", tree.name);
    println!(
        "{:>8} {:>9} {:16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "block", "resident", "codec", "scan", "open", "browse", "delete", "memory", "faults"
    );
}

/// One setting, from the file or measured. `None` if the measurement failed or did not finish in time.
fn point(
    kind: Kind,
    tree: &Tree,
    name: &str,
    trees: &Trees,
    settings: &Settings,
    seconds: u64,
    rows: &mut Rows,
) -> Result<Option<Outcome>, String> {
    let key = json!({ "tree": tree.name, "kind": kind, "settings": settings });
    if rows.find("figures", &key).is_none() {
        let measured = match child(kind, name, trees, settings, seconds) {
            Ok(outcome) => serde_json::to_value(&outcome).map_err(|error| error.to_string())?,
            Err(Failed { why, mut figures }) => {
                figures.insert(String::from("failed"), json!(why));
                Value::Object(figures)
            }
        };
        rows.add("figures", &key, measured)?;
    }
    let row = rows.find("figures", &key).ok_or("the row that was just added is missing")?;
    let block = settings.block_size.map_or_else(|| String::from("-"), |bytes| format!("{}K", bytes >> 10));
    let resident = settings.resident.map_or_else(|| String::from("-"), |blocks| blocks.to_string());
    print!(
        "{block:>8} {resident:>9} {:16}",
        settings.codec.as_deref().unwrap_or(if kind == Kind::Malloc { "malloc" } else { "-" })
    );
    let mut faults = 0;
    for operation in ["scan", "open", "browse", "delete"] {
        let figure = row.get(operation).and_then(|row| serde_json::from_value::<Operation>(row.clone()).ok());
        faults += figure.map_or(0, |figure| figure.faults);
        print!(
            " {:>9}",
            figure.map_or_else(|| String::from("-"), |figure| format!("{:.2}", figure.cost.cpu * 1e3))
        );
    }
    let memory = row["memory"]["anonymous"].as_f64();
    print!(
        " {:>9}",
        memory.map_or_else(|| String::from("-"), |bytes| format!("{:.2}", bytes / f64::from(1 << 20)))
    );
    if let Some(why) = row.get("failed").and_then(Value::as_str) {
        println!(" {why}");
        return Ok(None);
    }
    println!(" {faults:>9}");
    serde_json::from_value(row.clone()).map(Some).map_err(|error| format!("an earlier row: {error}"))
}
