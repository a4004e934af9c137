//! The loops with AVX-512: 64 bytes at a time. VBMI2 instructions compress and expand bytes under a mask.

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
pub(super) struct Avx512(());

/// The compressor, all of it compiled for the processor.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn compress(
    effort: &Effort,
    src: &[u8],
    dst: &mut [u8],
    work: &mut Compressor,
    counts: &mut [u16],
) -> Compressed {
    super::encode::compress(Avx512(()), effort, src, dst, work, counts)
}

/// The decompressor, all of it compiled for the processor.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decompress(src: &[u8], dst: &mut [u8], work: &mut Decompressor) -> Result<(), Malformed> {
    super::decode::decompress(Avx512(()), src, dst, work)
}

by_functions!(Avx512);

/// The low `count` bits; all bits for 64 and more.
#[inline]
fn low(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn fetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

/// The numbers from 0 to 63.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn numbers() -> __m512i {
    static NUMBERS: [u8; 64] = {
        let mut numbers = [0; 64];
        let mut i = 0;
        while i < 64 {
            numbers[i] = i as u8;
            i += 1;
        }
        numbers
    };
    // SAFETY: reads 64 bytes.
    unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) }
}

/// The bytes of 64 numbers of 16 bits, and the lowest bit of their upper halves.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
fn bytes_and_flags(numbers: [__m512i; 2]) -> (__m512i, u64) {
    let [low, high] = numbers;
    let a = _mm512_movepi16_mask(_mm512_slli_epi16::<7>(low));
    let b = _mm512_movepi16_mask(_mm512_slli_epi16::<7>(high));
    let low = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(low));
    let bytes = _mm512_inserti64x4::<1>(low, _mm512_cvtepi16_epi8(high));
    (bytes, u64::from(a) | u64::from(b) << 32)
}

/// Stands for references that begin before the block.
static ZEROS: [u8; 2 * WIDE_GRANULE] = [0; 2 * WIDE_GRANULE];
