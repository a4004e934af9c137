//! A heap with the settings that `memfold du` uses.

use std::sync::atomic::Ordering::Relaxed;

use memfold::heap::{Heap, Limit, Options};
use memfold_du::scan::Progress;

/// A heap limited to `frames` resident blocks; by default, to as many as crates/cli/src/du/limit.rs allows a
/// scan with this many threads.
pub fn heap(threads: usize, frames: Option<u32>) -> Result<Heap, String> {
    let frames = frames.unwrap_or(12 + 2 * threads as u32);
    let options = Options::new().block_size(64 << 10).codec("zstd:3").limit(Limit::Blocks(frames));
    Heap::new(options).map_err(|error| error.to_string())
}

/// Adapts the limit as the tree grows.
pub fn follow(heap: &Heap, progress: &Progress) {
    let frames = 14.max(progress.items.load(Relaxed) >> 17);
    let _ = heap.set_limit(Limit::Blocks(frames as u32));
}

/// Sets the limit for browsing.
pub fn will_be_browsed(heap: &Heap) -> Result<(), String> {
    heap.set_limit(Limit::Share).map_err(|error| error.to_string())
}
