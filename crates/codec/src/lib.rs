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

    /// The most bytes that `compress` may need in `dst` for `len` bytes.
    fn bound(&self, len: usize) -> usize;

    /// Bytes of scratch that `compress` needs for a block of `len` bytes.
    fn compress_scratch(&self, len: usize) -> usize;

    /// Bytes of scratch that `decompress` needs for a block of `len` bytes.
    fn decompress_scratch(&self, len: usize) -> usize;

    /// Compresses `src` into `dst` if the result takes at most `threshold`
    /// bytes. `dst` holds at least `min(threshold, bound(src.len()))` bytes;
    /// `scratch` is aligned to 64 bytes, what it holds before is unspecified.
    fn compress(&self, src: &[u8], dst: &mut [u8], threshold: usize, scratch: &mut [u8]) -> Compressed;

    /// Fills the whole of `dst` from `src`.
    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut [u8]) -> Result<(), Malformed>;
}
