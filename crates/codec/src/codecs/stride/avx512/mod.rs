//! The loops with AVX-512: 64 bytes at a time, VBMI2 instructions compress and expand bytes under a mask.

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
use super::kernels::{BitRow, ByteRow, Flags, Kernels, LiteralBits, Literals, Misses, Places, VIEW};
use super::scratch::{Choice, Compressor, Decompressor};
use crate::{Compressed, Malformed};

/// The proof that the processor has the instructions of these loops: only functions that are compiled for it
/// make one.
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

/// Forwards each loop to the function that is compiled for the processor.
macro_rules! hand_on {
    ($(fn $name:ident(self $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(self $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: `self` proves that the processor has these instructions.
            unsafe { self::$name($($argument),*) }
        }
    )*};
}

impl Kernels for Avx512 {
    hand_on! {
        fn fetch(self, bytes: &[u8]);
        fn samples(self, view: &[u8; VIEW], density: u8) -> u64;
        fn places(self, samples: u64, base: u16, places: &mut Places, count: usize) -> usize;
        fn code(
            self, misses: &Misses, count: usize, table: &[u16],
            codes: &mut Literals, masks: &mut Literals, flags: &mut Flags,
        ) -> usize;
        fn look_up(
            self, codes: &Literals, count: usize, table: &[u16; 16], known: usize,
            masks: &[u8], flags: &Flags, to_masks: &mut ByteRow, to_flags: &mut ByteRow,
        ) -> bool;
        fn suppress(self, row: &BitRow, out: &mut [u8]) -> u64;
        fn restore(self, which: u64, bytes: &[u8], row: &mut BitRow) -> bool;
        fn common(self, counts: &[u16; 256], total: usize) -> [u8; 16];
        fn changes(self, granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize;
        fn search(
            self, src: &[u8], at: usize, granules: usize, wide: bool, distances: &[u16],
            choice: &mut Choice,
        );
        fn symbols(self, words: usize, choice: &mut Choice);
        fn literals(self, segment: &[u8], words: usize, choice: &mut Choice) -> usize;
        fn misses(self, words: usize, choice: &mut Choice) -> usize;
        fn split(
            self, literals: &Literals, count: usize, common: &[u8; 16],
            bits: &mut LiteralBits, codes: &mut Literals, rest: &mut Literals,
        ) -> usize;
        fn pack(self, codes: &Literals, count: usize, out: &mut [u8]);
        fn unpack(self, packed: &[u8], count: usize, codes: &mut Literals);
        fn join(
            self, bits: &[u8], count: usize, codes: &Literals, common: &[u8; 16],
            rest: &[u8], literals: &mut Literals,
        );
        fn rebuild(
            self, dst: &mut [u8], at: usize, granules: usize, wide: bool,
            work: &mut Decompressor,
        ) -> usize;
    }
}

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
