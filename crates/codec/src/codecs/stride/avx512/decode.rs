//! Decoding: from the streams to symbols and literals, and from those to the bytes of the segment.

use core::arch::x86_64::*;

use super::super::format::{ESCAPE, FROM_REFERENCE, GRANULE, GRANULES, SEGMENT, WIDE_GRANULE, WORDS};
use super::super::kernels::{BitRow, ByteRow, Flags, Literals};
use super::super::scratch::Decompressor;
use super::super::tables::apart;
use super::{ZEROS, low};

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
#[allow(clippy::too_many_arguments, reason = "rows of one scratch")]
pub(super) fn look_up(
    codes: &Literals,
    count: usize,
    table: &[u16; 16],
    known: usize,
    masks: &[u8],
    flags: &Flags,
    to_masks: &mut ByteRow,
    to_flags: &mut ByteRow,
) -> bool {
    assert!(count <= WORDS);
    // SAFETY: sixteen numbers.
    let table = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
    let flag_of = _mm256_movepi16_mask(_mm256_slli_epi16::<7>(table));
    let mask_of = _mm512_broadcast_i32x4(_mm256_cvtepi16_epi8(table));
    let flag_of = _mm512_broadcast_i32x4(_mm_movm_epi8(flag_of));
    let (mut escapes, mut wrong) = (0, 0);
    for i in (0..count).step_by(64) {
        // SAFETY: the row of codes has 64 bytes after `count`; the other rows are written where they have
        // room for 64.
        unsafe {
            let codes = _mm512_loadu_si512(codes.as_ptr().add(i).cast());
            let here = low(count - i);
            let escape = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(ESCAPE as i8)) & here;
            wrong |= _mm512_cmpge_epu8_mask(codes, _mm512_set1_epi8(known as i8)) & here & !escape;
            let given = _mm512_loadu_si512(masks[escapes..escapes + 64].as_ptr().cast());
            let masks = _mm512_mask_expand_epi8(_mm512_shuffle_epi8(mask_of, codes), escape, given);
            let bits: &[u8; 16] = flags[escapes / 8..escapes / 8 + 16].try_into().expect("sixteen bytes");
            let given = (u128::from_le_bytes(*bits) >> (escapes % 8)) as u64;
            let given = _mm512_movm_epi8(_pdep_u64(given, escape));
            let flags = _mm512_mask_mov_epi8(_mm512_shuffle_epi8(flag_of, codes), escape, given);
            _mm512_storeu_si512(to_masks.as_mut_ptr().add(i).cast(), masks);
            _mm512_storeu_si512(to_flags.as_mut_ptr().add(i).cast(), flags);
            escapes += escape.count_ones() as usize;
        }
    }
    wrong == 0
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn restore(which: u64, bytes: &[u8], row: &mut BitRow) -> bool {
    let bytes: &BitRow = bytes.first_chunk().expect("64 bytes behind the last");
    // SAFETY: reads and writes 64 bytes.
    unsafe {
        let bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
        let restored = _mm512_maskz_expand_epi8(which, bytes);
        _mm512_storeu_si512(row.as_mut_ptr().cast(), restored);
        _mm512_test_epi8_mask(restored, restored) == which
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn unpack(packed: &[u8], count: usize, codes: &mut Literals) {
    let half = count.div_ceil(2);
    assert!(count + 64 <= codes.len() && half + 64 <= packed.len());
    let nibble = _mm512_set1_epi8(15);
    // From the end, since the lower halves that a vector writes past them overlap the first upper halves,
    // which are therefore written last.
    let mut i = half.next_multiple_of(64);
    while i > 0 {
        i -= 64;
        // SAFETY: both rows have a vector after their content, and the upper halves are not more than the
        // lower.
        unsafe {
            let pairs = _mm512_loadu_si512(packed.as_ptr().add(i).cast());
            let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(pairs), nibble);
            let to = codes.as_mut_ptr();
            _mm512_storeu_si512(to.add(i).cast(), _mm512_and_si512(pairs, nibble));
            _mm512_storeu_si512(to.add(half + i).cast(), upper);
        }
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn join(
    bits: &[u8],
    count: usize,
    codes: &Literals,
    common: &[u8; 16],
    rest: &[u8],
    literals: &mut Literals,
) {
    assert!(count + 64 <= literals.len());
    // SAFETY: sixteen bytes.
    let common = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(common.as_ptr().cast()) });
    let (mut with, mut without) = (0, 0);
    for i in (0..count).step_by(64) {
        // SAFETY: the rows have room for 64 bytes after `count`, and `with` does not exceed it before the
        // last round ends.
        unsafe {
            let has = u64::from_le_bytes(bits[i / 8..][..8].try_into().expect("eight bytes"));
            let codes = _mm512_loadu_si512(codes.as_ptr().add(with).cast());
            let rest = _mm512_loadu_si512(rest[without..without + 64].as_ptr().cast());
            let found = _mm512_maskz_expand_epi8(has, _mm512_shuffle_epi8(common, codes));
            let both = _mm512_mask_expand_epi8(found, !has, rest);
            _mm512_storeu_si512(literals.as_mut_ptr().add(i).cast(), both);
            with += has.count_ones() as usize;
            without += 64 - has.count_ones() as usize;
        }
    }
}

/// The symbols of a wide segment, in which none are guessed, as masks, and as masks of the bytes that come
/// from the reference.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn resolve(words: usize, work: &mut Decompressor) {
    let mut misses = 0;
    for i in (0..words).step_by(64) {
        let missed = u64::from_le_bytes(work.missed[i / 8..][..8].try_into().expect("eight bytes"));
        // SAFETY: at most 512 misses are read, and a vector more, for which
        // their rows have room; the others have room for 512.
        unsafe {
            let masks = _mm512_loadu_si512(work.miss_masks.as_ptr().add(misses).cast());
            let flags = _mm512_loadu_si512(work.miss_flags.as_ptr().add(misses).cast());
            let kept = _mm512_andnot_si512(masks, flags);
            let to = (work.masks.as_mut_ptr().add(i), work.kept.as_mut_ptr().add(i));
            _mm512_storeu_si512(to.0.cast(), _mm512_maskz_expand_epi8(missed, masks));
            _mm512_storeu_si512(to.1.cast(), _mm512_maskz_expand_epi8(missed, kept));
        }
        misses += missed.count_ones() as usize;
    }
}

/// The misses, with both parts of each joined.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn interleave(words: usize, work: &mut Decompressor) {
    for i in (0..words).step_by(32) {
        // SAFETY: the rows have room for 512 misses and a vector more.
        unsafe {
            let masks = _mm256_loadu_si256(work.miss_masks.as_ptr().add(i).cast());
            let flags = _mm256_loadu_si256(work.miss_flags.as_ptr().add(i).cast());
            let masks = _mm512_cvtepu8_epi16(masks);
            let flags = _mm512_maskz_set1_epi16(_mm256_movepi8_mask(flags), FROM_REFERENCE as i16);
            _mm512_storeu_si512(work.misses.as_mut_ptr().add(i).cast(), _mm512_or_si512(masks, flags));
        }
    }
}

/// A reference is read as the two granules that it touches, each in the way in which it was written: only
/// then are recently written bytes forwarded quickly. These numbers select the position at which the
/// reference begins.
static PICKS: [u8; 2 * WIDE_GRANULE] = {
    let mut picks = [0; 2 * WIDE_GRANULE];
    let mut i = 0;
    while i < picks.len() {
        picks[i] = i as u8;
        i += 1;
    }
    picks
};

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn rebuild(
    dst: &mut [u8],
    at: usize,
    granules: usize,
    wide: bool,
    work: &mut Decompressor,
) -> usize {
    if wide { rebuild_wide(dst, at, granules, work) } else { rebuild_guessed(dst, at, granules, work) }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn rebuild_wide(dst: &mut [u8], at: usize, granules: usize, work: &mut Decompressor) -> usize {
    const SIZE: usize = WIDE_GRANULE;
    assert!(granules <= SEGMENT / SIZE && at + SIZE * granules <= dst.len() && at.is_multiple_of(SIZE));
    resolve(8 * granules, work);
    // All reads and writes go through this one pointer.
    let base = dst.as_mut_ptr();
    let (mut literals, mut change) = (0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let distance = work.distances[usize::from(work.indices[change] & 15)];
        let here = at + SIZE * g;
        let (first, picks) = (distance.next_multiple_of(SIZE), distance.wrapping_neg() % SIZE);
        let mask = u64::from_le_bytes(work.masks[8 * g..][..8].try_into().expect("eight bytes"));
        let kept = u64::from_le_bytes(work.kept[8 * g..][..8].try_into().expect("eight bytes"));
        // SAFETY: the granules of the reference lie in `dst`, from where the
        // first begins to the end of this one or before it, or are ZEROS; this
        // granule lies in `dst`, see above. At most 4096 literals are read, and
        // a vector more, for which the row has room.
        unsafe {
            let from = if first <= here { base.add(here - first).cast_const() } else { ZEROS.as_ptr() };
            let first = _mm512_loadu_si512(from.cast());
            let second = _mm512_loadu_si512(apart(from.add(SIZE)).cast());
            let picks = _mm512_loadu_si512(PICKS.as_ptr().add(picks).cast());
            let next = _mm512_loadu_si512(work.literals.as_ptr().add(literals).cast());
            // Placing the literals does not need the reference, which keeps the dependency from granule to
            // granule short.
            let placed = _mm512_maskz_expand_epi8(mask, next);
            let there = _mm512_maskz_permutex2var_epi8(kept, first, picks, second);
            _mm512_storeu_si512(base.add(here).cast(), _mm512_or_si512(placed, there));
        }
        literals += mask.count_ones() as usize;
    }
    literals
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn rebuild_guessed(dst: &mut [u8], at: usize, granules: usize, work: &mut Decompressor) -> usize {
    assert!(granules <= GRANULES && at + GRANULE * granules <= dst.len() && at.is_multiple_of(GRANULE));
    // All reads and writes go through this one pointer.
    let base = dst.as_mut_ptr();
    interleave(4 * granules, work);
    let (mut literals, mut misses, mut change) = (0, 0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let q = usize::from(work.indices[change] & 15);
        let distance = work.distances[q];
        let (reach, picks) = (distance.next_multiple_of(GRANULE), distance.wrapping_neg() % GRANULE);
        let missed = work.missed[g / 2] >> (4 * (g % 2)) & 15;
        let [from, control] = work.guesses[q];
        let from = (2 + g).saturating_sub(from as usize);
        let here = at + GRANULE * g;
        // SAFETY: `from` and the next are symbols of granules, of which there
        // are two before the first; at most 512 misses are read, and a vector
        // more, for which the row has room. The rest is as in a wide segment.
        unsafe {
            let row = work.symbols.as_mut_ptr();
            let first = _mm_loadl_epi64(row.add(4 * from).cast());
            let second = _mm_loadl_epi64(apart(row.add(4 * from + 4)).cast());
            let both = _mm_unpacklo_epi64(first, second);
            let guesses = _mm_shuffle_epi8(both, _mm_cvtsi64_si128(control as i64));
            let known = _mm_loadl_epi64(work.misses.as_ptr().add(misses).cast());
            let symbols = _mm_mask_expand_epi16(guesses, missed, known);
            _mm_storel_epi64(row.add(8 + 4 * g).cast(), symbols);
            let symbols = _mm_cvtsi128_si64(symbols) as u64;
            let mask = _pext_u64(symbols, 0x00FF_00FF_00FF_00FF) as u32;
            let from_reference = _pext_u64(symbols, 0x0100_0100_0100_0100) as u8;

            let from = if reach <= here { base.add(here - reach).cast_const() } else { ZEROS.as_ptr() };
            let first = _mm256_loadu_si256(from.cast());
            let second = _mm256_loadu_si256(apart(from.add(GRANULE)).cast());
            let picks = _mm256_loadu_si256(PICKS.as_ptr().add(picks).cast());
            let there = _mm256_permutex2var_epi8(first, picks, second);
            let start = _mm256_maskz_mov_epi64(from_reference, there);
            let next = _mm256_loadu_si256(work.literals.as_ptr().add(literals).cast());
            let made = _mm256_mask_expand_epi8(start, mask, next);
            _mm256_storeu_si256(base.add(here).cast(), made);
            literals += mask.count_ones() as usize;
        }
        misses += missed.count_ones() as usize;
    }
    literals
}
