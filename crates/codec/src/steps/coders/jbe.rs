//! `jbe`: J-bit encoding (I. Suarjaya, 2012). Zero bytes are left out, and a bit for each byte marks them.
//! `jbe2` (zBeWalgo) first puts the high halves of eight bytes together, and likewise the low ones: numbers
//! below 16, which move-to-front produces often, leave zero bytes.
//!
//! ```text
//! +-----------------------+------------------------+
//! | a bit for each byte   | bytes that are not zero |
//! +-----------------------+------------------------+
//!
//! jbe2, of eight bytes    ah al  bh bl  ch cl  dh dl  eh el  fh fl  gh gl  hh hl
//! becomes                 el al  fl bl  gl cl  hl dl  eh ah  fh bh  gh ch  hh dh
//! ```
//!
//! Bit i of a byte of bits belongs to the i-th of eight bytes; it is one where no such byte exists. `jbe2`
//! leaves the last bytes unchanged if they are fewer than eight.

use crate::bytes::Out;
use crate::scratch::parts::{Parts, part};
use crate::steps::Step;
use crate::steps::transforms::zero::{expand, masks, masks_of, squeeze};
use crate::{Malformed, Scratch};

/// The step `jbe`; with the exchange of halves, `jbe2`.
pub(crate) struct JBit {
    pub halves: bool,
}

pub(crate) static JBE: JBit = JBit { halves: false };
pub(crate) static JBE2: JBit = JBit { halves: true };

impl Step for JBit {
    fn name(&self) -> &'static str {
        if self.halves { "jbe2" } else { "jbe" }
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(masks(len))
    }

    fn forward_scratch(&self, len: usize) -> usize {
        if self.halves { part::<u8>(len) } else { 0 }
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        if !self.halves {
            return encode(src, dst);
        }
        let moved = Parts::new(scratch.bytes(part::<u8>(src.len()))).take::<u8>(src.len());
        moved.copy_from_slice(src);
        swap_halves(moved);
        encode(moved, dst)
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (bits, rest) = src.split_at_checked(masks(dst.len())).ok_or(Malformed)?;
        if !expand(rest, bits, dst)?.is_empty() {
            return Err(Malformed);
        }
        if self.halves {
            swap_halves(dst);
        }
        Ok(())
    }
}

fn encode(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (bits, rest) = dst.split_at_mut_checked(masks(src.len()))?;
    masks_of(src, bits);
    let mut out = Out::after(rest, 0)?;
    squeeze(src, bits, &mut out)?;
    Some(bits.len() + out.len())
}

/// Exchanges the high halves of the first four bytes and the low halves of the last four. It is its own
/// inverse.
fn swap_halves(bytes: &mut [u8]) {
    for bytes in bytes.chunks_exact_mut(8) {
        for i in 0..4 {
            let (first, last) = (bytes[i], bytes[i + 4]);
            bytes[i] = first & 0x0F | last << 4;
            bytes[i + 4] = last & 0xF0 | first >> 4;
        }
    }
}
