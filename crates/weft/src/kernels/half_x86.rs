//! Sixteen bytes in a register of SSE.

use core::arch::x86_64::*;

use super::kernel;

/// Sixteen bytes, or half as many numbers of 16 bits and so on, little-endian. Names of operations end with
/// the bits of a number, if these are not 8.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half(pub(super) __m128i);

operations!(Half {
    or = _mm_or_si128;
    xor = _mm_xor_si128;
    add = _mm_add_epi8;
    add64 = _mm_add_epi64;
    max = _mm_max_epu8;
    /// 0xff for equal bytes, else 0.
    equal = _mm_cmpeq_epi8;
    equal16 = _mm_cmpeq_epi16;
    /// For signed numbers.
    greater16 = _mm_cmpgt_epi16;
    /// Numbers of 32 bits that fit into 16, of both.
    narrow32 = _mm_packus_epi32;
    /// The bytes at these places; zero where a place is negative.
    shuffle = _mm_shuffle_epi8;
    /// The numbers of both first halves, in turn.
    zip = _mm_unpacklo_epi8;
    zip16 = _mm_unpacklo_epi16;
    zip32 = _mm_unpacklo_epi32;
    zip64 = _mm_unpacklo_epi64;
});

impl Half {
    #[inline]
    #[kernel]
    pub(super) fn zeros() -> Half {
        Half(_mm_setzero_si128())
    }

    #[inline]
    #[kernel]
    pub(super) fn all(byte: u8) -> Half {
        Half(_mm_set1_epi8(byte as i8))
    }

    #[inline]
    #[kernel]
    pub(super) fn all16(number: u16) -> Half {
        Half(_mm_set1_epi16(number as i16))
    }

    #[inline]
    #[kernel]
    pub(super) fn new(bytes: &[u8; 16]) -> Half {
        // SAFETY: reads the array.
        unsafe { Half::load(bytes.as_ptr()) }
    }

    /// Eight bytes, and zeros.
    #[inline]
    #[kernel]
    pub(super) fn of(eight: u64) -> Half {
        Half(_mm_cvtsi64_si128(eight as i64))
    }

    /// # Safety
    /// Sixteen bytes can be read.
    #[inline]
    #[kernel]
    pub(super) unsafe fn load(from: *const u8) -> Half {
        // SAFETY: the caller upholds the contract.
        Half(unsafe { _mm_loadu_si128(from.cast()) })
    }

    /// # Safety
    /// Sixteen bytes can be written.
    #[inline]
    #[kernel]
    pub(super) unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller upholds the contract.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    /// Eight bytes, and zeros.
    ///
    /// # Safety
    /// Eight bytes can be read.
    #[inline]
    #[kernel]
    pub(super) unsafe fn load8(from: *const u8) -> Half {
        // SAFETY: the caller upholds the contract.
        Half(unsafe { _mm_loadl_epi64(from.cast()) })
    }

    /// The first eight bytes.
    ///
    /// # Safety
    /// Eight bytes can be written.
    #[inline]
    #[kernel]
    pub(super) unsafe fn store8(self, to: *mut u8) {
        // SAFETY: the caller upholds the contract.
        unsafe { _mm_storel_epi64(to.cast(), self.0) }
    }

    /// The bytes of `other` where `which` is negative.
    #[inline]
    #[kernel]
    pub(super) fn blend(self, other: Half, which: Half) -> Half {
        Half(_mm_blendv_epi8(self.0, other.0, which.0))
    }

    /// The highest bit of each byte.
    #[inline]
    #[kernel]
    pub(super) fn signs(self) -> u32 {
        _mm_movemask_epi8(self.0) as u32
    }

    /// Without the first bytes; zeros follow.
    #[inline]
    #[kernel]
    pub(super) fn skip<const BYTES: i32>(self) -> Half {
        Half(_mm_srli_si128::<BYTES>(self.0))
    }

    /// Both numbers.
    #[inline]
    #[kernel]
    pub(super) fn words(self) -> [u64; 2] {
        [_mm_cvtsi128_si64(self.0) as u64, _mm_extract_epi64::<1>(self.0) as u64]
    }

    /// The first number.
    #[inline]
    #[kernel]
    pub(super) fn first32(self) -> u32 {
        _mm_cvtsi128_si32(self.0) as u32
    }

    /// The first number everywhere.
    #[inline]
    #[kernel]
    pub(super) fn everywhere16(self) -> Half {
        const PLACES: [u8; 16] = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1];
        self.shuffle(Half::new(&PLACES))
    }

    /// The least number, then the place of the first one.
    #[inline]
    #[kernel]
    pub(super) fn least16(self) -> Half {
        Half(_mm_minpos_epu16(self.0))
    }
}
