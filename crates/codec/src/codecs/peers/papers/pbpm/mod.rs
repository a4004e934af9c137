//! `pbpm`, `pbpm:tapes`, `pbpm:word`: pattern-based partial match, as L. Yang, R. Dick, H. Lekatsas and S.
//! Chakradhar published it for CRAMES (ACM TECS 9, 2010). A word of 32 bits is coded as a frequent pattern,
//! by similarity to one of 16 recent words, or as it is.
//!
//! | code | pattern | what follows | bits |
//! | --- | --- | --- | --- |
//! | 00 | zzzz: zero | | 2 |
//! | 01 | xxxx: anything | four bytes | 34 |
//! | 10 | mmmm: in the dictionary | index | 6 |
//! | 1100 | zzzx: one byte | the byte | 12 |
//! | 1101 | mmxx: two low bytes differ | index, two bytes | 24 |
//! | 1110 | mmmx: the low byte differs | index, one byte | 16 |
//! | 1111 | zxzx: two bytes, each under a zero | two bytes | 20 |
//!
//! Codes, indices and data go to tapes of their own. The second halves of four-bit codes have their own tape
//! as well, so that all codes are two bits wide and can be packed many at a time ([`pack`]). The three codecs
//! differ in the layout of the data ([`layout`]); docs/formats/pbpm.md has every byte.
//!
//! Where the paper leaves a choice: all words are little endian; the *third byte* is the one that holds bits
//! 16 to 23 (of the paper's patterns only `xmxx` shows it); the dictionary starts as zeros; an exact match
//! makes an entry the younger one (the paper asks for LRU, which saves 2 %); and a partial match is searched
//! for in both entries of a set, longest first.

mod dictionary;
mod layout;
pub mod patterns;

use core::marker::PhantomData;

use super::pack::{self, Values};
use crate::scratch::parts::{Parts, part};
use crate::steps::{Standalone, Step};
use crate::{CodecId, Malformed, Scratch, bytes};
pub(crate) use dictionary::{Dictionary, Match};
use layout::{Counts, Layout, Reader, Writer};

pub(crate) static PBPM: Standalone<Pbpm<layout::Flat>> =
    Standalone { step: Pbpm(PhantomData), id: CodecId::PBPM };
pub(crate) static PBPM_TAPES: Standalone<Pbpm<layout::Tapes>> =
    Standalone { step: Pbpm(PhantomData), id: CodecId::PBPM_TAPES };
pub(crate) static PBPM_WORD: Standalone<Pbpm<layout::Word>> =
    Standalone { step: Pbpm(PhantomData), id: CodecId::PBPM_WORD };

/// Codes of two bits, or the first halves of codes of four.
const ZZZZ: u8 = 0b00;
const XXXX: u8 = 0b01;
const MMMM: u8 = 0b10;
const LONG: u8 = 0b11;

/// The second halves, after [`LONG`].
const ZZZX: u8 = 0b00;
const MMXX: u8 = 0b01;
const MMMX: u8 = 0b10;
const ZXZX: u8 = 0b11;

/// The codec with the layout `L`.
pub(crate) struct Pbpm<L>(PhantomData<L>);

impl<L: Layout> Step for Pbpm<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    /// Two additional bits for each word if all are `xxxx`. The other tapes never take more than they save,
    /// except for the padding of their last groups and words.
    fn bound(&self, len: usize) -> usize {
        len.saturating_add(pack::codes_size(len / 4) + 16)
    }

    fn forward_scratch(&self, len: usize) -> usize {
        3 * part::<u8>(len / 4 + pack::CODES) + L::SPARE * part::<u8>(len / 2)
    }

    fn backward_scratch(&self, len: usize) -> usize {
        3 * part::<u8>(len / 4 + pack::CODES)
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let count = src.len() / 4;
        let mut parts = Parts::new(scratch.bytes(self.forward_scratch(src.len())));
        let [mut first, mut second, mut indices] =
            [(); 3].map(|()| Values::new(parts.take(count + pack::CODES)));
        let codes = pack::codes_size(count);
        let (words, tail) = bytes::words::<4>(src);
        // The packed parts at the end need at least this.
        let room = dst.len().checked_sub(tail.len())?;
        let mut data =
            L::Writer::new(&mut dst[..room], codes, [(); 2].map(|()| parts.take(L::SPARE * count)))?;
        let mut dictionary = Dictionary::new();
        for word in words.map(u32::from_le_bytes) {
            if word == 0 {
                first.push(ZZZZ);
                continue;
            }
            if word <= 0xFF {
                first.push(LONG);
                second.push(ZZZX);
                data.one(word as u8)?;
                continue;
            }
            if word & 0xFF00_FF00 == 0 {
                first.push(LONG);
                second.push(ZXZX);
                data.two([word as u8, (word >> 16) as u8])?;
                continue;
            }
            match dictionary.find(word) {
                Match::Full(index) => {
                    first.push(MMMM);
                    indices.push(index);
                    dictionary.touch(index);
                    continue;
                }
                Match::Three(index) => {
                    first.push(LONG);
                    second.push(MMMX);
                    indices.push(index);
                    data.one(word as u8)?;
                }
                Match::Two(index) => {
                    first.push(LONG);
                    second.push(MMXX);
                    indices.push(index);
                    data.two((word as u16).to_le_bytes())?;
                }
                Match::None => {
                    first.push(XXXX);
                    data.four(word.to_le_bytes())?;
                }
            }
            dictionary.insert(word);
        }
        let end = data.finish(&mut indices)?;
        let moved = pack::codes_size(second.len());
        if end + moved > room {
            return None;
        }
        dst.copy_within(codes..end, codes + moved);
        pack::pack_codes(second.padded(pack::CODES, 0), &mut dst[codes..codes + moved]);
        // As words, the padding would require data, so a block of another length is detected.
        pack::pack_codes(first.padded(pack::CODES, XXXX), &mut dst[..codes]);
        let end = end + moved;
        dst[end..end + tail.len()].copy_from_slice(tail);
        Some(end + tail.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let count = dst.len() / 4;
        let mut parts = Parts::new(scratch.bytes(self.backward_scratch(dst.len())));
        let [first, second, indices] = [(); 3].map(|()| parts.take::<u8>(count + pack::CODES));

        let (src, tail) = src.split_at(src.len().checked_sub(dst.len() % 4).ok_or(Malformed)?);
        let codes = src.get(..pack::codes_size(count)).ok_or(Malformed)?;
        pack::unpack_codes(codes, first);
        let (first, padding) = first[..count.next_multiple_of(pack::CODES)].split_at(count);
        if padding.iter().any(|&code| code != XXXX) {
            return Err(Malformed);
        }
        let occurs = |codes: &[u8], code: u8| codes.iter().filter(|&&c| c == code).count();
        let long = occurs(first, LONG);
        let rest = &src[codes.len()..];
        if rest.len() < pack::codes_size(long) {
            return Err(Malformed);
        }
        let (packed, rest) = rest.split_at(pack::codes_size(long));
        pack::unpack_codes(packed, second);
        let second = &second[..long];
        let by_kind = [ZZZX, MMXX, MMMX, ZXZX].map(|code| occurs(second, code));
        let counts = Counts {
            four: occurs(first, XXXX),
            two: by_kind[1] + by_kind[3],
            one: by_kind[0] + by_kind[2],
            indices: occurs(first, MMMM) + by_kind[1] + by_kind[2],
        };
        let (mut data, packed) = L::Reader::new(rest, &counts).ok_or(Malformed)?;
        pack::unpack_indices(packed, indices);

        // All tapes have the lengths that the codes require, so none of the defaults below is ever used.
        let mut second = second.iter().copied();
        let mut indices = indices.iter().copied();
        let mut index = || indices.next().unwrap_or_default();
        let mut dictionary = Dictionary::new();
        let mut words = dst.chunks_exact_mut(4);
        for (&code, to) in first.iter().zip(&mut words) {
            let word = match code {
                ZZZZ => 0,
                MMMM => {
                    let index = index();
                    dictionary.touch(index);
                    dictionary.get(index)
                }
                XXXX => {
                    let word = u32::from_le_bytes(data.four());
                    dictionary.insert(word);
                    word
                }
                _ => match second.next().unwrap_or_default() {
                    ZZZX => u32::from(data.one()),
                    ZXZX => {
                        let [low, high] = data.two();
                        u32::from(low) | u32::from(high) << 16
                    }
                    MMMX => {
                        let word = dictionary.get(index()) & !0xFF | u32::from(data.one());
                        dictionary.insert(word);
                        word
                    }
                    _ => {
                        let low = u16::from_le_bytes(data.two());
                        let word = dictionary.get(index()) & !0xFFFF | u32::from(low);
                        dictionary.insert(word);
                        word
                    }
                },
            };
            to.copy_from_slice(&word.to_le_bytes());
        }
        words.into_remainder().copy_from_slice(tail);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
