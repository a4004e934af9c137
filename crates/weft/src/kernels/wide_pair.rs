//! 32 bytes in two registers of sixteen.

use super::half::Half;
use super::kernel;

/// 32 bytes; see [`Half`].
#[derive(Clone, Copy)]
pub(super) struct Wide(Half, Half);

/// Operations on two.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl Wide {
            $(
                $(#[$doc])*
                #[inline]
                #[kernel]
                pub(super) fn $name(self, other: Wide) -> Wide {
                    Wide(self.0.$name(other.0), self.1.$name(other.1))
                }
            )*
        }
    };
}

operations! {
    and;
    or;
    xor;
    /// The bits of `other` that `self` does not have.
    clear;
    add;
    sub;
    /// At least 0.
    sub_saturating;
    max;
    /// 0xff for equal bytes, else 0.
    equal;
    /// For signed numbers.
    greater;
    add16;
    add32;
    sub32;
    add64;
    equal32;
    equal64;
    /// The products of the lower halves of numbers of 64 bits.
    mul64;
    /// In each half, the bytes at these places; zero where a place is negative.
    shuffle;
}

/// Shifts by a number that is known.
macro_rules! shifts {
    ($($name:ident;)*) => {
        impl Wide {
            $(
                #[inline]
                #[kernel]
                pub(super) fn $name<const BITS: i32>(self) -> Wide {
                    Wide(self.0.$name::<BITS>(), self.1.$name::<BITS>())
                }
            )*
        }
    };
}

shifts! {
    shl16;
    shr16;
    shl32;
    shr32;
    shr64;
}

impl Wide {
    #[inline]
    #[kernel]
    pub(super) fn zeros() -> Wide {
        Wide(Half::zeros(), Half::zeros())
    }

    #[inline]
    #[kernel]
    pub(super) fn all(byte: u8) -> Wide {
        Wide(Half::all(byte), Half::all(byte))
    }

    #[inline]
    #[kernel]
    pub(super) fn all16(number: u16) -> Wide {
        Wide(Half::all16(number), Half::all16(number))
    }

    #[inline]
    #[kernel]
    pub(super) fn all32(number: u32) -> Wide {
        Wide(Half::all32(number), Half::all32(number))
    }

    #[inline]
    #[kernel]
    pub(super) fn all64(number: u64) -> Wide {
        Wide(Half::all64(number), Half::all64(number))
    }

    /// The bytes of an array, in both halves.
    #[inline]
    #[kernel]
    pub(super) fn twice(bytes: &[u8; 16]) -> Wide {
        Wide(Half::new(bytes), Half::new(bytes))
    }

    #[inline]
    #[kernel]
    pub(super) fn join(low: Half, high: Half) -> Wide {
        Wide(low, high)
    }

    #[inline]
    #[kernel]
    pub(super) fn low(self) -> Half {
        self.0
    }

    #[inline]
    #[kernel]
    pub(super) fn high(self) -> Half {
        self.1
    }

    /// # Safety
    /// 32 bytes can be read.
    #[inline]
    #[kernel]
    pub(super) unsafe fn load(from: *const u8) -> Wide {
        // SAFETY: the caller upholds the contract.
        unsafe { Wide(Half::load(from), Half::load(from.add(16))) }
    }

    /// # Safety
    /// 32 bytes can be written.
    #[inline]
    #[kernel]
    pub(super) unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            self.0.store(to);
            self.1.store(to.add(16));
        }
    }

    /// The bytes of `other` where `which` is negative.
    #[inline]
    #[kernel]
    pub(super) fn blend(self, other: Wide, which: Wide) -> Wide {
        Wide(self.0.blend(other.0, which.0), self.1.blend(other.1, which.1))
    }

    /// The highest bit of each byte.
    #[inline]
    #[kernel]
    pub(super) fn signs(self) -> u32 {
        self.0.signs() | self.1.signs() << 16
    }

    #[inline]
    #[kernel]
    pub(super) fn shr32_by(self, bits: u32) -> Wide {
        Wide(self.0.shr32_by(bits), self.1.shr32_by(bits))
    }

    /// All four numbers.
    #[inline]
    #[kernel]
    pub(super) fn words(self) -> [u64; 4] {
        let ([one, two], [three, four]) = (self.0.words(), self.1.words());
        [one, two, three, four]
    }

    /// The sum of each eight bytes.
    #[inline]
    #[kernel]
    pub(super) fn sums(self) -> Wide {
        Wide(self.0.sums(), self.1.sums())
    }

    /// The lower halves of the numbers of 64 bits of both.
    #[inline]
    #[kernel]
    pub(super) fn lower64(self, other: Wide) -> Wide {
        Wide(self.0.lower64(self.1), other.0.lower64(other.1))
    }

    /// Bytes below 16, two in a byte.
    #[inline]
    #[kernel]
    pub(super) fn pack_pairs(self) -> Half {
        let pairs = self.or(self.shr16::<4>()).and(Wide::all16(0xff));
        pairs.0.narrow16(pairs.1)
    }

    /// Bytes, as numbers of 16 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16(bytes: Half) -> Wide {
        Wide(bytes.widen16(), bytes.skip::<8>().widen16())
    }

    /// The first eight bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32(bytes: Half) -> Wide {
        Wide(bytes.widen32(), bytes.skip::<4>().widen32())
    }

    /// The first eight signed bytes, as numbers of 32 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen32_signed(bytes: Half) -> Wide {
        Wide(bytes.widen32_signed(), bytes.skip::<4>().widen32_signed())
    }

    /// The first four signed bytes, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen64_signed(bytes: Half) -> Wide {
        Wide(bytes.widen64_signed(), bytes.skip::<2>().widen64_signed())
    }

    /// The first four numbers of 16 bits, as numbers of 64 bits.
    #[inline]
    #[kernel]
    pub(super) fn widen16_to_64(numbers: Half) -> Wide {
        Wide(numbers.widen16_to_64(), numbers.skip::<4>().widen16_to_64())
    }
}
