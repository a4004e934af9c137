//! `shuffle:W`: puts bytes of equal rank together. Bytes that are alike in neighbouring numbers, for example
//! sign and exponent, become adjacent.
//!
//! ```text
//! words of 4     a0 a1 a2 a3 | b0 b1 b2 b3 | c0 c1 c2 c3 | d0
//!                                  |
//! becomes        a0 b0 c0 | a1 b1 c1 | a2 b2 c2 | a3 b3 c3 | d0
//!                row 0      row 1      row 2      row 3      as it is
//! ```
//!
//! The fast version takes 16 words at a time, whose bytes have indices of 4 + log2 W bits: word, then byte.
//! Moving the word bits to the low end means rotating the index four times; one rotation means interleaving
//! the first half of the bytes with the second, which the `unpack` instructions do. The inverse takes log2 W
//! rotations. SSE2, which every x86-64 processor has, suffices for this; AVX2 processes two such groups in
//! parallel.

use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The transform `shuffle:W`.
pub(crate) struct Shuffle<const W: usize>;

pub(crate) static SHUFFLE_2: Shuffle<2> = Shuffle;
pub(crate) static SHUFFLE_4: Shuffle<4> = Shuffle;
pub(crate) static SHUFFLE_8: Shuffle<8> = Shuffle;

impl<const W: usize> Step for Shuffle<W> {
    fn name(&self) -> &'static str {
        match W {
            2 => "shuffle:2",
            4 => "shuffle:4",
            _ => "shuffle:8",
        }
    }

    fn keeps_length(&self) -> bool {
        true
    }

    fn bound(&self, len: usize) -> usize {
        len
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Option<usize> {
        let dst = dst.get_mut(..src.len())?;
        shuffle::<W>(src, dst);
        Some(src.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if src.len() != dst.len() {
            return Err(Malformed);
        }
        unshuffle::<W>(src, dst);
        Ok(())
    }
}

/// Shuffles `src` into rows. Both slices have the same length.
pub(super) fn shuffle<const W: usize>(src: &[u8], dst: &mut [u8]) {
    assert_eq!(src.len(), dst.len());
    let words = src.len() / W;
    #[cfg(target_arch = "x86_64")]
    let done = x86::shuffle::<W>(src, dst, words);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for row in 0..W {
        for (to, word) in dst[row * words..][done..words].iter_mut().zip(src[done * W..].chunks_exact(W)) {
            *to = word[row];
        }
    }
    dst[words * W..].copy_from_slice(&src[words * W..]);
}

/// The inverse of [`shuffle`]. Both slices have the same length.
pub(super) fn unshuffle<const W: usize>(src: &[u8], dst: &mut [u8]) {
    assert_eq!(src.len(), dst.len());
    let words = src.len() / W;
    #[cfg(target_arch = "x86_64")]
    let done = x86::unshuffle::<W>(src, dst, words);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for row in 0..W {
        for (word, from) in dst[done * W..].chunks_exact_mut(W).zip(&src[row * words..][done..words]) {
            word[row] = *from;
        }
    }
    dst[words * W..].copy_from_slice(&src[words * W..]);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::cpu::{Path, path};
    use core::arch::x86_64::*;

    /// Returns how many of the words are done; the rest is left to the caller.
    #[inline]
    pub(super) fn shuffle<const W: usize>(src: &[u8], dst: &mut [u8], words: usize) -> usize {
        assert!(words * W <= src.len().min(dst.len()));
        let mut done = 0;
        if path() >= Path::Avx2 {
            // SAFETY: the processor has AVX2, and the lengths were checked.
            done = unsafe { shuffle_avx2::<W>(src.as_ptr(), dst.as_mut_ptr(), words) };
        }
        while done + 16 <= words {
            // SAFETY: 16 words from `done` on are in the source, and 16 bytes from `done` on in each of the W
            // rows of the destination, each of which has `words` bytes. Every x86-64 has SSE2.
            unsafe {
                let from = src.as_ptr().add(done * W).cast::<__m128i>();
                let mut r = [_mm_setzero_si128(); W];
                for (i, r) in r.iter_mut().enumerate() {
                    *r = _mm_loadu_si128(from.add(i));
                }
                for _ in 0..4 {
                    r = rotate(r);
                }
                for (row, r) in r.into_iter().enumerate() {
                    _mm_storeu_si128(dst.as_mut_ptr().add(row * words + done).cast(), r);
                }
            }
            done += 16;
        }
        done
    }

    /// The inverse of [`shuffle`].
    #[inline]
    pub(super) fn unshuffle<const W: usize>(src: &[u8], dst: &mut [u8], words: usize) -> usize {
        assert!(words * W <= src.len().min(dst.len()));
        let mut done = 0;
        if path() >= Path::Avx2 {
            // SAFETY: the processor has AVX2, and the lengths were checked.
            done = unsafe { unshuffle_avx2::<W>(src.as_ptr(), dst.as_mut_ptr(), words) };
        }
        while done + 16 <= words {
            // SAFETY: as in `shuffle`, with source and destination exchanged.
            unsafe {
                let mut r = [_mm_setzero_si128(); W];
                for (row, r) in r.iter_mut().enumerate() {
                    *r = _mm_loadu_si128(src.as_ptr().add(row * words + done).cast());
                }
                for _ in 0..W.trailing_zeros() {
                    r = rotate(r);
                }
                let to = dst.as_mut_ptr().add(done * W).cast::<__m128i>();
                for (i, r) in r.into_iter().enumerate() {
                    _mm_storeu_si128(to.add(i), r);
                }
            }
            done += 16;
        }
        done
    }

    /// Interleaves the first half of the registers with the second.
    #[inline(always)]
    fn rotate<const W: usize>(r: [__m128i; W]) -> [__m128i; W] {
        let mut out = r;
        for i in 0..W / 2 {
            // SAFETY: Every x86-64 has SSE2. The pointers are to the arrays' own elements.
            unsafe {
                let (a, b) = (*r.as_ptr().add(i), *r.as_ptr().add(i + W / 2));
                out[2 * i] = _mm_unpacklo_epi8(a, b);
                out[2 * i + 1] = _mm_unpackhi_epi8(a, b);
            }
        }
        out
    }

    /// The same in both halves of the registers.
    ///
    /// # Safety
    /// The processor has AVX2 and popcnt.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn rotate_avx2<const W: usize>(r: [__m256i; W]) -> [__m256i; W] {
        let mut out = r;
        for i in 0..W / 2 {
            // SAFETY: the caller has AVX2. The pointers are to the array's own
            // elements.
            unsafe {
                let (a, b) = (*r.as_ptr().add(i), *r.as_ptr().add(i + W / 2));
                out[2 * i] = _mm256_unpacklo_epi8(a, b);
                out[2 * i + 1] = _mm256_unpackhi_epi8(a, b);
            }
        }
        out
    }

    /// # Safety
    /// The processor has AVX2 and popcnt; `src` and `dst` have at least `words * W` bytes.
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn shuffle_avx2<const W: usize>(src: *const u8, dst: *mut u8, words: usize) -> usize {
        let mut done = 0;
        while done + 32 <= words {
            // SAFETY: 32 words from `done` on are in the source: 16 words for the
            // low halves of the registers, 16 for the high ones; and 32 bytes
            // from `done` on are in each row of the destination.
            unsafe {
                let low = src.add(done * W).cast::<__m128i>();
                let high = src.add((done + 16) * W).cast::<__m128i>();
                let mut r = [_mm256_setzero_si256(); W];
                for (i, r) in r.iter_mut().enumerate() {
                    *r = _mm256_loadu2_m128i(high.add(i), low.add(i));
                }
                for _ in 0..4 {
                    r = rotate_avx2(r);
                }
                for (row, r) in r.into_iter().enumerate() {
                    _mm256_storeu_si256(dst.add(row * words + done).cast(), r);
                }
            }
            done += 32;
        }
        done
    }

    /// # Safety
    /// As for `shuffle_avx2`.
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn unshuffle_avx2<const W: usize>(src: *const u8, dst: *mut u8, words: usize) -> usize {
        let mut done = 0;
        while done + 32 <= words {
            // SAFETY: as in `shuffle_avx2`, with source and destination exchanged.
            unsafe {
                let mut r = [_mm256_setzero_si256(); W];
                for (row, r) in r.iter_mut().enumerate() {
                    *r = _mm256_loadu_si256(src.add(row * words + done).cast());
                }
                for _ in 0..W.trailing_zeros() {
                    r = rotate_avx2(r);
                }
                let low = dst.add(done * W).cast::<__m128i>();
                let high = dst.add((done + 16) * W).cast::<__m128i>();
                for (i, r) in r.into_iter().enumerate() {
                    _mm256_storeu2_m128i(high.add(i), low.add(i), r);
                }
            }
            done += 32;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::on_each_path;
    use std::vec;
    use std::vec::Vec;

    fn check<const W: usize>() {
        for len in (0..700).chain([4095, 4096, 4097, 5000]) {
            let block: Vec<u8> = (0..len).map(|i| (i * 167 + i / 251 * 13) as u8).collect();
            let words = len / W;
            let naive: Vec<u8> = (0..words * W)
                .map(|i| block[i % words * W + i / words])
                .chain(block[words * W..].iter().copied())
                .collect();
            on_each_path(|path| {
                let mut rows = vec![0xA5; len];
                shuffle::<W>(&block, &mut rows);
                assert!(rows == naive, "{W} {len} {path:?}");
                let mut again = vec![0xA5; len];
                unshuffle::<W>(&rows, &mut again);
                assert!(again == block, "{W} {len} {path:?}");
            });
        }
    }

    #[test]
    fn bytes_of_equal_rank_come_together() {
        check::<2>();
        check::<4>();
        check::<8>();
    }
}
