//! The main comparison: ncdu's four operations with malloc and with the heap (see `Settings` for its
//! options), each measurement in its own process.

use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

use crate::measure::rows::Rows;
use crate::measure::settings::Settings;
use crate::model::trees::Trees;
use crate::once::{Kind, Outcome, Tree};

/// An incomplete measurement.
#[derive(Debug)]
pub struct Failed {
    pub why: String,
    /// What was measured so far.
    pub figures: Map<String, Value>,
}

impl From<Failed> for String {
    fn from(failed: Failed) -> String {
        failed.why
    }
}

/// One measurement in a fresh process.
pub fn child(
    kind: Kind,
    name: &str,
    trees: &Trees,
    settings: &Settings,
    seconds: u64,
) -> Result<Outcome, Failed> {
    let mut figures = Map::new();
    run_child(kind, name, trees, settings, seconds, &mut figures).map_err(|why| Failed { why, figures })
}

fn run_child(
    kind: Kind,
    name: &str,
    trees: &Trees,
    settings: &Settings,
    seconds: u64,
    figures: &mut Map<String, Value>,
) -> Result<Outcome, String> {
    let exe = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new("timeout");
    command
        .arg(seconds.to_string())
        .arg(exe)
        .arg("once")
        .arg(format!("--kind={}", word(kind)))
        .arg("--tree")
        .arg(name);
    command.arg("--trees").arg(&trees.trees).args(settings.arguments());
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("timeout: {error}"))?;
    // Each line is an object; the last one contains everything, if the run was complete.
    for line in output.stdout.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let line: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| format!("what the measurement printed: {error}"))?;
        figures.extend(line);
    }
    if output.status.code() == Some(124) {
        return Err(format!("not done within {seconds} seconds"));
    }
    if !output.status.success() {
        return Err(format!("{kind:?} over {name} failed: {}", output.status));
    }
    let whole = Value::Object(std::mem::take(figures));
    serde_json::from_value(whole).map_err(|error| format!("what the measurement printed: {error}"))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Malloc => "malloc",
        Kind::Heap => "heap",
    }
}

/// Fails if two measurements of one tree disagree about its contents.
pub fn same(a: &Outcome, b: &Outcome) -> Result<(), String> {
    let facts =
        |outcome: &Outcome| (outcome.nodes, outcome.node_bytes, outcome.opened, outcome.drawn, outcome.sum);
    if facts(a) == facts(b) {
        Ok(())
    } else {
        Err(format!("two measurements read different trees: {:?} and {:?}", facts(a), facts(b)))
    }
}

/// Measures and prints one table for each tree.
pub fn run(
    names: &[String],
    trees: &Trees,
    settings: &Settings,
    repeats: usize,
    rows: &mut Rows,
) -> Result<(), String> {
    for name in names {
        let tree = trees.find(name)?;
        let (mut malloc, mut heap): (Vec<Outcome>, Vec<Outcome>) = (Vec::new(), Vec::new());
        for repeat in 0..repeats {
            for kind in [Kind::Malloc, Kind::Heap] {
                let of = if kind == Kind::Malloc { &Settings::default() } else { settings };
                let key = json!({ "tree": tree.name, "kind": kind, "settings": of, "repeat": repeat });
                let outcome = measured("operations", &key, rows, || {
                    if malloc.is_empty() && kind == Kind::Malloc {
                        // Fills the kernel's caches, since the speed of the disk is not measured.
                        child(kind, name, trees, of, 600)?;
                    }
                    Ok(child(kind, name, trees, of, 600)?)
                })?;
                if let Some(first) = malloc.first() {
                    same(first, &outcome)?;
                }
                if kind == Kind::Malloc { malloc.push(outcome) } else { heap.push(outcome) }
            }
        }
        show(&tree, &malloc, &heap);
    }
    Ok(())
}

/// A row, from the file or measured now.
pub fn measured(
    section: &str,
    key: &Value,
    rows: &mut Rows,
    measure: impl FnOnce() -> Result<Outcome, String>,
) -> Result<Outcome, String> {
    if let Some(row) = rows.find(section, key) {
        return serde_json::from_value(row.clone()).map_err(|error| format!("a row of before: {error}"));
    }
    let outcome = measure()?;
    rows.add(section, key, serde_json::to_value(&outcome).map_err(|error| error.to_string())?)?;
    Ok(outcome)
}

/// The median of a figure.
pub fn median(outcomes: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> f64 {
    let mut figures: Vec<f64> = outcomes.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
    (low + high) / 2.0
}

fn show(tree: &Tree, malloc: &[Outcome], heap: &[Outcome]) {
    let one = &malloc[0];
    println!(
        "{}: {} nodes of {:.1} bytes, {} in the directory that is opened; medians of {}",
        tree.name,
        one.nodes,
        one.node_bytes as f64 / one.nodes as f64,
        one.opened,
        malloc.len()
    );
    println!(
        "{:28} {:>10} {:>10} {:>8}   {:>8} {:>12}",
        "", "malloc", "heap", "ratio", "faults", "compressions"
    );
    let operation = |name: &str, of: fn(&Outcome) -> &crate::once::Operation| {
        let (a, b) = (median(malloc, |row| of(row).cost.cpu), median(heap, |row| of(row).cost.cpu));
        let faults = median(heap, |row| of(row).faults as f64);
        let compressions = median(heap, |row| of(row).compressions as f64);
        println!(
            "{name:28} {:>10.2} {:>10.2} {:>8.2}   {faults:>8} {compressions:>12}",
            a * 1e3,
            b * 1e3,
            b / a
        );
    };
    operation("scan, ms of CPU", |row| &row.scan);
    operation("open", |row| &row.open);
    operation("browse", |row| &row.browse);
    operation("delete", |row| &row.delete);
    let memory = |name: &str, of: &dyn Fn(&Outcome) -> f64| {
        let (a, b) = (median(malloc, of), median(heap, of));
        println!(
            "{name:28} {:>10.2} {:>10.2} {:>8.2}",
            a / f64::from(1 << 20),
            b / f64::from(1 << 20),
            a / b
        );
    };
    memory("memory after the scan, MiB", &|row| row.memory.anonymous as f64);
    memory("all memory (PSS)", &|row| row.memory.pss as f64);
    memory("peak of the scan", &|row| row.memory.peak as f64);
    memory("peak of all operations", &|row| row.left.peak as f64);
    memory("left after the deletion", &|row| row.left.anonymous as f64);
    let said = |row: &Outcome| row.heap.map_or(row.memory.malloc as f64, |heap| heap.all as f64);
    memory("mallinfo / heap.stats", &said);
    if let Some(heap) = heap[0].heap {
        println!(
            "of it frames {:.2}, payload {:.2}, tables {:.2} MiB; {} blocks, {:.2} bytes a node\n",
            heap.frames as f64 / f64::from(1 << 20),
            heap.payload as f64 / f64::from(1 << 20),
            heap.tables as f64 / f64::from(1 << 20),
            heap.blocks,
            heap.all as f64 / one.nodes as f64,
        );
    }
}
