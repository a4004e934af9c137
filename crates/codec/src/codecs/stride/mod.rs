//! `stride:1` to `stride:3`: words predicted from the records before them.
//!
//! Memory is full of records: nodes, objects, rows. A page repeats itself at the distances at which its
//! records follow one another, and the structure repeats more than the content: the same fields, with other
//! low bytes. A vote over the page finds a few such **distances**. Each 32 bytes are predicted from the data
//! at one of these distances before them; for each word the form stores which bytes differ, and those bytes.
//! Vector units expand and compress such runs of bytes with one instruction.
//!
//! ```text
//!   vote -> search -> symbols ---> guess, code   --> streams of docs/formats/
//!     |       |          `-------> literals, pack -> stride.md
//!     |       `- which distance serves each granule best
//!     `- which distances there are
//! ```
//!
//! All settings share one format; they differ in how hard they search. The loops exist in plain Rust, AVX2
//! and AVX-512 (see [`crate::cpu`]) and produce the same bytes; the versions share all decisions and checks.
//! Invariants:
//!
//! - The compressed form depends on the block and the setting alone: not on the
//!   path, the threshold, or the scratch.
//! - It is larger than the block by at most one byte for each segment of 4096.
//! - Scratch does not grow with the block, except for a counter of 2 bytes for each possible distance, 128
//!   KiB at most.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod decode;
mod encode;
mod format;
mod kernels;
mod rank;
mod rows;
mod scalar;
mod scratch;
mod tables;
#[cfg(test)]
mod tests;
mod vote;

use format::SEGMENT;
use vote::Sampling;

use crate::cpu::{self, Path, path};
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

/// How hard to try.
#[derive(Debug)]
struct Effort {
    /// How many distances a segment may have, at most 16.
    pub distances: usize,
    /// Where the vote samples.
    pub sampling: Sampling,
    /// Whether each segment has its own table of symbols.
    pub own_table: bool,
    /// Whether granules are wide; then symbols are not guessed.
    pub wide: bool,
    /// One literal in this many is counted to find the common ones.
    pub count_every: usize,
    /// Literals are packed if that saves more than one in this many of them plus the table. At 8 packing just
    /// pays in size; but unpacking takes time.
    pub packing_saves: usize,
}

/// One setting.
pub(crate) struct Stride {
    name: &'static str,
    effort: Effort,
}

/// One in four of the places that are multiples of eight.
const SPARSE: u64 = 0x0000_0001_0000_0001;

/// All settings, the fastest first.
pub(crate) static SETTINGS: [Stride; 3] = [
    Stride {
        name: "stride:1",
        effort: Effort {
            distances: 8,
            sampling: Sampling { density: 15, always: 0, share: 7 },
            own_table: false,
            wide: true,
            count_every: 6,
            packing_saves: 5,
        },
    },
    Stride {
        name: "stride:2",
        effort: Effort {
            distances: 16,
            sampling: Sampling { density: 15, always: SPARSE, share: 16 },
            own_table: true,
            wide: true,
            count_every: 1,
            packing_saves: 8,
        },
    },
    Stride {
        name: "stride:3",
        effort: Effort {
            distances: 16,
            sampling: Sampling { density: 15, always: SPARSE, share: 16 },
            own_table: true,
            wide: false,
            count_every: 1,
            packing_saves: 8,
        },
    },
];

impl Codec for Stride {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::STRIDE
    }

    /// One byte for each segment that is stored as it is.
    fn bound(&self, len: usize) -> usize {
        len.saturating_add(len.div_ceil(SEGMENT))
    }

    fn compress_scratch(&self, len: usize) -> usize {
        scratch::compress_size(len)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { size_of::<scratch::Decompressor>() }
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        self.compress_on(path(), src, &mut dst[..room], scratch)
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() {
            return if src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        if src.is_empty() {
            return Err(Malformed);
        }
        self.decompress_on(path(), src, dst, scratch)
    }
}

impl Stride {
    /// Compresses `src`, which is not empty, into `dst`, which is as long as the
    /// result may be.
    ///
    /// # Panics
    /// If the processor does not have `path`.
    fn compress_on(&self, path: Path, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Compressed {
        assert!(path <= cpu::best());
        let memory = scratch.take(self.compress_scratch(src.len()));
        // SAFETY: a scratch is aligned to 64 bytes and was made of initialised ones; `take` checked that
        // there are as many as requested, and nothing else can use them while `scratch` is borrowed.
        let (work, counts) = unsafe { scratch::compressor(memory, src.len()) };
        let effort = &self.effort;
        match path {
            // SAFETY: the processor has it, see above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { avx512::compress(effort, src, dst, work, counts) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { avx2::compress(effort, src, dst, work, counts) },
            _ => encode::compress(scalar::Scalar, effort, src, dst, work, counts),
        }
    }

    /// Fills `dst`, which is not empty.
    ///
    /// # Panics
    /// If the processor does not have `path`.
    fn decompress_on(
        &self,
        path: Path,
        src: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Malformed> {
        assert!(path <= cpu::best());
        let memory = scratch.take(self.decompress_scratch(dst.len()));
        // SAFETY: as in `compress_on`.
        let work = unsafe { scratch::decompressor(memory) };
        match path {
            // SAFETY: the processor has it, see above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { avx512::decompress(src, dst, work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { avx2::decompress(src, dst, work) },
            _ => decode::decompress(scalar::Scalar, src, dst, work),
        }
    }
}
