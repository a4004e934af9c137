//! The loops with AVX2: 32 bytes at a time. There is no instruction that
//! compresses or expands bytes under a mask; a shuffle with a control from a
//! table does it for the eight bytes of a word. (BMI2 has `pext` and `pdep` for
//! that, which are slow on some processors that have AVX2.)

use core::arch::x86_64::*;

use super::decode;
use super::encode::{self, Effort};
use super::format::{
    ESCAPE, FROM_REFERENCE, GRANULE, GRANULES, MAX_DISTANCES, SEGMENT, WIDE_GRANULE, WORDS, granule,
};
use super::kernels::{BitRow, Flags, Kernels, LiteralBits, Literals, Misses, Places, VIEW};
use super::scalar::{Scalar, nonzero};
use super::scratch::{Choice, Compressor, Decompressor};
use super::tables::{GATHER, GATHER_LANES, NONE, SPREAD, SPREAD_LANES, apart};
use crate::{Compressed, Malformed};

/// The proof that the processor has what these loops use: made only by functions
/// that are compiled for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

/// The compressor, all of it compiled for the processor.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn compress(
    effort: &Effort,
    src: &[u8],
    dst: &mut [u8],
    work: &mut Compressor,
    counts: &mut [u16],
) -> Compressed {
    encode::compress(Avx2(()), effort, src, dst, work, counts)
}

/// The decompressor, all of it compiled for the processor.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decompress(src: &[u8], dst: &mut [u8], work: &mut Decompressor) -> Result<(), Malformed> {
    decode::decompress(Avx2(()), src, dst, work)
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

impl Kernels for Avx2 {
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

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn samples(view: &[u8; VIEW], density: u8) -> u64 {
    let zero = _mm256_setzero_si256();
    let (wanted, density) = (_mm256_set1_epi8((11 & density) as i8), _mm256_set1_epi8(density as i8));
    let mut mask = 0;
    for half in 0..2 {
        // SAFETY: the last of the reads ends with the view.
        let [before, a, b, c] =
            [0, 1, 2, 3].map(|i| unsafe { _mm256_loadu_si256(view.as_ptr().add(32 * half + i).cast()) });
        let some = _mm256_or_si256(_mm256_cmpeq_epi8(a, zero), _mm256_cmpeq_epi8(b, zero));
        let begins = _mm256_andnot_si256(some, _mm256_cmpeq_epi8(before, zero));
        let (b2, c2) = (_mm256_add_epi8(b, b), _mm256_add_epi8(c, c));
        let (b3, c5) = (_mm256_add_epi8(b2, b), _mm256_add_epi8(_mm256_add_epi8(c2, c2), c));
        let mixed = _mm256_xor_si256(_mm256_xor_si256(a, b3), c5);
        let says = _mm256_cmpeq_epi8(_mm256_and_si256(mixed, density), wanted);
        let both = _mm256_movemask_epi8(_mm256_or_si256(begins, says)) as u32;
        mask |= u64::from(both) << (32 * half);
    }
    mask
}

/// How many bits are set in each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn ones(bytes: __m256i) -> __m256i {
    let table = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    let nibble = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble));
    let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
    _mm256_add_epi8(low, high)
}

/// Granules that are searched together: what was written for the first of them
/// has left the processor's store buffer when it is read again.
const BATCH: usize = 8;

/// For each granule of a batch, the bytes that differ with each distance.
#[repr(align(32))]
struct Differs<T>([[T; MAX_DISTANCES]; BATCH]);

/// Stands for what begins before the block does.
static ZEROS: [u8; WIDE_GRANULE] = [0; WIDE_GRANULE];

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn search(src: &[u8], at: usize, granules: usize, wide: bool, distances: &[u16], choice: &mut Choice) {
    if wide {
        search_wide(src, at, granules, distances, choice);
    } else {
        search_narrow(src, at, granules, distances, choice);
    }
}

/// The last winner if it is among the winners, else the first of them; without
/// a branch, for nobody could foresee it.
#[inline]
fn winner(winners: u16, last: usize) -> usize {
    let first = winners.trailing_zeros() as usize;
    let keeps = usize::from(winners >> last & 1).wrapping_neg();
    (first ^ (first ^ last) & keeps) & 15
}

/// A bit for each of sixteen costs that is the least of them.
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
    // What a distance that there is not differs in: everything.
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
            // Eight distances at once: bytes that differ in each word, or that are
            // not zero if those are fewer, added up for the four words.
            let zeros = ones(_mm256_set1_epi32(nonzero as i32));
            let costs = |from: usize| {
                // SAFETY: reads one half of the array.
                let differs = unsafe { _mm256_loadu_si256(differs.as_ptr().add(from).cast()) };
                let least = _mm256_min_epu8(ones(differs), zeros);
                _mm256_madd_epi16(_mm256_maddubs_epi16(least, single), pairs)
            };
            let second = if distances.len() > 8 { costs(8) } else { _mm256_set1_epi32(0x7FFF) };
            // Packing works on halves, so bring the quarters into order.
            let costs = _mm256_permute4x64_epi64::<0xD8>(_mm256_packus_epi32(costs(0), second));
            last = winner(least(costs) & there_are, last);
            choice.index[1 + g] = last as u8;
            choice.differs[4 * g..][..4].copy_from_slice(&differs[last].to_le_bytes());
            choice.nonzero[4 * g..][..4].copy_from_slice(&nonzero.to_le_bytes());
        }
    }
}

/// Where the bytes of each distance are noted so that the costs, after packing,
/// lie in the order of the distances.
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
    // SAFETY: of the closure: 64 bytes from `from` on must be there.
    let read = |from: *const u8| unsafe {
        [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())]
    };
    // What a distance that there is not differs in: everything.
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
            // Four distances at once: bytes that differ in each word, or that are
            // not zero if those are fewer, added up for the eight words.
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
fn changes(granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize {
    Scalar.changes(granules, choice, changed, codes)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn symbols(words: usize, choice: &mut Choice) {
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
            // Interleaving works on halves, so bring the quarters into order.
            let (mask, flags) =
                (_mm256_permute4x64_epi64::<0xD8>(mask), _mm256_permute4x64_epi64::<0xD8>(flags));
            let to = choice.symbols.as_mut_ptr().add(4 + i);
            _mm256_storeu_si256(to.cast(), _mm256_unpacklo_epi8(mask, flags));
            _mm256_storeu_si256(to.add(16).cast(), _mm256_unpackhi_epi8(mask, flags));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn literals(segment: &[u8], words: usize, choice: &mut Choice) -> usize {
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
fn misses(words: usize, choice: &mut Choice) -> usize {
    assert!(words <= WORDS && words.is_multiple_of(4));
    choice.missed.fill(0);
    let mut count = 0;
    for g in 0..words / 4 {
        // SAFETY: the rows have room for 128 granules, `symbols` for one before
        // them, and `misses` for 32 symbols more.
        unsafe {
            let symbols = _mm_loadl_epi64(choice.symbols.as_ptr().add(4 + 4 * g).cast());
            let guesses = _mm_loadl_epi64(choice.guesses.as_ptr().add(4 * g).cast());
            let same = _mm_cmpeq_epi16(symbols, guesses);
            let missed = !_mm_movemask_epi8(_mm_packs_epi16(same, same)) as usize & 15;
            choice.missed[g / 2] |= (missed as u8) << (4 * (g % 2));
            let gather = _mm_loadl_epi64(GATHER_LANES[missed].as_ptr().cast());
            let to = choice.misses.as_mut_ptr().add(count);
            _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(symbols, gather));
            count += missed.count_ones() as usize;
        }
    }
    count
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn places(samples: u64, base: u16, places: &mut Places, count: usize) -> usize {
    let to: &mut [u16; 64] = (&mut places[count..count + 64]).try_into().expect("room for a line");
    let (mut left, total) = (samples, samples.count_ones() as usize);
    // Eight at a time, for the number is hard to foresee; those beyond it are
    // rubbish and will be overwritten.
    for eight in to.chunks_exact_mut(8) {
        for place in eight {
            *place = base + (left.trailing_zeros() as u16 & 63);
            left &= left.wrapping_sub(1);
        }
        if left == 0 {
            break;
        }
    }
    count + total
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn code(
    misses: &Misses,
    count: usize,
    table: &[u16],
    codes: &mut Literals,
    masks: &mut Literals,
    flags: &mut Flags,
) -> usize {
    assert!(count <= WORDS && table.len() <= usize::from(ESCAPE));
    let mut escapes = 0;
    for i in (0..count).step_by(16) {
        // SAFETY: the row of misses has 32 behind 512, that of codes 64.
        let found = unsafe {
            let symbols = _mm256_loadu_si256(misses.as_ptr().add(i).cast());
            // At most one is equal: it turns the bits in which its code is not 15.
            let mut found = _mm256_set1_epi16(i16::from(ESCAPE));
            for (code, &symbol) in table.iter().enumerate() {
                let same = _mm256_cmpeq_epi16(symbols, _mm256_set1_epi16(symbol as i16));
                let turn = _mm256_set1_epi16((code ^ usize::from(ESCAPE)) as i16);
                found = _mm256_xor_si256(found, _mm256_and_si256(same, turn));
            }
            let (low, high) = (_mm256_castsi256_si128(found), _mm256_extracti128_si256::<1>(found));
            let found = _mm_packus_epi16(low, high);
            _mm_storeu_si128(codes.as_mut_ptr().add(i).cast(), found);
            found
        };
        let mut left = _mm_movemask_epi8(_mm_cmpeq_epi8(found, _mm_set1_epi8(ESCAPE as i8))) as u32;
        if count - i < 16 {
            left &= (1 << (count - i)) - 1;
        }
        while left != 0 {
            let symbol = misses[i + left.trailing_zeros() as usize];
            masks[escapes] = symbol as u8;
            flags[escapes / 8] |= ((symbol >> 8 & 1) as u8) << (escapes % 8);
            escapes += 1;
            left &= left - 1;
        }
    }
    escapes
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
    // SAFETY: sixteen numbers, in two halves.
    let table = unsafe { [0, 8].map(|i| _mm_loadu_si128(table.as_ptr().add(i).cast())) };
    let byte = _mm_set1_epi16(0xFF);
    let mask_of = _mm_packus_epi16(_mm_and_si128(table[0], byte), _mm_and_si128(table[1], byte));
    let flag_of = _mm_packus_epi16(_mm_srli_epi16::<8>(table[0]), _mm_srli_epi16::<8>(table[1]));
    let (last, escape) = (_mm_set1_epi8(known as i8 - 1), _mm_set1_epi8(ESCAPE as i8));
    let (mut escapes, mut wrong) = (0, 0);
    for i in (0..count).step_by(16) {
        let here = if count - i < 16 { (1 << (count - i)) - 1 } else { 0xFFFF };
        // SAFETY: the row of codes has 64 bytes behind `count`, that of misses
        // room for 32 more.
        let mut left = unsafe {
            let codes = _mm_loadu_si128(codes.as_ptr().add(i).cast());
            let (masks, flags) = (_mm_shuffle_epi8(mask_of, codes), _mm_shuffle_epi8(flag_of, codes));
            let to = misses.as_mut_ptr().add(i);
            _mm_storeu_si128(to.cast(), _mm_unpacklo_epi8(masks, flags));
            _mm_storeu_si128(to.add(8).cast(), _mm_unpackhi_epi8(masks, flags));
            let escape = _mm_movemask_epi8(_mm_cmpeq_epi8(codes, escape)) & here;
            wrong |= _mm_movemask_epi8(_mm_cmpgt_epi8(codes, last)) & here & !escape;
            escape
        };
        while left != 0 {
            let flag = u16::from(flags[escapes / 8] >> (escapes % 8) & 1);
            misses[i + left.trailing_zeros() as usize] = u16::from(masks[escapes]) | (flag * FROM_REFERENCE);
            left &= left - 1;
            escapes += 1;
        }
    }
    wrong == 0
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn suppress(row: &BitRow, out: &mut [u8]) -> u64 {
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
fn restore(which: u64, bytes: &[u8], row: &mut BitRow) {
    let mut padded = [0; 72];
    padded[..bytes.len()].copy_from_slice(bytes);
    let mut from = 0;
    for (row, mask) in row.chunks_exact_mut(8).zip(which.to_le_bytes()) {
        // SAFETY: at most 64 bytes come before the eight that are read; eight are written.
        unsafe {
            let spread = _mm_loadl_epi64(SPREAD[usize::from(mask)].as_ptr().cast());
            let bytes = _mm_loadl_epi64(padded.as_ptr().add(from).cast());
            _mm_storel_epi64(row.as_mut_ptr().cast(), _mm_shuffle_epi8(bytes, spread));
        }
        from += mask.count_ones() as usize;
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn common(counts: &[u16; 256]) -> [u8; 16] {
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
    for bit in (0..13).rev() {
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
fn split(
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
fn pack(codes: &Literals, count: usize, out: &mut [u8]) {
    assert!(count + 64 <= codes.len() && count.div_ceil(2) + 32 <= out.len());
    let weights = _mm256_set1_epi16(0x1001);
    for i in (0..count).step_by(32) {
        // SAFETY: both have room for one vector behind `count`.
        unsafe {
            let codes = _mm256_loadu_si256(codes.as_ptr().add(i).cast());
            let pairs = _mm256_maddubs_epi16(codes, weights);
            let pairs = _mm256_permute4x64_epi64::<0xD8>(_mm256_packus_epi16(pairs, pairs));
            _mm_storeu_si128(out.as_mut_ptr().add(i / 2).cast(), _mm256_castsi256_si128(pairs));
        }
    }
    if count % 2 == 1 {
        out[count / 2] = codes[count - 1];
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn unpack(packed: &[u8], count: usize, codes: &mut Literals) {
    assert!(count + 64 <= codes.len() && count.div_ceil(2) == packed.len());
    let mut pieces = packed.chunks_exact(16);
    let mut i = 0;
    for piece in &mut pieces {
        // SAFETY: reads sixteen bytes; `codes` has room for one vector behind `count`.
        unsafe {
            let pairs = _mm256_cvtepu8_epi16(_mm_loadu_si128(piece.as_ptr().cast()));
            let both = _mm256_or_si256(pairs, _mm256_slli_epi16::<4>(pairs));
            _mm256_storeu_si256(
                codes.as_mut_ptr().add(i).cast(),
                _mm256_and_si256(both, _mm256_set1_epi8(15)),
            );
        }
        i += 32;
    }
    for &pair in pieces.remainder() {
        codes[i] = pair & 15;
        codes[i + 1] = pair >> 4;
        i += 2;
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
    let common = unsafe { _mm_loadu_si128(common.as_ptr().cast()) };
    let (mut with, mut without) = (0, 0);
    for (i, &has) in bits[..count.div_ceil(8)].iter().enumerate() {
        // SAFETY: all rows have room for 64 bytes behind `count`, and neither
        // `with` nor `without` is more than that before the last round ends.
        unsafe {
            let has_code = _mm_loadl_epi64(SPREAD[usize::from(has)].as_ptr().cast());
            let has_none = _mm_loadl_epi64(SPREAD[usize::from(!has)].as_ptr().cast());
            let codes = _mm_shuffle_epi8(common, _mm_loadl_epi64(codes.as_ptr().add(with).cast()));
            let rest = _mm_loadl_epi64(rest.as_ptr().add(without).cast());
            let both = _mm_or_si128(_mm_shuffle_epi8(codes, has_code), _mm_shuffle_epi8(rest, has_none));
            _mm_storel_epi64(literals.as_mut_ptr().add(8 * i).cast(), both);
        }
        with += has.count_ones() as usize;
        without += 8 - has.count_ones() as usize;
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rebuild(dst: &mut [u8], at: usize, granules: usize, wide: bool, work: &mut Decompressor) -> usize {
    if wide {
        rebuild_granules::<true>(dst, at, granules, work)
    } else {
        rebuild_granules::<false>(dst, at, granules, work)
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rebuild_granules<const IS_WIDE: bool>(
    dst: &mut [u8],
    at: usize,
    granules: usize,
    work: &mut Decompressor,
) -> usize {
    let size = granule(IS_WIDE);
    assert!(granules <= SEGMENT / size && at + size * granules <= dst.len());
    const { assert!(NONE == 0x80 && FROM_REFERENCE == 0x100) };
    // All that is read and written goes through this one pointer.
    let base = dst.as_mut_ptr();
    let (mut literals, mut misses, mut change) = (0, 0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let q = usize::from(work.indices[change] & 15);
        let here = at + size * g;
        let distance = work.distances[q];
        let from = if distance <= here {
            // SAFETY: `here - distance` is a place in `dst`.
            unsafe { base.add(here - distance).cast_const() }
        } else {
            ZEROS.as_ptr()
        };
        let [first, control] = work.guesses[q];
        let first = (2 + g).saturating_sub(first as usize);
        for part in 0..size / 32 {
            let four = size / 32 * g + part;
            let missed = usize::from(work.missed[four / 2] >> (4 * (four % 2)) & 15);
            // SAFETY: the reference lies in `dst`, for it begins there and ends
            // where the granule begins or before, or is ZEROS; the granule lies
            // in `dst`, too, see above. `first` and the
            // next are symbols of granules, of which there are two before the
            // first. At most 512 misses and 4096 literals are read, and what a
            // vector reads past them is in their rows.
            unsafe {
                let row = work.symbols.as_mut_ptr();
                let guesses = if IS_WIDE {
                    _mm_setzero_si128()
                } else {
                    let a = _mm_loadl_epi64(row.add(4 * first).cast());
                    let b = _mm_loadl_epi64(apart(row.add(4 * first + 4)).cast());
                    _mm_shuffle_epi8(_mm_unpacklo_epi64(a, b), _mm_cvtsi64_si128(control as i64))
                };
                let spread = _mm_loadl_epi64(SPREAD_LANES[missed].as_ptr().cast());
                let known = _mm_loadl_epi64(work.misses.as_ptr().add(misses).cast());
                let symbols = _mm_blendv_epi8(_mm_shuffle_epi8(known, spread), guesses, spread);
                if !IS_WIDE {
                    _mm_storel_epi64(row.add(8 + 4 * g).cast(), symbols);
                }
                // Word by word: what was written a moment ago comes quickly only
                // if it was written in one piece.
                let pair = |at: usize| {
                    let from = from.add(32 * part + at);
                    _mm_unpacklo_epi64(
                        _mm_loadl_epi64(from.cast()),
                        _mm_loadl_epi64(apart(from.add(8)).cast()),
                    )
                };
                let there = _mm256_set_m128i(pair(16), pair(0));
                // Bit 8 of each symbol for its whole word.
                let flags = _mm256_cvtepu16_epi64(_mm_srli_epi16::<8>(symbols));
                let zeros = _mm256_cmpeq_epi64(flags, _mm256_setzero_si256());
                let start = _mm256_andnot_si256(zeros, there);

                let symbols = _mm_cvtsi128_si64(symbols) as u64;
                let [a, b, c, d] = [0, 16, 32, 48].map(|shift| usize::from((symbols >> shift) as u8));
                let row = work.literals.as_ptr();
                let read = |mask: usize, from: usize| {
                    let spread = _mm_loadl_epi64(SPREAD[mask].as_ptr().cast());
                    (spread, _mm_shuffle_epi8(_mm_loadl_epi64(row.add(from).cast()), spread))
                };
                let counts = [a, b, c, d].map(|mask| mask.count_ones() as usize);
                let after_a = literals + counts[0];
                let after_b = after_a + counts[1];
                let after_c = after_b + counts[2];
                let ((sa, la), (sb, lb)) = (read(a, literals), read(b, after_a));
                let ((sc, lc), (sd, ld)) = (read(c, after_b), read(d, after_c));
                literals = after_c + counts[3];
                let spread = _mm256_set_m128i(_mm_unpacklo_epi64(sc, sd), _mm_unpacklo_epi64(sa, sb));
                let new = _mm256_set_m128i(_mm_unpacklo_epi64(lc, ld), _mm_unpacklo_epi64(la, lb));
                // NONE has its highest bit set: there the start stays.
                let made = _mm256_blendv_epi8(new, start, spread);
                _mm256_storeu_si256(base.add(here + 32 * part).cast(), made);
            }
            misses += missed.count_ones() as usize;
        }
    }
    literals
}
