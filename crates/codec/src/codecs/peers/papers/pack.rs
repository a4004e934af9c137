//! Word-parallel packing of small values, for `pbpm` (its paper's figure 3) and `wkdm`. Values are collected,
//! one per byte. Sixteen codes are four words: the second is shifted by two bits, the third by four, the
//! fourth by six, and all are merged into one. Eight indices are two words, the second shifted by four.
//!
//! ```text
//! codes 0-3   | 000000aa | 000000bb | 000000cc | 000000dd |
//! codes 4-7   | 000000ee | 000000ff | 000000gg | 000000hh |  << 2
//! codes 8-11  | 000000ii | 000000jj | 000000kk | 000000ll |  << 4
//! codes 12-15 | 000000mm | 000000nn | 000000oo | 000000pp |  << 6
//!             +----------+----------+----------+----------+
//! packed      | mmiieeaa | nnjjffbb | ookkggcc | ppllhhdd |
//! ```

/// Codes in a packed group of four bytes.
pub(crate) const CODES: usize = 16;

/// Indices in a packed group of four bytes.
pub(crate) const INDICES: usize = 8;

/// Bytes that this many codes take.
pub(crate) const fn codes_size(count: usize) -> usize {
    count.div_ceil(CODES) * 4
}

/// Bytes that this many indices take.
pub(crate) const fn indices_size(count: usize) -> usize {
    count.div_ceil(INDICES) * 4
}

/// Values collected one per byte before they are packed.
pub(crate) struct Values<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Values<'a> {
    /// Room for values in `bytes`, and for the padding after them.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Values { bytes, len: 0 }
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: u8) {
        self.bytes[self.len] = value;
        self.len += 1;
    }

    /// All values, with `padding` up to a multiple of `group`.
    pub(crate) fn padded(&mut self, group: usize, padding: u8) -> &[u8] {
        let end = self.len.next_multiple_of(group);
        self.bytes[self.len..end].fill(padding);
        &self.bytes[..end]
    }
}

fn word(values: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([values[at], values[at + 1], values[at + 2], values[at + 3]])
}

/// Packs whole groups of codes into exactly as many bytes as they take.
pub(crate) fn pack_codes(values: &[u8], packed: &mut [u8]) {
    for (group, to) in values.chunks_exact(CODES).zip(packed.chunks_exact_mut(4)) {
        let merged = word(group, 0) | word(group, 4) << 2 | word(group, 8) << 4 | word(group, 12) << 6;
        to.copy_from_slice(&merged.to_le_bytes());
    }
}

/// The inverse of [`pack_codes`], into the first of `values`.
pub(crate) fn unpack_codes(packed: &[u8], values: &mut [u8]) {
    for (from, group) in packed.chunks_exact(4).zip(values.chunks_exact_mut(CODES)) {
        let merged = word(from, 0);
        for (shift, to) in [0, 2, 4, 6].into_iter().zip(group.chunks_exact_mut(4)) {
            to.copy_from_slice(&(merged >> shift & 0x0303_0303).to_le_bytes());
        }
    }
}

/// Packs whole groups of indices into exactly as many bytes as they take.
pub(crate) fn pack_indices(values: &[u8], packed: &mut [u8]) {
    for (group, to) in values.chunks_exact(INDICES).zip(packed.chunks_exact_mut(4)) {
        to.copy_from_slice(&(word(group, 0) | word(group, 4) << 4).to_le_bytes());
    }
}

/// The inverse of [`pack_indices`], into the first of `values`.
pub(crate) fn unpack_indices(packed: &[u8], values: &mut [u8]) {
    for (from, group) in packed.chunks_exact(4).zip(values.chunks_exact_mut(INDICES)) {
        let merged = word(from, 0);
        for (shift, to) in [0, 4].into_iter().zip(group.chunks_exact_mut(4)) {
            to.copy_from_slice(&(merged >> shift & 0x0F0F_0F0F).to_le_bytes());
        }
    }
}
