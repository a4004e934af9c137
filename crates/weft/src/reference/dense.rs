//! Dense pieces: [`crate::dense`] in plain Rust.

use super::decode::In;
use super::encode::Out;
use crate::Malformed;
use crate::dense::{
    FAMILIES, Header, MIDDLE, NO_TABLE, Rows, STREAMS, WIDE, choose, family, matches,
    tables::{CODES, MOST_BITS, SYMBOLS, TABLES, code, codes_at},
};
use crate::format::{LINES, WORDS};
use crate::ideas::{Idea, is_left_out};
use crate::scratch::Working;

/// The parts whose symbols an encoder has collected, but for those of the matches.
pub(super) struct Parts<'p> {
    pub flags: &'p [u8; LINES],
    /// Two codes in a byte.
    pub codes: &'p [u8],
    pub masks: &'p [u8],
    /// The lengths of R0, R1 and R2.
    pub of_reference: [usize; 3],
    pub distances: &'p [u8],
    /// Where the piece begins in part W of the unit.
    pub begin: usize,
    pub end: usize,
}

/// Writes a dense piece from its number of matches on.
pub(super) fn write(parts: &Parts<'_>, scratch: &mut Rows, out: &mut Out<'_>) -> Option<()> {
    #[cfg(feature = "training")]
    let counts = &mut scratch.counts;
    let Rows { r0, r1, r2, matches: rows, places, w, all_w, streams: bytes, .. } = scratch;
    // No matches are found in a part that is too short.
    let shorter = if is_left_out(Idea::Matches) { parts.begin } else { parts.end };
    let mut found = matches::find(&all_w[..shorter], parts.begin, places, rows, w);
    w[found.literals..][..parts.end - shorter].copy_from_slice(&all_w[shorter..parts.end]);
    found.literals += parts.end - shorter;
    let [r0_len, r1_len, r2_len] = parts.of_reference;
    // In the order of the streams.
    let coded = [
        (family::FLAGS, &parts.flags[..]),
        (family::CODES, parts.codes),
        (family::MASKS, parts.masks),
        (family::TOKENS, &rows.tokens[..found.matches]),
        (family::HIGHS, &rows.highs[..found.matches]),
        (family::R0, &r0[..r0_len]),
        (family::R1, &r1[..r1_len]),
        (family::R2, &r2[..r2_len]),
        (family::W, &w[..found.literals]),
    ];
    #[cfg(feature = "training")]
    for (family, symbols) in &coded {
        symbols.iter().for_each(|symbol| counts[*family][usize::from(*symbol)] += 1);
    }
    let mut tables = [0; FAMILIES];
    for (family, symbols) in coded.iter().filter(|(_, symbols)| !symbols.is_empty()) {
        tables[*family] = choose(*family, symbols);
    }
    let is_plain = |family: usize| tables[family] == NO_TABLE;
    let mut streams = Streams { bits: [(0, 0, 0); STREAMS], bytes };
    for (family, symbols) in coded.iter().filter(|(family, _)| !is_plain(*family)) {
        let codes = &CODES[codes_at(*family, tables[*family])..][..256];
        for (at, &symbol) in symbols.iter().enumerate() {
            streams.put(at % STREAMS, codes[usize::from(symbol)]);
        }
    }
    let sizes = streams.end();
    out.put(Header::new(&found, &tables, &sizes).get())?;
    if found.matches > 0 {
        out.put(&rows.more[..found.more])?;
        out.put(&rows.lows[..found.matches])?;
    }
    out.put(parts.distances)?;
    for (stream, size) in bytes.iter().zip(sizes) {
        out.put(&stream[..size])?;
    }
    let mut plain = coded[5..].iter().filter(|(family, _)| is_plain(*family));
    plain.try_for_each(|(_, symbols)| out.put(symbols))
}

/// Streams that are written.
struct Streams<'s, const BYTES: usize> {
    /// For each: bits that are not written yet, how many they are, and how many bytes are written.
    bits: [(u64, u32, usize); STREAMS],
    bytes: &'s mut [[u8; BYTES]; STREAMS],
}

impl<const BYTES: usize> Streams<'_, BYTES> {
    fn put(&mut self, stream: usize, entry: u16) {
        let (bits, have, len) = &mut self.bits[stream];
        let (length, code) = code(entry);
        *bits |= code << *have;
        *have += length;
        while *have >= 8 {
            self.bytes[stream][*len] = *bits as u8;
            (*bits, *have, *len) = (*bits >> 8, *have - 8, *len + 1);
        }
    }

    /// Writes the last bits, and returns the sizes in bytes.
    fn end(self) -> [usize; STREAMS] {
        let mut sizes = [0; STREAMS];
        for (stream, (bits, have, len)) in self.bits.into_iter().enumerate() {
            self.bytes[stream][len] = bits as u8;
            sizes[stream] = len + usize::from(have > 0);
        }
        sizes
    }
}

/// A dense piece that is being read. Its parts are in `Working::dense` as they become known.
pub(super) struct Reader<'i> {
    /// For each stream its bytes, and how many of its bits were read.
    streams: [(&'i [u8], usize); STREAMS],
    /// The sizes of all streams but the last.
    sizes: [usize; STREAMS - 1],
    tables: [u8; 9],
    matches: usize,
    more: &'i [u8],
    lows: &'i [u8],
}

impl<'i> Reader<'i> {
    /// Reads what comes before the distances. The streams follow those: see `begin`.
    pub(super) fn new(input: &mut In<'i>) -> Result<Self, Malformed> {
        let matches = usize::from(input.take(1)?[0]);
        let mut tables = [0; 9];
        let mut first = input.take_halves(8)?;
        tables[..7].iter_mut().zip(&mut first).for_each(|(table, half)| *table = half);
        let is_wide = match first.next() {
            Some(0) => false,
            Some(WIDE) => true,
            _ => return Err(Malformed),
        };
        let two =
            |input: &mut In<'i>| input.take(2).map(|two| usize::from(u16::from_le_bytes([two[0], two[1]])));
        let mut sizes = [two(input)?; STREAMS - 1];
        for at in 1..STREAMS - 1 {
            sizes[at] = match is_wide {
                true => two(input)?,
                false => (sizes[0] + usize::from(input.take(1)?[0])).checked_sub(MIDDLE).ok_or(Malformed)?,
            };
        }
        let (mut more, mut lows) = (&[][..], &[][..]);
        if matches > 0 {
            tables[7..].iter_mut().zip(input.take_halves(2)?).for_each(|(table, half)| *table = half);
            let count = usize::from(input.take(1)?[0]);
            more = input.take(count)?;
            lows = input.take(matches)?;
        }
        for (family, &table) in tables.iter().enumerate() {
            let may_be_plain = family <= family::W && table == NO_TABLE;
            if usize::from(table) >= TABLES && !may_be_plain {
                return Err(Malformed);
            }
        }
        Ok(Reader { streams: [(&[], 0); STREAMS], sizes, tables, matches, more, lows })
    }

    /// The streams begin here. The last one ends where its symbols do.
    pub(super) fn begin(&mut self, input: &mut In<'i>) -> Result<(), Malformed> {
        for (stream, size) in self.streams.iter_mut().zip(self.sizes) {
            stream.0 = input.take(size)?;
        }
        self.streams[STREAMS - 1].0 = input.0;
        Ok(())
    }

    /// Reads these symbols of a family from the streams.
    pub(super) fn symbols(&mut self, family: usize, to: &mut [u8]) {
        let table = &SYMBOLS[family][usize::from(self.tables[family])];
        for (at, to) in to.iter_mut().enumerate() {
            let (bytes, bit) = &mut self.streams[at % STREAMS];
            let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or(0));
            let there = byte(*bit / 8) | byte(*bit / 8 + 1) << 8;
            let bits = if *bit % 8 + MOST_BITS > 16 { there | byte(*bit / 8 + 2) << 16 } else { there };
            let entry = table[(bits >> (*bit % 8)) as usize & ((1 << MOST_BITS) - 1)];
            *to = (entry >> 8) as u8;
            *bit += usize::from(entry & 0xff);
        }
    }

    /// Reads the literals: those of R0, R1 and R2, of which there are so many, and those of W, of which `new`
    /// follow the `begin` of earlier pieces.
    pub(super) fn literals(
        mut self,
        counts: [usize; 3],
        [begin, new]: [usize; 2],
        input: &mut In<'i>,
        scratch: &mut Rows,
    ) -> Result<(), Malformed> {
        let (mut tokens, mut highs) = ([0; 255], [0; 255]);
        let (tokens, highs) = (&mut tokens[..self.matches], &mut highs[..self.matches]);
        if self.matches > 0 {
            self.symbols(family::TOKENS, tokens);
            self.symbols(family::HIGHS, highs);
        }
        let mut lengths = [[0; 2]; matches::MOST_MATCHES];
        let covered = matches::lengths(tokens, self.more, new, &mut lengths)?;
        let literals = new - covered;
        let Rows { r0, r1, r2, w, all_w, .. } = scratch;
        let mut parts =
            [&mut r0[..counts[0]], &mut r1[..counts[1]], &mut r2[..counts[2]], &mut w[..literals]];
        for (family, part) in parts.iter_mut().enumerate() {
            if self.tables[family] != NO_TABLE {
                self.symbols(family, part);
            }
        }
        let used = self.streams.map(|(_, bits)| bits.div_ceil(8));
        let is_whole = |stream: usize| used[stream] == self.streams[stream].0.len();
        if !(0..STREAMS - 1).all(is_whole) {
            return Err(Malformed);
        }
        input.take(used[STREAMS - 1])?;
        for (family, part) in parts.iter_mut().enumerate() {
            if self.tables[family] == NO_TABLE {
                part.copy_from_slice(input.take(part.len())?);
            }
        }

        let mut at = begin;
        let mut rest = &w[..literals];
        for (number, [before, length]) in lengths[..self.matches].iter().enumerate() {
            let (new, others) = rest.split_at(usize::from(*before));
            all_w[at..][..new.len()].copy_from_slice(new);
            (at, rest) = (at + new.len(), others);
            let offset = usize::from(u16::from_le_bytes([self.lows[number], highs[number]]));
            if offset == 0 || offset > at {
                return Err(Malformed);
            }
            for _ in 0..*length {
                all_w[at] = all_w[at - offset];
                at += 1;
            }
        }
        all_w[at..][..rest.len()].copy_from_slice(rest);
        Ok(())
    }
}

/// The number of literals of each part, for these words: masks, and whether they start from their reference.
pub(super) fn counts(masks: &[u8; WORDS], from_zero: impl Fn(usize) -> bool) -> ([usize; 3], usize) {
    let (mut of_reference, mut of_w) = ([0; 3], 0);
    for (word, mask) in masks.iter().enumerate() {
        if from_zero(word) {
            of_w += mask.count_ones() as usize;
        } else {
            let parts = [mask & 1, mask & 2, mask & !3];
            of_reference.iter_mut().zip(parts).for_each(|(count, part)| *count += part.count_ones() as usize);
        }
    }
    (of_reference, of_w)
}

/// Forgets the places of part W, for a unit, or since a piece is stored instead.
pub(super) fn forget(scratch: &mut Working) {
    scratch.dense.places.fill(0);
}
