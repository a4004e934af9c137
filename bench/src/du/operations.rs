//! The four operations in section 8.1 of the compll paper, measured as there: the CPU time of each, and the
//! memory after the scan. The longest step in the browser is measured, too. `bench-heap operations` does the
//! same for ncdu's own nodes, in malloc or in the heap.

use std::path::Path;
use std::process::Command;

use crossterm::event::KeyCode;
use memfold_du::scan::{self, Progress};

use crate::browse::{self, Screen};
use crate::process::{cpu, resident, trim};
use crate::tree;

const NAMES: [&str; 6] =
    ["scan, ms of CPU", "open", "browse", "delete", "memory after the scan, MiB", "longest step, ms"];

/// One run. Prints the values of `NAMES`, one per line.
pub fn once(path: &Path) -> Result<(), String> {
    let failed = |error: memfold_du::Error| error.to_string();
    let before = resident();
    let heap = tree::heap(1, None)?;
    let session = heap.session().map_err(|error| error.to_string())?;
    let order = heap.session().map_err(|error| error.to_string())?;
    let began = cpu();
    let mut tree =
        scan::scan(path, &scan::Options::default(), &heap, &session, &Progress::default(), |_| true)
            .map_err(failed)?;
    let scanned = cpu() - began;
    trim();
    let memory = resident().saturating_sub(before);
    tree::will_be_browsed(&heap)?;
    let (widest, _) = browse::widest(&tree).map_err(failed)?;
    let began = cpu();
    drop(browse::open(&order, &tree, widest).map_err(failed)?);
    let opened = cpu() - began;
    let mut screen = Screen::new(&order, &tree, widest).map_err(failed)?;
    let began = cpu();
    let (_, longest) = screen.press_often(KeyCode::Down, 100);
    let browsed = cpu() - began;
    drop(screen);
    let began = cpu();
    browse::delete_all(&mut tree).map_err(failed)?;
    for seconds in [scanned, opened, browsed, cpu() - began] {
        println!("{}", seconds * 1e3);
    }
    println!("{}", memory as f64 / f64::from(1 << 20));
    println!("{}", longest.as_secs_f64() * 1e3);
    Ok(())
}

/// Several runs, each in its own process.
pub fn run(path: &Path, repeats: usize) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut runs = Vec::new();
    for _ in 0..repeats.max(1) {
        let own = std::env::current_exe().map_err(failed)?;
        let output = Command::new(own)
            .args(["operations", "--once"])
            .arg(path)
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let values: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if !output.status.success() || values.len() != NAMES.len() {
            return Err(format!("a run failed: {}", output.status));
        }
        runs.push(values);
    }
    println!("{:<28} {:>9} {:>9} {:>9}", "memfold du", "median", "least", "most");
    for (at, name) in NAMES.into_iter().enumerate() {
        let mut values: Vec<f64> = runs.iter().map(|run| run[at]).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (median, most) = (values[values.len() / 2], values[values.len() - 1]);
        println!("{name:<28} {median:>9.2} {:>9.2} {most:>9.2}", values[0]);
    }
    Ok(())
}
