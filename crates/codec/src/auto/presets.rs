//! The lists of `auto:fast`, `auto`, `auto:dense`, and `auto:max`, and the chains whose places are known for ever.

use super::Auto;
use super::choice::Effort;

/// The places of these chains are the same in every process. Append-only: a chain stands where it stands for ever, or
/// else blocks of an older memfold would come back wrong. Levels of a codec share a place, so any will do.
pub(super) const KNOWN: [&str; 4] = ["copy", "lz4", "zstd:1", "stride:1"];

/// The presets, the fastest first.
pub(crate) static PRESETS: [Auto; 4] = [
    Auto::preset("auto:fast", &FAST, 0, Effort { price: 90, estimate: 0, doubt: 0, patience: 9, vain: 1 }),
    Auto::preset("auto", &BALANCED, 2, Effort { price: 50, estimate: 8, doubt: 0, patience: 8, vain: 1 }),
    Auto::preset("auto:dense", &DENSE, 4, Effort { price: 4, estimate: 1, doubt: 8, patience: 6, vain: 1 }),
    Auto::preset("auto:max", &MAX, 6, Effort { price: 0, estimate: 1, doubt: 32, patience: 5, vain: 2 }),
];

/// How hard lists of one's own are tried.
pub(super) const OWN: Effort = Effort { price: 20, estimate: 4, doubt: 8, patience: 7, vain: 1 };

const FAST: [&str; 9] = [
    "stride:2",
    "lz4",
    "stride:1",
    "zstd:-1",
    "delta:4x1+bitshuffle:4+lz4",
    "delta:8x6+shuffle:8+lz4",
    "delta:2x1+bitshuffle:2+lz4",
    "bitshuffle:4+zerosup",
    "delta:4x2+bitshuffle:4+zerosup",
];

const BALANCED: [&str; 14] = [
    "zstd:1",
    "stride:2",
    "lz4",
    "delta:4x1+bitshuffle:4+lz4",
    "delta:8x6+shuffle:8+zstd:1",
    "delta:2x1+bitshuffle:2+lz4",
    "shuffle:4+zstd:1",
    "delta:4x2+bitshuffle:4+lz4",
    "shuffle:8+zstd:1",
    "delta:4x1+shuffle:4+zstd:1",
    "delta:8x6+bitshuffle:8+lz4",
    "delta:2x2+bitshuffle:2+lz4",
    "xor:8x1+bitshuffle:8+lz4",
    "shuffle:2+zstd:1",
];

const DENSE: [&str; 19] = [
    "zstd:6",
    "stride:3",
    "stride:2",
    "lagdelta:4+bitshuffle:4+zstd:6",
    "delta:8x6+shuffle:8+zstd:6",
    "lagdelta:2+bitshuffle:2+zstd:6",
    "lagdelta:4+zstd:6",
    "lagdelta:8+bitshuffle:8+zstd:6",
    "shuffle:4+zstd:6",
    "delta:4x1+bitshuffle:4+zstd:6",
    "lagdelta:2+zstd:6",
    "delta:8x6+bitshuffle:8+zstd:6",
    "lagdelta:1+zstd:6",
    "lagdelta:8+shuffle:8+zstd:6",
    "xor:8x1+bitshuffle:8+zstd:6",
    "delta:2x1+bitshuffle:2+zstd:6",
    "delta:2x2+bitshuffle:2+zstd:6",
    "delta:8x1+bitshuffle:8+zstd:6",
    "shuffle:2+zstd:6",
];

const MAX: [&str; 20] = [
    "zstd:22",
    "stride:3+range",
    "bwt+mtf+range",
    "lagdelta:4+bitshuffle:4+zstd:19",
    "delta:8x6+shuffle:8+zstd:19",
    "lagdelta:2+bitshuffle:2+zstd:19",
    "lagdelta:4+zstd:19",
    "lagdelta:8+bitshuffle:8+zstd:19",
    "shuffle:4+zstd:19",
    "bitshuffle:4+zstd:19",
    "delta:4x2+bitshuffle:4+zstd:19",
    "lagdelta:2+zstd:19",
    "lagdelta:1+zstd:19",
    "lagdelta:8+shuffle:8+zstd:19",
    "delta:8x6+bitshuffle:8+zstd:19",
    "delta:2x1+bitshuffle:2+zstd:19",
    "xor:8x1+bitshuffle:8+zstd:19",
    "delta:8x1+shuffle:8+bwt+mtf+range",
    "range",
    "zstd:6",
];
