//! What a pair of registers needs beyond the operations that kernels have for single ones.

use core::arch::x86_64::*;

use super::half::Half;
use super::kernel;

operations!(Half {
    and = _mm_and_si128;
    /// The bits of `other` that `self` does not have.
    clear = _mm_andnot_si128;
    sub = _mm_sub_epi8;
    /// At least 0.
    sub_saturating = _mm_subs_epu8;
    /// For signed numbers.
    greater = _mm_cmpgt_epi8;
    add16 = _mm_add_epi16;
    add32 = _mm_add_epi32;
    sub32 = _mm_sub_epi32;
    equal32 = _mm_cmpeq_epi32;
    equal64 = _mm_cmpeq_epi64;
    /// The products of the lower halves of numbers of 64 bits.
    mul64 = _mm_mul_epu32;
    /// Numbers of 16 bits that fit into 8.
    narrow16 = _mm_packus_epi16;
});

impl Half {
    #[inline]
    #[kernel]
    pub(super) fn all32(number: u32) -> Half {
        Half(_mm_set1_epi32(number as i32))
    }

    #[inline]
    #[kernel]
    pub(super) fn all64(number: u64) -> Half {
        Half(_mm_set1_epi64x(number as i64))
    }

    #[inline]
    #[kernel]
    pub(super) fn shl16<const BITS: i32>(self) -> Half {
        Half(_mm_slli_epi16::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr16<const BITS: i32>(self) -> Half {
        Half(_mm_srli_epi16::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shl32<const BITS: i32>(self) -> Half {
        Half(_mm_slli_epi32::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr32<const BITS: i32>(self) -> Half {
        Half(_mm_srli_epi32::<BITS>(self.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr32_by(self, bits: u32) -> Half {
        Half(_mm_srl_epi32(self.0, _mm_cvtsi32_si128(bits as i32)))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr64<const BITS: i32>(self) -> Half {
        Half(_mm_srli_epi64::<BITS>(self.0))
    }

    /// The lower halves of the numbers of 64 bits of both.
    #[inline]
    #[kernel]
    pub(super) fn lower64(self, other: Half) -> Half {
        let both = _mm_shuffle_ps::<0x88>(_mm_castsi128_ps(self.0), _mm_castsi128_ps(other.0));
        Half(_mm_castps_si128(both))
    }

    /// The sum of each eight bytes.
    #[inline]
    #[kernel]
    pub(super) fn sums(self) -> Half {
        Half(_mm_sad_epu8(self.0, _mm_setzero_si128()))
    }

    /// The first eight bytes, as numbers of 16 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16(self) -> Half {
        Half(_mm_cvtepu8_epi16(self.0))
    }

    /// The first four bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32(self) -> Half {
        Half(_mm_cvtepu8_epi32(self.0))
    }

    /// The first four signed bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32_signed(self) -> Half {
        Half(_mm_cvtepi8_epi32(self.0))
    }

    /// The first two signed bytes, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen64_signed(self) -> Half {
        Half(_mm_cvtepi8_epi64(self.0))
    }

    /// The first two numbers of 16 bits, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16_to_64(self) -> Half {
        Half(_mm_cvtepu16_epi64(self.0))
    }
}
