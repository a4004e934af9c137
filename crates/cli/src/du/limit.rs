//! How much of the tree's heap may be resident: the user's limit, or as much as the tree needs.

use std::sync::atomic::Ordering::Relaxed;

use memfold::heap::{Heap, Limit};
use memfold::size::{self, Size};
use memfold_args::DuArgs;
use memfold_du::scan::Progress;
use memfold_proc::memory;

use crate::output::failure::Failure;

/// Default number of threads that read directories: more threads waiting for a disk help little.
const THREADS: usize = 8;
/// Resident blocks while a tree is read, in addition to two for each thread. Reading returns only to recently
/// read entries, so more blocks do not speed up a million entries, and they would dominate the memory beyond
/// the tree.
const RESIDENT: u32 = 12;
/// One block per this many entries, if that is more. Sums are updated all over the tree: with 14 blocks, 20
/// million entries take 1.5 times as long.
const ENTRIES: u64 = 1 << 17;

/// The number of threads that read directories.
pub fn threads(args: &DuArgs) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(THREADS));
    args.threads.unwrap_or(cpus).clamp(1, 256)
}

/// The limit while the tree is read.
fn to_read(args: &DuArgs, items: u64) -> Limit {
    let threads = threads(args) as u32;
    Limit::Blocks((RESIDENT + 2 * threads).max(u32::try_from(items / ENTRIES).unwrap_or(u32::MAX)))
}

/// The limit of a new heap.
pub fn at_first(args: &DuArgs) -> Result<Limit, Failure> {
    let Some(text) = &args.limit else { return Ok(to_read(args, 0)) };
    const HOW: &str = "give one like --limit 64M, --limit 1.5G, or --limit 10%";
    let bad = |why: &dyn std::fmt::Display| Failure::new(format!("the limit '{text}' {why}; {HOW}"));
    let size = size::parse(text).map_err(|why| bad(&why))?;
    let memory = match size {
        Size::Bytes(_) => u64::MAX,
        Size::Percent(_) => memory::usable()
            .ok_or_else(|| bad(&"is a share of the machine's memory, which is not known here"))?,
    };
    // Below this, the heap would not report how much it needs.
    Ok(Limit::Bytes(size.of(memory).max(2 * super::BLOCK as u64)))
}

/// Adapts the limit as the tree grows.
pub fn follow(args: &DuArgs, heap: &Heap, progress: &Progress) {
    if args.limit.is_none() {
        // This cannot be refused: the limit is at least one block.
        let _ = heap.set_limit(to_read(args, progress.items.load(Relaxed)));
    }
}

/// Sets the limit for browsing, which accesses the tree at random.
pub fn browse(args: &DuArgs, heap: &Heap) -> Result<(), Failure> {
    match &args.limit {
        Some(_) => Ok(()),
        None => heap.set_limit(Limit::Share).map_err(|error| Failure::new(error.to_string())),
    }
}
