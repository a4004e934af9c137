//! `bitshuffle:W`: puts bits of equal rank together, in 8 W rows. Where the byte shuffle leaves a row whose
//! upper half varies little, this makes four rows that hardly vary.
//!
//! Only whole groups of eight words take part, so that a row has whole bytes; the rest at the end stays
//! unchanged. Bit i of a byte belongs to the i-th of eight words, and the rows begin with the lowest bit of
//! the lowest byte.
//!
//! It is done in three passes over a block that stays in the first cache:
//!
//! ```text
//! words --shuffle:W--> W rows of bytes
//!       --each 8 bytes of a row, as a matrix of 8 x 8 bits, transposed-->
//!       --shuffle:8 of each row--> 8 W rows of bits
//! ```

use super::shuffle::{shuffle, unshuffle};
use crate::cpu::either;
use crate::scratch::parts::{Parts, part};
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The transform `bitshuffle:W`.
pub(crate) struct BitShuffle<const W: usize>;

pub(crate) static BIT_SHUFFLE_1: BitShuffle<1> = BitShuffle;
pub(crate) static BIT_SHUFFLE_2: BitShuffle<2> = BitShuffle;
pub(crate) static BIT_SHUFFLE_4: BitShuffle<4> = BitShuffle;
pub(crate) static BIT_SHUFFLE_8: BitShuffle<8> = BitShuffle;

impl<const W: usize> Step for BitShuffle<W> {
    fn name(&self) -> &'static str {
        match W {
            1 => "bitshuffle:1",
            2 => "bitshuffle:2",
            4 => "bitshuffle:4",
            _ => "bitshuffle:8",
        }
    }

    fn keeps_length(&self) -> bool {
        true
    }

    fn bound(&self, len: usize) -> usize {
        len
    }

    fn forward_scratch(&self, len: usize) -> usize {
        part::<u8>(len)
    }

    fn backward_scratch(&self, len: usize) -> usize {
        part::<u8>(len)
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let dst = dst.get_mut(..src.len())?;
        let end = src.len() / (8 * W) * (8 * W);
        let bytes = Parts::new(scratch.bytes(part::<u8>(src.len()))).take::<u8>(end);
        rows::<W>(&src[..end], bytes);
        transpose(bytes);
        for (from, to) in bytes.chunks_exact((end / W).max(1)).zip(dst.chunks_exact_mut((end / W).max(1))) {
            shuffle::<8>(from, to);
        }
        dst[end..].copy_from_slice(&src[end..]);
        Some(src.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if src.len() != dst.len() {
            return Err(Malformed);
        }
        let end = src.len() / (8 * W) * (8 * W);
        let bytes = Parts::new(scratch.bytes(part::<u8>(src.len()))).take::<u8>(end);
        for (from, to) in
            src[..end].chunks_exact((end / W).max(1)).zip(bytes.chunks_exact_mut((end / W).max(1)))
        {
            unshuffle::<8>(from, to);
        }
        transpose(bytes);
        unrows::<W>(bytes, &mut dst[..end]);
        dst[end..].copy_from_slice(&src[end..]);
        Ok(())
    }
}

fn rows<const W: usize>(src: &[u8], dst: &mut [u8]) {
    if W == 1 { dst.copy_from_slice(src) } else { shuffle::<W>(src, dst) }
}

fn unrows<const W: usize>(src: &[u8], dst: &mut [u8]) {
    if W == 1 { dst.copy_from_slice(src) } else { unshuffle::<W>(src, dst) }
}

/// Transposes each eight bytes as a matrix of bits. It is its own inverse.
fn transpose(bytes: &mut [u8]) {
    either!(transpose_avx2(bytes), transpose_each(bytes))
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn transpose_avx2(bytes: &mut [u8]) {
    transpose_each(bytes);
}

/// Exchanges squares beside the diagonal in three rounds: of 1, 2 and 4 bits a side. The compiler vectorises
/// this branchless loop.
#[inline(always)]
fn transpose_each(bytes: &mut [u8]) {
    for bytes in bytes.chunks_exact_mut(8) {
        let mut x = u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]);
        for (shift, mask) in
            [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)]
        {
            let swapped = (x ^ (x >> shift)) & mask;
            x ^= swapped ^ (swapped << shift);
        }
        bytes.copy_from_slice(&x.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::on_each_path;
    use std::vec;
    use std::vec::Vec;

    /// Bit by bit.
    fn naive(block: &[u8], w: usize) -> Vec<u8> {
        let words = block.len() / (8 * w) * 8;
        let mut out = vec![0; words * w];
        for word in 0..words {
            for bit in 0..8 * w {
                let value = block[word * w + bit / 8] >> (bit % 8) & 1;
                out[bit * (words / 8) + word / 8] |= value << (word % 8);
            }
        }
        out.extend(&block[words * w..]);
        out
    }

    fn check<const W: usize>() {
        let step = BitShuffle::<W>;
        for len in (0..600).chain([4095, 4096, 4097]) {
            let block: Vec<u8> = (0..len).map(|i| (i * i * 167 + i / 251 * 13) as u8).collect();
            let mut memory = crate::ScratchBuf::with_size(step.forward_scratch(len));
            on_each_path(|path| {
                let mut rows = vec![0xA5; len];
                assert_eq!(step.forward(&block, &mut rows, &mut memory.scratch()), Some(len));
                assert!(rows == naive(&block, W), "{W} {len} {path:?}");
                let mut again = vec![0xA5; len];
                step.backward(&rows, &mut again, &mut memory.scratch()).unwrap();
                assert!(again == block, "{W} {len} {path:?}");
            });
        }
    }

    #[test]
    fn bits_of_equal_rank_come_together() {
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
    }
}
