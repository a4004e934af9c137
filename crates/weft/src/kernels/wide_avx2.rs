//! 32 bytes in a register of AVX2.

use core::arch::x86_64::*;

use super::half::Half;
use super::kernel;

/// 32 bytes; see [`Half`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Wide(__m256i);

operations!(Wide {
    and = _mm256_and_si256;
    or = _mm256_or_si256;
    xor = _mm256_xor_si256;
    /// The bits of `other` that `self` does not have.
    clear = _mm256_andnot_si256;
    add = _mm256_add_epi8;
    sub = _mm256_sub_epi8;
    /// At least 0.
    sub_saturating = _mm256_subs_epu8;
    max = _mm256_max_epu8;
    /// 0xff for equal bytes, else 0.
    equal = _mm256_cmpeq_epi8;
    /// For signed numbers.
    greater = _mm256_cmpgt_epi8;
    add16 = _mm256_add_epi16;
    add32 = _mm256_add_epi32;
    sub32 = _mm256_sub_epi32;
    add64 = _mm256_add_epi64;
    equal32 = _mm256_cmpeq_epi32;
    equal64 = _mm256_cmpeq_epi64;
    /// The products of the lower halves of numbers of 64 bits.
    mul64 = _mm256_mul_epu32;
    /// In each half, the bytes at these places; zero where a place is negative.
    shuffle = _mm256_shuffle_epi8;
});

impl Wide {
    #[inline]
    #[kernel]
    pub(super) fn zeros() -> Wide {
        Wide(_mm256_setzero_si256())
    }

    #[inline]
    #[kernel]
    pub(super) fn all(byte: u8) -> Wide {
        Wide(_mm256_set1_epi8(byte as i8))
    }

    #[inline]
    #[kernel]
    pub(super) fn all16(number: u16) -> Wide {
        Wide(_mm256_set1_epi16(number as i16))
    }

    #[inline]
    #[kernel]
    pub(super) fn all32(number: u32) -> Wide {
        Wide(_mm256_set1_epi32(number as i32))
    }

    #[inline]
    #[kernel]
    pub(super) fn all64(number: u64) -> Wide {
        Wide(_mm256_set1_epi64x(number as i64))
    }

    /// The bytes of an array, in both halves.
    #[inline]
    #[kernel]
    pub(super) fn twice(bytes: &[u8; 16]) -> Wide {
        // SAFETY: reads the array.
        Wide(_mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }))
    }

    #[inline]
    #[kernel]
    pub(super) fn join(low: Half, high: Half) -> Wide {
        Wide(_mm256_set_m128i(high.0, low.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn low(self) -> Half {
        Half(_mm256_castsi256_si128(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn high(self) -> Half {
        Half(_mm256_extracti128_si256::<1>(self.0))
    }

    /// # Safety
    /// 32 bytes can be read.
    #[inline]
    #[kernel]
    pub(super) unsafe fn load(from: *const u8) -> Wide {
        // SAFETY: the caller upholds the contract.
        Wide(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    /// # Safety
    /// 32 bytes can be written.
    #[inline]
    #[kernel]
    pub(super) unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller upholds the contract.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    /// The bytes of `other` where `which` is negative.
    #[inline]
    #[kernel]
    pub(super) fn blend(self, other: Wide, which: Wide) -> Wide {
        Wide(_mm256_blendv_epi8(self.0, other.0, which.0))
    }

    /// The highest bit of each byte.
    #[inline]
    #[kernel]
    pub(super) fn signs(self) -> u32 {
        _mm256_movemask_epi8(self.0) as u32
    }

    #[inline]
    #[kernel]
    pub(super) fn shl16<const BITS: i32>(self) -> Wide {
        Wide(_mm256_slli_epi16::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr16<const BITS: i32>(self) -> Wide {
        Wide(_mm256_srli_epi16::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shl32<const BITS: i32>(self) -> Wide {
        Wide(_mm256_slli_epi32::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr32<const BITS: i32>(self) -> Wide {
        Wide(_mm256_srli_epi32::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr32_by(self, bits: u32) -> Wide {
        Wide(_mm256_srl_epi32(self.0, _mm_cvtsi32_si128(bits as i32)))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr64<const BITS: i32>(self) -> Wide {
        Wide(_mm256_srli_epi64::<BITS>(self.0))
    }

    /// All four numbers.
    #[inline]
    #[kernel]
    pub(super) fn words(self) -> [u64; 4] {
        let [one, two] = self.low().words();
        let [three, four] = self.high().words();
        [one, two, three, four]
    }

    /// The sum of each eight bytes.
    #[inline]
    #[kernel]
    pub(super) fn sums(self) -> Wide {
        Wide(_mm256_sad_epu8(self.0, _mm256_setzero_si256()))
    }

    /// The lower halves of the numbers of 64 bits of both.
    #[inline]
    #[kernel]
    pub(super) fn lower64(self, other: Wide) -> Wide {
        let both = _mm256_shuffle_ps::<0x88>(_mm256_castsi256_ps(self.0), _mm256_castsi256_ps(other.0));
        Wide(_mm256_permute4x64_epi64::<0xd8>(_mm256_castps_si256(both)))
    }

    /// Bytes below 16, two in a byte.
    #[inline]
    #[kernel]
    pub(super) fn pack_pairs(self) -> Half {
        let pairs = _mm256_maddubs_epi16(self.0, _mm256_set1_epi16(0x1001));
        Wide(_mm256_permute4x64_epi64::<8>(_mm256_packus_epi16(pairs, pairs))).low()
    }

    /// Bytes, as numbers of 16 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16(bytes: Half) -> Wide {
        Wide(_mm256_cvtepu8_epi16(bytes.0))
    }

    /// The first eight bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32(bytes: Half) -> Wide {
        Wide(_mm256_cvtepu8_epi32(bytes.0))
    }

    /// The first eight signed bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32_signed(bytes: Half) -> Wide {
        Wide(_mm256_cvtepi8_epi32(bytes.0))
    }

    /// The first four signed bytes, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen64_signed(bytes: Half) -> Wide {
        Wide(_mm256_cvtepi8_epi64(bytes.0))
    }

    /// The first four numbers of 16 bits, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16_to_64(numbers: Half) -> Wide {
        Wide(_mm256_cvtepu16_epi64(numbers.0))
    }
}
