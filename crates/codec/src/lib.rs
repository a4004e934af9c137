//! Codecs for blocks of memory: bytes in, bytes out.
//!
//! A codec compresses one block on its own. It starts no thread, does no I/O and allocates nothing: the
//! caller supplies working memory, so that codecs can run where no allocator may be called. A decoder given
//! any bytes either fills the block or returns an error; it never reads or writes outside the buffers that it
//! was given.
//!
//! Several steps in sequence form a codec as well, a [`Pipeline`].
//!
//! [`codec`] finds a codec by its name, [`decoder`] by the number that a format stored. Blocks that consist
//! of one repeated word need no codec: [`same_filled`] finds them and [`fill`] restores them.
//!
//! ```text
//!  block --same_filled--> word                       8 bytes, no codec
//!    |
//!    +--Codec::compress--> Fits(n)  -> n bytes + CodecId --decoder--> block
//!                    `---> Incompressible               (keep it as it is)
//! ```
//!
//! Invariants, which every codec keeps and the tests of this crate check:
//!
//! - The output of `compress` depends on the block alone, not on the threshold, the length of `dst`, or
//!   earlier use of the scratch.
//! - It returns `Fits` exactly if the result is not larger than the threshold. [`Auto`], which learns from
//!   blocks, keeps neither of these two: its output is never larger than the threshold, but may differ from
//!   call to call.
//! - `decompress` accepts exactly that result, neither truncated nor with additional bytes.
//! - An empty block has an empty compressed form.
//!
//! Codecs are designed for blocks from one byte to [`MAX_BLOCK`]. Larger ones work too, as far as the format
//! allows, but nothing is tuned for them.
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;

mod auto;
mod bytes;
mod codecs;
pub mod cpu;
mod interned;
mod pipeline;
pub mod portable;
mod registry;
mod same;
mod scratch;
mod steps;

pub use auto::{Auto, ListError, MOST_ENTRIES, auto_table};
#[cfg(feature = "papers")]
pub use codecs::peers::papers::pbpm::patterns;
pub use codecs::weft::path as weft_path;
#[cfg(feature = "dict")]
pub use codecs::zstd::dict;
pub use pipeline::{Chain, MOST_STEPS, Pipeline, PipelineTable};
pub use registry::{all, codec, decoder, is_optional};
pub use same::{fill, same_filled};
pub use scratch::Scratch;
#[cfg(feature = "std")]
pub use scratch::buffer::ScratchBuf;

/// The largest block that the codecs are designed and tested for: 512 KiB.
pub const MAX_BLOCK: usize = 512 << 10;

/// Which decoder reads a compressed block: the number that formats store.
///
/// Zero is never given to a codec; formats may use it for "no codec".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

/// No codec has this name. The message lists the existing names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCodec;

/// The result of compressing a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressed {
    /// The compressed form takes this many bytes of `dst`.
    Fits(usize),
    /// The compressed form would be larger than the threshold; what `dst`
    /// holds is unspecified.
    Incompressible,
}

/// The bytes given to a decoder are not the encoder's output for a block of the wanted size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the compressed form of a block is damaged")
    }
}

impl core::error::Error for Malformed {}

/// One way to compress a block.
pub trait Codec: Sync {
    /// The name under which the registry knows it, `zstd:1` for example.
    fn name(&self) -> &str;

    /// The number by which a format finds the decoder again. Codecs that differ only in how hard they try
    /// share it.
    fn id(&self) -> CodecId;

    /// The most bytes that the compressed form of `len` bytes can take.
    fn bound(&self, len: usize) -> usize;

    /// Bytes of scratch that `compress` needs for a block of `len` bytes.
    fn compress_scratch(&self, len: usize) -> usize;

    /// Bytes of scratch that `compress` needs for any block of at most `len` bytes, even if shorter blocks
    /// need more.
    fn compress_scratch_up_to(&self, len: usize) -> usize {
        self.compress_scratch(len)
    }

    /// Bytes of scratch that `decompress` needs for a block of `len` bytes.
    fn decompress_scratch(&self, len: usize) -> usize;

    /// Compresses `src` into `dst` if the result takes at most `threshold` bytes, and returns `Fits` exactly
    /// then. `dst` must hold at least `min(threshold, bound(src.len()))` bytes; its length does not affect
    /// the result.
    ///
    /// Only for [`Auto`] does the result depend on more than `src`: on earlier calls with the same scratch,
    /// on its list, and on the threshold. It may find no form for a block for which another call finds one.
    ///
    /// # Panics
    /// If `scratch` is smaller than `compress_scratch(src.len())` or `dst` is shorter than required.
    fn compress(&self, src: &[u8], dst: &mut [u8], threshold: usize, scratch: &mut Scratch<'_>)
    -> Compressed;

    /// Fills the whole of `dst` from `src`, which must be exactly one compressed form of a block of that
    /// length. After an error the content of `dst` is unspecified.
    ///
    /// # Panics
    /// If `scratch` is smaller than `decompress_scratch(dst.len())`.
    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed>;
}

impl core::fmt::Debug for dyn Codec + '_ {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// How much of `dst` a compressor may fill: no more than the threshold allows, and no more than `bound`,
/// since no form is longer.
///
/// # Panics
/// If `dst` is smaller than the contract of [`Codec::compress`] requires; otherwise compressible blocks would
/// be reported as incompressible.
#[inline]
fn room(dst: &[u8], threshold: usize, bound: usize) -> usize {
    let room = threshold.min(bound);
    assert!(dst.len() >= room, "dst is smaller than the threshold and the bound require");
    room
}
