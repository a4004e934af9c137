//! Which places of a segment look up the last occurrence of their bytes.

use core::arch::x86_64::*;

use super::super::kernels::{Places, VIEW};
use super::super::tables::GATHER;

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn samples(view: &[u8; VIEW], density: u8) -> u64 {
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

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn places(samples: u64, base: u16, places: &mut Places, mut count: usize) -> usize {
    assert!(count + 64 <= places.len());
    let mut base = _mm_set1_epi16(base as i16);
    for samples in samples.to_le_bytes() {
        // SAFETY: writes eight numbers, and eight for each byte before, for which
        // there is room.
        unsafe {
            let chosen = _mm_cvtepu8_epi16(_mm_loadl_epi64(GATHER[usize::from(samples)].as_ptr().cast()));
            let to = places.as_mut_ptr().add(count);
            _mm_storeu_si128(to.cast(), _mm_add_epi16(chosen, base));
        }
        base = _mm_add_epi16(base, _mm_set1_epi16(8));
        count += samples.count_ones() as usize;
    }
    count
}
