//! `bewalgo2`: a step of zBeWalgo (B. Warnke, 2018). The block is a sequence of words of eight bytes.
//! Distinct words are numbered by first occurrence, and the sequence of numbers is coded in runs: one number
//! repeated, or numbers that count up, as those of new words always do.
//!
//! ```text
//! +---------------------------+-----------------------------+------+
//! | codes, 2 or 4 bytes each  | different words, 8 bytes ea.| tail |
//! +---------------------------+-----------------------------+------+
//!
//! code, 2 bytes  | number, 9 bits  | counts up | words - 1, 6 bits |
//! code, 4 bytes  | number, 23 bits | counts up | words - 1, 8 bits |
//!                 high bits                               low bits
//! ```
//!
//! Codes have two bytes if the block has at most 512 words, 4 KiB; all are little endian. They end when all
//! words of the block are decoded; there are as many distinct words as the largest number requires, and the
//! tail is less than a word. The original looks words up in an AVL tree; the hash table here gives the same
//! numbers, and is several times faster. The original also works from the end of the block to its beginning,
//! and has a header.

use crate::bytes::{self, Out};
use crate::scratch::parts::{Parts, part};
use crate::steps::{Standalone, Step};
use crate::{CodecId, Malformed, Scratch};

pub(crate) static BEWALGO2: Standalone<Bewalgo2> = Standalone { step: Bewalgo2, id: CodecId::BEWALGO2 };

/// The codec `bewalgo2`.
pub(crate) struct Bewalgo2;

/// The format of codes for a block of this many words.
#[derive(Debug, Clone, Copy)]
struct Codes {
    bytes: usize,
    count_bits: u32,
}

/// A decoded code.
#[derive(Debug, Clone, Copy)]
struct Run {
    number: usize,
    up: bool,
    words: usize,
}

impl Codes {
    fn of(words: usize) -> Self {
        if words <= 512 { Codes { bytes: 2, count_bits: 6 } } else { Codes { bytes: 4, count_bits: 8 } }
    }

    /// The longest run.
    fn most(self) -> usize {
        1 << self.count_bits
    }

    fn put(self, run: Run, out: &mut Out<'_>) -> Option<()> {
        let count = run.words as u32 - 1;
        let code =
            (run.number as u32) << (self.count_bits + 1) | u32::from(run.up) << self.count_bits | count;
        match self.bytes {
            2 => out.put((code as u16).to_le_bytes()),
            _ => out.put(code.to_le_bytes()),
        }
    }

    /// The first of `codes`, and the rest.
    fn next(self, codes: &[u8]) -> Option<(Run, &[u8])> {
        let (code, rest) = match self.bytes {
            2 => codes.split_first_chunk().map(|(code, rest)| (u16::from_le_bytes(*code).into(), rest))?,
            _ => codes.split_first_chunk().map(|(code, rest)| (u32::from_le_bytes(*code), rest))?,
        };
        let count = code & (self.most() as u32 - 1);
        let run = Run {
            number: (code >> (self.count_bits + 1)) as usize,
            up: code >> self.count_bits & 1 == 1,
            words: count as usize + 1,
        };
        Some((run, rest))
    }
}

/// Blocks with more words would need numbers that no code can hold.
const MOST_WORDS: usize = 1 << 23;

fn table_size(words: usize) -> usize {
    (2 * words).next_power_of_two().max(16)
}

/// The distinct words, and the table to find them.
struct Numbers<'a> {
    words: &'a mut [u64],
    len: usize,
    /// An open-addressed hash table of words: their numbers plus one.
    table: &'a mut [u32],
    shift: u32,
}

impl Numbers<'_> {
    /// The number of a word; new words get a new one.
    #[inline]
    fn number(&mut self, word: u64) -> usize {
        let mut at = (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            let found = self.table[at] as usize;
            if found == 0 {
                self.words[self.len] = word;
                self.len += 1;
                self.table[at] = self.len as u32;
                return self.len - 1;
            }
            if self.words[found - 1] == word {
                return found - 1;
            }
            at = (at + 1) & (self.table.len() - 1);
        }
    }
}

impl Step for Bewalgo2 {
    fn name(&self) -> &'static str {
        "bewalgo2"
    }

    /// A repeated word saves more than its code takes; new words are in runs, each of which ends when it is
    /// full or before a repeated word.
    fn bound(&self, len: usize) -> usize {
        len.saturating_add(4 * (len / 8 / 64) + 8)
    }

    fn forward_scratch(&self, len: usize) -> usize {
        part::<u64>(len / 8) + part::<u32>(table_size(len / 8))
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let (words, tail) = bytes::words::<8>(src);
        let count = words.len();
        if count > MOST_WORDS {
            return None;
        }
        let mut parts = Parts::new(scratch.bytes(self.forward_scratch(src.len())));
        let mut numbers = Numbers {
            words: parts.take(count),
            len: 0,
            table: parts.take(table_size(count)),
            shift: u64::BITS - table_size(count).trailing_zeros(),
        };
        numbers.table.fill(0);
        let codes = Codes::of(count);
        let room = dst.len();
        let mut out = Out::after(dst, 0)?;
        let mut words = words.map(u64::from_le_bytes);
        let mut ahead = words.next().map(|word| numbers.number(word));
        while let Some(first) = ahead {
            let mut next = || words.next().map(|word| numbers.number(word));
            ahead = next();
            let mut run = Run { number: first, up: ahead != Some(first), words: 1 };
            let step = usize::from(run.up);
            while ahead == Some(first + step * run.words) {
                run.words += 1;
                ahead = next();
            }
            while run.words > codes.most() {
                codes.put(Run { words: codes.most(), ..run }, &mut out)?;
                run.words -= codes.most();
                run.number += step * codes.most();
            }
            codes.put(run, &mut out)?;
            if out.len() + 8 * numbers.len > room {
                return None;
            }
        }
        for word in &numbers.words[..numbers.len] {
            out.put(word.to_le_bytes())?;
        }
        out.put_all(tail)?;
        Some(out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let count = dst.len() / 8;
        if count > MOST_WORDS {
            return Err(Malformed);
        }
        let codes = Codes::of(count);
        let (mut rest, mut made, mut different) = (src, 0, 0);
        while made < count {
            let (run, after) = codes.next(rest).ok_or(Malformed)?;
            rest = after;
            made += run.words;
            different = different.max(run.number + if run.up { run.words } else { 1 });
        }
        let (words, tail) = bytes::words::<8>(rest);
        if made != count || words.len() != different || tail.len() != dst.len() % 8 {
            return Err(Malformed);
        }
        let mut to = dst.chunks_exact_mut(8);
        let mut coded = src;
        while let Some((run, after)) = codes.next(coded).filter(|_| to.len() > 0) {
            coded = after;
            let to = to.by_ref().take(run.words);
            if run.up {
                let from = rest[8 * run.number..].chunks_exact(8);
                to.zip(from).for_each(|(to, from)| to.copy_from_slice(from));
            } else {
                let from = &rest[8 * run.number..8 * run.number + 8];
                to.for_each(|to| to.copy_from_slice(from));
            }
        }
        to.into_remainder().copy_from_slice(tail);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Compressed};
    use std::vec::Vec;

    #[test]
    fn a_block_worked_by_hand() {
        // Numbers 0 1 1 1 2 0 1, and a byte.
        let (a, b, c) = ([1; 8], [2; 8], [3; 8]);
        let block: Vec<u8> = [a, b, b, b, c, a, b].concat().into_iter().chain([9]).collect();
        let code = |number: u16, up: u16, words: u16| (number << 7 | up << 6 | (words - 1)).to_le_bytes();
        let codes = [code(0, 1, 2), code(1, 0, 2), code(2, 1, 1), code(0, 1, 2)];
        let wanted = [&codes.concat()[..], &a, &b, &c, &[9]].concat();
        let mut memory = crate::ScratchBuf::for_codecs([&BEWALGO2 as &dyn Codec], block.len());
        let mut dst = [0; 128];
        let size = BEWALGO2.compress(&block, &mut dst, usize::MAX, &mut memory.scratch());
        assert_eq!(size, Compressed::Fits(wanted.len()));
        assert_eq!(dst[..wanted.len()], wanted);
    }
}
