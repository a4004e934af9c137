//! `auto:fast`, `auto`, `auto:dense`, and `auto:max`: their lists, and how hard each tries.
//!
//! The lists were found with the example `choose` on samples of 29 kinds of pages (heaps of nine programs,
//! numbers of simulations and of instruments, texts, tables; November 2026, 4 KiB): from nearly a thousand
//! codecs and pipelines (differences of all orders and at lags, once and twice, of all widths, shuffled by
//! bytes, bits, or not, before seven coders), take those that are fast enough for the preset; repeatedly add
//! the one that most reduces the mean and the worst loss against the virtual best (the smallest form of each
//! block by any candidate), until there is little left to gain; then remove those that save less than trying
//! them costs. For `auto:dense`, all that are faster than 45 MB/s, the mean losses fell like this:
//!
//! ```text
//! zstd:6, stride:3                           14.8 %     shuffle:4+zstd:6                            2.5 %
//! lagdelta:8+lagdelta:8+bitshuffle:8+zstd:6   9.3 %     lagdelta:2+zstd:6                           2.3 %
//! lagdelta:2+bitshuffle:4+zstd:6              5.0 %     ...
//! delta:8x5+shuffle:8+zstd:6                  3.7 %     17 entries                                  1.0 %
//! delta:4x1+lagdelta:4+zstd:6                 3.0 %     28 entries                                  0.7 %
//! ```
//!
//! Prices were chosen so that `auto:fast` stays as fast as lz4 on heaps, `auto` as fast as `zstd:1`, and
//! `auto:dense` above 40 MB/s. `weft`, which is newer than that search, took the place of `stride` alone in
//! the first two, and was added to the others.

use super::Auto;

/// How hard to try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// The cost of 16 nanoseconds, in 4096ths of a byte, for a page of 4096 bytes: where `weft` has vector
    /// instructions, and elsewhere.
    pub price: [u32; 2],
    /// In classes where estimates help, residuals are estimated for one in this many blocks.
    pub estimate: u32,
    /// The longest interval between exploratory trials is two to the power of this, in blocks of the class.
    pub patience: u16,
    /// By default, a result of at most this size, in 4096ths, is small enough.
    pub acceptance: u16,
    /// Exploratory trials may take so many 16ths of the time of others.
    pub explore: i32,
    /// The most exploratory trials for a block while none has produced a form.
    pub vain: u32,
    /// At least this many 1024ths of a candidate's promise count, however often it failed.
    pub doubt: u32,
}

/// The presets, the fastest first.
pub(crate) static PRESETS: [Auto; 4] = [
    Auto::preset(
        "auto:fast",
        [&FAST, &FAST_ELSEWHERE],
        0,
        Effort {
            price: [700, 700],
            estimate: 32,
            patience: 13,
            acceptance: 96,
            explore: 1,
            vain: 3,
            doubt: 0,
        },
    ),
    Auto::preset(
        "auto",
        [&BALANCED, &BALANCED_ELSEWHERE],
        2,
        Effort { price: [600, 160], estimate: 8, patience: 9, acceptance: 64, explore: 1, vain: 3, doubt: 0 },
    ),
    Auto::preset(
        "auto:dense",
        [&DENSE, &DENSE_ELSEWHERE],
        4,
        Effort {
            price: [10, 10],
            estimate: 1,
            patience: 7,
            acceptance: 24,
            explore: 16,
            vain: 8,
            doubt: 300,
        },
    ),
    Auto::preset(
        "auto:max",
        [&MAX, &MAX_ELSEWHERE],
        6,
        Effort { price: [0, 0], estimate: 1, patience: 6, acceptance: 16, explore: 64, vain: 12, doubt: 512 },
    ),
];

/// The effort for custom lists.
pub(super) const OWN: Effort =
    Effort { price: [100, 100], estimate: 4, patience: 8, acceptance: 64, explore: 4, vain: 3, doubt: 128 };

/// The names of `first`, then those of `rest`.
const fn join<const COUNT: usize>(first: &[&'static str], rest: &[&'static str]) -> [&'static str; COUNT] {
    assert!(first.len() + rest.len() == COUNT);
    let mut all = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        all[at] = if at < first.len() { first[at] } else { rest[at - first.len()] };
        at += 1;
    }
    all
}

const FAST: [&str; 11] = join(&["weft:3", "lz4"], &FAST_FOR_NUMBERS);
/// Where `weft` has no vector instructions.
const FAST_ELSEWHERE: [&str; 12] = join(&["stride:3", "lz4", "stride:1"], &FAST_FOR_NUMBERS);
const FAST_FOR_NUMBERS: [&str; 9] = [
    "delta:4x1+bitshuffle:4+stride:3",
    "delta:8x6+bitshuffle:8+stride:3",
    "delta:2x1+bitshuffle:2+stride:3",
    "delta:8x5+stride:3",
    "delta:4x2+bitshuffle:4+stride:3",
    "delta:4x1+bitshuffle:8+stride:3",
    "delta:4x1+stride:3",
    "delta:8x1+shuffle:4+stride:3",
    "bitshuffle:4+lz4",
];

const BALANCED: [&str; 20] = join(&["weft:4", "zstd:1", "lz4"], &BALANCED_FOR_NUMBERS);
/// Where `weft` has no vector instructions.
const BALANCED_ELSEWHERE: [&str; 20] = join(&["zstd:1", "stride:3", "lz4"], &BALANCED_FOR_NUMBERS);
const BALANCED_FOR_NUMBERS: [&str; 17] = [
    "delta:4x1+bitshuffle:4+stride:3",
    "delta:8x5+shuffle:8+zstd:1",
    "delta:8x6+bitshuffle:8+stride:3",
    "delta:2x1+bitshuffle:2+stride:3",
    "shuffle:4+zstd:1",
    "delta:4x2+bitshuffle:4+stride:3",
    "delta:4x1+bitshuffle:8+stride:3",
    "delta:4x1+zstd:1",
    "delta:4x2+zstd:1",
    "shuffle:8+zstd:1",
    "delta:2x2+bitshuffle:2+stride:3",
    "xor:8x1+bitshuffle:8+stride:3",
    "delta:8x1+shuffle:4+stride:3",
    "delta:4x1+stride:3",
    "xor:2x2+stride:3",
    "shuffle:2+zstd:1",
    "huffman",
];

const DENSE: [&str; 26] = join(&DENSE_ELSEWHERE, &["weft:4"]);
/// Where `weft` has no vector instructions.
const DENSE_ELSEWHERE: [&str; 25] = [
    "zstd:6",
    "stride:3",
    "lagdelta:4+bitshuffle:4+zstd:6",
    "delta:8x5+shuffle:8+zstd:6",
    "delta:4x1+lagdelta:4+zstd:6",
    "lagdelta:2+bitshuffle:2+zstd:6",
    "delta:8x1+lagdelta:8+zstd:6",
    "lagdelta:8+bitshuffle:8+zstd:6",
    "lagdelta:2+zstd:6",
    "shuffle:4+zstd:6",
    "delta:4x1+lagdelta:4+bitshuffle:4+zstd:6",
    "delta:4x1+zstd:6",
    "lagdelta:1+zstd:6",
    "lagdelta:8+shuffle:8+zstd:6",
    "delta:2x1+bitshuffle:2+zstd:6",
    "delta:8x6+bitshuffle:8+stride:3",
    "delta:4x1+bitshuffle:4+zstd:6",
    "xor:8x1+bitshuffle:8+zstd:6",
    "shuffle:2+zstd:6",
    "huffman",
    "delta:4x2+zstd:6",
    "delta:8x1+zstd:6",
    "shuffle:8+delta:1x1+zstd:6",
    "lagdelta:4+lagdelta:4+bitshuffle:4+zstd:6",
    "lagdelta:4+zstd:6",
];

const MAX: [&str; 33] = join(&MAX_ELSEWHERE, &["weft:4"]);
/// Where `weft` has no vector instructions.
const MAX_ELSEWHERE: [&str; 32] = [
    "zstd:19",
    "stride:3+range",
    "bwt+mtf+range",
    "stride:3",
    "lagdelta:4+bitshuffle:4+zstd:19",
    "delta:8x5+shuffle:8+zstd:19",
    "delta:4x1+lagdelta:4+zstd:19",
    "lagdelta:2+bitshuffle:2+zstd:19",
    "delta:8x1+lagdelta:8+zstd:19",
    "lagdelta:8+bitshuffle:8+zstd:19",
    "lagdelta:2+zstd:19",
    "lagdelta:4+zstd:19",
    "shuffle:4+zstd:19",
    "delta:4x1+lagdelta:4+bitshuffle:4+zstd:19",
    "delta:4x1+zstd:19",
    "lagdelta:1+zstd:19",
    "lagdelta:8+shuffle:8+zstd:19",
    "bitshuffle:4+zstd:19",
    "delta:4x2+bitshuffle:4+zstd:19",
    "delta:4x1+bitshuffle:4+zstd:19",
    "delta:8x6+bitshuffle:8+stride:3",
    "delta:8x6+bitshuffle:8+zstd:19",
    "delta:2x1+bitshuffle:2+zstd:19",
    "xor:8x1+bitshuffle:8+zstd:19",
    "delta:4x2+zstd:19",
    "delta:8x1+zstd:19",
    "delta:8x1+bitshuffle:8+zstd:19",
    "shuffle:8+delta:1x1+zstd:19",
    "lagdelta:4+lagdelta:4+bitshuffle:4+zstd:19",
    "delta:8x1+shuffle:8+bwt+mtf+range",
    "delta:4x1+shuffle:4+bwt+mtf+range",
    "range",
];
