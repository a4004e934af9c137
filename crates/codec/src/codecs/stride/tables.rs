//! Constant tables: how bytes and 16-bit lanes are spread and gathered by a
//! mask.
//!
//! Entries are controls for a byte shuffle: an index, or [`NONE`] for a byte that becomes zero. x86's
//! `pshufb` reads them in the same way.

/// A control byte for "nothing is put here".
pub(super) const NONE: u8 = 0x80;

/// `SPREAD[m][j]`: which byte of a dense row goes to place `j`, if bit `j` of `m` is set.
pub(super) static SPREAD: [[u8; 8]; 256] = {
    let mut table = [[NONE; 8]; 256];
    let mut m = 0;
    while m < 256 {
        let (mut j, mut rank) = (0, 0);
        while j < 8 {
            if m >> j & 1 == 1 {
                table[m][j] = rank;
                rank += 1;
            }
            j += 1;
        }
        m += 1;
    }
    table
};

/// `GATHER[m][r]`: the place of the `r`-th set bit of `m`.
pub(super) static GATHER: [[u8; 8]; 256] = {
    let mut table = [[NONE; 8]; 256];
    let mut m = 0;
    while m < 256 {
        let (mut j, mut rank) = (0, 0);
        while j < 8 {
            if m >> j & 1 == 1 {
                table[m][rank] = j;
                rank += 1;
            }
            j += 1;
        }
        m += 1;
    }
    table
};

/// [`SPREAD`] for four lanes of 16 bits.
pub(super) static SPREAD_LANES: [[u8; 8]; 16] = lanes();

const fn lanes() -> [[u8; 8]; 16] {
    let mut table = [[NONE; 8]; 16];
    let mut m = 0;
    while m < 16 {
        let (mut j, mut rank) = (0, 0);
        while j < 4 {
            if m >> j & 1 == 1 {
                table[m][2 * j] = 2 * rank;
                table[m][2 * j + 1] = 2 * rank + 1;
                rank += 1;
            }
            j += 1;
        }
        m += 1;
    }
    table
}

/// The same pointer, hidden from the compiler, which would otherwise merge two adjacent reads into one: a
/// read of recently written bytes is fast only if a single write wrote all of them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn apart<T>(mut pointer: *const T) -> *const T {
    // SAFETY: no instruction; the pointer is not dereferenced.
    #[allow(clippy::pointers_in_nomem_asm_block, reason = "it is not followed")]
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags))
    };
    pointer
}
