//! The layout of the compressed form; `docs/formats/stride.md` specifies it byte by byte and gives the
//! reasons.
//!
//! ```text
//! block = segments of 4096 bytes, the last may be shorter; each becomes
//!
//!   RAW     | kind | the bytes |
//!   FILL    | kind | length u16 | word u64 |
//!   CODED   | kind | k | nlit u16 | distances
//!           | literals                PACKED or as they are
//!           | changes, indices        which distance each granule uses
//!           | table                   of symbols, unless STATIC
//!           | misses, codes, escapes  the symbol of each word
//!           | tail: bytes after the last granule |
//! ```
//!
//! A **granule** is 32 bytes, in a WIDE segment 64, and has one distance; its **reference** is the data that
//! many bytes before it. A **word** is 8 bytes; its **symbol** says with nine bits whether it starts from the
//! reference or from zeros (bit 8) and which of its bytes differ from that (bits 0-7, the mask). Those bytes
//! are the **literals**.

/// Bytes that are coded together.
pub(super) const SEGMENT: usize = 4096;
/// Bytes that share one distance; the second constant is for WIDE segments.
pub(super) const GRANULE: usize = 32;
pub(super) const WIDE_GRANULE: usize = 64;
/// Words in a segment.
pub(super) const WORDS: usize = SEGMENT / 8;
/// Granules in a segment.
pub(super) const GRANULES: usize = SEGMENT / GRANULE;
/// The most distances that a segment may name.
pub(super) const MAX_DISTANCES: usize = 16;
/// The longest distance.
pub(super) const MAX_DISTANCE: usize = 0xFFFF;

/// Kinds of segments: the low two bits of the first byte.
pub(super) const RAW: u8 = 0;
pub(super) const FILL: u8 = 1;
pub(super) const CODED: u8 = 2;
pub(super) const KIND: u8 = 3;
/// Set in the first byte of the last segment only.
pub(super) const LAST: u8 = 1 << 7;

/// Further flags in the first byte of a coded segment. All other bits are zero.
pub(super) const STATIC: u8 = 1 << 2;
pub(super) const PACKED: u8 = 1 << 3;
pub(super) const NARROW: u8 = 1 << 4;
pub(super) const WIDE: u8 = 1 << 5;

/// Bit 8 of a symbol: the word starts from its reference.
pub(super) const FROM_REFERENCE: u16 = 1 << 8;
/// The code for a symbol that is not in the table.
pub(super) const ESCAPE: u8 = 15;
/// The number of literals that have short codes in a packed segment.
pub(super) const COMMON: usize = 16;

/// Bytes of a FILL segment.
pub(super) const FILL_LEN: usize = 11;

/// The table of a STATIC segment.
pub(super) static STATIC_TABLE: [u16; 15] =
    [0x100, 0x103, 0x0FF, 0x101, 0x000, 0x001, 0x107, 0x03F, 0x10F, 0x00F, 0x110, 0x1C0, 0x102, 0x007, 0x003];

/// How many words before a word the symbol is that serves as its guess, for this distance. Since no distance
/// is shorter than a granule, that symbol is never in the same granule.
pub(super) fn words_back(distance: usize) -> usize {
    distance.div_ceil(8)
}

/// The bytes of a granule.
pub(super) const fn granule(wide: bool) -> usize {
    if wide { WIDE_GRANULE } else { GRANULE }
}
