//! Writing literals and symbols to the streams of the form.

use core::arch::x86_64::*;

use super::super::format::{ESCAPE, FROM_REFERENCE, WORDS};
use super::super::kernels::{BitRow, Flags, LiteralBits, Literals, Misses, bits_of_edge};
use super::super::scalar::nonzero;
use super::super::scratch::Choice;
use super::super::tables::GATHER;

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn literals(segment: &[u8], words: usize, choice: &mut Choice) -> usize {
    assert!(words <= WORDS && 8 * words <= segment.len());
    let mut count = 0;
    for i in 0..words {
        let mask = choice.mask[i];
        // SAFETY: reads a word of the segment; writes eight bytes where all
        // literals before are 64 less than the row at most.
        unsafe {
            let word = _mm_loadl_epi64(segment.as_ptr().add(8 * i).cast());
            let gather = _mm_loadl_epi64(GATHER[usize::from(mask)].as_ptr().cast());
            let to = choice.literals.as_mut_ptr().add(count);
            _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(word, gather));
        }
        count += mask.count_ones() as usize;
    }
    count
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn misses(words: usize, choice: &mut Choice) -> usize {
    assert!(words <= WORDS && words.is_multiple_of(4));
    choice.missed.fill(0);
    let mut count = 0;
    for (i, to_missed) in (0..words).step_by(8).zip(&mut choice.missed) {
        // SAFETY: the rows have room for 512 words, of which `i` begins the last
        // eight at most, `symbols` for four before them, and `misses` for 32 more.
        unsafe {
            let symbols = _mm_loadu_si128(choice.symbols.as_ptr().add(4 + i).cast());
            let guesses = _mm_loadu_si128(choice.guesses.as_ptr().add(i).cast());
            let same = _mm_cmpeq_epi16(symbols, guesses);
            let mut missed = !_mm_movemask_epi8(_mm_packs_epi16(same, same)) as usize & 255;
            if words - i < 8 {
                missed &= 15;
            }
            *to_missed = missed as u8;
            // From positions of words to the two bytes of each.
            let gather = _mm_cvtepu8_epi16(_mm_loadl_epi64(GATHER[missed].as_ptr().cast()));
            let gather =
                _mm_add_epi16(_mm_mullo_epi16(gather, _mm_set1_epi16(0x0202)), _mm_set1_epi16(0x0100));
            let to = choice.misses.as_mut_ptr().add(count);
            _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(symbols, gather));
            count += missed.count_ones() as usize;
        }
    }
    count
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn code(
    misses: &Misses,
    count: usize,
    table: &[u16],
    codes: &mut Literals,
    masks: &mut Literals,
    flags: &mut Flags,
) -> usize {
    assert!(count <= WORDS);
    let table = Sets::new(table);
    let byte = _mm_set1_epi16(0xFF);
    // 0xFF for each escape whose word starts from the reference.
    let mut from_reference = [0_u8; WORDS + 32];
    let mut escapes = 0;
    for i in (0..count).step_by(16) {
        // SAFETY: the row of misses has 32 after 512, that of codes 64; at most 504 escapes come before the
        // last eight, for which the rows have room.
        unsafe {
            let first = _mm_loadu_si128(misses.as_ptr().add(i).cast());
            let second = _mm_loadu_si128(misses.as_ptr().add(i + 8).cast());
            let new = _mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(second, byte));
            let set = _mm_packus_epi16(_mm_srli_epi16::<8>(first), _mm_srli_epi16::<8>(second));
            let set = _mm_cmpeq_epi8(set, _mm_set1_epi8(1));
            let found = table.codes(new, set);
            _mm_storeu_si128(codes.as_mut_ptr().add(i).cast(), found);
            let escape = _mm_movemask_epi8(_mm_cmpeq_epi8(found, _mm_set1_epi8(ESCAPE as i8))) as u32;
            let escape = escape & if count - i < 16 { (1 << (count - i)) - 1 } else { 0xFFFF };
            let halves = [(new, set), (_mm_srli_si128::<8>(new), _mm_srli_si128::<8>(set))];
            for ((new, set), escape) in halves.into_iter().zip([escape & 0xFF, escape >> 8]) {
                let gather = _mm_loadl_epi64(GATHER[escape as usize].as_ptr().cast());
                _mm_storel_epi64(masks.as_mut_ptr().add(escapes).cast(), _mm_shuffle_epi8(new, gather));
                let to = from_reference.as_mut_ptr().add(escapes);
                _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(set, gather));
                escapes += escape.count_ones() as usize;
            }
        }
    }
    // There are zeros after the last escape.
    let bytes = from_reference[..escapes.next_multiple_of(32)].chunks_exact(32);
    for (to, bytes) in flags.chunks_exact_mut(4).zip(bytes) {
        // SAFETY: reads 32 bytes.
        let bits = unsafe { _mm256_movemask_epi8(_mm256_loadu_si256(bytes.as_ptr().cast())) };
        to.copy_from_slice(&bits.to_le_bytes());
    }
    escapes
}

/// A table of symbols as sets of codes: for each value of a mask's lower four bits, the codes whose masks
/// have it; the same for the upper four bits, and for bit 8.
struct Sets {
    /// Codes 0-7 and 8-15, a bit each.
    low: [__m128i; 2],
    high: [__m128i; 2],
    from_reference: [__m128i; 2],
}

impl Sets {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn new(table: &[u16]) -> Self {
        let (mut low, mut high, mut from_reference) = ([[0_u8; 16]; 2], [[0_u8; 16]; 2], [0_u8; 2]);
        for (code, &symbol) in table.iter().enumerate().take(usize::from(ESCAPE)) {
            let (half, bit) = (code / 8, 1 << (code % 8));
            low[half][usize::from(symbol & 15)] |= bit;
            high[half][usize::from(symbol >> 4 & 15)] |= bit;
            from_reference[half] |= if symbol & FROM_REFERENCE != 0 { bit } else { 0 };
        }
        // SAFETY: sixteen bytes.
        let row = |bytes: [u8; 16]| unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        Sets {
            low: low.map(row),
            high: high.map(row),
            from_reference: from_reference.map(|set| _mm_set1_epi8(set as i8)),
        }
    }

    /// The codes of sixteen symbols: the code that is in all three sets, or 15.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn codes(&self, masks: __m128i, from_reference: __m128i) -> __m128i {
        let nibble = _mm_set1_epi8(15);
        let upper = |bytes: __m128i| _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble);
        let (low, high) = (_mm_and_si128(masks, nibble), upper(masks));
        let none = ESCAPE as i8;
        let mut codes = _mm_set1_epi8(none);
        for half in 0..2 {
            let both =
                _mm_and_si128(_mm_shuffle_epi8(self.low[half], low), _mm_shuffle_epi8(self.high[half], high));
            let one = _mm_andnot_si128(_mm_xor_si128(self.from_reference[half], from_reference), both);
            // From the one bit to its number.
            let number = |first: i8| {
                let [a, b, c, d] = [first, first + 1, first + 2, first + 3];
                _mm_setr_epi8(
                    none, a, b, none, c, none, none, none, d, none, none, none, none, none, none, none,
                )
            };
            let first = 8 * half as i8;
            let in_low = _mm_shuffle_epi8(number(first), _mm_and_si128(one, nibble));
            let in_high = _mm_shuffle_epi8(number(first + 4), upper(one));
            codes = _mm_min_epu8(codes, _mm_min_epu8(in_low, in_high));
        }
        codes
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn suppress(row: &BitRow, out: &mut [u8]) -> u64 {
    let out = &mut out[..64];
    let (mut which, mut count) = (0, 0);
    for (i, bytes) in row.chunks_exact(8).enumerate() {
        let mask = nonzero(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        // SAFETY: reads eight bytes; writes eight where at most 56 are before.
        unsafe {
            let gather = _mm_loadl_epi64(GATHER[usize::from(mask)].as_ptr().cast());
            let bytes = _mm_shuffle_epi8(_mm_loadl_epi64(bytes.as_ptr().cast()), gather);
            _mm_storel_epi64(out.as_mut_ptr().add(count).cast(), bytes);
        }
        which |= u64::from(mask) << (8 * i);
        count += mask.count_ones() as usize;
    }
    which
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn common(counts: &[u16; 256], total: usize) -> [u8; 16] {
    // No count has its highest bit set, so signed comparisons suffice.
    let mut rows = [_mm256_setzero_si256(); 16];
    for (row, counts) in rows.iter_mut().zip(counts.chunks_exact(16)) {
        // SAFETY: reads 16 numbers.
        *row = unsafe { _mm256_loadu_si256(counts.as_ptr().cast()) };
    }
    let above = |edge: i16| {
        let edge = _mm256_set1_epi16(edge);
        let mut above = _mm256_setzero_si256();
        for row in rows {
            above = _mm256_sub_epi16(above, _mm256_cmpgt_epi16(row, edge));
        }
        // Sixteen small sums, added up as bytes.
        let sums = _mm256_sad_epu8(above, _mm256_setzero_si256());
        let sums = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        _mm_cvtsi128_si32(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums))) as u32
    };
    // As in the scalar version.
    let mut edge = 0;
    for bit in (0..bits_of_edge(total)).rev() {
        if above(edge + (1 << bit) - 1) > 16 {
            edge += 1 << bit;
        }
    }
    let (mut common, mut len) = ([0; 16], 0);
    let mut wanted = 16 - above(edge);
    let edge = _mm256_set1_epi16(edge);
    for (i, row) in rows.into_iter().enumerate() {
        let bits = |same: __m256i| {
            let (low, high) = (_mm256_castsi256_si128(same), _mm256_extracti128_si256::<1>(same));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        };
        let more = bits(_mm256_cmpgt_epi16(row, edge));
        let just = bits(_mm256_cmpeq_epi16(row, edge));
        let mut all = more | just;
        while all != 0 && len < 16 {
            let bit = all & all.wrapping_neg();
            all ^= bit;
            if more & bit == 0 {
                // Of those with exactly that count, the lowest ones, as many as are wanted.
                if wanted == 0 {
                    continue;
                }
                wanted -= 1;
            }
            common[len] = (16 * i) as u8 + bit.trailing_zeros() as u8;
            len += 1;
        }
    }
    common
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn split(
    literals: &Literals,
    count: usize,
    common: &[u8; 16],
    bits: &mut LiteralBits,
    codes: &mut Literals,
    rest: &mut Literals,
) -> usize {
    assert!(count + 64 <= literals.len());
    // The table ascends, so the only code that a literal can have is the number
    // of common ones below it. Comparisons are signed, hence the flipped bit.
    let flip = _mm256_set1_epi8(-128);
    let mut rows = [_mm256_setzero_si256(); 16];
    for (row, &common) in rows.iter_mut().zip(common) {
        *row = _mm256_xor_si256(_mm256_set1_epi8(common as i8), flip);
    }
    // SAFETY: sixteen bytes.
    let table = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(common.as_ptr().cast()) });
    let (mut with, mut without) = (0, 0);
    for i in (0..count).step_by(32) {
        // SAFETY: all rows have room for 64 bytes after `count`, and neither `with` nor `without` exceeds it
        // before the last round ends.
        unsafe {
            let bytes = _mm256_loadu_si256(literals.as_ptr().add(i).cast());
            let flipped = _mm256_xor_si256(bytes, flip);
            let mut below = _mm256_setzero_si256();
            for row in rows {
                below = _mm256_sub_epi8(below, _mm256_cmpgt_epi8(flipped, row));
            }
            let found = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, below), bytes);
            let mut has = _mm256_movemask_epi8(found) as u32;
            if count - i < 32 {
                has &= (1 << (count - i)) - 1;
            }
            bits[i / 8..][..4].copy_from_slice(&has.to_le_bytes());
            let mut found = [0_u8; 32];
            _mm256_storeu_si256(found.as_mut_ptr().cast(), below);
            for (part, has) in has.to_le_bytes().into_iter().enumerate() {
                let gather = |from: *const u8, mask: u8| {
                    let control = _mm_loadl_epi64(GATHER[usize::from(mask)].as_ptr().cast());
                    _mm_shuffle_epi8(_mm_loadl_epi64(from.cast()), control)
                };
                let new = gather(found.as_ptr().add(8 * part), has);
                let others = gather(literals.as_ptr().add(i + 8 * part), !has);
                _mm_storel_epi64(codes.as_mut_ptr().add(with).cast(), new);
                _mm_storel_epi64(rest.as_mut_ptr().add(without).cast(), others);
                with += has.count_ones() as usize;
                without += 8 - has.count_ones() as usize;
            }
        }
    }
    with
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn pack(codes: &Literals, count: usize, out: &mut [u8]) {
    assert!(count + 64 <= codes.len() && count.div_ceil(2) + 64 <= out.len());
    let half = count.div_ceil(2);
    for i in (0..half).step_by(32) {
        // SAFETY: both have room for one vector after their content.
        unsafe {
            let first = _mm256_loadu_si256(codes.as_ptr().add(i).cast());
            let second = _mm256_loadu_si256(codes.as_ptr().add(half + i).cast());
            // No code has any of the bits that the shift moves into its neighbour.
            let pairs = _mm256_or_si256(first, _mm256_slli_epi16::<4>(second));
            _mm256_storeu_si256(out.as_mut_ptr().add(i).cast(), pairs);
        }
    }
    if count % 2 == 1 {
        out[half - 1] = codes[half - 1];
    }
}
