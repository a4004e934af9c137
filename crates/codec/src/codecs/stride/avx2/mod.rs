//! The loops with AVX2: 32 bytes at a time. AVX2 has no instruction that compresses or expands bytes under a
//! mask; a shuffle with a control from a table does it for the eight bytes of a word. (BMI2 has `pext` and
//! `pdep` for that, which are slow on some processors that have AVX2.)

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

impl Kernels for Avx2 {
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

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

/// Stands for references that begin before the block.
static ZEROS: [u8; WIDE_GRANULE] = [0; WIDE_GRANULE];
