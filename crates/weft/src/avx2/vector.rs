//! Loads, stores and small steps that both directions use.

use core::arch::x86_64::*;

use crate::format::{FROM_ZERO, HIGHS, MASKS};

/// Controls of `pshufb`, by mask: `spread` moves packed bytes to the places of the set bits and zeroes the
/// others; `gather` packs the bytes at the places of the set bits.
struct Controls {
    spread: [u64; 256],
    gather: [u64; 256],
    /// The same for the upper half of a register.
    spread_high: [u64; 256],
    gather_high: [u64; 256],
}

static CONTROLS: Controls = {
    let mut made =
        Controls { spread: [0; 256], gather: [0; 256], spread_high: [0; 256], gather_high: [0; 256] };
    let mut mask = 0;
    while mask < 256 {
        let (mut spread, mut gather) = ([0x80u8; 8], [0xffu8; 8]);
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if mask >> place & 1 != 0 {
                spread[place] = count as u8;
                gather[count] = place as u8;
                count += 1;
            }
            place += 1;
        }
        made.spread[mask] = u64::from_le_bytes(spread);
        made.gather[mask] = u64::from_le_bytes(gather);
        // Places from 8 on, where there is one; negative bytes stay so.
        const EIGHT: u64 = 0x0808_0808_0808_0808;
        made.spread_high[mask] = made.spread[mask] | EIGHT;
        made.gather_high[mask] = made.gather[mask] | EIGHT;
        mask += 1;
    }
    made
};

/// The bytes of an array, in both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: reads the array.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
pub fn all(byte: u8) -> __m256i {
    _mm256_set1_epi8(byte as i8)
}

/// The masks of 32 codes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn masks_of(codes: __m256i) -> __m256i {
    _mm256_shuffle_epi8(twice(&MASKS), codes)
}

/// 0xff for those of 32 codes that start from zero, else 0.
#[inline]
#[target_feature(enable = "avx2")]
pub fn from_zero(codes: __m256i) -> __m256i {
    const TABLE: [u8; 16] = {
        let mut table = [0; 16];
        let mut code = 0;
        while code < 16 {
            table[code] = if FROM_ZERO >> code & 1 != 0 { 0xff } else { 0 };
            code += 1;
        }
        table
    };
    _mm256_shuffle_epi8(twice(&TABLE), codes)
}

/// The classes of 32 literals.
#[inline]
#[target_feature(enable = "avx2")]
pub fn classes(literals: __m256i) -> __m256i {
    let highs = _mm256_shuffle_epi8(twice(&HIGHS), _mm256_and_si256(_mm256_srli_epi16(literals, 4), all(15)));
    _mm256_and_si256(_mm256_xor_si256(literals, highs), all(15))
}

/// The common literals of 32 classes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn literals_of(table: &[u8; 16], classes: __m256i) -> __m256i {
    _mm256_shuffle_epi8(twice(table), classes)
}

/// How many bits of each byte are set.
#[inline]
#[target_feature(enable = "avx2")]
pub fn ones(bytes: __m256i) -> __m256i {
    const TABLE: [u8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];
    let low = _mm256_and_si256(bytes, all(15));
    let high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), all(15));
    _mm256_add_epi8(_mm256_shuffle_epi8(twice(&TABLE), low), _mm256_shuffle_epi8(twice(&TABLE), high))
}

/// The sum of four lanes of 64 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub fn sum(lanes: __m256i) -> usize {
    let two = _mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    (_mm_cvtsi128_si64(two) + _mm_extract_epi64::<1>(two)) as usize
}

/// # Safety
/// 32 bytes can be read from `from`.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load(from: *const u8) -> __m256i {
    // SAFETY: the caller upholds the contract.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// 32 bytes can be written to `to`.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn store(to: *mut u8, bytes: __m256i) {
    // SAFETY: the caller upholds the contract.
    unsafe { _mm256_storeu_si256(to.cast(), bytes) }
}

/// # Safety
/// Eight bytes can be read from `from`.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load8(from: *const u8) -> __m128i {
    // SAFETY: the caller upholds the contract.
    unsafe { _mm_loadl_epi64(from.cast()) }
}

/// # Safety
/// Eight bytes can be written to `to`.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn store8(to: *mut u8, bytes: __m128i) {
    // SAFETY: the caller upholds the contract.
    unsafe { _mm_storel_epi64(to.cast(), bytes) }
}

/// # Safety
/// Eight bytes can be read from `from`.
#[inline(always)]
pub unsafe fn word(from: *const u8) -> u64 {
    // SAFETY: the caller upholds the contract.
    unsafe { from.cast::<u64>().read_unaligned() }
}

/// # Safety
/// Eight bytes can be written to `to`.
#[inline(always)]
pub unsafe fn set_word(to: *mut u8, word: u64) {
    // SAFETY: the caller upholds the contract.
    unsafe { to.cast::<u64>().write_unaligned(word) }
}

/// Packs the bytes of the low half at the places of the set bits of `mask`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn gather(bytes: __m128i, mask: u8) -> __m128i {
    // SAFETY: the table has an entry for each mask.
    _mm_shuffle_epi8(bytes, unsafe { load8(CONTROLS.gather.as_ptr().add(mask.into()).cast()) })
}

/// Spreads packed bytes to the places of the set bits of `mask`; other places become zero.
#[inline]
#[target_feature(enable = "avx2")]
pub fn spread(bytes: __m128i, mask: u8) -> __m128i {
    _mm_shuffle_epi8(bytes, spread_control(mask))
}

/// The control by which `pshufb` spreads; its bytes are negative where the result is zero.
#[inline]
#[target_feature(enable = "avx2")]
pub fn spread_control(mask: u8) -> __m128i {
    // SAFETY: the table has an entry for each mask.
    unsafe { load8(CONTROLS.spread.as_ptr().add(mask.into()).cast()) }
}

/// Byte k: the sum of the bytes 0 to k of `counts`, which is below 256.
#[inline(always)]
pub fn sums(counts: u64) -> u64 {
    counts.wrapping_mul(0x0101_0101_0101_0101)
}

/// Of a line and the 64 bytes at `other`, a bit for each byte: whether they are equal.
///
/// # Safety
/// 64 bytes can be read from `other`.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn equal(line: (__m256i, __m256i), other: *const u8) -> u64 {
    // SAFETY: the caller upholds the contract.
    let (low, high) = unsafe { (load(other), load(other.add(32))) };
    let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(line.0, low)) as u32;
    let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(line.1, high)) as u32;
    u64::from(low) | u64::from(high) << 32
}

/// Packs `count` values below 16, two in a byte.
///
/// # Safety
/// `values` has at least `SLACK` bytes more than `count`, and `to` as many more than half of it.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn pack_halves(values: *mut u8, count: usize, to: *mut u8) {
    // SAFETY: within the slack.
    unsafe { values.add(count).write(0) };
    for at in (0..count).step_by(32) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            let pairs = _mm256_maddubs_epi16(load(values.add(at)), _mm256_set1_epi16(0x1001));
            let packed = _mm256_permute4x64_epi64::<8>(_mm256_packus_epi16(pairs, pairs));
            _mm_storeu_si128(to.add(at / 2).cast(), _mm256_castsi256_si128(packed));
        }
    }
}

/// Unpacks 32 values below 16.
///
/// # Safety
/// 16 bytes can be read from `from`.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn unpack_halves(from: *const u8) -> __m256i {
    // SAFETY: the caller upholds the contract.
    let wide = _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(from.cast()) });
    _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi16::<4>(wide)), all(15))
}

/// Appends `count` bytes and returns the place behind them.
///
/// # Safety
/// They can be read from `from`, and written to `to`.
#[inline(always)]
pub unsafe fn put(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller upholds the contract.
    unsafe {
        to.copy_from_nonoverlapping(from, count);
        to.add(count)
    }
}

/// The masks of 32 words: those of their codes, or the next ones at `own`.
///
/// # Safety
/// Eight bytes can be read behind those.
#[inline]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
pub unsafe fn own_masks(code: __m256i, own: &mut *const u8) -> __m256i {
    let has_own = _mm256_movemask_epi8(_mm256_cmpgt_epi8(all(2), code)) as u32;
    let mut four = [_mm_setzero_si128(); 4];
    for (number, eight) in four.iter_mut().enumerate() {
        let has_own = (has_own >> (8 * number)) as u8;
        // SAFETY: the caller upholds the contract.
        unsafe {
            *eight = spread(load8(*own), has_own);
            *own = own.add(has_own.count_ones() as usize);
        }
    }
    let [one, two, three, last] = four;
    let stored = _mm256_set_m128i(_mm_unpacklo_epi64(three, last), _mm_unpacklo_epi64(one, two));
    _mm256_or_si256(masks_of(code), stored)
}

/// As `gather`, for two words.
#[inline]
#[target_feature(enable = "avx2")]
pub fn gather_two(words: __m128i, low: u8, high: u8) -> __m128i {
    // SAFETY: the table has an entry for each mask.
    let controls = unsafe {
        let low = load8(CONTROLS.gather.as_ptr().add(low.into()).cast());
        _mm_unpacklo_epi64(low, load8(CONTROLS.gather_high.as_ptr().add(high.into()).cast()))
    };
    _mm_shuffle_epi8(words, controls)
}

/// As `spread`, for two words.
#[inline]
#[target_feature(enable = "avx2")]
pub fn spread_two(bytes: __m128i, low: u8, high: u8) -> __m128i {
    // SAFETY: as above.
    let controls = unsafe {
        let low = load8(CONTROLS.spread.as_ptr().add(low.into()).cast());
        _mm_unpacklo_epi64(low, load8(CONTROLS.spread_high.as_ptr().add(high.into()).cast()))
    };
    _mm_shuffle_epi8(bytes, controls)
}
