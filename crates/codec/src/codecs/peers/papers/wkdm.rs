//! `wkdm`: the compressor of P. Wilson and S. Kaplan (The Case for Compressed Caching in Virtual Memory
//! Systems, 1999), which macOS adopted. A word of 32 bits is zero, or is in a direct-mapped dictionary of 16
//! words, or shares its 22 high bits with one of these, or is missing there.
//!
//! ```text
//! +------------+----------------+-----------------+-----------------------+------+
//! | tags, 2 bit| missing words  | places, 4 bits  | low bits, 3 x 10 in   | tail |
//! | each       | 4 bytes each   | each            | 32 bits               |      |
//! +------------+----------------+-----------------+-----------------------+------+
//! ```
//!
//! The areas are those of the original, in its order. Its header (where each area begins) is left out, since
//! that follows from the tags; if the length is not a multiple of four, the last bytes follow unchanged. The
//! hash table is made like the original's, but with another random number generator. docs/formats/wkdm.md has
//! every byte.

use super::pack::{self, Values};
use crate::bytes::{self, Out};
use crate::scratch::parts::{Parts, part};
use crate::steps::{Standalone, Step};
use crate::{CodecId, Malformed, Scratch};

pub(crate) static WKDM: Standalone<Wkdm> = Standalone { step: Wkdm, id: CodecId::WKDM };

const ZERO: u8 = 0;
const PARTIAL: u8 = 1;
const MISS: u8 = 2;
const EXACT: u8 = 3;

/// Bits in which a partial match may differ.
const LOW: u32 = 10;
const LOW_MASK: u32 = (1 << LOW) - 1;

/// The place of a word in the dictionary, by its bits 10 to 17. Only zero has
/// place 0; the others are 17 times each of 1 to 15, shuffled. Part of the format.
static PLACES: [u8; 256] = places();

/// Shuffled as the sets of `pbpm` are, from 255 down to 2.
const fn places() -> [u8; 256] {
    let mut places = [0; 256];
    let mut i = 1;
    while i < 256 {
        places[i] = (i % 15 + 1) as u8;
        i += 1;
    }
    let mut x = 0_u32;
    let mut i = 255;
    while i > 1 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let j = (x >> 16) as usize % i + 1;
        let swapped = places[i];
        places[i] = places[j];
        places[j] = swapped;
        i -= 1;
    }
    places
}

#[inline(always)]
fn place(word: u32) -> u8 {
    PLACES[(word >> LOW & 0xFF) as usize] & 15
}

/// The codec `wkdm`.
pub(crate) struct Wkdm;

/// Bytes of this many low bits.
const fn low_size(count: usize) -> usize {
    count.div_ceil(3) * 4
}

impl Step for Wkdm {
    fn name(&self) -> &'static str {
        "wkdm"
    }

    /// Tags, if all words are missing; the other areas save more than they take, except for the padding of
    /// their last words.
    fn bound(&self, len: usize) -> usize {
        len.saturating_add(pack::codes_size(len / 4) + 8)
    }

    fn forward_scratch(&self, len: usize) -> usize {
        2 * part::<u8>(len / 4 + pack::CODES) + part::<u16>(len / 4 + 3)
    }

    fn backward_scratch(&self, len: usize) -> usize {
        2 * part::<u8>(len / 4 + pack::CODES)
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let count = src.len() / 4;
        let mut parts = Parts::new(scratch.bytes(self.forward_scratch(src.len())));
        let [mut tags, mut places] = [(); 2].map(|()| Values::new(parts.take(count + pack::CODES)));
        let (low, mut lows) = (parts.take::<u16>(count + 3), 0);
        let tags_size = pack::codes_size(count);
        let mut out = Out::after(dst, tags_size)?;
        let mut dictionary = [1_u32; 16];
        let (words, tail) = bytes::words::<4>(src);
        for word in words.map(u32::from_le_bytes) {
            let place = place(word);
            let known = &mut dictionary[usize::from(place)];
            if *known == word {
                tags.push(EXACT);
                places.push(place);
            } else if word == 0 {
                tags.push(ZERO);
            } else if *known >> LOW == word >> LOW {
                tags.push(PARTIAL);
                places.push(place);
                low[lows] = (word & LOW_MASK) as u16;
                lows += 1;
                *known = word;
            } else {
                tags.push(MISS);
                out.put(word.to_le_bytes())?;
                *known = word;
            }
        }
        let places = places.padded(pack::INDICES, 0);
        pack::pack_indices(places, out.skip(pack::indices_size(places.len()))?);
        low[lows..lows.next_multiple_of(3)].fill(0);
        for three in low[..lows.next_multiple_of(3)].chunks_exact(3) {
            let [a, b, c] = [three[0], three[1], three[2]].map(u32::from);
            out.put((a | b << LOW | c << (2 * LOW)).to_le_bytes())?;
        }
        out.put_all(tail)?;
        // As words, the padding would require data, so a block of another length is detected.
        pack::pack_codes(tags.padded(pack::CODES, MISS), &mut out.all()[..tags_size]);
        Some(out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let count = dst.len() / 4;
        let mut parts = Parts::new(scratch.bytes(self.backward_scratch(dst.len())));
        let [tags, places] = [(); 2].map(|()| parts.take::<u8>(count + pack::CODES));

        pack::unpack_codes(src.get(..pack::codes_size(count)).ok_or(Malformed)?, tags);
        let (tags, padding) = tags[..count.next_multiple_of(pack::CODES)].split_at(count);
        if padding.iter().any(|&tag| tag != MISS) {
            return Err(Malformed);
        }
        let occurs = |tag: u8| tags.iter().filter(|&&t| t == tag).count();
        let (partial, miss, exact) = (occurs(PARTIAL), occurs(MISS), occurs(EXACT));
        let sizes = [
            pack::codes_size(count),
            4 * miss,
            pack::indices_size(partial + exact),
            low_size(partial),
            dst.len() % 4,
        ];
        if src.len() != sizes.iter().sum() {
            return Err(Malformed);
        }
        let mut rest = src;
        let [_, missing, packed, low, tail] = sizes.map(|size| {
            let (area, after) = rest.split_at(size);
            rest = after;
            area
        });
        pack::unpack_indices(packed, places);

        // All areas have the lengths that the tags require, so none of the defaults below is ever used.
        let mut missing = bytes::words::<4>(missing).0.map(u32::from_le_bytes);
        let mut places = places.iter().copied();
        let mut low = bytes::words::<4>(low)
            .0
            .map(u32::from_le_bytes)
            .flat_map(|three| [three & LOW_MASK, three >> LOW & LOW_MASK, three >> (2 * LOW) & LOW_MASK]);
        let mut dictionary = [1_u32; 16];
        let mut words = dst.chunks_exact_mut(4);
        for (&tag, to) in tags.iter().zip(&mut words) {
            let word = match tag {
                ZERO => 0,
                MISS => {
                    let word = missing.next().unwrap_or_default();
                    dictionary[usize::from(place(word))] = word;
                    word
                }
                _ => {
                    let known = &mut dictionary[usize::from(places.next().unwrap_or_default() & 15)];
                    if tag == PARTIAL {
                        *known = *known & !LOW_MASK | low.next().unwrap_or_default();
                    }
                    *known
                }
            };
            to.copy_from_slice(&word.to_le_bytes());
        }
        words.into_remainder().copy_from_slice(tail);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Compressed};
    use std::vec::Vec;

    #[test]
    fn places_are_even_and_never_change() {
        assert_eq!(PLACES[..16], [0, 13, 9, 1, 13, 2, 2, 13, 4, 5, 15, 5, 3, 8, 15, 4]);
        assert!((1..16).all(|place| PLACES.iter().filter(|&&p| p == place).count() == 17));
        let sum = PLACES.iter().fold(0_u32, |sum, &place| sum.wrapping_mul(31).wrapping_add(place.into()));
        assert_eq!(sum, 2_707_775_080);
    }

    /// A block worked out by hand. Bits 10 to 17 of 0x400 are 1: place 13.
    #[test]
    fn every_tag() {
        let words: [u32; 7] = [
            0x0000_0000, // zero
            0x0000_0001, // exact, place 0: the dictionary starts as ones
            0x0000_0003, // partial, place 0, low bits 003
            0xABC0_0400, // missing
            0xABC0_07FF, // partial, place 13, low bits 3FF
            0xABC0_07FF, // exact, place 13
            0xABC0_0456, // partial, place 13, low bits 056
        ];
        let block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([0xEE]).collect();
        // 00 11 01 10 | 01 11 01, padding 10 | 10 ...
        let tags = [0b10_10_01_00, 0b10_10_11_11, 0b10_10_01_01, 0b10_10_10_10];
        let missing = [0x00, 0x04, 0xC0, 0xAB];
        // 0 0 13 13 | 13
        let places = [0xD0, 0x00, 0x0D, 0x0D];
        let low = (0x003_u32 | 0x3FF << 10 | 0x056 << 20).to_le_bytes();
        let wanted = [&tags[..], &missing, &places, &low, &[0xEE]].concat();

        let mut memory = crate::ScratchBuf::for_codecs([&WKDM as &dyn Codec], block.len());
        let mut dst = [0; 64];
        let size = WKDM.compress(&block, &mut dst, usize::MAX, &mut memory.scratch());
        assert_eq!(size, Compressed::Fits(wanted.len()));
        assert_eq!(dst[..wanted.len()], wanted);
    }
}
