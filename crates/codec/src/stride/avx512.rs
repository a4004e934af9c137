//! The loops with AVX-512: 64 bytes at a time, and bytes are compressed and
//! expanded under a mask by the instructions made for it (VBMI2).

use core::arch::x86_64::*;

use super::decode;
use super::encode::{self, Effort};
use super::format::{
    ESCAPE, FROM_REFERENCE, GRANULE, GRANULES, MAX_DISTANCES, SEGMENT, WIDE_GRANULE, WORDS, granule,
};
use super::kernels::{BitRow, Flags, Kernels, LiteralBits, Literals, Misses, Places, VIEW};
use super::scalar::{codes_of, codes_of_symbols};
use super::scratch::{Choice, Compressor, Decompressor};
use super::tables::apart;
use crate::{Compressed, Malformed};

/// The proof that the processor has what these loops use: made only by functions
/// that are compiled for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

/// The compressor, all of it compiled for the processor.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn compress(
    effort: &Effort,
    src: &[u8],
    dst: &mut [u8],
    work: &mut Compressor,
    counts: &mut [u16],
) -> Compressed {
    encode::compress(Avx512(()), effort, src, dst, work, counts)
}

/// The decompressor, all of it compiled for the processor.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decompress(src: &[u8], dst: &mut [u8], work: &mut Decompressor) -> Result<(), Malformed> {
    decode::decompress(Avx512(()), src, dst, work)
}

/// Hands each loop on to the function that is compiled for the processor.
macro_rules! hand_on {
    ($(fn $name:ident(self $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(self $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: `self` proves that the processor has these instructions.
            unsafe { self::$name($($argument),*) }
        }
    )*};
}

impl Kernels for Avx512 {
    hand_on! {
        fn fetch(self, bytes: &[u8]);
        fn samples(self, view: &[u8; VIEW], density: u8) -> u64;
        fn places(self, samples: u64, base: u16, places: &mut Places, count: usize) -> usize;
        fn code(
            self, misses: &Misses, count: usize, table: &[u16],
            codes: &mut Literals, masks: &mut Literals, flags: &mut Flags,
        ) -> usize;
        fn look_up(
            self, codes: &Literals, count: usize, table: &[u16; 16], known: usize,
            masks: &[u8], flags: &Flags, misses: &mut Misses,
        ) -> bool;
        fn suppress(self, row: &BitRow, out: &mut [u8]) -> u64;
        fn restore(self, which: u64, bytes: &[u8], row: &mut BitRow);
        fn common(self, counts: &[u16; 256]) -> [u8; 16];
        fn changes(self, granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize;
        fn search(
            self, src: &[u8], at: usize, granules: usize, wide: bool, distances: &[u16],
            choice: &mut Choice,
        );
        fn symbols(self, words: usize, choice: &mut Choice);
        fn literals(self, segment: &[u8], words: usize, choice: &mut Choice) -> usize;
        fn misses(self, words: usize, choice: &mut Choice) -> usize;
        fn split(
            self, literals: &Literals, count: usize, common: &[u8; 16],
            bits: &mut LiteralBits, codes: &mut Literals, rest: &mut Literals,
        ) -> usize;
        fn pack(self, codes: &Literals, count: usize, out: &mut [u8]);
        fn unpack(self, packed: &[u8], count: usize, codes: &mut Literals);
        fn join(
            self, bits: &LiteralBits, count: usize, codes: &Literals, common: &[u8; 16],
            rest: &Literals, literals: &mut Literals,
        );
        fn rebuild(
            self, dst: &mut [u8], at: usize, granules: usize, wide: bool,
            work: &mut Decompressor,
        ) -> usize;
    }
}

/// The low `count` bits, all for 64 and more.
#[inline]
fn low(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn fetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn samples(view: &[u8; VIEW], density: u8) -> u64 {
    let from = view.as_ptr();
    // SAFETY: the last of the reads ends with the view.
    let (before, a, b, c) = unsafe {
        let (before, a) = (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(1).cast()));
        (before, a, _mm512_loadu_si512(from.add(2).cast()), _mm512_loadu_si512(from.add(3).cast()))
    };
    let begins =
        _mm512_testn_epi8_mask(before, before) & _mm512_test_epi8_mask(a, a) & _mm512_test_epi8_mask(b, b);
    let (b2, c2) = (_mm512_add_epi8(b, b), _mm512_add_epi8(c, c));
    let (b3, c5) = (_mm512_add_epi8(b2, b), _mm512_add_epi8(_mm512_add_epi8(c2, c2), c));
    let mixed = _mm512_xor_si512(_mm512_xor_si512(a, b3), c5);
    let wanted = _mm512_set1_epi8((11 & density) as i8);
    begins | _mm512_cmpeq_epi8_mask(_mm512_and_si512(mixed, _mm512_set1_epi8(density as i8)), wanted)
}

/// Lines that are searched together: what was written for the first of them
/// has left the processor's store buffer when it is read again.
const BATCH: usize = 8;

/// For each line of a batch, the bytes that differ with each distance.
#[repr(align(64))]
struct Differs([[u64; MAX_DISTANCES]; BATCH]);

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn search(src: &[u8], at: usize, granules: usize, wide: bool, distances: &[u16], choice: &mut Choice) {
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
    // What a distance that there is not differs in: everything.
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
                    // SAFETY: from a place in `src`, for the distance is at most
                    // `here`, to the end of this line or before it.
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
            // Eight distances at once: bytes that differ in each word, or that are
            // not zero if those are fewer, added up for the words of a granule.
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
            // Without a branch, for nobody could foresee it. (The second half of
            // the last line may be no granule: what is noted there is not used.)
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
fn changes(granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize {
    assert!(granules <= GRANULES);
    let mut count = 0;
    for i in (0..granules).step_by(64) {
        // SAFETY: the row of indices has one before the first and 64 behind the
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
fn symbols(words: usize, choice: &mut Choice) {
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

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn literals(segment: &[u8], words: usize, choice: &mut Choice) -> usize {
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
fn misses(words: usize, choice: &mut Choice) -> usize {
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

/// The numbers from 0 to 63.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn numbers() -> __m512i {
    static NUMBERS: [u8; 64] = {
        let mut numbers = [0; 64];
        let mut i = 0;
        while i < 64 {
            numbers[i] = i as u8;
            i += 1;
        }
        numbers
    };
    // SAFETY: reads 64 bytes.
    unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn places(samples: u64, base: u16, places: &mut Places, count: usize) -> usize {
    assert!(count + 64 <= places.len());
    // SAFETY: writes 64 numbers, for which there is room.
    unsafe {
        let chosen = _mm512_maskz_compress_epi8(samples, numbers());
        let base = _mm512_set1_epi16(base as i16);
        let low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(chosen));
        let high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(chosen));
        let to = places.as_mut_ptr().add(count);
        _mm512_storeu_si512(to.cast(), _mm512_add_epi16(low, base));
        _mm512_storeu_si512(to.add(32).cast(), _mm512_add_epi16(high, base));
    }
    count + samples.count_ones() as usize
}

/// The bytes of 64 numbers of 16 bits, and the lowest bit of their upper halves.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn bytes_and_flags(numbers: [__m512i; 2]) -> (__m512i, u64) {
    let [low, high] = numbers;
    let a = _mm512_movepi16_mask(_mm512_slli_epi16::<7>(low));
    let b = _mm512_movepi16_mask(_mm512_slli_epi16::<7>(high));
    let low = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(low));
    let bytes = _mm512_inserti64x4::<1>(low, _mm512_cvtepi16_epi8(high));
    (bytes, u64::from(a) | u64::from(b) << 32)
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn code(
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
        // SAFETY: reads 64 misses, of which the row has 512 and 32 more: the
        // second half is left out where it would begin behind them.
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
        // SAFETY: both rows have room for 64 bytes behind `count`.
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
fn look_up(
    codes: &Literals,
    count: usize,
    table: &[u16; 16],
    known: usize,
    masks: &[u8],
    flags: &Flags,
    misses: &mut Misses,
) -> bool {
    assert!(count <= WORDS);
    // SAFETY: sixteen numbers.
    let table = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
    let flag_of = _mm256_movepi16_mask(_mm256_slli_epi16::<7>(table));
    let mask_of = _mm512_broadcast_i32x4(_mm256_cvtepi16_epi8(table));
    let flag_of = _mm512_broadcast_i32x4(_mm_movm_epi8(flag_of));
    let (mut escapes, mut wrong) = (0, 0);
    for i in (0..count).step_by(64) {
        // SAFETY: the row of codes has 64 bytes behind `count`; masks are read
        // as far as there are any, and misses written where 64 have room.
        unsafe {
            let codes = _mm512_loadu_si512(codes.as_ptr().add(i).cast());
            let here = low(count - i);
            let escape = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(ESCAPE as i8)) & here;
            wrong |= _mm512_cmpge_epu8_mask(codes, _mm512_set1_epi8(known as i8)) & here & !escape;
            let left = masks.get(escapes..).unwrap_or_default();
            let given = _mm512_maskz_loadu_epi8(low(left.len()), left.as_ptr().cast());
            let masks = _mm512_mask_expand_epi8(_mm512_shuffle_epi8(mask_of, codes), escape, given);
            let bits: &[u8; 16] = flags[escapes / 8..escapes / 8 + 16].try_into().expect("sixteen bytes");
            let given = (u128::from_le_bytes(*bits) >> (escapes % 8)) as u64;
            let known = _mm512_movepi8_mask(_mm512_shuffle_epi8(flag_of, codes));
            let flags = known & !escape | _pdep_u64(given, escape);
            let halves = [_mm512_castsi512_si256(masks), _mm512_extracti64x4_epi64::<1>(masks)];
            for (half, masks) in halves.into_iter().enumerate() {
                let flags = _mm512_maskz_set1_epi16((flags >> (32 * half)) as u32, FROM_REFERENCE as i16);
                let to = misses.as_mut_ptr().add(i + 32 * half);
                _mm512_storeu_si512(to.cast(), _mm512_or_si512(_mm512_cvtepu8_epi16(masks), flags));
            }
            escapes += escape.count_ones() as usize;
        }
    }
    wrong == 0
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn suppress(row: &BitRow, out: &mut [u8]) -> u64 {
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
fn restore(which: u64, bytes: &[u8], row: &mut BitRow) {
    // SAFETY: reads the bytes that there are, writes 64.
    unsafe {
        let bytes = _mm512_maskz_loadu_epi8(low(bytes.len()), bytes.as_ptr().cast());
        _mm512_storeu_si512(row.as_mut_ptr().cast(), _mm512_maskz_expand_epi8(which, bytes));
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn common(counts: &[u16; 256]) -> [u8; 16] {
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
    // As the scalar version does it.
    let mut edge = 0;
    for bit in (0..13).rev() {
        if reach(edge + (1 << bit)) > 16 {
            edge += 1 << bit;
        }
    }
    let (mut common, mut len) = ([0; 16], 0);
    let mut wanted = 16 - reach(edge + 1);
    let edge = _mm512_set1_epi16(edge as i16);
    for (i, counts) in rows.into_iter().enumerate() {
        let mut just = _mm512_cmpeq_epu16_mask(counts, edge);
        // The lowest of those that have just that many, as many as are wanted.
        just = _pdep_u32(low(wanted as usize) as u32, just);
        wanted -= just.count_ones();
        let mut all = just | _mm512_cmpgt_epu16_mask(counts, edge);
        while all != 0 && len < 16 {
            common[len] = (32 * i) as u8 + all.trailing_zeros() as u8;
            all &= all - 1;
            len += 1;
        }
    }
    common
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn split(
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
        // SAFETY: all rows have room for 64 bytes behind `count`, and neither
        // `with` nor `without` is more than that.
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
fn pack(codes: &Literals, count: usize, out: &mut [u8]) {
    assert!(count + 64 <= codes.len() && count.div_ceil(2) + 32 <= out.len());
    let weights = _mm512_set1_epi16(0x1001);
    for i in (0..count).step_by(64) {
        // SAFETY: both have room for one vector behind `count`.
        unsafe {
            let codes = _mm512_maskz_loadu_epi8(low(count - i), codes.as_ptr().add(i).cast());
            let pairs = _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(codes, weights));
            _mm256_storeu_si256(out.as_mut_ptr().add(i / 2).cast(), pairs);
        }
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn unpack(packed: &[u8], count: usize, codes: &mut Literals) {
    assert!(count + 64 <= codes.len() && count.div_ceil(2) == packed.len());
    for i in (0..count).step_by(64) {
        // SAFETY: reads the bytes that are left; `codes` has room for one
        // vector behind `count`.
        unsafe {
            let bytes =
                _mm256_maskz_loadu_epi8(low(packed.len() - i / 2) as u32, packed.as_ptr().add(i / 2).cast());
            let pairs = _mm512_cvtepu8_epi16(bytes);
            let both = _mm512_or_si512(pairs, _mm512_slli_epi16::<4>(pairs));
            _mm512_storeu_si512(
                codes.as_mut_ptr().add(i).cast(),
                _mm512_and_si512(both, _mm512_set1_epi8(15)),
            );
        }
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn join(
    bits: &LiteralBits,
    count: usize,
    codes: &Literals,
    common: &[u8; 16],
    rest: &Literals,
    literals: &mut Literals,
) {
    assert!(count + 64 <= literals.len());
    // SAFETY: sixteen bytes.
    let common = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(common.as_ptr().cast()) });
    let (mut with, mut without) = (0, 0);
    for i in (0..count).step_by(64) {
        // SAFETY: all rows have room for 64 bytes behind `count`, and neither
        // `with` nor `without` is more than that before the last round ends.
        unsafe {
            let has = u64::from_le_bytes(bits[i / 8..][..8].try_into().expect("eight bytes"));
            let codes = _mm512_loadu_si512(codes.as_ptr().add(with).cast());
            let rest = _mm512_loadu_si512(rest.as_ptr().add(without).cast());
            let found = _mm512_maskz_expand_epi8(has, _mm512_shuffle_epi8(common, codes));
            let both = _mm512_mask_expand_epi8(found, !has, rest);
            _mm512_storeu_si512(literals.as_mut_ptr().add(i).cast(), both);
            with += has.count_ones() as usize;
            without += 64 - has.count_ones() as usize;
        }
    }
}

/// The symbols of a wide segment, in which none is guessed, as masks, and a bit
/// for each that starts from the reference.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn resolve(words: usize, work: &mut Decompressor) {
    let mut misses = 0;
    for i in (0..words).step_by(64) {
        let mut halves = [_mm512_setzero_si512(); 2];
        for (half, symbols) in halves.iter_mut().enumerate() {
            let missed = &work.missed[(i + 32 * half) / 8..][..4];
            let missed = u32::from_le_bytes(missed.try_into().expect("four bytes"));
            // SAFETY: at most 512 misses are read, and a vector more, for which
            // the row has room.
            let from = unsafe { _mm512_loadu_si512(work.misses.as_ptr().add(misses).cast()) };
            misses += missed.count_ones() as usize;
            *symbols = _mm512_maskz_expand_epi16(missed, from);
        }
        let (masks, flags) = bytes_and_flags(halves);
        // SAFETY: the row has room for 512 masks.
        unsafe { _mm512_storeu_si512(work.masks.as_mut_ptr().add(i).cast(), masks) };
        work.flags[i / 8..][..8].copy_from_slice(&flags.to_le_bytes());
    }
}

/// Stands for what begins before the block does.
static ZEROS: [u8; 2 * WIDE_GRANULE] = [0; 2 * WIDE_GRANULE];

/// How a reference is read: as the two granules that it touches, each as it was
/// written, for what was written a moment ago comes quickly only that way. The
/// first is so many bytes before the granule; from that on `picks` follow one
/// another.
#[derive(Clone, Copy)]
struct Reach {
    picks: [u8; 64],
    first: usize,
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn reaches(size: usize, work: &Decompressor) -> [Reach; MAX_DISTANCES] {
    let mut reaches = [Reach { picks: [0; 64], first: 0 }; MAX_DISTANCES];
    for (reach, &distance) in reaches.iter_mut().zip(&work.distances) {
        let offset = distance.wrapping_neg() % size;
        reach.first = distance.checked_next_multiple_of(size).unwrap_or(usize::MAX);
        let picks = _mm512_add_epi8(numbers(), _mm512_set1_epi8(offset as i8));
        // SAFETY: writes 64 bytes.
        unsafe { _mm512_storeu_si512(reach.picks.as_mut_ptr().cast(), picks) };
    }
    reaches
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn rebuild(dst: &mut [u8], at: usize, granules: usize, wide: bool, work: &mut Decompressor) -> usize {
    if wide { rebuild_wide(dst, at, granules, work) } else { rebuild_guessed(dst, at, granules, work) }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn rebuild_wide(dst: &mut [u8], at: usize, granules: usize, work: &mut Decompressor) -> usize {
    const SIZE: usize = WIDE_GRANULE;
    assert!(granules <= SEGMENT / SIZE && at + SIZE * granules <= dst.len() && at.is_multiple_of(SIZE));
    resolve(8 * granules, work);
    // All that is read and written goes through this one pointer.
    let base = dst.as_mut_ptr();
    let reaches = reaches(SIZE, work);
    let (mut literals, mut change) = (0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let reach = &reaches[usize::from(work.indices[change] & 15)];
        let here = at + SIZE * g;
        let mask = u64::from_le_bytes(work.masks[8 * g..][..8].try_into().expect("eight bytes"));
        // SAFETY: the granules of the reference lie in `dst`, from where the
        // first begins to the end of this one or before it, or are ZEROS; this
        // granule lies in `dst`, see above. At most 4096 literals are read, and
        // a vector more, for which the row has room.
        unsafe {
            let from =
                if reach.first <= here { base.add(here - reach.first).cast_const() } else { ZEROS.as_ptr() };
            let first = _mm512_loadu_si512(from.cast());
            let second = _mm512_loadu_si512(apart(from.add(SIZE)).cast());
            let picks = _mm512_loadu_si512(reach.picks.as_ptr().cast());
            let there = _mm512_permutex2var_epi8(first, picks, second);
            let start = _mm512_maskz_mov_epi64(work.flags[g], there);
            let next = _mm512_loadu_si512(work.literals.as_ptr().add(literals).cast());
            let made = _mm512_mask_expand_epi8(start, mask, next);
            _mm512_storeu_si512(base.add(here).cast(), made);
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
    // All that is read and written goes through this one pointer.
    let base = dst.as_mut_ptr();
    let reaches = reaches(GRANULE, work);
    let (mut literals, mut misses, mut change) = (0, 0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let q = usize::from(work.indices[change] & 15);
        let reach = &reaches[q];
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

            let from =
                if reach.first <= here { base.add(here - reach.first).cast_const() } else { ZEROS.as_ptr() };
            let first = _mm256_loadu_si256(from.cast());
            let second = _mm256_loadu_si256(apart(from.add(GRANULE)).cast());
            let picks = _mm256_loadu_si256(reach.picks.as_ptr().cast());
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
