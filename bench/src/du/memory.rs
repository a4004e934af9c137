//! Shows how the memory of a scan is used.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use memfold_du::scan::{self, Progress};

use crate::process::{peak, resident};
use crate::tree;

/// Scans, and prints how much memory is resident and what it is used for.
pub fn run(path: &Path, threads: usize, frames: Option<u32>) -> Result<(), String> {
    let before = resident();
    let heap = tree::heap(threads, frames)?;
    let session = heap.session().map_err(|error| error.to_string())?;
    let progress = Progress::default();
    let options = scan::Options { threads, ..scan::Options::default() };
    let tree = scan::scan(path, &options, &heap, &session, &progress, |_| true)
        .map_err(|error| error.to_string())?;
    let items = progress.items.load(Relaxed);
    let stats = heap.stats();
    let heap_bytes = stats.frame_bytes + stats.payload_bytes + stats.table_bytes;
    println!("{items} entries, {threads} threads; bytes, and bytes for an entry");
    for (name, bytes) in [
        ("nodes, not compressed", stats.node_bytes),
        ("compressed blocks", stats.payload_bytes),
        ("resident blocks", stats.frame_bytes),
        ("tables, codecs, the store's own", stats.table_bytes),
        ("resident before the heap was made", before),
        ("the rest", resident().saturating_sub(before + heap_bytes)),
        ("resident", resident()),
        ("peak", peak()),
    ] {
        println!("{name:>36} {bytes:>12} {:>7.2}", bytes as f64 / items as f64);
    }
    println!("CPU {:.2} s", crate::process::cpu());
    println!("blocks {}, compressions {}, faults {}", stats.blocks, stats.compressions, stats.faults);
    drop(tree);
    Ok(())
}
