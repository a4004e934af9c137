//! The distance of each granule, and the bytes that differ from its reference.

use core::arch::x86_64::*;

use super::super::format::{GRANULE, GRANULES, MAX_DISTANCES, WIDE_GRANULE, WORDS};
use super::super::kernels::{BitRow, Kernels, Literals};
use super::super::scalar::Scalar;
use super::super::scratch::Choice;
use super::ZEROS;

/// How many bits are set in each byte.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn ones(bytes: __m256i) -> __m256i {
    let table = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    let nibble = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble));
    let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
    _mm256_add_epi8(low, high)
}

/// The number of granules searched together. It is large enough that the data written for the first of them
/// have left the processor's store buffer when they are read again.
const BATCH: usize = 8;

/// For each granule of a batch, the bytes that differ with each distance.
#[repr(align(32))]
struct Differs<T>([[T; MAX_DISTANCES]; BATCH]);

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn search(
    src: &[u8],
    at: usize,
    granules: usize,
    wide: bool,
    distances: &[u16],
    choice: &mut Choice,
) {
    if wide {
        search_wide(src, at, granules, distances, choice);
    } else {
        search_narrow(src, at, granules, distances, choice);
    }
}

/// The last winner if it is among the winners, otherwise the first of them; without a branch, which would be
/// unpredictable.
#[inline]
fn winner(winners: u16, last: usize) -> usize {
    let first = winners.trailing_zeros() as usize;
    let keeps = usize::from(winners >> last & 1).wrapping_neg();
    (first ^ (first ^ last) & keeps) & 15
}

/// A bit for each of sixteen costs that equals their minimum.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn least(costs: __m256i) -> u16 {
    let (low, high) = (_mm256_castsi256_si128(costs), _mm256_extracti128_si256::<1>(costs));
    let least = _mm256_broadcastw_epi16(_mm_minpos_epu16(_mm_min_epu16(low, high)));
    let same = _mm256_cmpeq_epi16(costs, least);
    let same = _mm_packs_epi16(_mm256_castsi256_si128(same), _mm256_extracti128_si256::<1>(same));
    _mm_movemask_epi8(same) as u16
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn search_narrow(src: &[u8], at: usize, granules: usize, distances: &[u16], choice: &mut Choice) {
    assert!(granules <= GRANULES && at + GRANULE * granules <= src.len());
    assert!((1..=MAX_DISTANCES).contains(&distances.len()));
    let zero = _mm256_setzero_si256();
    let (single, pairs) = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
    // A missing distance differs in every byte.
    let mut differs = Differs([[u32::MAX; MAX_DISTANCES]; BATCH]);
    let mut nonzero = [0; BATCH];
    let there_are = ((1_u32 << distances.len()) - 1) as u16;
    let mut last = 0;
    for batch in (0..granules).step_by(BATCH) {
        let end = granules.min(batch + BATCH);
        for g in batch..end {
            let here = at + GRANULE * g;
            // SAFETY: a granule of `src`.
            let bytes = unsafe { _mm256_loadu_si256(src.as_ptr().add(here).cast()) };
            nonzero[g - batch] = !_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, zero)) as u32;
            for (differs, &distance) in differs.0[g - batch].iter_mut().zip(distances) {
                let distance = usize::from(distance);
                // SAFETY: from a place in `src` to where the granule begins or
                // before it, or ZEROS.
                let there = unsafe {
                    let from =
                        if distance <= here { src.as_ptr().add(here - distance) } else { ZEROS.as_ptr() };
                    _mm256_loadu_si256(from.cast())
                };
                *differs = !_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, there)) as u32;
            }
        }
        for g in batch..end {
            let (differs, nonzero) = (&differs.0[g - batch], nonzero[g - batch]);
            // Eight distances at once: bytes that differ in each word, or bytes that are not zero if those
            // are fewer, added up for the four words.
            let zeros = ones(_mm256_set1_epi32(nonzero as i32));
            let costs = |from: usize| {
                // SAFETY: reads one half of the array.
                let differs = unsafe { _mm256_loadu_si256(differs.as_ptr().add(from).cast()) };
                let least = _mm256_min_epu8(ones(differs), zeros);
                _mm256_madd_epi16(_mm256_maddubs_epi16(least, single), pairs)
            };
            let second = if distances.len() > 8 { costs(8) } else { _mm256_set1_epi32(0x7FFF) };
            // Packing works on halves, so put the quarters in order.
            let costs = _mm256_permute4x64_epi64::<0xD8>(_mm256_packus_epi32(costs(0), second));
            last = winner(least(costs) & there_are, last);
            choice.index[1 + g] = last as u8;
            choice.differs[4 * g..][..4].copy_from_slice(&differs[last].to_le_bytes());
            choice.nonzero[4 * g..][..4].copy_from_slice(&nonzero.to_le_bytes());
        }
    }
}

/// Where the bytes of each distance are stored so that the costs, after packing, are in the order of the
/// distances.
const SLOTS: [usize; MAX_DISTANCES] = [0, 8, 1, 9, 4, 12, 5, 13, 2, 10, 3, 11, 6, 14, 7, 15];

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn search_wide(src: &[u8], at: usize, granules: usize, distances: &[u16], choice: &mut Choice) {
    assert!(granules <= GRANULES / 2 && at + WIDE_GRANULE * granules <= src.len());
    assert!((1..=MAX_DISTANCES).contains(&distances.len()));
    let zero = _mm256_setzero_si256();
    let equal = |a: [__m256i; 2], b: [__m256i; 2]| {
        let [low, high] = [0, 1].map(|half| _mm256_movemask_epi8(_mm256_cmpeq_epi8(a[half], b[half])) as u32);
        u64::from(low) | u64::from(high) << 32
    };
    // SAFETY: callers of the closure guarantee that 64 bytes from `from` on are readable.
    let read = |from: *const u8| unsafe {
        [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())]
    };
    // A missing distance differs in every byte.
    let mut differs = Differs([[u64::MAX; MAX_DISTANCES]; BATCH]);
    let mut nonzero = [0; BATCH];
    let there_are = ((1_u32 << distances.len()) - 1) as u16;
    let mut last = 0;
    for batch in (0..granules).step_by(BATCH) {
        let end = granules.min(batch + BATCH);
        for g in batch..end {
            let here = at + WIDE_GRANULE * g;
            let bytes = read(src[here..].as_ptr());
            nonzero[g - batch] = !equal(bytes, [zero; 2]);
            for (&slot, &distance) in SLOTS.iter().zip(distances) {
                let distance = usize::from(distance);
                // From a place in `src` to where the granule begins or before it,
                // or ZEROS.
                let from = if distance <= here { src[here - distance..].as_ptr() } else { ZEROS.as_ptr() };
                differs.0[g - batch][slot] = !equal(bytes, read(from));
            }
        }
        for g in batch..end {
            let (differs, nonzero) = (&differs.0[g - batch], nonzero[g - batch]);
            // Four distances at once: bytes that differ in each word, or bytes that are not zero if those are
            // fewer, added up for the eight words.
            let zeros = ones(_mm256_set1_epi64x(nonzero as i64));
            let costs = |from: usize| {
                // SAFETY: reads one quarter of the array.
                let differs = unsafe { _mm256_loadu_si256(differs.as_ptr().add(from).cast()) };
                _mm256_sad_epu8(_mm256_min_epu8(ones(differs), zeros), zero)
            };
            let even = _mm256_packus_epi32(costs(0), costs(4));
            let odd = _mm256_packus_epi32(costs(8), costs(12));
            let costs = _mm256_or_si256(even, _mm256_slli_epi32::<16>(odd));
            last = winner(least(costs) & there_are, last);
            choice.index[1 + g] = last as u8;
            choice.differs[8 * g..][..8].copy_from_slice(&differs[SLOTS[last]].to_le_bytes());
            choice.nonzero[8 * g..][..8].copy_from_slice(&nonzero.to_le_bytes());
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn changes(granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize {
    Scalar.changes(granules, choice, changed, codes)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn symbols(words: usize, choice: &mut Choice) {
    assert!(words <= WORDS);
    for i in (0..words).step_by(32) {
        // SAFETY: the rows have room for 512 words, of which `i` begins the
        // last 32 at most; `symbols` has four more before them.
        unsafe {
            let differs = _mm256_loadu_si256(choice.differs.as_ptr().add(i).cast());
            let nonzero = _mm256_loadu_si256(choice.nonzero.as_ptr().add(i).cast());
            let better = _mm256_cmpgt_epi8(ones(nonzero), ones(differs));
            let mask = _mm256_blendv_epi8(nonzero, differs, better);
            _mm256_storeu_si256(choice.mask.as_mut_ptr().add(i).cast(), mask);
            let flags = _mm256_and_si256(better, _mm256_set1_epi8(1));
            // Interleaving works on halves, so put the quarters in order.
            let (mask, flags) =
                (_mm256_permute4x64_epi64::<0xD8>(mask), _mm256_permute4x64_epi64::<0xD8>(flags));
            let to = choice.symbols.as_mut_ptr().add(4 + i);
            _mm256_storeu_si256(to.cast(), _mm256_unpacklo_epi8(mask, flags));
            _mm256_storeu_si256(to.add(16).cast(), _mm256_unpackhi_epi8(mask, flags));
        }
    }
}
