//! Which places of a segment look up the last occurrence of their bytes.

use core::arch::x86_64::*;

use super::super::kernels::{Places, VIEW};
use super::numbers;

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn samples(view: &[u8; VIEW], density: u8) -> u64 {
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

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn places(samples: u64, base: u16, places: &mut Places, count: usize) -> usize {
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
