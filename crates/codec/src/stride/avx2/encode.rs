//! Literals and symbols on their way into the streams of the form.

use core::arch::x86_64::*;

use super::super::format::{ESCAPE, WORDS};
use super::super::kernels::{BitRow, Flags, LiteralBits, Literals, Misses, bits_of_edge};
use super::super::scalar::{codes_of_symbols, nonzero};
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
            // From places of words to the two bytes of each.
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
    let code = codes_of_symbols(table);
    // Bit 7 of a byte for bit 8 of each symbol with an escape.
    let mut from_reference = [0_u8; WORDS + 32];
    let mut escapes = 0;
    for (&symbol, to) in misses[..count].iter().zip(codes) {
        let code = code[usize::from(symbol & 511)];
        *to = code;
        // Not more than there are symbols, for which the rows have room.
        masks[escapes & (WORDS - 1)] = symbol as u8;
        from_reference[escapes & (WORDS - 1)] = (symbol >> 1) as u8;
        escapes += usize::from(code == ESCAPE);
    }
    for (to, bytes) in
        flags.chunks_exact_mut(4).zip(from_reference[..escapes.next_multiple_of(32)].chunks_exact(32))
    {
        // SAFETY: reads 32 bytes.
        let bits = unsafe { _mm256_movemask_epi8(_mm256_loadu_si256(bytes.as_ptr().cast())) };
        to.copy_from_slice(&bits.to_le_bytes());
    }
    // What came behind the last was written for a symbol with a code.
    let last = escapes / 8;
    flags[last] &= (1 << (escapes % 8)) - 1;
    flags[last + 1..].fill(0);
    escapes
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
    // No count has its highest bit set, so signed comparisons will do.
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
    // As the scalar version does it.
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
                // The lowest of those that have just that many, as many as are wanted.
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
        // SAFETY: all rows have room for 64 bytes behind `count`, and neither
        // `with` nor `without` is more than that before the last round ends.
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
        // SAFETY: both have room for one vector behind what they hold.
        unsafe {
            let first = _mm256_loadu_si256(codes.as_ptr().add(i).cast());
            let second = _mm256_loadu_si256(codes.as_ptr().add(half + i).cast());
            // No code has one of the bits that the shift brings to its neighbour.
            let pairs = _mm256_or_si256(first, _mm256_slli_epi16::<4>(second));
            _mm256_storeu_si256(out.as_mut_ptr().add(i).cast(), pairs);
        }
    }
    if count % 2 == 1 {
        out[half - 1] = codes[half - 1];
    }
}
