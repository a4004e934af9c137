//! Codecs for blocks of memory: bytes in, bytes out.
//!
//! A codec compresses one block on its own. It starts no thread, does no
//! I/O and allocates nothing: working memory is handed in by the caller, so
//! that codecs can run where no allocator may be called. A decoder given any
//! bytes either fills the block or returns an error; it never reads or
//! writes outside of what it was given.
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;

mod scratch;

pub use scratch::Scratch;

/// Which decoder reads a compressed block: the number that formats store.
///
/// Numbers are given once and never change their meaning. Zero is never
/// given to a codec; formats may use it for "no codec".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

/// What came of compressing a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressed {
    /// The compressed form takes this many bytes of `dst`.
    Fits(usize),
    /// The compressed form would be larger than the threshold; what `dst`
    /// holds is unspecified.
    Incompressible,
}

/// The bytes given to a decoder are not what its encoder makes of a block of
/// the wanted size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// One way to compress a block.
pub trait Codec: Sync {
    /// The name under which the registry knows it, `zstd:1` for example.
    fn name(&self) -> &str;

    /// What a format stores to find the decoder again. Codecs that differ
    /// only in how hard they try share it.
    fn id(&self) -> CodecId;

    /// The most bytes that the compressed form of `len` bytes can take.
    fn bound(&self, len: usize) -> usize;

    /// Bytes of scratch that `compress` needs for a block of `len` bytes.
    fn compress_scratch(&self, len: usize) -> usize;

    /// Bytes of scratch that `decompress` needs for a block of `len` bytes.
    fn decompress_scratch(&self, len: usize) -> usize;

    /// Compresses `src` into `dst` if the result takes at most `threshold`
    /// bytes: the answer is `Fits` exactly then, whatever the length of `dst`,
    /// which must hold at least `min(threshold, bound(src.len()))` bytes.
    ///
    /// # Panics
    /// If `scratch` is smaller than `compress_scratch(src.len())`.
    fn compress(&self, src: &[u8], dst: &mut [u8], threshold: usize, scratch: &mut Scratch<'_>)
    -> Compressed;

    /// Fills the whole of `dst` from `src`, which must be all of one
    /// compressed form of a block of that length. After an error what `dst`
    /// holds is unspecified.
    ///
    /// # Panics
    /// If `scratch` is smaller than `decompress_scratch(dst.len())`.
    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed>;
}
