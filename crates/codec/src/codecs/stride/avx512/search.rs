//! The distance of each granule, and the bytes that differ from its reference.

use core::arch::x86_64::*;

use super::super::format::{GRANULE, GRANULES, MAX_DISTANCES, SEGMENT, WORDS, granule};
use super::super::kernels::{BitRow, Literals};
use super::super::scratch::Choice;
use super::low;

/// The number of lines searched together. It is large enough that the data written for the first of them have
/// left the processor's store buffer when they are read again.
const BATCH: usize = 8;

/// For each line of a batch, the bytes that differ with each distance.
#[repr(align(64))]
struct Differs([[u64; MAX_DISTANCES]; BATCH]);

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn search(
    src: &[u8],
    at: usize,
    granules: usize,
    wide: bool,
    distances: &[u16],
    choice: &mut Choice,
) {
    if wide {
        search_lines::<true>(src, at, granules, distances, choice);
    } else {
        search_lines::<false>(src, at, granules, distances, choice);
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn search_lines<const IS_WIDE: bool>(
    src: &[u8],
    at: usize,
    granules: usize,
    distances: &[u16],
    choice: &mut Choice,
) {
    let size = granule(IS_WIDE);
    assert!(granules <= SEGMENT / size && at + size * granules <= src.len());
    assert!((1..=MAX_DISTANCES).contains(&distances.len()));
    let longest = usize::from(distances.iter().copied().max().expect("one at least"));
    // A missing distance differs in every byte.
    let mut differs = Differs([[u64::MAX; MAX_DISTANCES]; BATCH]);
    let mut nonzero = [0; BATCH];
    let (ones, pairs) = (_mm512_set1_epi8(1), _mm512_set1_epi16(1));
    let there_are = ((1_u32 << distances.len()) - 1) as u16;
    let mut last = 0;
    let lines = (size * granules).div_ceil(64);
    for batch in (0..lines).step_by(BATCH) {
        let end = lines.min(batch + BATCH);
        for line in batch..end {
            let here = at + 64 * line;
            let lanes = low(size * granules - 64 * line);
            // SAFETY: reads the lanes that are granules of `src`.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(lanes, src.as_ptr().add(here).cast()) };
            nonzero[line - batch] = _mm512_test_epi8_mask(bytes, bytes);
            let differs = &mut differs.0[line - batch];
            if lanes == u64::MAX && longest <= here {
                for (differs, &distance) in differs.iter_mut().zip(distances) {
                    // SAFETY: from a place in `src`, since the distance is at most `here`, to the end of this
                    // line or before it.
                    let there =
                        unsafe { _mm512_loadu_si512(src.as_ptr().add(here - usize::from(distance)).cast()) };
                    *differs = _mm512_cmpneq_epi8_mask(bytes, there);
                }
            } else {
                for (differs, &distance) in differs.iter_mut().zip(distances) {
                    let distance = usize::from(distance);
                    let (first, second) = if IS_WIDE { (u64::MAX, 0) } else { (low(32), !low(32)) };
                    let first = if distance <= here { first } else { 0 };
                    let second = if distance <= here + GRANULE { second } else { 0 };
                    let from = src.as_ptr().wrapping_add(here).wrapping_sub(distance);
                    // SAFETY: reads the lanes of granules whose reference lies in
                    // `src`: it begins there, and ends where the granule begins
                    // or before.
                    let there = unsafe { _mm512_maskz_loadu_epi8((first | second) & lanes, from.cast()) };
                    *differs = _mm512_cmpneq_epi8_mask(bytes, there);
                }
            }
        }
        for line in batch..end {
            let (differs, nonzero) = (&differs.0[line - batch], nonzero[line - batch]);
            // Eight distances at once: bytes that differ in each word, or bytes that are not zero if those
            // are fewer, added up for the words of a granule.
            let zeros = _mm512_popcnt_epi8(_mm512_set1_epi64(nonzero as i64));
            let costs = |from: usize| {
                // SAFETY: reads one half of the array.
                let differs = unsafe { _mm512_loadu_si512(differs.as_ptr().add(from).cast()) };
                let least = _mm512_min_epu8(_mm512_popcnt_epi8(differs), zeros);
                if IS_WIDE {
                    return [_mm512_cvtepi64_epi16(_mm512_sad_epu8(least, _mm512_setzero_si512())); 2];
                }
                let sums = _mm512_madd_epi16(_mm512_maddubs_epi16(least, ones), pairs);
                [_mm512_cvtepi64_epi16(sums), _mm512_cvtepi64_epi16(_mm512_srli_epi64::<32>(sums))]
            };
            let first = costs(0);
            let second = if distances.len() > 8 { costs(8) } else { [_mm_set1_epi16(-1); 2] };
            // Without a branch, which would be unpredictable. (The second half of the last line may not be a
            // granule; its result is not used.)
            let halves = if IS_WIDE { 1 } else { 2 };
            for half in 0..halves {
                let least = _mm_minpos_epu16(_mm_min_epu16(first[half], second[half]));
                let all = _mm256_set_m128i(second[half], first[half]);
                let winners = _mm256_cmpeq_epi16_mask(all, _mm256_broadcastw_epi16(least)) & there_are;
                let first = winners.trailing_zeros() as usize;
                let keeps = usize::from(winners >> last & 1).wrapping_neg();
                last = (first ^ (first ^ last) & keeps) & 15;
                choice.index[1 + halves * line + half] = last as u8;
                if IS_WIDE {
                    choice.differs[8 * line..][..8].copy_from_slice(&differs[last].to_le_bytes());
                } else {
                    let differs = (differs[last] >> (32 * half)) as u32;
                    choice.differs[8 * line + 4 * half..][..4].copy_from_slice(&differs.to_le_bytes());
                }
            }
            choice.nonzero[8 * line..][..8].copy_from_slice(&nonzero.to_le_bytes());
        }
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn changes(granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize {
    assert!(granules <= GRANULES);
    let mut count = 0;
    for i in (0..granules).step_by(64) {
        // SAFETY: the row of indices has one before the first and 64 after the
        // last; that of codes has room for 64 more than there are granules.
        unsafe {
            let from = choice.index.as_ptr().add(i);
            let (before, now) = (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(1).cast()));
            let changes = _mm512_cmpneq_epi8_mask(before, now) & low(granules - i);
            changed[i / 8..][..8].copy_from_slice(&changes.to_le_bytes());
            _mm512_storeu_si512(
                codes.as_mut_ptr().add(count).cast(),
                _mm512_maskz_compress_epi8(changes, now),
            );
            count += changes.count_ones() as usize;
        }
    }
    count
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn symbols(words: usize, choice: &mut Choice) {
    assert!(words <= WORDS);
    for i in (0..words).step_by(64) {
        // SAFETY: the rows have room for 512 words, of which `i` begins the
        // last 64 at most; `symbols` has four more before them.
        unsafe {
            let differs = _mm512_loadu_si512(choice.differs.as_ptr().add(i).cast());
            let nonzero = _mm512_loadu_si512(choice.nonzero.as_ptr().add(i).cast());
            let better = _mm512_cmplt_epu8_mask(_mm512_popcnt_epi8(differs), _mm512_popcnt_epi8(nonzero));
            let mask = _mm512_mask_mov_epi8(nonzero, better, differs);
            _mm512_storeu_si512(choice.mask.as_mut_ptr().add(i).cast(), mask);
            let halves = [_mm512_castsi512_si256(mask), _mm512_extracti64x4_epi64::<1>(mask)];
            for (half, mask) in halves.into_iter().enumerate() {
                let flags = _mm512_maskz_set1_epi16((better >> (32 * half)) as u32, 256);
                let symbols = _mm512_or_si512(_mm512_cvtepu8_epi16(mask), flags);
                _mm512_storeu_si512(choice.symbols.as_mut_ptr().add(4 + i + 32 * half).cast(), symbols);
            }
        }
    }
}
