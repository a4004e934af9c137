//! Decoding: from the streams to symbols and literals, and from those to the bytes of the segment.

use core::arch::x86_64::*;

use super::super::format::{ESCAPE, FROM_REFERENCE, GRANULE, SEGMENT, WIDE_GRANULE, WORDS};
use super::super::kernels::{BitRow, ByteRow, Flags, Literals};
use super::super::scratch::Decompressor;
use super::super::tables::{NONE, SPREAD, SPREAD_LANES, apart};
use super::ZEROS;
use super::search::ones;

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
    debug_assert!(table[usize::from(ESCAPE)] == 0);
    // SAFETY: sixteen numbers, in two halves.
    let table = unsafe { [0, 8].map(|i| _mm_loadu_si128(table.as_ptr().add(i).cast())) };
    let byte = _mm_set1_epi16(0xFF);
    let mask_of = _mm_packus_epi16(_mm_and_si128(table[0], byte), _mm_and_si128(table[1], byte));
    let flag_of = _mm_packus_epi16(_mm_srli_epi16::<8>(table[0]), _mm_srli_epi16::<8>(table[1]));
    let flag_of = _mm_cmpeq_epi8(flag_of, _mm_set1_epi8(1));
    let (place, halves) = (_mm_set1_epi64x(PLACES), _mm_set_epi64x(0x0101_0101_0101_0101, 0));
    let second = _mm_set_epi64x(0x0808_0808_0808_0808, 0);
    let (last, escape) = (_mm_set1_epi8(known as i8 - 1), _mm_set1_epi8(ESCAPE as i8));
    let (mut escapes, mut wrong) = (0, 0);
    for i in (0..count).step_by(16) {
        let here = if count - i < 16 { (1 << (count - i)) - 1 } else { 0xFFFF };
        // SAFETY: the row of codes has 64 bytes after `count`, and the rows that are written have as many.
        unsafe {
            let codes = _mm_loadu_si128(codes.as_ptr().add(i).cast());
            let escape = _mm_movemask_epi8(_mm_cmpeq_epi8(codes, escape)) & here;
            wrong |= _mm_movemask_epi8(_mm_cmpgt_epi8(codes, last)) & here & !escape;
            let [low, high] = [escape as usize & 255, escape as usize >> 8];
            let between = escapes + low.count_ones() as usize;
            let pair = |low: *const u8, high: *const u8| {
                _mm_unpacklo_epi64(_mm_loadl_epi64(low.cast()), _mm_loadl_epi64(high.cast()))
            };
            // Places to which nothing is spread hold zeros, and the table has a zero for an escape.
            let spread = _mm_add_epi8(pair(SPREAD[low].as_ptr(), SPREAD[high].as_ptr()), second);
            let given = pair(masks[escapes..escapes + 8].as_ptr(), masks[between..between + 8].as_ptr());
            let new_masks = _mm_or_si128(_mm_shuffle_epi8(given, spread), _mm_shuffle_epi8(mask_of, codes));
            let bits = |from: usize| {
                u32::from(u16::from_le_bytes([flags[from / 8], flags[from / 8 + 1]])) >> (from % 8) & 255
            };
            let bits = _mm_cvtsi32_si128((bits(escapes) | bits(between) << 8) as i32);
            let given = _mm_and_si128(_mm_shuffle_epi8(bits, halves), place);
            let given = _mm_shuffle_epi8(_mm_cmpeq_epi8(given, place), spread);
            let new_flags = _mm_or_si128(given, _mm_shuffle_epi8(flag_of, codes));
            _mm_storeu_si128(to_masks.as_mut_ptr().add(i).cast(), new_masks);
            _mm_storeu_si128(to_flags.as_mut_ptr().add(i).cast(), new_flags);
            escapes = between + high.count_ones() as usize;
        }
    }
    wrong == 0
}

/// Byte j has bit j.
const PLACES: i64 = 0x8040_2010_0804_0201_u64 as i64;

/// 0xFF for each set bit of 32. For each group of eight, `which` picks the byte of `four` that holds the
/// bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn chosen(four: __m256i, which: __m256i) -> __m256i {
    let place = _mm256_set1_epi64x(PLACES);
    _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(four, which), place), place)
}

/// For each byte of each half, how many of `chosen` there are up to and including it, as a negative number.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn ranks(chosen: __m256i) -> __m256i {
    let sum = _mm256_add_epi8(chosen, _mm256_slli_epi64::<8>(chosen));
    let sum = _mm256_add_epi8(sum, _mm256_slli_epi64::<16>(sum));
    let sum = _mm256_add_epi8(sum, _mm256_slli_epi64::<32>(sum));
    // The first word of each half counts for the second, too.
    let none = i64::from_le_bytes([NONE; 8]);
    let carry = _mm256_setr_epi64x(none, 0x0707_0707_0707_0707, none, 0x0707_0707_0707_0707);
    _mm256_add_epi8(sum, _mm256_shuffle_epi8(sum, carry))
}

/// Sixteen bytes from one place and sixteen from another.
///
/// # Safety
/// Both must be readable.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn two(first: *const u8, second: *const u8) -> __m256i {
    // SAFETY: as the caller guarantees.
    unsafe { _mm256_loadu2_m128i(second.cast(), first.cast()) }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn restore(which: u64, bytes: &[u8], row: &mut BitRow) -> bool {
    assert!(bytes.len() >= 64);
    let (mut from, mut zeros) = (0, 0);
    row.fill(0);
    // The words that hold stored bytes: mostly as many as the row is long.
    let words = (64 - which.leading_zeros()).div_ceil(8) as usize;
    for (row, mask) in row.chunks_exact_mut(8).zip(which.to_le_bytes()).take(words) {
        // SAFETY: at most 56 bytes come before the eight that are read; eight are written.
        unsafe {
            let spread = _mm_loadl_epi64(SPREAD[usize::from(mask)].as_ptr().cast());
            let bytes = _mm_loadl_epi64(bytes.as_ptr().add(from).cast());
            let restored = _mm_shuffle_epi8(bytes, spread);
            _mm_storel_epi64(row.as_mut_ptr().cast(), restored);
            // A zero where the control does not select zero.
            let zero = _mm_cmpeq_epi8(restored, _mm_setzero_si128());
            zeros |= _mm_movemask_epi8(_mm_andnot_si128(spread, zero)) & 0xFF;
        }
        from += mask.count_ones() as usize;
    }
    zeros == 0
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn unpack(packed: &[u8], count: usize, codes: &mut Literals) {
    let half = count.div_ceil(2);
    assert!(count + 64 <= codes.len() && half + 64 <= packed.len());
    let nibble = _mm256_set1_epi8(15);
    // From the end, since the lower halves that a vector writes past them overlap the first upper halves,
    // which are therefore written last.
    let mut i = half.next_multiple_of(32);
    while i > 0 {
        i -= 32;
        // SAFETY: both rows have a vector after their content, and the upper halves are not more than the
        // lower.
        unsafe {
            let pairs = _mm256_loadu_si256(packed.as_ptr().add(i).cast());
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(pairs), nibble);
            let to = codes.as_mut_ptr();
            _mm256_storeu_si256(to.add(i).cast(), _mm256_and_si256(pairs, nibble));
            _mm256_storeu_si256(to.add(half + i).cast(), upper);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
    let common = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(common.as_ptr().cast()) });
    let which = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let (low, high) = (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908);
    let numbers = _mm256_setr_epi64x(low, high, low, high);
    let mut with = 0;
    for i in (0..count).step_by(32) {
        let has = u32::from_le_bytes(bits[i / 8..][..4].try_into().expect("four bytes"));
        let between = with + (has & 0xFFFF).count_ones() as usize;
        // SAFETY: the rows have room for 64 bytes after `count`; `with` is not more than `i`, and `between`
        // not more than sixteen above that.
        unsafe {
            let coded = chosen(_mm256_set1_epi32(has as i32), which);
            let ranks = ranks(coded);
            let codes = two(codes.as_ptr().add(with), codes.as_ptr().add(between));
            let others = two(rest[i - with..][..16].as_ptr(), rest[i + 16 - between..][..16].as_ptr());
            // The n-th code belongs to the n-th literal that has one: rank n, which is -1 - n here.
            let from_codes = _mm256_xor_si256(ranks, _mm256_set1_epi8(-1));
            let found = _mm256_shuffle_epi8(_mm256_shuffle_epi8(common, codes), from_codes);
            let others = _mm256_shuffle_epi8(others, _mm256_add_epi8(numbers, ranks));
            let both = _mm256_blendv_epi8(others, found, coded);
            _mm256_storeu_si256(literals.as_mut_ptr().add(i).cast(), both);
        }
        with += has.count_ones() as usize;
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn rebuild(
    dst: &mut [u8],
    at: usize,
    granules: usize,
    wide: bool,
    work: &mut Decompressor,
) -> usize {
    if wide { rebuild_wide(dst, at, granules, work) } else { rebuild_guessed(dst, at, granules, work) }
}

/// The symbols of a wide segment, in which none are guessed, as masks; and 0xFF for each that starts from the
/// reference.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn resolve(granules: usize, work: &mut Decompressor) {
    let mut misses = 0;
    for g in 0..granules {
        let missed = work.missed[g];
        // SAFETY: at most 512 misses are read, and eight more, for which their
        // rows have room; the others have room for 64 granules of eight.
        unsafe {
            let spread = _mm_loadl_epi64(SPREAD[usize::from(missed)].as_ptr().cast());
            let masks = _mm_loadl_epi64(work.miss_masks.as_ptr().add(misses).cast());
            let flags = _mm_loadl_epi64(work.miss_flags.as_ptr().add(misses).cast());
            _mm_storel_epi64(work.masks.as_mut_ptr().add(8 * g).cast(), _mm_shuffle_epi8(masks, spread));
            _mm_storel_epi64(work.kept.as_mut_ptr().add(8 * g).cast(), _mm_shuffle_epi8(flags, spread));
        }
        misses += missed.count_ones() as usize;
    }
    for i in (0..8 * granules).step_by(32) {
        // SAFETY: both rows have room for 512 words.
        unsafe {
            let masks = _mm256_loadu_si256(work.masks.as_ptr().add(i).cast());
            _mm256_storeu_si256(work.counts.as_mut_ptr().add(i).cast(), ones(masks));
        }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rebuild_wide(dst: &mut [u8], at: usize, granules: usize, work: &mut Decompressor) -> usize {
    const SIZE: usize = WIDE_GRANULE;
    assert!(granules <= SEGMENT / SIZE && at + SIZE * granules <= dst.len());
    resolve(granules, work);
    // All reads and writes go through this one pointer.
    let base = dst.as_mut_ptr();
    let zero = _mm256_setzero_si256();
    let none = i64::from_le_bytes([NONE; 8]);
    let carries = [
        _mm256_setr_epi64x(none, 0, none, 0x0202_0202_0202_0202),
        _mm256_setr_epi64x(none, 0x0404_0404_0404_0404, none, 0x0606_0606_0606_0606),
    ];
    let (mut literals, mut change) = (0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let q = usize::from(work.indices[change] & 15);
        let here = at + SIZE * g;
        let distance = work.distances[q];
        let from = if distance <= here {
            // SAFETY: `here - distance` is a place in `dst`.
            unsafe { base.add(here - distance).cast_const() }
        } else {
            ZEROS.as_ptr()
        };
        let masks: &[u8; 8] = work.masks[8 * g..][..8].try_into().expect("eight bytes");
        let counts = u64::from_le_bytes(work.counts[8 * g..][..8].try_into().expect("eight bytes"));
        // Byte j becomes the number of literals up to word j.
        let sums = counts.wrapping_mul(0x0101_0101_0101_0101);
        let start = |words: u32| literals + usize::from((sums >> (8 * words - 8)) as u8);
        let starts = [literals, start(2), start(4), start(6)];
        let counts = _mm256_set1_epi64x(counts as i64);
        for (half, carry) in carries.into_iter().enumerate() {
            // SAFETY: the reference lies in `dst`, since it begins there and ends where the granule begins or
            // before, or is ZEROS; the granule lies in `dst`, too, see above. At most 4096 literals are read,
            // and a vector more, for which the row has room.
            unsafe {
                let row = work.literals.as_ptr();
                let next = two(row.add(starts[2 * half]), row.add(starts[2 * half + 1]));
                let spread = |word: usize| {
                    _mm_loadl_epi64(SPREAD[usize::from(masks[4 * half + word])].as_ptr().cast())
                };
                let places = _mm256_set_m128i(
                    _mm_unpacklo_epi64(spread(2), spread(3)),
                    _mm_unpacklo_epi64(spread(0), spread(1)),
                );
                // Every other word continues where the one before it ended. Bytes without a literal still
                // have the highest bit set then.
                let places = _mm256_add_epi8(places, _mm256_shuffle_epi8(counts, carry));
                let placed = _mm256_shuffle_epi8(next, places);
                let kept = work.kept.as_ptr().add(8 * g + 4 * half).cast::<i32>().read_unaligned();
                let kept = _mm256_cvtepi8_epi64(_mm_cvtsi32_si128(kept));
                let kept = _mm256_and_si256(kept, _mm256_cmpgt_epi8(zero, places));
                let there = _mm256_loadu_si256(from.add(32 * half).cast());
                let made = _mm256_or_si256(placed, _mm256_and_si256(kept, there));
                _mm256_storeu_si256(base.add(here + 32 * half).cast(), made);
            }
        }
        literals = start(8);
    }
    literals
}

/// The misses, with both parts of each joined.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn interleave(words: usize, work: &mut Decompressor) {
    for i in (0..words).step_by(16) {
        // SAFETY: the rows have room for 512 misses and a vector more.
        unsafe {
            let masks = _mm_loadu_si128(work.miss_masks.as_ptr().add(i).cast());
            let flags = _mm_loadu_si128(work.miss_flags.as_ptr().add(i).cast());
            let flags = _mm_and_si128(flags, _mm_set1_epi8(1));
            let to = work.misses.as_mut_ptr().add(i);
            _mm_storeu_si128(to.cast(), _mm_unpacklo_epi8(masks, flags));
            _mm_storeu_si128(to.add(8).cast(), _mm_unpackhi_epi8(masks, flags));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rebuild_guessed(dst: &mut [u8], at: usize, granules: usize, work: &mut Decompressor) -> usize {
    const SIZE: usize = GRANULE;
    assert!(granules <= SEGMENT / SIZE && at + SIZE * granules <= dst.len());
    interleave(4 * granules, work);
    const { assert!(NONE == 0x80 && FROM_REFERENCE == 0x100) };
    // All reads and writes go through this one pointer.
    let base = dst.as_mut_ptr();
    let (mut literals, mut misses, mut change) = (0, 0, 0);
    for g in 0..granules {
        change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
        let q = usize::from(work.indices[change] & 15);
        let here = at + SIZE * g;
        let distance = work.distances[q];
        let from = if distance <= here {
            // SAFETY: `here - distance` is a place in `dst`.
            unsafe { base.add(here - distance).cast_const() }
        } else {
            ZEROS.as_ptr()
        };
        let [first, control] = work.guesses[q];
        let first = (2 + g).saturating_sub(first as usize);
        let missed = usize::from(work.missed[g / 2] >> (4 * (g % 2)) & 15);
        {
            // SAFETY: the reference lies in `dst`, since it begins there and ends where the granule begins or
            // before, or is ZEROS; the granule lies in `dst`, too, see above. `first` and the next are
            // symbols of granules, of which there are two before the first. At most 512 misses and 4096
            // literals are read, and what a vector reads past them is in their rows.
            unsafe {
                let row = work.symbols.as_mut_ptr();
                let a = _mm_loadl_epi64(row.add(4 * first).cast());
                let b = _mm_loadl_epi64(apart(row.add(4 * first + 4)).cast());
                let control = _mm_cvtsi64_si128(control as i64);
                let guesses = _mm_shuffle_epi8(_mm_unpacklo_epi64(a, b), control);
                let spread = _mm_loadl_epi64(SPREAD_LANES[missed].as_ptr().cast());
                let known = _mm_loadl_epi64(work.misses.as_ptr().add(misses).cast());
                let symbols = _mm_blendv_epi8(_mm_shuffle_epi8(known, spread), guesses, spread);
                _mm_storel_epi64(row.add(8 + 4 * g).cast(), symbols);
                // The reference is read word by word: recently written bytes are forwarded quickly only if a
                // single write wrote all of them.
                let pair = |at: usize| {
                    let from = from.add(at);
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
                // NONE has its highest bit set, so the start remains there.
                let made = _mm256_blendv_epi8(new, start, spread);
                _mm256_storeu_si256(base.add(here).cast(), made);
            }
            misses += missed.count_ones() as usize;
        }
    }
    literals
}
