//! What the dense effort adds: literals in four parts, matches, and Huffman codes from fixed tables.
//!
//! ```text
//!   head | bits 0, 1 | matches | tables | sizes    | if there are matches: | distances | streams 0 .. 5 | plain parts
//!    1      16           1         4      6 or 10     1 table pair, length                                 R0 R1 R2 W
//!                                                     of more, more, lows
//! ```
//!
//! Literals of words that start from their reference are stored as differences from its bytes. They go to
//! three parts, since low bytes differ in other ways than high ones: R0 has those of byte 0, R1 of byte 1, R2
//! the others. Part W has the literals of all other words; in it, longer repetitions become **matches**
//! ([`matches`]).
//!
//! Nine **families** of symbols (the four parts, the flags, pairs of codes, masks, and two kinds that
//! describe matches) have fifteen tables of Huffman codes each ([`tables`]), made once from pages of many
//! programs. A piece names one for each family, or none for a part that would hardly shrink. No table is
//! stored or built.
//!
//! Six streams of bits let a decoder read six symbols at a time: symbol i of a part goes to stream i mod 6.

pub(crate) mod matches;
pub(crate) mod tables;

use crate::format::{LINES, MOST_BYTES, PIECE, WORDS};
use crate::ideas::{Idea, is_left_out};
use crate::scratch::SLACK;
use matches::{Found, MOST_MATCHES, MOST_MORE, PLACES};

/// Bit streams.
pub(crate) const STREAMS: usize = 6;
/// The most symbols of a piece, with what fills up parts to a multiple of [`STREAMS`]: flags, codes, masks,
/// two for each match, literals.
pub(crate) const MOST_SYMBOLS: usize =
    LINES + WORDS / 2 + WORDS + 2 * MOST_MATCHES + PIECE + FAMILIES * STREAMS;
/// The most bytes of a stream.
pub(crate) const MOST_STREAM: usize = MOST_SYMBOLS.div_ceil(STREAMS) * tables::MOST_BITS / 8 + 1;

/// Families of symbols.
pub(crate) const FAMILIES: usize = 9;
/// See [`FAMILIES`]: the four parts come first, in the order of plain parts.
pub(crate) mod family {
    pub const R0: usize = 0;
    pub const R1: usize = 1;
    pub const R2: usize = 2;
    pub const W: usize = 3;
    pub const FLAGS: usize = 4;
    pub const CODES: usize = 5;
    pub const MASKS: usize = 6;
    pub const TOKENS: usize = 7;
    pub const HIGHS: usize = 8;
}
/// The number that stands for no table: the part is plain.
pub(crate) const NO_TABLE: u8 = 15;
/// In the place of an eighth table: the sizes of streams take two bytes each.
pub(crate) const WIDE: u8 = 1;
/// The other sizes are stored as differences from the first, with this added.
pub(crate) const MIDDLE: usize = 128;

/// One in so many bytes of a part must be saved, or its Huffman code is not worth the decoder's time.
const LEAST_SAVED: usize = 16;
/// The same for part W.
const LEAST_SAVED_W: usize = 32;

/// The table for these symbols: the one with the shortest codes for them, among equals the first.
pub(crate) fn choose(family: usize, symbols: &[u8]) -> u8 {
    let mut bits = [0u16; tables::TABLES];
    for &symbol in symbols {
        for (bits, &length) in bits.iter_mut().zip(&tables::LENGTHS[family][usize::from(symbol)]) {
            *bits += u16::from(length);
        }
    }
    let tables = match () {
        () if is_left_out(Idea::Tables) => 1,
        () if is_left_out(Idea::MoreTables) => 8,
        () => tables::TABLES,
    };
    let (best, &least) = bits[..tables].iter().enumerate().min_by_key(|&(_, bits)| bits).unwrap_or((0, &0));
    if is_plain(family, symbols.len(), usize::from(least)) { NO_TABLE } else { best as u8 }
}

/// Whether a part is stored plain, of which `count` symbols take `bits`.
pub(crate) fn is_plain(family: usize, count: usize, bits: usize) -> bool {
    let least = match family {
        family::R0 | family::R1 | family::R2 => LEAST_SAVED,
        family::W => LEAST_SAVED_W,
        _ => return false,
    };
    bits * least > count * 8 * (least - 1)
}

/// What follows the bits, up to the further bytes of the matches' lengths.
pub(crate) struct Header {
    bytes: [u8; 5 + 2 * (STREAMS - 1) + 2],
    len: usize,
}

impl Header {
    /// The header of a piece with these matches, with a table for each family, and with streams of these
    /// sizes.
    pub(crate) fn new(found: &Found, tables: &[u8; FAMILIES], sizes: &[usize; STREAMS]) -> Self {
        let is_near = |size: &usize| (size + MIDDLE).wrapping_sub(sizes[0]) < 256;
        let is_wide = !sizes[1..STREAMS - 1].iter().all(is_near);
        let mut header = Header { bytes: [0; _], len: 0 };
        header.put(found.matches as u8);
        for pair in tables[..6].chunks(2) {
            header.put(pair[0] | pair[1] << 4);
        }
        header.put(tables[6] | if is_wide { WIDE << 4 } else { 0 });
        for (stream, size) in sizes[..STREAMS - 1].iter().enumerate() {
            if stream == 0 || is_wide {
                (*size as u16).to_le_bytes().into_iter().for_each(|byte| header.put(byte));
            } else {
                header.put((size + MIDDLE - sizes[0]) as u8);
            }
        }
        if found.matches > 0 {
            header.put(tables[family::TOKENS] | tables[family::HIGHS] << 4);
            header.put(found.more as u8);
        }
        header
    }

    fn put(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Working memory of the dense effort.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Rows {
    /// The parts R0, R1 and R2.
    pub r0: [u8; WORDS + SLACK],
    pub r1: [u8; WORDS + SLACK],
    pub r2: [u8; 6 * WORDS + SLACK],
    /// The literals of part W that no match covers.
    pub w: [u8; PIECE + SLACK],
    pub matches: matches::Rows,
    /// For the encoder: symbols with their families and tables. For the decoder, a part at a time.
    pub symbols: [u16; MOST_SYMBOLS + SLACK],
    pub streams: [[u8; MOST_STREAM + SLACK]; STREAMS],
    /// Where each four bytes of part W were seen last.
    pub places: [u16; PLACES],
    /// Part W of all dense pieces of the unit so far.
    pub all_w: [u8; MOST_BYTES + SLACK],
    /// How often each symbol of each family occurred.
    #[cfg(feature = "training")]
    pub counts: [[u32; 256]; FAMILIES],
}

impl Rows {
    pub(crate) const fn new() -> Self {
        Rows {
            r0: [0; WORDS + SLACK],
            r1: [0; WORDS + SLACK],
            r2: [0; 6 * WORDS + SLACK],
            w: [0; PIECE + SLACK],
            matches: matches::Rows::new(),
            symbols: [0; MOST_SYMBOLS + SLACK],
            streams: [[0; MOST_STREAM + SLACK]; STREAMS],
            places: [0; PLACES],
            all_w: [0; MOST_BYTES + SLACK],
            #[cfg(feature = "training")]
            counts: [[0; 256]; FAMILIES],
        }
    }
}

const _: () = assert!(MOST_MORE < 256 && MOST_MATCHES < 256);
