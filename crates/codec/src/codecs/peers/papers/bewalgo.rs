//! `bewalgo`: B. Warnke's page-based compressor (bachelor's thesis, Hamburg 2017; a step of zBeWalgo). It
//! applies LZ4's idea to units of eight bytes: runs of literal words and copies of earlier words, so that all
//! words stay aligned.
//!
//! ```text
//! +---------+---------------+---------------+---------+---   ---+------+
//! | control | words of half | words of half | control |   ...   | tail |
//! |         | one           | two           |         |         |      |
//! +---------+---------------+---------------+---------+---   ---+------+
//!
//! control     0          1        2    3     4          5        6    7
//!        +----------+--------+---------+----------+--------+---------+
//!        | literals | copied | distance | literals | copied | distance |
//!        +----------+--------+---------+----------+--------+---------+
//!              half one                       half two
//! ```
//!
//! A half describes a number of literal words, then a number of words copied from `distance` words back (16
//! bits, little endian). Either number may be zero; the distance is 0 if nothing is copied. The last control
//! is the one after which all whole words are decoded. The tail, less than a word, follows unchanged. The
//! author's format has the block's length in front; here the caller knows it.

use crate::bytes::{self, Out};
use crate::scratch::parts::{Parts, part};
use crate::steps::{Standalone, Step};
use crate::{CodecId, Malformed, Scratch};

pub(crate) static BEWALGO: Standalone<Bewalgo> = Standalone { step: Bewalgo, id: CodecId::BEWALGO };

/// The largest number of words of each kind in one half.
const MOST: usize = u8::MAX as usize;

/// The largest distance.
const FAR: usize = u16::MAX as usize;

/// After this many words without a match, only every second word is looked up, then every third, and so on.
const PATIENCE: usize = 32;

/// The codec `bewalgo`.
pub(crate) struct Bewalgo;

/// Binary logarithm of the hash table's size for this many words.
fn table_bits(words: usize) -> u32 {
    (usize::BITS - words.leading_zeros()).clamp(4, 12)
}

#[inline(always)]
fn load(src: &[u8], word: usize) -> u64 {
    match src[8 * word..].first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// A writer of halves.
struct Halves<'a> {
    out: Out<'a>,
    /// The position of the unused half, if the last control has one.
    free: Option<usize>,
}

impl Halves<'_> {
    /// Writes literal words, then a copy.
    fn put(&mut self, mut literals: &[u8], mut copied: usize, distance: usize) -> Option<()> {
        while !literals.is_empty() || copied > 0 {
            let half = match self.free.take() {
                Some(half) => half,
                None => {
                    let half = self.out.len();
                    self.out.put([0; 8])?;
                    self.free = Some(half + 4);
                    half
                }
            };
            let (now, rest) = literals.split_at(literals.len().min(8 * MOST));
            literals = rest;
            self.out.put_all(now)?;
            let copies = if rest.is_empty() { copied.min(MOST) } else { 0 };
            copied -= copies;
            let [near, far] = if copies > 0 { (distance as u16).to_le_bytes() } else { [0; 2] };
            self.out.all()[half..half + 4].copy_from_slice(&[(now.len() / 8) as u8, copies as u8, near, far]);
        }
        Some(())
    }
}

impl Step for Bewalgo {
    fn name(&self) -> &'static str {
        "bewalgo"
    }

    /// A half with a copy saves at least its own size; a half without a copy is full of literals or is the
    /// last one.
    fn bound(&self, len: usize) -> usize {
        len.saturating_add(4 * (len / 8 / MOST) + 12)
    }

    fn forward_scratch(&self, len: usize) -> usize {
        part::<u32>(1 << table_bits(len / 8))
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let (words, tail) = bytes::words::<8>(src);
        let count = words.len();
        let bits = table_bits(count);
        let table = Parts::new(scratch.bytes(part::<u32>(1 << bits))).take::<u32>(1 << bits);
        table.fill(0);
        let mut halves = Halves { out: Out::after(dst, 0)?, free: None };
        // Everything before `anchor` is written.
        let (mut anchor, mut at, mut misses) = (0, 0, 0);
        while at < count {
            let word = load(src, at);
            let hash = word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
            let from = core::mem::replace(&mut table[hash as usize], at as u32) as usize;
            if from >= at || at - from > FAR || load(src, from) != word {
                misses += 1;
                at += 1 + misses / PATIENCE;
                continue;
            }
            misses = 0;
            let distance = at - from;
            while at > anchor && at > distance && load(src, at - 1) == load(src, at - 1 - distance) {
                at -= 1;
            }
            let mut end = at + 1;
            while end < count && load(src, end) == load(src, end - distance) {
                end += 1;
            }
            halves.put(&src[8 * anchor..8 * at], end - at, distance)?;
            (anchor, at) = (end, end);
        }
        halves.put(&src[8 * anchor..8 * count], 0, 0)?;
        halves.out.put_all(tail)?;
        Some(halves.out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let end = dst.len() / 8 * 8;
        let (mut rest, mut made) = (src, 0);
        while made < end {
            let (control, after) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
            rest = after;
            for half in [&control[..4], &control[4..]] {
                let (literals, copied) = (8 * usize::from(half[0]), 8 * usize::from(half[1]));
                let distance = 8 * usize::from(u16::from_le_bytes([half[2], half[3]]));
                if made + literals + copied > end || literals > rest.len() {
                    return Err(Malformed);
                }
                let (now, after) = rest.split_at(literals);
                rest = after;
                dst[made..made + literals].copy_from_slice(now);
                made += literals;
                if (distance == 0) != (copied == 0) || distance > made {
                    return Err(Malformed);
                }
                copy_back(dst, made, distance, copied);
                made += copied;
            }
        }
        if rest.len() != dst.len() - end {
            return Err(Malformed);
        }
        dst[end..].copy_from_slice(rest);
        Ok(())
    }
}

/// Copies `len` bytes from `distance` bytes back, possibly overlapping.
#[inline]
fn copy_back(dst: &mut [u8], mut at: usize, distance: usize, mut len: usize) {
    if distance == 0 {
        return;
    }
    // The existing bytes are repeated; each round doubles their number.
    let from = at - distance;
    while len > 0 {
        let now = len.min(at - from);
        dst.copy_within(from..from + now, at);
        at += now;
        len -= now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Compressed};
    use std::vec::Vec;

    #[test]
    fn a_block_worked_by_hand() {
        // a b a a a a c, and three bytes.
        let (a, b, c) = ([1; 8], [2; 8], [3; 8]);
        let block: Vec<u8> = [a, b, a, a, a, a, c].concat().into_iter().chain([7, 8, 9]).collect();
        let wanted = [
            // Two literals and one word from two back; then three words from one back.
            &[2, 1, 2, 0, 0, 3, 1, 0][..],
            &a,
            &b,
            // One literal, and an empty half.
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &c,
            &[7, 8, 9],
        ]
        .concat();
        let mut memory = crate::ScratchBuf::for_codecs([&BEWALGO as &dyn Codec], block.len());
        let mut dst = [0; 128];
        let size = BEWALGO.compress(&block, &mut dst, usize::MAX, &mut memory.scratch());
        assert_eq!(size, Compressed::Fits(wanted.len()));
        assert_eq!(dst[..wanted.len()], wanted);
    }
}
