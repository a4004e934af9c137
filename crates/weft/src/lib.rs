//! A codec for pages of heaps.
//!
//! Heaps consist of words: pointers, small numbers, flags, and strings in between. Objects of one kind follow
//! one another at a fixed **distance**, and differ in few bytes of few fields. This codec gives each line of
//! 64 bytes one distance. Each of its eight words is then described by the bytes in which it differs from the
//! word at that distance before it, or from zero:
//!
//! ```text
//!    ... | word | word | word | word | word | word | ...
//!             ^                   |
//!             `---- distance -----'   same: 7f 3a .. .. 10 0c 00 00     code: which bytes are new
//!                                     new:        c4 18                 literals: those bytes
//! ```
//!
//! Codes are predicted as well: the word at the distance before had new bytes in the same places. `format`
//! draws the compressed form.
//!
//! All efforts make one format; they differ in how hard they look for distances, and in whether literals are
//! packed. Every effort's output is defined by [`reference`], byte for byte; the other implementations must
//! agree.
//!
//! Decoders accept any bytes: they refuse what is no compressed form, never read or write outside of their
//! slices, and never panic. There is no checksum: damaged input that happens to be well-formed decodes to
//! other bytes.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use memfold_weft::{Effort, Path, Scratch, bound, compress, decompress};
//!
//! let page = [7; 4096];
//! let mut scratch = Box::new(Scratch::new());
//! let mut form = [0; bound(4096)];
//! // With the feature `std`; without it, say which instructions the processor has.
//! let path = Path::best();
//! let len = compress(path, &page, &mut form, Effort::Dense, &mut scratch).expect("it has room");
//!
//! let mut again = [0; 4096];
//! decompress(path, &form[..len], &mut again, &mut scratch).expect("this is what was compressed");
//! assert_eq!(again, page);
//! # }
//! ```
//!
//! Users of C find `memfold_weft.h` beside `memfold.h`.

#![no_std]
#![allow(clippy::duplicate_mod, reason = "the kernels are compiled once for each set of vector instructions")]

#[cfg(any(test, feature = "std"))]
extern crate std;

#[macro_use]
#[path = "kernels/operations.rs"]
mod operations;

#[cfg(target_arch = "x86_64")]
mod avx2;
mod dense;
mod format;
mod ideas;
#[cfg(target_arch = "aarch64")]
mod neon;
mod path;
pub mod reference;
mod scratch;
#[cfg(target_arch = "x86_64")]
mod sse;
#[cfg(test)]
mod tests;

pub use format::MOST_BYTES;
#[cfg(feature = "training")]
pub use ideas::{Idea, leave_out};
use path::Kind;
pub use path::Path;
pub use scratch::Scratch;

/// How hard to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Each line takes the first distance that is found.
    Fastest,
    /// Each line takes the best of three distances.
    Fast,
    /// Each line takes the best of five distances, and literals are packed where that saves enough.
    Packed,
    /// As before, but literals are coded by Huffman codes from fixed tables, and repetitions in them are
    /// looked for.
    Dense,
}

impl Effort {
    /// All efforts, the fastest first.
    pub const ALL: [Effort; 4] = [Effort::Fastest, Effort::Fast, Effort::Packed, Effort::Dense];
}

/// The input is not the compressed form of a unit of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("this is not the compressed form of a unit of that size")
    }
}

impl core::error::Error for Malformed {}

/// The most bytes that the form of a unit of `len` bytes takes.
pub const fn bound(len: usize) -> usize {
    len + len.div_ceil(format::PIECE) + if len.is_multiple_of(format::PIECE) { 0 } else { 2 }
}

/// Compresses `unit` into the beginning of `to`, and returns the length; `None` if it would not fit.
///
/// # Panics
/// If the unit is longer than [`MOST_BYTES`].
pub fn compress(
    path: Path,
    unit: &[u8],
    to: &mut [u8],
    effort: Effort,
    scratch: &mut Scratch,
) -> Option<usize> {
    assert!(unit.len() <= MOST_BYTES, "a unit of {} bytes is too long", unit.len());
    match path.0 {
        Kind::Reference => reference::compress(unit, to, effort, scratch),
        #[cfg(target_arch = "x86_64")]
        Kind::Sse => scratch.filled_up(unit, |unit, len, working| {
            // SAFETY: only where the processor has these instructions can such a path be made.
            unsafe { sse::compress(unit, len, to, effort, working) }
        }),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => scratch.filled_up(unit, |unit, len, working| {
            // SAFETY: only where the processor has these instructions can such a path be made.
            unsafe { avx2::compress(unit, len, to, effort, working) }
        }),
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => scratch.filled_up(unit, |unit, len, working| {
            // SAFETY: only where the processor has these instructions can such a path be made.
            unsafe { neon::compress(unit, len, to, effort, working) }
        }),
    }
}

/// Restores a unit of the length of `unit` from its compressed form. What `unit` holds after an error is not
/// specified.
///
/// # Errors
/// If the input is no compressed form of a unit of that length.
///
/// # Panics
/// If the unit is longer than [`MOST_BYTES`].
pub fn decompress(path: Path, from: &[u8], unit: &mut [u8], scratch: &mut Scratch) -> Result<(), Malformed> {
    assert!(unit.len() <= MOST_BYTES, "a unit of {} bytes is too long", unit.len());
    match path.0 {
        Kind::Reference => reference::decompress(from, unit, scratch),
        #[cfg(target_arch = "x86_64")]
        Kind::Sse => scratch.with_room(unit, |unit, len, working| {
            // SAFETY: only where the processor has these instructions can such a path be made.
            unsafe { sse::decompress(from, unit, len, working) }
        }),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => scratch.with_room(unit, |unit, len, working| {
            // SAFETY: only where the processor has these instructions can such a path be made.
            unsafe { avx2::decompress(from, unit, len, working) }
        }),
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => scratch.with_room(unit, |unit, len, working| {
            // SAFETY: only where the processor has these instructions can such a path be made.
            unsafe { neon::decompress(from, unit, len, working) }
        }),
    }
}
