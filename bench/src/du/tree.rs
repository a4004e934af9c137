//! The heap as `memfold du` makes it.

use memfold::heap::{Heap, Limit, Options};

/// As in crates/cli/src/du.
pub fn options() -> Options {
    Options::new().block_size(64 << 10).codec("zstd:3")
}

/// The same, with so many resident blocks at most, if said.
pub fn with_frames(frames: Option<u32>) -> Options {
    frames.map_or_else(options, |frames| options().limit(Limit::Blocks(frames)))
}

/// A heap for a tree.
pub fn heap(options: Options) -> Result<Heap, String> {
    Heap::new(options).map_err(|error| error.to_string())
}
