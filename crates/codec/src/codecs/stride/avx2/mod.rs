//! The loops with AVX2: 32 bytes at a time. AVX2 has no instruction that compresses or expands bytes under a
//! mask; a shuffle with a control from a table does it for the eight bytes of a word. (BMI2 has `pext` and
//! `pdep` for this, but they are slow on some processors that have AVX2.)

mod decode;
mod encode;
mod search;
mod vote;

use core::arch::x86_64::*;

use self::decode::{join, look_up, rebuild, restore, unpack};
use self::encode::{code, common, literals, misses, pack, split, suppress};
use self::search::{changes, search, symbols};
use self::vote::{places, samples};
use super::Effort;
use super::format::WIDE_GRANULE;
use super::kernels::{
    BitRow, ByteRow, Flags, Kernels, LiteralBits, Literals, Misses, Places, VIEW, by_functions, hand_on,
};
use super::scratch::{Choice, Compressor, Decompressor};
use crate::{Compressed, Malformed};

/// The proof that the processor has the instructions of these loops: only functions compiled for them create
/// one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

/// The compressor, all of it compiled for the processor.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn compress(
    effort: &Effort,
    src: &[u8],
    dst: &mut [u8],
    work: &mut Compressor,
    counts: &mut [u16],
) -> Compressed {
    super::encode::compress(Avx2(()), effort, src, dst, work, counts)
}

/// The decompressor, all of it compiled for the processor.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decompress(src: &[u8], dst: &mut [u8], work: &mut Decompressor) -> Result<(), Malformed> {
    super::decode::decompress(Avx2(()), src, dst, work)
}

by_functions!(Avx2);

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

/// Stands for references that begin before the block.
static ZEROS: [u8; WIDE_GRANULE] = [0; WIDE_GRANULE];
