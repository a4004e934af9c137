//! `delta:WxN` and `xor:WxN`: each word of W bytes minus (or xor) the one before it, N times over. Data that
//! change evenly become small or zero. The words before the first count as zero. Words are little endian;
//! bytes that fill no word stay unchanged.
//!
//! Forward, a piece of the block is loaded with the N words before it, and the differences are taken N times
//! in place, in loops that the compiler vectorises. Backward, N sums run in parallel.

use core::marker::PhantomData;

use crate::cpu::either;
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The largest N.
const MOST: usize = 6;

/// Words that are processed together.
const PIECE: usize = 128;

/// A number in the block.
pub(crate) trait Word: Copy + Default + 'static {
    const BYTES: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    fn sub(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// How many bits the number takes, its sign counted as one.
    fn bits(self) -> u32;
}

macro_rules! words {
    ($($word:ty, $signed:ty);*) => {$(
        impl Word for $word {
            const BYTES: usize = size_of::<$word>();
            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$word>()];
                word.copy_from_slice(bytes);
                <$word>::from_le_bytes(word)
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn bits(self) -> u32 {
                let folded = self << 1 ^ (self as $signed >> (<$word>::BITS - 1)) as $word;
                // `leading_zeros` of a nonzero number is one instruction on every x86-64.
                <$word>::BITS - (folded | 1).leading_zeros() - u32::from(folded == 0)
            }
        }
    )*};
}
words!(u8, i8; u16, i16; u32, i32; u64, i64);

/// Subtraction, or the operation in its place.
pub(crate) trait Operation: Sync + 'static {
    fn less<T: Word>(a: T, b: T) -> T;
    fn more<T: Word>(a: T, b: T) -> T;
}

pub(crate) struct Minus;
impl Operation for Minus {
    #[inline(always)]
    fn less<T: Word>(a: T, b: T) -> T {
        a.sub(b)
    }
    #[inline(always)]
    fn more<T: Word>(a: T, b: T) -> T {
        a.add(b)
    }
}

pub(crate) struct Xor;
impl Operation for Xor {
    #[inline(always)]
    fn less<T: Word>(a: T, b: T) -> T {
        a.xor(b)
    }
    #[inline(always)]
    fn more<T: Word>(a: T, b: T) -> T {
        a.xor(b)
    }
}

/// The transform `delta:WxN`, or `xor:WxN`.
pub(crate) struct Difference<O> {
    name: &'static str,
    bytes: usize,
    order: usize,
    operation: PhantomData<O>,
}

macro_rules! differences {
    ($operation:ty, $family:literal: $($bytes:literal x $($order:literal)*),*) => {
        [$($(Difference::<$operation> {
            name: concat!($family, ":", $bytes, "x", $order),
            bytes: $bytes,
            order: $order,
            operation: PhantomData,
        }),*),*]
    };
}

pub(crate) static DELTA: [Difference<Minus>; 24] =
    differences!(Minus, "delta": 1 x 1 2 3 4 5 6, 2 x 1 2 3 4 5 6, 4 x 1 2 3 4 5 6, 8 x 1 2 3 4 5 6);
pub(crate) static XOR: [Difference<Xor>; 24] =
    differences!(Xor, "xor": 1 x 1 2 3 4 5 6, 2 x 1 2 3 4 5 6, 4 x 1 2 3 4 5 6, 8 x 1 2 3 4 5 6);

impl<O: Operation> Step for Difference<O> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn keeps_length(&self) -> bool {
        true
    }

    fn bound(&self, len: usize) -> usize {
        len
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Option<usize> {
        let dst = dst.get_mut(..src.len())?;
        match self.bytes {
            1 => differences::<O, u8>(src, dst, self.order),
            2 => differences::<O, u16>(src, dst, self.order),
            4 => differences::<O, u32>(src, dst, self.order),
            _ => differences::<O, u64>(src, dst, self.order),
        }
        Some(src.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if src.len() != dst.len() {
            return Err(Malformed);
        }
        match self.bytes {
            1 => sums::<O, u8>(src, dst, self.order),
            2 => sums::<O, u16>(src, dst, self.order),
            4 => sums::<O, u32>(src, dst, self.order),
            _ => sums::<O, u64>(src, dst, self.order),
        }
        Ok(())
    }
}

fn differences<O: Operation, T: Word>(src: &[u8], dst: &mut [u8], order: usize) {
    either!(differences_avx2::<O, T>(src, dst, order), differences_in_pieces::<O, T>(src, dst, order))
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn differences_avx2<O: Operation, T: Word>(src: &[u8], dst: &mut [u8], order: usize) {
    differences_in_pieces::<O, T>(src, dst, order);
}

#[inline(always)]
fn differences_in_pieces<O: Operation, T: Word>(src: &[u8], dst: &mut [u8], order: usize) {
    let end = src.len() / T::BYTES * T::BYTES;
    // The words before the piece, followed by the piece.
    let mut words = [T::default(); MOST + PIECE];
    let pieces = src[..end].chunks(PIECE * T::BYTES).zip(dst[..end].chunks_mut(PIECE * T::BYTES));
    let mut before = [T::default(); MOST];
    for (from, to) in pieces {
        words[..MOST].copy_from_slice(&before);
        for (word, from) in words[MOST..].iter_mut().zip(from.chunks_exact(T::BYTES)) {
            *word = T::load(from);
        }
        before.copy_from_slice(&words[PIECE..]);
        let words = &mut words[MOST - order..];
        for n in 1..=order {
            for i in 0..PIECE + order - n {
                words[i] = O::less(words[i + 1], words[i]);
            }
        }
        for (word, to) in words.iter().zip(to.chunks_exact_mut(T::BYTES)) {
            word.store(to);
        }
    }
    dst[end..].copy_from_slice(&src[end..]);
}

fn sums<O: Operation, T: Word>(src: &[u8], dst: &mut [u8], order: usize) {
    match order {
        1 => sums_of::<O, T, 1>(src, dst),
        2 => sums_of::<O, T, 2>(src, dst),
        3 => sums_of::<O, T, 3>(src, dst),
        4 => sums_of::<O, T, 4>(src, dst),
        5 => sums_of::<O, T, 5>(src, dst),
        _ => sums_of::<O, T, 6>(src, dst),
    }
}

fn sums_of<O: Operation, T: Word, const N: usize>(src: &[u8], dst: &mut [u8]) {
    let mut sums = [T::default(); N];
    let mut words = dst.chunks_exact_mut(T::BYTES);
    let from = src.chunks_exact(T::BYTES);
    let tail = from.remainder();
    for (from, to) in from.zip(&mut words) {
        let mut word = T::load(from);
        for sum in &mut sums {
            *sum = O::more(*sum, word);
            word = *sum;
        }
        word.store(to);
    }
    words.into_remainder().copy_from_slice(tail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::on_each_path;
    use std::vec;
    use std::vec::Vec;

    /// One difference, with numbers of any size in a u64.
    fn naive(block: &[u8], bytes: usize, less: impl Fn(u64, u64) -> u64) -> Vec<u8> {
        let mut before = 0;
        let mut out = Vec::new();
        for word in block.chunks(bytes) {
            if word.len() < bytes {
                out.extend(word);
                break;
            }
            let value = word.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
            out.extend(&less(value, before).to_le_bytes()[..bytes]);
            before = value;
        }
        out
    }

    fn check<O: Operation>(steps: &[Difference<O>], less: impl Fn(u64, u64) -> u64 + Copy) {
        for step in steps {
            for len in [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 1032, 4096, 5003] {
                let block: Vec<u8> = (0..len).map(|i| (i * i * 31 + i / 7) as u8).collect();
                let mut wanted = block.clone();
                for _ in 0..step.order {
                    wanted = naive(&wanted, step.bytes, less);
                }
                on_each_path(|path| {
                    let mut out = vec![0xA5; len];
                    step.forward(&block, &mut out, &mut Scratch::empty()).unwrap();
                    assert!(out == wanted, "{} {len} {path:?}", step.name);
                    let mut again = vec![0xA5; len];
                    step.backward(&out, &mut again, &mut Scratch::empty()).unwrap();
                    assert!(again == block, "{} {len} {path:?}", step.name);
                });
            }
        }
    }

    #[test]
    fn all_orders_of_all_words() {
        check(&DELTA, u64::wrapping_sub);
        check(&XOR, |a, b| a ^ b);
    }

    #[test]
    fn bits_count_the_sign_once() {
        assert_eq!([0_u8, 1, 0xFF, 2, 0x7F, 0x80].map(Word::bits), [0, 2, 1, 3, 8, 8]);
        assert_eq!([0_u64, u64::MAX, 1 << 62].map(Word::bits), [0, 1, 64]);
    }
}
