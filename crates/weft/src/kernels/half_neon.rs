//! Sixteen bytes in a register of NEON.

use core::arch::aarch64::*;

use super::kernel;

/// Sixteen bytes, or half as many numbers of 16 bits and so on, little-endian. Names of operations end with
/// the bits of a number, if these are not 8.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half(uint8x16_t);

/// Bytes as numbers of 16 bits.
#[inline]
#[kernel]
fn as16(half: Half) -> uint16x8_t {
    vreinterpretq_u16_u8(half.0)
}

#[inline]
#[kernel]
fn as32(half: Half) -> uint32x4_t {
    vreinterpretq_u32_u8(half.0)
}

#[inline]
#[kernel]
fn as64(half: Half) -> uint64x2_t {
    vreinterpretq_u64_u8(half.0)
}

#[inline]
#[kernel]
fn of16(numbers: uint16x8_t) -> Half {
    Half(vreinterpretq_u8_u16(numbers))
}

#[inline]
#[kernel]
fn of32(numbers: uint32x4_t) -> Half {
    Half(vreinterpretq_u8_u32(numbers))
}

#[inline]
#[kernel]
fn of64(numbers: uint64x2_t) -> Half {
    Half(vreinterpretq_u8_u64(numbers))
}

operations!(Half {
    and = vandq_u8;
    or = vorrq_u8;
    xor = veorq_u8;
    add = vaddq_u8;
    sub = vsubq_u8;
    /// At least 0.
    sub_saturating = vqsubq_u8;
    max = vmaxq_u8;
    /// 0xff for equal bytes, else 0.
    equal = vceqq_u8;
    /// The bytes at these places; zero where a place is negative, as all are that exceed 15.
    shuffle = vqtbl1q_u8;
    /// The bytes of both first halves, in turn.
    zip = vzip1q_u8;
});

/// Operations on two registers of numbers.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $to:ident $intrinsic:ident $from:ident;)*) => {
        impl Half {
            $(
                $(#[$doc])*
                #[inline]
                #[kernel]
                pub(super) fn $name(self, other: Half) -> Half {
                    $to($intrinsic($from(self), $from(other)))
                }
            )*
        }
    };
}

numbers! {
    add16 = of16 vaddq_u16 as16;
    add32 = of32 vaddq_u32 as32;
    add64 = of64 vaddq_u64 as64;
    sub32 = of32 vsubq_u32 as32;
    equal16 = of16 vceqq_u16 as16;
    equal32 = of32 vceqq_u32 as32;
    equal64 = of64 vceqq_u64 as64;
    /// The numbers of both first halves, in turn.
    zip16 = of16 vzip1q_u16 as16;
    zip32 = of32 vzip1q_u32 as32;
    zip64 = of64 vzip1q_u64 as64;
    /// The lower halves of the numbers of 64 bits of both.
    lower64 = of32 vuzp1q_u32 as32;
}

/// Shifts by a number that is known.
macro_rules! shifts {
    ($($name:ident = $to:ident $intrinsic:ident $from:ident;)*) => {
        impl Half {
            $(
                #[inline]
                #[kernel]
                pub(super) fn $name<const BITS: i32>(self) -> Half {
                    $to($intrinsic::<BITS>($from(self)))
                }
            )*
        }
    };
}

shifts! {
    shl16 = of16 vshlq_n_u16 as16;
    shr16 = of16 vshrq_n_u16 as16;
    shl32 = of32 vshlq_n_u32 as32;
    shr32 = of32 vshrq_n_u32 as32;
    shr64 = of64 vshrq_n_u64 as64;
}

impl Half {
    #[inline]
    #[kernel]
    pub(super) fn zeros() -> Half {
        Half::all(0)
    }

    #[inline]
    #[kernel]
    pub(super) fn all(byte: u8) -> Half {
        Half(vdupq_n_u8(byte))
    }

    #[inline]
    #[kernel]
    pub(super) fn all16(number: u16) -> Half {
        of16(vdupq_n_u16(number))
    }

    #[inline]
    #[kernel]
    pub(super) fn all32(number: u32) -> Half {
        of32(vdupq_n_u32(number))
    }

    #[inline]
    #[kernel]
    pub(super) fn all64(number: u64) -> Half {
        of64(vdupq_n_u64(number))
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
        Half(vcombine_u8(vcreate_u8(eight), vcreate_u8(0)))
    }

    /// # Safety
    /// Sixteen bytes can be read.
    #[inline]
    #[kernel]
    pub(super) unsafe fn load(from: *const u8) -> Half {
        // SAFETY: the caller upholds the contract.
        Half(unsafe { vld1q_u8(from) })
    }

    /// # Safety
    /// Sixteen bytes can be written.
    #[inline]
    #[kernel]
    pub(super) unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller upholds the contract.
        unsafe { vst1q_u8(to, self.0) }
    }

    /// Eight bytes, and zeros.
    ///
    /// # Safety
    /// Eight bytes can be read.
    #[inline]
    #[kernel]
    pub(super) unsafe fn load8(from: *const u8) -> Half {
        // SAFETY: the caller upholds the contract.
        Half(vcombine_u8(unsafe { vld1_u8(from) }, vcreate_u8(0)))
    }

    /// The first eight bytes.
    ///
    /// # Safety
    /// Eight bytes can be written.
    #[inline]
    #[kernel]
    pub(super) unsafe fn store8(self, to: *mut u8) {
        // SAFETY: the caller upholds the contract.
        unsafe { vst1_u8(to, vget_low_u8(self.0)) }
    }

    /// The bits of `other` that `self` does not have.
    #[inline]
    #[kernel]
    pub(super) fn clear(self, other: Half) -> Half {
        Half(vbicq_u8(other.0, self.0))
    }

    /// For signed numbers.
    #[inline]
    #[kernel]
    pub(super) fn greater(self, other: Half) -> Half {
        Half(vcgtq_s8(vreinterpretq_s8_u8(self.0), vreinterpretq_s8_u8(other.0)))
    }

    /// For signed numbers.
    #[inline]
    #[kernel]
    pub(super) fn greater16(self, other: Half) -> Half {
        of16(vcgtq_s16(vreinterpretq_s16_u8(self.0), vreinterpretq_s16_u8(other.0)))
    }

    /// The bytes of `other` where `which` is negative.
    #[inline]
    #[kernel]
    pub(super) fn blend(self, other: Half, which: Half) -> Half {
        Half(vbslq_u8(vcltzq_s8(vreinterpretq_s8_u8(which.0)), other.0, self.0))
    }

    /// The highest bit of each byte.
    #[inline]
    #[kernel]
    pub(super) fn signs(self) -> u32 {
        const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let bits = Half(vcltzq_s8(vreinterpretq_s8_u8(self.0))).and(Half::new(&BITS));
        u32::from(vaddv_u8(vget_low_u8(bits.0))) | u32::from(vaddv_u8(vget_high_u8(bits.0))) << 8
    }

    /// Without the first bytes; zeros follow.
    #[inline]
    #[kernel]
    pub(super) fn skip<const BYTES: i32>(self) -> Half {
        Half(vextq_u8::<BYTES>(self.0, vdupq_n_u8(0)))
    }

    /// Both numbers.
    #[inline]
    #[kernel]
    pub(super) fn words(self) -> [u64; 2] {
        [vgetq_lane_u64::<0>(as64(self)), vgetq_lane_u64::<1>(as64(self))]
    }

    /// The first number.
    #[inline]
    #[kernel]
    pub(super) fn first32(self) -> u32 {
        vgetq_lane_u32::<0>(as32(self))
    }

    /// The first number everywhere.
    #[inline]
    #[kernel]
    pub(super) fn everywhere16(self) -> Half {
        of16(vdupq_laneq_u16::<0>(as16(self)))
    }

    /// The least number, then the place of the first one.
    #[inline]
    #[kernel]
    pub(super) fn least16(self) -> Half {
        let least = vminvq_u16(as16(self));
        // A byte for each number.
        let is_least =
            vget_lane_u64::<0>(vreinterpret_u64_u8(vmovn_u16(as16(self.equal16(Half::all16(least))))));
        Half::of(u64::from(least) | u64::from(is_least.trailing_zeros() / 8) << 16)
    }

    /// Numbers of 32 bits that fit into 16, of both.
    #[inline]
    #[kernel]
    pub(super) fn narrow32(self, other: Half) -> Half {
        of16(vuzp1q_u16(as16(self), as16(other)))
    }

    /// Numbers of 16 bits that fit into 8, of both.
    #[inline]
    #[kernel]
    pub(super) fn narrow16(self, other: Half) -> Half {
        Half(vuzp1q_u8(self.0, other.0))
    }

    #[inline]
    #[kernel]
    pub(super) fn shr32_by(self, bits: u32) -> Half {
        of32(vshlq_u32(as32(self), vdupq_n_s32(-(bits as i32))))
    }

    /// The products of the lower halves of numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn mul64(self, other: Half) -> Half {
        of64(vmull_u32(vmovn_u64(as64(self)), vmovn_u64(as64(other))))
    }

    /// The sum of each eight bytes.
    #[inline]
    #[kernel]
    pub(super) fn sums(self) -> Half {
        of64(vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(self.0))))
    }

    /// The first eight bytes, as numbers of 16 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16(self) -> Half {
        self.zip(Half::zeros())
    }

    /// The first four bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32(self) -> Half {
        self.zip(Half::zeros()).zip16(Half::zeros())
    }

    /// The first four signed bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32_signed(self) -> Half {
        let numbers = vmovl_s16(vget_low_s16(vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(self.0)))));
        Half(vreinterpretq_u8_s32(numbers))
    }

    /// The first two signed bytes, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen64_signed(self) -> Half {
        Half(vreinterpretq_u8_s64(vmovl_s32(vget_low_s32(vreinterpretq_s32_u8(self.widen32_signed().0)))))
    }

    /// The first two numbers of 16 bits, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16_to_64(self) -> Half {
        self.zip16(Half::zeros()).zip32(Half::zeros())
    }
}
