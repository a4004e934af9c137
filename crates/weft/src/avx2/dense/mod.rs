//! Dense pieces: see [`crate::dense`] for their form.
//!
//! ```text
//!   encode: codes, masks ──> parts ──> matches ──> tables ──> streams      decode: the same from right to left
//! ```

mod decode;
mod encode;
mod streams;

use core::arch::x86_64::*;

use super::vector::*;
use crate::format::{LINES, WORDS};

/// Where the literals of each word go, by its code and mask.
#[repr(align(64))]
pub(super) struct Words {
    /// The mask of literals, without the two lowest bits where the word starts from its reference: those are
    /// in `low`, by line.
    pub(super) masks: [u8; WORDS],
    pub(super) low: [[u8; LINES]; 2],
    /// 0xff for words that start from their reference.
    pub(super) of_reference: [u8; WORDS],
    /// How many literals of R2, and of W.
    pub(super) r2: [u8; WORDS],
    pub(super) w: [u8; WORDS],
}

impl Words {
    pub(super) fn new() -> Self {
        Words {
            masks: [0; WORDS],
            low: [[0; LINES]; 2],
            of_reference: [0; WORDS],
            r2: [0; WORDS],
            w: [0; WORDS],
        }
    }

    /// Notes 32 words from `at` on, by their codes and masks.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    pub(super) fn note(&mut self, at: usize, code: __m256i, mask: __m256i) {
        assert!(at <= WORDS - 32);
        let from_zero = from_zero(code);
        let of_reference = _mm256_andnot_si256(from_zero, mask);
        let rest = _mm256_andnot_si256(_mm256_andnot_si256(from_zero, all(3)), mask);
        let count = ones(rest);
        let low = [
            _mm256_movemask_epi8(_mm256_slli_epi16::<7>(of_reference)) as u32,
            _mm256_movemask_epi8(_mm256_slli_epi16::<6>(of_reference)) as u32,
        ];
        for (rows, bits) in self.low.iter_mut().zip(low) {
            rows[at / 8..][..4].copy_from_slice(&bits.to_le_bytes());
        }
        // SAFETY: rows of as many words.
        unsafe {
            store(self.masks.as_mut_ptr().add(at), rest);
            store(self.of_reference.as_mut_ptr().add(at), _mm256_xor_si256(from_zero, all(0xff)));
            store(self.r2.as_mut_ptr().add(at), _mm256_andnot_si256(from_zero, count));
            store(self.w.as_mut_ptr().add(at), _mm256_and_si256(from_zero, count));
        }
    }

    /// The lengths of the four parts.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    pub(super) fn lengths(&self) -> [usize; 4] {
        let count = |counts: &[u8; WORDS]| {
            let mut lanes = _mm256_setzero_si256();
            for at in (0..WORDS).step_by(32) {
                // SAFETY: a row of as many words.
                let bytes = unsafe { load(counts.as_ptr().add(at)) };
                lanes = _mm256_add_epi64(lanes, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
            }
            sum(lanes)
        };
        let [r0, r1] = &self.low;
        [ones_of_lines(r0), ones_of_lines(r1), count(&self.r2), count(&self.w)]
    }
}

/// How many bits are set, of a byte for each line.
#[inline]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn ones_of_lines(bytes: &[u8; LINES]) -> usize {
    bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight).count_ones() as usize).sum()
}
