//! `zerosup`: leaves out zero bytes. A bit for each byte says whether it is zero. Where this pays, most of
//! the masks of these bits are zero themselves, so zero masks are left out in the same way.
//!
//! ```text
//! +--------------------+---------------------+-----------------+
//! | masks of masks     | masks, not the zero | bytes, not the  |
//! | a bit for 8 bytes  | ones                | zero ones       |
//! +--------------------+---------------------+-----------------+
//! ```
//!
//! Bit i of a mask belongs to the i-th of its eight bytes. The last masks have ones for bytes that do not
//! exist, so that a block of another length is detected.
//!
//! [`masks_of`], [`squeeze`] and [`expand`] do one such level, and serve `jbe` as well. AVX2 has no
//! instruction that moves selected bytes together, but it permutes eight bytes in any order, and there are
//! only 256 masks.

use crate::bytes::Out;
use crate::cpu::either;
use crate::scratch::parts::{Parts, part};
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The transform `zerosup`.
pub(crate) struct ZeroSuppression;

/// The number of masks for this many bytes.
pub(crate) const fn masks(len: usize) -> usize {
    len.div_ceil(8)
}

impl Step for ZeroSuppression {
    fn name(&self) -> &'static str {
        "zerosup"
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(masks(len) + masks(masks(len)))
    }

    fn forward_scratch(&self, len: usize) -> usize {
        part::<u8>(masks(len))
    }

    fn backward_scratch(&self, len: usize) -> usize {
        part::<u8>(masks(len))
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let count = masks(src.len());
        let first = Parts::new(scratch.bytes(part::<u8>(count))).take::<u8>(count);
        let (second, dst) = dst.split_at_mut_checked(masks(count))?;
        masks_of(src, first);
        masks_of(first, second);
        let mut out = Out::after(dst, 0)?;
        squeeze(first, second, &mut out)?;
        squeeze(src, first, &mut out)?;
        Some(second.len() + out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let count = masks(dst.len());
        let first = Parts::new(scratch.bytes(part::<u8>(count))).take::<u8>(count);
        let (second, rest) = src.split_at_checked(masks(count)).ok_or(Malformed)?;
        let rest = expand(rest, second, first)?;
        let rest = expand(rest, first, dst)?;
        if rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Eight bytes; missing ones are zeros.
#[inline(always)]
fn load(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// The bits of a mask for existing bytes.
#[inline(always)]
fn there(bytes: usize) -> u8 {
    if bytes >= 8 { 0xFF } else { !(0xFF << bytes) }
}

/// The mask of eight bytes.
#[inline(always)]
fn mask(word: u64) -> u8 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    // The high bit of each byte that is not zero; then these bits together.
    let set = (((word & LOW) + LOW) | word) & !LOW;
    ((set >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Fills `masks` with those of `src`, of which there are as many.
pub(crate) fn masks_of(src: &[u8], masks: &mut [u8]) {
    either!(masks_avx2(src, masks), masks_each(src, masks))
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn masks_avx2(src: &[u8], masks: &mut [u8]) {
    use core::arch::x86_64::*;
    let mut pieces = src.chunks_exact(32);
    let mut to = masks.chunks_exact_mut(4);
    for (piece, to) in pieces.by_ref().zip(to.by_ref()) {
        // SAFETY: `piece` has 32 bytes, and the caller has AVX2.
        let zero = unsafe {
            let bytes = _mm256_loadu_si256(piece.as_ptr().cast());
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256()))
        };
        to.copy_from_slice(&(!zero).to_le_bytes());
    }
    let done = src.len() / 32;
    masks_each(&src[32 * done..], &mut masks[4 * done..]);
}

#[inline(always)]
fn masks_each(src: &[u8], masks: &mut [u8]) {
    for (bytes, to) in src.chunks(8).zip(masks) {
        *to = mask(load(bytes)) | !there(bytes.len());
    }
}

/// Writes the bytes of `src` whose bits in `masks` are set; `None` if they do not fit.
pub(crate) fn squeeze(src: &[u8], masks: &[u8], out: &mut Out<'_>) -> Option<()> {
    either!(squeeze_avx2(src, masks, out), squeeze_each(src, masks, out))
}

fn squeeze_each(src: &[u8], masks: &[u8], out: &mut Out<'_>) -> Option<()> {
    for (bytes, &mask) in src.chunks(8).zip(masks) {
        squeeze_one(bytes, mask, out)?;
    }
    Some(())
}

#[inline(always)]
fn squeeze_one(bytes: &[u8], mask: u8, out: &mut Out<'_>) -> Option<()> {
    let mut mask = u32::from(mask & there(bytes.len()));
    while mask != 0 {
        out.put([*bytes.get(mask.trailing_zeros() as usize)?])?;
        mask &= mask - 1;
    }
    Some(())
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn squeeze_avx2(src: &[u8], masks: &[u8], out: &mut Out<'_>) -> Option<()> {
    use core::arch::x86_64::*;
    let mut pieces = src.chunks_exact(8);
    let mut masks = masks.iter();
    for (bytes, &mask) in pieces.by_ref().zip(masks.by_ref()) {
        let Some(to) = out.room::<8>() else {
            squeeze_one(bytes, mask, out)?;
            continue;
        };
        // SAFETY: `bytes` and `to` are eight bytes, as is each row of the table;
        // the caller has AVX2.
        unsafe {
            let order = _mm_loadl_epi64(TOGETHER[usize::from(mask)].as_ptr().cast());
            let bytes = _mm_loadl_epi64(bytes.as_ptr().cast());
            _mm_storel_epi64(to.as_mut_ptr().cast(), _mm_shuffle_epi8(bytes, order));
        }
        out.skip(mask.count_ones() as usize)?;
    }
    // `zip` has taken a mask only for a complete piece.
    squeeze_each(pieces.remainder(), masks.as_slice(), out)
}

/// Fills `dst` with the next byte of `src` where a bit of `masks` is set, and with zero elsewhere. Returns
/// the rest of `src`.
pub(crate) fn expand<'a>(src: &'a [u8], masks: &[u8], dst: &mut [u8]) -> Result<&'a [u8], Malformed> {
    let last = if dst.len().is_multiple_of(8) { 0xFF } else { there(dst.len() % 8) };
    let ones: usize = masks.iter().map(|mask| mask.count_ones() as usize).sum();
    let wanted = ones.checked_sub((!last).count_ones() as usize).ok_or(Malformed)?;
    let padded = masks.last().is_none_or(|mask| mask | last == 0xFF);
    if wanted > src.len() || !padded || masks.len() != self::masks(dst.len()) {
        return Err(Malformed);
    }
    expand_all(src, masks, dst);
    Ok(&src[wanted..])
}

fn expand_all(src: &[u8], masks: &[u8], dst: &mut [u8]) {
    either!(expand_avx2(src, masks, dst), expand_each(src, masks, dst))
}

fn expand_each(mut src: &[u8], masks: &[u8], dst: &mut [u8]) {
    dst.fill(0);
    for (to, &mask) in dst.chunks_mut(8).zip(masks) {
        src = expand_one(src, mask, to);
    }
}

/// The same, into bytes that are already zero.
#[inline(always)]
fn expand_one<'a>(mut src: &'a [u8], mask: u8, to: &mut [u8]) -> &'a [u8] {
    let mut mask = u32::from(mask);
    while mask != 0 {
        if let ([byte, rest @ ..], Some(to)) = (src, to.get_mut(mask.trailing_zeros() as usize)) {
            *to = *byte;
            src = rest;
        }
        mask &= mask - 1;
    }
    src
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn expand_avx2(mut src: &[u8], masks: &[u8], dst: &mut [u8]) {
    use core::arch::x86_64::*;
    let mut done = 0;
    for (to, &mask) in dst.chunks_exact_mut(8).zip(masks) {
        let Some(bytes) = src.first_chunk::<8>() else { break };
        // SAFETY: `bytes` and `to` are eight bytes, as is each row of the table;
        // the caller has AVX2.
        unsafe {
            let order = _mm_loadl_epi64(APART[usize::from(mask)].as_ptr().cast());
            let bytes = _mm_loadl_epi64(bytes.as_ptr().cast());
            _mm_storel_epi64(to.as_mut_ptr().cast(), _mm_shuffle_epi8(bytes, order));
        }
        src = &src[mask.count_ones() as usize..];
        done += 1;
    }
    expand_each(src, &masks[done..], &mut dst[8 * done..]);
}

/// For each place, which byte moves there when the bytes with a set bit move together.
#[cfg(target_arch = "x86_64")]
static TOGETHER: [[u8; 8]; 256] = orders(true);

/// For each place, which byte moves there when bytes move apart to the set bits; 0x80 makes a zero.
#[cfg(target_arch = "x86_64")]
static APART: [[u8; 8]; 256] = orders(false);

#[cfg(target_arch = "x86_64")]
const fn orders(together: bool) -> [[u8; 8]; 256] {
    let mut orders = [[0x80; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut place, mut rank) = (0, 0);
        while place < 8 {
            if mask >> place & 1 == 1 {
                if together {
                    orders[mask][rank] = place as u8;
                } else {
                    orders[mask][place] = rank as u8;
                }
                rank += 1;
            }
            place += 1;
        }
        mask += 1;
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::on_each_path;
    use std::vec;
    use std::vec::Vec;

    fn naive(block: &[u8]) -> Vec<u8> {
        let masks = |bytes: &[u8]| -> Vec<u8> {
            let bit = |c: &[u8], i: usize| u8::from(c.get(i).is_none_or(|&byte| byte != 0)) << i;
            bytes.chunks(8).map(|c| (0..8).map(|i| bit(c, i)).sum()).collect()
        };
        let first = masks(block);
        let more = first.iter().chain(block).copied().filter(|&byte| byte != 0);
        masks(&first).into_iter().chain(more).collect()
    }

    #[test]
    fn zeros_are_left_out() {
        for len in (0..300).chain([4095, 4096, 4097]) {
            for every in [1, 2, 3, 7, 50, 5000] {
                let block: Vec<u8> =
                    (0..len).map(|i| if i % every == 0 { (i % 255 + 1) as u8 } else { 0 }).collect();
                let wanted = naive(&block);
                let step = ZeroSuppression;
                let mut memory = crate::ScratchBuf::with_size(step.forward_scratch(len));
                on_each_path(|path| {
                    let mut out = vec![0xA5; step.bound(len)];
                    let size = step.forward(&block, &mut out, &mut memory.scratch());
                    assert_eq!(size, Some(wanted.len()), "{len} {every} {path:?}");
                    assert!(out[..wanted.len()] == wanted, "{len} {every} {path:?}");
                    // With exactly enough room, and with less.
                    let (exact, none) = out.split_at_mut(wanted.len());
                    assert_eq!(step.forward(&block, exact, &mut memory.scratch()), Some(wanted.len()));
                    assert_eq!(exact, wanted);
                    if let Some(less) = exact.len().checked_sub(1) {
                        let less = &mut exact[..less];
                        assert_eq!(step.forward(&block, less, &mut memory.scratch()), None);
                    }
                    let _ = none;
                    let mut again = vec![0xA5; len];
                    step.backward(&wanted, &mut again, &mut memory.scratch()).unwrap();
                    assert!(again == block, "{len} {every} {path:?}");
                });
            }
        }
    }
}
