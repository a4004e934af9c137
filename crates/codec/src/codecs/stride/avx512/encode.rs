//! Writing literals and symbols to the streams of the form.

use core::arch::x86_64::*;

use super::super::format::{ESCAPE, WORDS};
use super::super::kernels::{BitRow, Flags, LiteralBits, Literals, Misses, bits_of_edge};
use super::super::scalar::{codes_of, codes_of_symbols};
use super::super::scratch::Choice;
use super::{bytes_and_flags, low, numbers};

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn literals(segment: &[u8], words: usize, choice: &mut Choice) -> usize {
    assert!(words <= WORDS && 8 * words <= segment.len());
    let mut count = 0;
    for line in 0..words.div_ceil(8) {
        let mask = u64::from_le_bytes(choice.mask[8 * line..][..8].try_into().expect("eight bytes"));
        let mask = mask & low(8 * (words - 8 * line));
        // SAFETY: reads bytes under the mask, all of words of the segment;
        // writes 64 bytes where all literals before are 64 less than the row at most.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(mask, segment.as_ptr().add(64 * line).cast());
            let literals = _mm512_maskz_compress_epi8(mask, bytes);
            _mm512_storeu_si512(choice.literals.as_mut_ptr().add(count).cast(), literals);
        }
        count += mask.count_ones() as usize;
    }
    count
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn misses(words: usize, choice: &mut Choice) -> usize {
    assert!(words <= WORDS);
    choice.missed.fill(0);
    let mut count = 0;
    for i in (0..words).step_by(32) {
        // SAFETY: the rows have room for 512 words, of which `i` begins the
        // last 32 at most, and `misses` for 32 more.
        unsafe {
            let symbols = _mm512_loadu_si512(choice.symbols.as_ptr().add(4 + i).cast());
            let guesses = _mm512_loadu_si512(choice.guesses.as_ptr().add(i).cast());
            let missed = _mm512_cmpneq_epi16_mask(symbols, guesses) & low(words - i) as u32;
            choice.missed[i / 8..][..4].copy_from_slice(&missed.to_le_bytes());
            let misses = _mm512_maskz_compress_epi16(missed, symbols);
            _mm512_storeu_si512(choice.misses.as_mut_ptr().add(count).cast(), misses);
            count += missed.count_ones() as usize;
        }
    }
    count
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
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
    let mut table = [_mm512_setzero_si512(); 8];
    for (table, code) in table.iter_mut().zip(code.chunks_exact(64)) {
        // SAFETY: reads 64 bytes.
        *table = unsafe { _mm512_loadu_si512(code.as_ptr().cast()) };
    }
    let mut escapes = 0;
    for i in (0..count).step_by(64) {
        // SAFETY: reads 64 misses, of which the row has 512 and 32 more: the second half is skipped if it
        // would begin after them.
        let halves = unsafe {
            let from = misses.as_ptr().add(i);
            [
                _mm512_loadu_si512(from.cast()),
                _mm512_loadu_si512(from.add(if i < WORDS { 32 } else { 0 }).cast()),
            ]
        };
        let (bytes, from_reference) = bytes_and_flags(halves);
        let upper = _mm512_movepi8_mask(bytes);
        let look_up = |code: &[__m512i]| {
            let low = _mm512_permutex2var_epi8(code[0], bytes, code[1]);
            _mm512_mask_mov_epi8(low, upper, _mm512_permutex2var_epi8(code[2], bytes, code[3]))
        };
        let found = _mm512_mask_mov_epi8(look_up(&table[..4]), from_reference, look_up(&table[4..]));
        let escape = _mm512_cmpeq_epi8_mask(found, _mm512_set1_epi8(ESCAPE as i8)) & low(count - i);
        // SAFETY: both rows have room for 64 bytes after `count`.
        unsafe {
            _mm512_storeu_si512(codes.as_mut_ptr().add(i).cast(), found);
            _mm512_storeu_si512(
                masks.as_mut_ptr().add(escapes).cast(),
                _mm512_maskz_compress_epi8(escape, bytes),
            );
        }
        let new = u128::from(_pext_u64(from_reference, escape)) << (escapes % 8);
        let to: &mut [u8; 16] =
            (&mut flags[escapes / 8..escapes / 8 + 16]).try_into().expect("sixteen bytes");
        *to = (u128::from_le_bytes(*to) | new).to_le_bytes();
        escapes += escape.count_ones() as usize;
    }
    escapes
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn suppress(row: &BitRow, out: &mut [u8]) -> u64 {
    let out: &mut BitRow = out.first_chunk_mut().expect("room for a row");
    // SAFETY: both are 64 bytes.
    unsafe {
        let row = _mm512_loadu_si512(row.as_ptr().cast());
        let which = _mm512_test_epi8_mask(row, row);
        _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(which, row));
        which
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn common(counts: &[u16; 256], total: usize) -> [u8; 16] {
    let mut rows = [_mm512_setzero_si512(); 8];
    for (row, counts) in rows.iter_mut().zip(counts.chunks_exact(32)) {
        // SAFETY: reads 32 numbers.
        *row = unsafe { _mm512_loadu_si512(counts.as_ptr().cast()) };
    }
    let reach = |least: u32| {
        let least = _mm512_set1_epi16(least as i16);
        let mut reach = 0;
        for counts in rows {
            reach += _mm512_cmpge_epu16_mask(counts, least).count_ones();
        }
        reach
    };
    // As in the scalar version.
    let mut edge = 0;
    for bit in (0..bits_of_edge(total)).rev() {
        if reach(edge + (1 << bit)) > 16 {
            edge += 1 << bit;
        }
    }
    let mut wanted = 16 - reach(edge + 1);
    let edge = _mm512_set1_epi16(edge as i16);
    let mut all = [0; 4];
    for (i, counts) in rows.into_iter().enumerate() {
        let mut just = _mm512_cmpeq_epu16_mask(counts, edge);
        // Of those with exactly that count, the lowest ones, as many as are wanted.
        just = _pdep_u32(low(wanted as usize) as u32, just);
        wanted -= just.count_ones();
        all[i / 2] |= u64::from(just | _mm512_cmpgt_epu16_mask(counts, edge)) << (32 * (i % 2));
    }
    // Their numbers, without a branch for each.
    let (mut common, mut len) = ([0; 16 + 64], 0);
    for (i, all) in all.into_iter().enumerate() {
        let numbers = _mm512_add_epi8(numbers(), _mm512_set1_epi8((64 * i) as u8 as i8));
        let to: &mut [u8; 64] = common[len..].first_chunk_mut().expect("sixteen at most");
        // SAFETY: writes 64 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(all, numbers)) };
        len += all.count_ones() as usize;
    }
    *common.first_chunk().expect("sixteen")
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn split(
    literals: &Literals,
    count: usize,
    common: &[u8; 16],
    bits: &mut LiteralBits,
    codes: &mut Literals,
    rest: &mut Literals,
) -> usize {
    assert!(count + 64 <= literals.len());
    let code = codes_of(common);
    let mut table = [_mm512_setzero_si512(); 4];
    for (table, code) in table.iter_mut().zip(code.chunks_exact(64)) {
        // SAFETY: reads 64 bytes.
        *table = unsafe { _mm512_loadu_si512(code.as_ptr().cast()) };
    }
    let (mut with, mut without) = (0, 0);
    for i in (0..count).step_by(64) {
        // SAFETY: all rows have room for 64 bytes after `count`, and neither `with` nor `without` is more
        // than that.
        unsafe {
            let bytes = _mm512_loadu_si512(literals.as_ptr().add(i).cast());
            let lower = _mm512_permutex2var_epi8(table[0], bytes, table[1]);
            let upper = _mm512_permutex2var_epi8(table[2], bytes, table[3]);
            let found = _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(bytes), upper);
            let lacks = _mm512_movepi8_mask(found);
            let (has, lacks) = (!lacks & low(count - i), lacks & low(count - i));
            bits[i / 8..][..8].copy_from_slice(&has.to_le_bytes());
            let found = _mm512_maskz_compress_epi8(has, found);
            let others = _mm512_maskz_compress_epi8(lacks, bytes);
            _mm512_storeu_si512(codes.as_mut_ptr().add(with).cast(), found);
            _mm512_storeu_si512(rest.as_mut_ptr().add(without).cast(), others);
            with += has.count_ones() as usize;
            without += lacks.count_ones() as usize;
        }
    }
    with
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn pack(codes: &Literals, count: usize, out: &mut [u8]) {
    assert!(count + 64 <= codes.len() && count.div_ceil(2) + 64 <= out.len());
    let half = count.div_ceil(2);
    for i in (0..half).step_by(64) {
        // SAFETY: reads only existing codes; `out` has room for one vector after them.
        unsafe {
            let from = codes.as_ptr();
            let first = _mm512_maskz_loadu_epi8(low(half - i), from.add(i).cast());
            let second =
                _mm512_maskz_loadu_epi8(low((count - half).saturating_sub(i)), from.add(half + i).cast());
            // No code has any of the bits that the shift moves into its neighbour.
            let pairs = _mm512_or_si512(first, _mm512_slli_epi16::<4>(second));
            _mm512_storeu_si512(out.as_mut_ptr().add(i).cast(), pairs);
        }
    }
}
