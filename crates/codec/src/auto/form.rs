//! The form: the chain that made it, and the chain's result.
//!
//! ```text
//! place below 240     +-------+------------------------------+
//!                     | place | form of the chain there      |
//!                     +-------+------------------------------+
//! others              +-------------------+----------------+------------------------+
//!                     | 0xF0 | rest >> 8  | rest & 0xFF    | form of the chain      |   rest = place - 240
//!                     +-------------------+----------------+------------------------+
//! ```
//!
//! A **place** is a position in a table of the whole process that only grows. It begins with the chains of
//! [`KNOWN`], which are the same in every process and for ever; the chains of custom lists follow, in the
//! order in which they were first used. Decoding therefore does not depend on the encoder's list.
//!
//! Levels do not matter to a decoder: all chains that are undone in the same way share a place of [`KNOWN`].

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::pipeline::{Chain, PipelineTable};

/// Places that take one byte; the others take two.
const SHORT: usize = 240;

/// Places for the chains of custom lists.
const MORE: usize = 1024;

static TABLE: PipelineTable<MORE> = PipelineTable::new();

/// The places of these chains are the same in every process. Append-only: a chain keeps its place for ever,
/// or blocks of an older memfold would decode wrongly. Levels of a codec share a place, so any level will do.
const KNOWN: [&str; 65] = [
    "copy",
    "lz4",
    "zstd:1",
    "stride:1",
    "delta:4x1+bitshuffle:4+lz4",
    "delta:8x6+bitshuffle:8+lz4",
    "delta:2x1+bitshuffle:2+lz4",
    "bitshuffle:4+lz4",
    "delta:4x2+bitshuffle:4+lz4",
    "delta:8x6+shuffle:8+zstd:1",
    "shuffle:4+zstd:1",
    "shuffle:8+zstd:1",
    "delta:4x1+shuffle:4+zstd:1",
    "delta:2x2+bitshuffle:2+lz4",
    "xor:8x1+bitshuffle:8+lz4",
    "shuffle:2+zstd:1",
    "lagdelta:4+bitshuffle:4+zstd:1",
    "lagdelta:2+bitshuffle:2+zstd:1",
    "lagdelta:8+bitshuffle:8+zstd:1",
    "lagdelta:1+zstd:1",
    "lagdelta:2+zstd:1",
    "lagdelta:4+zstd:1",
    "lagdelta:8+zstd:1",
    "lagdelta:8+shuffle:8+zstd:1",
    "delta:2x1+bitshuffle:2+zstd:1",
    "delta:2x2+bitshuffle:2+zstd:1",
    "delta:4x1+bitshuffle:4+zstd:1",
    "delta:4x2+bitshuffle:4+zstd:1",
    "delta:8x1+bitshuffle:8+zstd:1",
    "delta:8x6+bitshuffle:8+zstd:1",
    "xor:8x1+bitshuffle:8+zstd:1",
    "bitshuffle:4+zstd:1",
    "bitshuffle:8+zstd:1",
    "bitshuffle:4+zerosup",
    "delta:4x2+bitshuffle:4+zerosup",
    "stride:1+huffman",
    "stride:1+range",
    "bwt+mtf+range",
    "delta:8x1+shuffle:8+bwt+mtf+range",
    "delta:4x1+shuffle:4+bwt+mtf+range",
    "range",
    "huffman",
    "delta:8x1+shuffle:8+zstd:1",
    "bitshuffle:8+lz4",
    "delta:4x1+bitshuffle:4+stride:1",
    "delta:8x6+bitshuffle:8+stride:1",
    "delta:2x1+bitshuffle:2+stride:1",
    "delta:8x5+stride:1",
    "delta:4x2+bitshuffle:4+stride:1",
    "delta:4x1+stride:1",
    "delta:8x1+shuffle:4+stride:1",
    "delta:8x5+shuffle:8+zstd:1",
    "delta:4x1+zstd:1",
    "delta:4x2+zstd:1",
    "delta:2x2+bitshuffle:2+stride:1",
    "xor:8x1+bitshuffle:8+stride:1",
    "xor:2x2+stride:1",
    "delta:4x1+lagdelta:4+zstd:1",
    "delta:8x1+lagdelta:8+zstd:1",
    "delta:4x1+lagdelta:4+bitshuffle:4+zstd:1",
    "lagdelta:4+lagdelta:4+bitshuffle:4+zstd:1",
    "delta:8x1+zstd:1",
    "shuffle:8+delta:1x1+zstd:1",
    "delta:4x1+bitshuffle:8+stride:1",
    "weft:1",
];

/// The known chains, parsed when first needed; zero before.
static FOUND: [AtomicU64; KNOWN.len()] = [const { AtomicU64::new(0) }; KNOWN.len()];

/// The position of a chain in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainIndex(u16);

impl ChainIndex {
    /// The place of a chain. If it has none, it is appended to the table. `None` if the table is full.
    pub(super) fn of(chain: Chain) -> Option<ChainIndex> {
        let alike = |other: Chain| {
            other.len() == chain.len()
                && other.elements().zip(chain.elements()).all(|(a, b)| a.number() == b.number())
        };
        let known = (0..KNOWN.len()).find(|&place| known(place).is_some_and(alike));
        match known {
            Some(place) => Some(ChainIndex(place as u16)),
            None => Some(ChainIndex(KNOWN.len() as u16 + TABLE.append(chain)?)),
        }
    }

    /// Its bytes in a form, and how many.
    pub(super) fn tag(self) -> ([u8; 2], usize) {
        match u8::try_from(self.0) {
            Ok(place) if usize::from(place) < SHORT => ([place, 0], 1),
            _ => {
                let [low, high] = (self.0 - SHORT as u16).to_le_bytes();
                ([SHORT as u8 + high, low], 2)
            }
        }
    }

    /// The chain that made `form`, and the chain's result; `None` if there is no chain at that place.
    #[inline]
    pub(super) fn split(form: &[u8]) -> Option<(Chain, &[u8])> {
        let (&first, rest) = form.split_first()?;
        match usize::from(first).checked_sub(SHORT) {
            None => Some((at(first.into())?, rest)),
            Some(high) => {
                let (&low, rest) = rest.split_first()?;
                Some((at(SHORT + (high << 8) + usize::from(low))?, rest))
            }
        }
    }
}

/// The chain at a place.
fn at(place: usize) -> Option<Chain> {
    match place.checked_sub(KNOWN.len()) {
        None => known(place),
        Some(more) => TABLE.get(u16::try_from(more).ok()?),
    }
}

/// The chain at a place of [`KNOWN`].
fn known(place: usize) -> Option<Chain> {
    let found = FOUND.get(place)?;
    Chain::from_number(found.load(Relaxed)).or_else(|| {
        // Any other thread that parses it at the same time gets the same result.
        let chain: Chain = KNOWN.get(place)?.parse().ok()?;
        found.store(chain.number(), Relaxed);
        Some(chain)
    })
}

/// All chains of the table in the order of their places.
pub(super) fn table() -> impl Iterator<Item = Chain> {
    (0..KNOWN.len()).filter_map(known).chain(TABLE.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_known_chain_is_one_of_this_build() {
        for (place, name) in KNOWN.iter().enumerate() {
            let chain = at(place).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(ChainIndex::of(chain), Some(ChainIndex(place as u16)), "{name} is there twice");
        }
    }

    #[test]
    fn presets_need_no_other_places() {
        for preset in &super::super::PRESETS {
            for chain in preset.list() {
                let place = ChainIndex::of(chain).unwrap();
                assert!(usize::from(place.0) < KNOWN.len(), "{chain:?} of {preset:?}");
            }
        }
    }

    #[test]
    fn tags_are_read_as_they_were_written() {
        for place in (0..300).chain([1000, 240 + 0xFFF]) {
            let (tag, len) = ChainIndex(place).tag();
            let read = match tag[0] {
                short @ 0..240 => usize::from(short),
                long => 240 + (usize::from(long - 240) << 8) + usize::from(tag[1]),
            };
            assert_eq!((read, len), (usize::from(place), if place < 240 { 1 } else { 2 }));
        }
    }

    #[test]
    fn levels_share_a_place_and_new_chains_get_one() {
        let place = |name: &str| ChainIndex::of(name.parse().unwrap()).unwrap();
        assert_eq!(place("zstd:1"), place("zstd:19"));
        assert_eq!(place("lz4"), place("lz4hc:9"));
        let new = place("xor:1x5+mtf");
        assert!(usize::from(new.0) >= KNOWN.len());
        assert_eq!(new, place("xor:1x5+mtf"));
        assert_eq!(at(new.0.into()), "xor:1x5+mtf".parse().ok());
        let (tag, len) = new.tag();
        let form: Vec<u8> = tag[..len].iter().copied().chain([7]).collect();
        assert_eq!(ChainIndex::split(&form), Some(("xor:1x5+mtf".parse().unwrap(), &[7][..])));
        for bad in [&[][..], &[SHORT as u8 - 1], &[0xF0], &[0xFF, 0xFF]] {
            assert_eq!(ChainIndex::split(bad), None, "{bad:?}");
        }
    }
}
