//! The working memory of both directions, laid out in the caller's scratch.
//!
//! Everything is plain bytes and numbers, for which any content is valid: no call relies on previous content.
//! Rows are longer than their content by as much as a vector may write or read past the end.

use core::ptr::NonNull;

use super::format::{GRANULES, MAX_DISTANCES, SEGMENT, WORDS};
pub(super) use super::rows::SLACK;
use super::rows::{BitRow, ByteRow, Misses, Places};

/// The most bytes that a coded segment can take before it is known whether it pays: 4, distances 32, changes
/// 18, indices 64, table 18, misses 72, codes 256, escapes 576, literals 18 + 512 + 4096, tail 31.
pub(super) const OUT: usize = 5760;

/// What the compressor finds for each granule and word of a segment.
#[repr(C, align(64))]
pub(super) struct Choice {
    /// For each word, which bytes differ from the reference, then which differ
    /// from zero, then the mask that was chosen.
    pub differs: [u8; WORDS + SLACK],
    pub nonzero: [u8; WORDS + SLACK],
    pub mask: [u8; WORDS + SLACK],
    /// The symbols, after one granule of zeros.
    pub symbols: [u16; 4 + WORDS + SLACK / 2 - 4],
    /// The guess for each symbol.
    pub guesses: [u16; WORDS + SLACK / 2],
    /// Which guesses are wrong, a bit each, and the symbols of those words.
    pub missed: BitRow,
    pub misses: Misses,
    /// Zero, then the index of the distance of each granule.
    pub index: [u8; 1 + GRANULES + SLACK - 1],
    pub literals: [u8; SEGMENT + SLACK],
}

/// What the vote over the distances needs.
#[repr(C, align(64))]
pub(super) struct Vote {
    /// Where words with a hash were last seen, modulo 65536.
    pub seen: [u16; 1 << MAX_SEEN_BITS],
    /// Distances that got a vote in this segment.
    pub voted: [u16; SEGMENT + 8],
    /// The places that vote.
    pub places: Places,
}

/// The logarithm of the largest table of words seen.
pub(super) const MAX_SEEN_BITS: u32 = 13;

/// All of the compressor's memory but the counters of the vote, which follow
/// it and depend on the length of the block.
#[repr(C, align(64))]
pub(super) struct Compressor {
    pub choice: Choice,
    pub out: [u8; OUT + SLACK],
    pub codes: [u8; SEGMENT + SLACK],
    pub rest: [u8; SEGMENT + SLACK],
    pub packed: [u8; SEGMENT / 8 + SLACK],
    pub vote: Vote,
}

/// A distance that reaches before the start of any block.
pub(super) const NOWHERE: usize = usize::MAX / 2;

/// The decompressor's memory.
#[repr(C, align(64))]
pub(super) struct Decompressor {
    pub literals: [u8; SEGMENT + SLACK],
    pub codes: [u8; SEGMENT + SLACK],
    pub rest: [u8; SEGMENT + SLACK],
    pub packed: [u8; SEGMENT / 8 + SLACK],
    /// The symbols, after two granules of zeros.
    pub symbols: [u16; 8 + WORDS + SLACK / 2 - 8],
    /// The masks of the symbols that were guessed wrongly, and 0xFF for each of them that starts from the
    /// reference; a path that needs both joined builds `misses` from them.
    pub miss_masks: ByteRow,
    pub miss_flags: ByteRow,
    pub misses: Misses,
    pub missed: BitRow,
    pub changed: BitRow,
    /// The index before the first change, then one for each change.
    pub indices: [u8; 1 + GRANULES + SLACK],
    /// The masks of all words, and which of their bytes come from the reference, for paths that compute these
    /// first.
    pub masks: [u8; WORDS],
    pub kept: [u8; WORDS],
    /// How many literals each word has.
    pub counts: [u8; WORDS],
    /// The distances, followed by [`NOWHERE`].
    pub distances: [usize; MAX_DISTANCES],
    /// For each distance: how many granules back its guesses begin, where granules are counted from the first
    /// of the two before the segment; and the control that selects the guesses from that granule and the
    /// next.
    pub guesses: [[u64; 2]; MAX_DISTANCES],
}

/// Counters that the vote needs for a block of that length.
pub(super) fn counters(len: usize) -> usize {
    len.min(super::format::MAX_DISTANCE + 1).next_multiple_of(SLACK)
}

/// Bytes of scratch to compress a block of that length.
pub(super) fn compress_size(len: usize) -> usize {
    if len == 0 { 0 } else { size_of::<Compressor>() + 2 * counters(len) }
}

/// Places the compressor's memory and counters in `memory`.
///
/// # Safety
/// `memory` must be aligned to 64 bytes, hold `compress_size(len)` initialised bytes, and be used by nothing
/// else as long as the result lives.
pub(super) unsafe fn compressor<'a>(memory: NonNull<u8>, len: usize) -> (&'a mut Compressor, &'a mut [u16]) {
    // SAFETY: as the caller guarantees; both types are valid for any bytes, the first has an alignment of 64
    // and a size that is a multiple of it.
    unsafe {
        let counts = memory.add(size_of::<Compressor>()).cast();
        let counts = core::slice::from_raw_parts_mut(counts.as_ptr(), counters(len));
        (memory.cast().as_mut(), counts)
    }
}

/// Places the decompressor's memory in `memory`.
///
/// # Safety
/// `memory` must be aligned to 64 bytes, hold as many initialised bytes as a [`Decompressor`], and be used by
/// nothing else as long as the result lives.
pub(super) unsafe fn decompressor<'a>(memory: NonNull<u8>) -> &'a mut Decompressor {
    // SAFETY: as the caller guarantees; the type is valid for any bytes.
    unsafe { memory.cast().as_mut() }
}
