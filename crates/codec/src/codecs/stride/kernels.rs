//! The inner loops, of which every path has its own version.
//!
//! A value of a type with this trait proves that the processor has the instructions of its loops: it can be
//! made only after a check (see [`crate::cpu`]). The scalar version defines what each loop computes; the
//! others must compute the same, byte for byte, and tests verify that.

use super::format::{GRANULES, WORDS};
pub(super) use super::rows::{BitRow, ByteRow, Flags, LiteralBits, Literals, Misses, Places};
use super::scratch::{Choice, Decompressor};

/// The bytes that [`Kernels::samples`] examines: one before, 64, two after.
pub(super) const VIEW: usize = 67;

/// The loops.
pub(super) trait Kernels: core::marker::Copy {
    /// Prefetches `bytes`, which will be read soon.
    fn fetch(self, bytes: &[u8]);

    /// Which of 64 places vote: those where a run of nonzero bytes begins, and those selected by their
    /// content, so that equal data are sampled at the same places wherever they are. Of the latter, `density`
    /// 15 takes one in 16, and 3 one in 4.
    fn samples(self, view: &[u8; VIEW], density: u8) -> u64;

    /// Appends the places in `samples` to the existing `count`; the first bit is the place `base`. Returns
    /// the new count.
    fn places(self, samples: u64, base: u16, places: &mut Places, count: usize) -> usize;

    /// For each of `granules`, `wide` or not, of `src` from `at` on, finds which of `distances` leaves the
    /// fewest literals. Stores its index (`index`), which bytes differ (`differs`) and which are not zero
    /// (`nonzero`). On a tie the previous granule's distance wins, then the first.
    ///
    /// `src` reaches at least to the end of these granules; there are 1 to 16 distances, none shorter than a
    /// granule.
    fn search(
        self,
        src: &[u8],
        at: usize,
        granules: usize,
        wide: bool,
        distances: &[u16],
        choice: &mut Choice,
    );

    /// Stores in `changed` which granules have another index than the one before (the first: than 0), and
    /// those indices in `codes`. Returns how many.
    fn changes(self, granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize;

    /// Makes `mask` and `symbols` from `differs` and `nonzero`: a word starts from the reference if that
    /// leaves fewer literals than zeros do.
    fn symbols(self, words: usize, choice: &mut Choice);

    /// Collects the literals of the `words` of `segment`, a multiple of four.
    fn literals(self, segment: &[u8], words: usize, choice: &mut Choice) -> usize;

    /// Compares `symbols` with `guesses`; stores `missed` and `misses`, and returns their count.
    fn misses(self, words: usize, choice: &mut Choice) -> usize;

    /// Looks up `count` misses in `table`, which holds at most fifteen different symbols. The code of a
    /// symbol is its place there, or 15, an escape: the masks of escapes go to `masks`, bit 8 of each to
    /// `flags`, which was zero before. Returns how many.
    fn code(
        self,
        misses: &Misses,
        count: usize,
        table: &[u16],
        codes: &mut Literals,
        masks: &mut Literals,
        flags: &mut Flags,
    ) -> usize;

    /// The inverse of `code`. `table`, which ends with a zero, serves the codes below `known`; there are as
    /// many `masks` as codes of 15. False if a code is neither below `known` nor 15. The masks go to
    /// `to_masks`, and 0xFF or 0 for bit 8 to `to_flags`. After the masks there are 64 more bytes.
    #[allow(clippy::too_many_arguments, reason = "rows of one scratch")]
    fn look_up(
        self,
        codes: &Literals,
        count: usize,
        table: &[u16; 16],
        known: usize,
        masks: &[u8],
        flags: &Flags,
        to_masks: &mut ByteRow,
        to_flags: &mut ByteRow,
    ) -> bool;

    /// Moves the bytes of `row` that are not zero to the front of `out`, which has 64 bytes, and returns
    /// their positions as bits.
    fn suppress(self, row: &BitRow, out: &mut [u8]) -> u64;

    /// The inverse of `suppress`; there are as many bytes as `which` has ones, and 64 more. False if one of
    /// them is zero.
    fn restore(self, which: u64, bytes: &[u8], row: &mut BitRow) -> bool;

    /// The sixteen literals with the highest counts, in ascending order; among equals the lower ones. The sum
    /// of all counts is `total`, at most 4096.
    fn common(self, counts: &[u16; 256], total: usize) -> [u8; 16];

    /// Splits `count` literals by whether they are among the `common` ones, which are in ascending order.
    /// Stores a bit for each in `bits` (set if it is common), the codes of the common ones, and the others.
    /// Returns how many have a code.
    fn split(
        self,
        literals: &Literals,
        count: usize,
        common: &[u8; 16],
        bits: &mut LiteralBits,
        codes: &mut Literals,
        rest: &mut Literals,
    ) -> usize;

    /// Packs `count` codes below 16 two to a byte, the first half of them in the low halves of the bytes, the
    /// second in the high halves, into the first `count.div_ceil(2)` bytes of `out`; up to 64 bytes after
    /// them are overwritten arbitrarily.
    fn pack(self, codes: &Literals, count: usize, out: &mut [u8]);

    /// The inverse of `pack`, for `count.div_ceil(2)` bytes, after which there are 64 more.
    fn unpack(self, packed: &[u8], count: usize, codes: &mut Literals);

    /// Restores `count` literals, from `codes` (whose table is `common`) where `bits` says so and from `rest`
    /// elsewhere. After the bits and after the rest there are 64 more bytes.
    fn join(
        self,
        bits: &[u8],
        count: usize,
        codes: &Literals,
        common: &[u8; 16],
        rest: &[u8],
        literals: &mut Literals,
    );

    /// Rebuilds `granules`, `wide` or not, of `dst` from `at` on, and returns how many literals that took. If
    /// that is more than there are, the block is damaged and the content of `dst` is garbage.
    fn rebuild(
        self,
        dst: &mut [u8],
        at: usize,
        granules: usize,
        wide: bool,
        work: &mut Decompressor,
    ) -> usize;
}

const _: () = assert!(WORDS == 4 * GRANULES);

/// The number of bits of the highest count that seventeen literals can all have.
#[inline(always)]
pub(super) fn bits_of_edge(total: usize) -> u32 {
    (total / 17).checked_ilog2().map_or(0, |bit| bit + 1)
}

/// Forwards each loop to the function of the same name in the module that uses this macro.
macro_rules! hand_on {
    ($(fn $name:ident(self $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(self $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: `self` proves that the processor has these instructions.
            unsafe { self::$name($($argument),*) }
        }
    )*};
}

/// Implements [`Kernels`], by functions compiled for certain instructions, for the proof that the processor
/// has them.
macro_rules! by_functions {
    ($proof:ty) => {
        impl Kernels for $proof {
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
    };
}

pub(super) use {by_functions, hand_on};
