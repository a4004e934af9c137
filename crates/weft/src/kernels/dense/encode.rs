//! From a piece whose words have their codes to its dense form.

use super::super::encode::State;
use super::super::half::Half;
use super::super::kernel;
use super::super::steps::*;
use super::super::wide::Wide;
use super::Words;
use super::streams::write_stream;
use crate::dense::{
    FAMILIES, Header, MOST_STREAM, MOST_SYMBOLS, NO_TABLE, Rows, STREAMS, family, is_plain, matches,
    tables::{LENGTHS, NO_CODE, codes_at},
};
use crate::format::{LINES, PIECE, WORD, WORDS, head};
use crate::scratch::SLACK;
use crate::scratch::Working;

/// The lengths of parts.
#[derive(Default)]
struct Lengths {
    codes: usize,
    masks: usize,
    r0: usize,
    r1: usize,
    r2: usize,
    w: usize,
}

impl State<'_> {
    /// Writes a dense piece whose words have their codes and masks.
    #[kernel]
    pub(in super::super) fn dense(
        &mut self,
        first: usize,
        bits: [u64; 2],
        distances: usize,
        scratch: &mut Working,
        to: &mut [u8],
    ) -> Option<usize> {
        let codes_begin = self.words + first;
        let len = self.collect_dense(first, scratch, codes_begin);
        let Working { piece: rows, dense, .. } = scratch;
        // SAFETY: as many codes, and slack behind both rows.
        unsafe { pack_halves(rows.codes.as_mut_ptr(), len.codes, rows.halves.as_mut_ptr()) };
        let (begin, end) = (self.w, self.w + len.w);
        self.w = end;
        let Rows { r0, r1, r2, matches: found_rows, places, w, all_w, symbols, streams, .. } = dense;
        let found = matches::find(&all_w[..end], begin, places, found_rows, w);

        let coded: [Part; FAMILIES] = [
            (family::FLAGS, rows.flags.as_ptr(), LINES),
            (family::CODES, rows.halves.as_ptr(), len.codes.div_ceil(2)),
            (family::MASKS, rows.own.as_ptr(), len.masks),
            (family::TOKENS, found_rows.tokens.as_ptr(), found.matches),
            (family::HIGHS, found_rows.highs.as_ptr(), found.matches),
            (family::R0, r0.as_ptr(), len.r0),
            (family::R1, r1.as_ptr(), len.r1),
            (family::R2, r2.as_ptr(), len.r2),
            (family::W, w.as_ptr(), found.literals),
        ];
        // SAFETY: these parts, and slack behind each; together not more than a piece can have.
        let (tables, sizes) = unsafe { code(&coded, symbols, streams) };
        let header = Header::new(&found, &tables, &sizes);
        let matches_len = if found.matches > 0 { found.more + found.matches } else { 0 };
        let plain = || coded[5..].iter().filter(|(family, ..)| tables[*family] == NO_TABLE);
        let plain_len = plain().map(|(.., count)| count).sum::<usize>();
        let head = self.head(first);
        let before_streams = head.len + 2 * (LINES / 8) + header.get().len() + matches_len + distances;
        let total = before_streams + sizes.iter().sum::<usize>() + plain_len;
        if total >= head.len + head.piece || total > to.len() {
            return None;
        }
        // SAFETY: `total` bytes follow, more than three, and each part has them.
        unsafe {
            let mut out = to.as_mut_ptr();
            out.cast::<[u8; 3]>().write(head.bytes(head::DENSE));
            out = put(out.add(head.len), bits.as_ptr().cast(), 2 * (LINES / 8));
            out = put(out, header.get().as_ptr(), header.get().len());
            if found.matches > 0 {
                out = put(out, found_rows.more.as_ptr(), found.more);
                out = put(out, found_rows.lows.as_ptr(), found.matches);
            }
            out = put(out, rows.distances.as_ptr(), distances);
            for (stream, size) in streams.iter().zip(sizes) {
                out = put(out, stream.as_ptr(), size);
            }
            for (_, from, count) in plain() {
                out = put(out, *from, *count);
            }
            debug_assert_eq!(out.offset_from(to.as_ptr()), total as isize);
        }
        Some(total)
    }

    /// Collects the symbols of all parts: as `collect` of other efforts, but literals go to four parts.
    #[kernel]
    fn collect_dense(&self, first: usize, scratch: &mut Working, codes_begin: usize) -> Lengths {
        let Working { codes, piece: rows, dense, .. } = scratch;
        let codes = &codes[..codes_begin + WORDS];
        let mut words = Words::new();
        for at in (0..WORDS).step_by(32) {
            // SAFETY: rows of as many words.
            unsafe {
                let (code, mask) = (
                    Wide::load(codes.as_ptr().add(codes_begin + at)),
                    Wide::load(rows.masks.as_ptr().add(at)),
                );
                words.note(at, code, mask);
            }
        }
        let mut len = Lengths::default();
        // The two lowest bytes of two words.
        const LOWS: [u8; 16] = [0, 8, 1, 9, !0, !0, !0, !0, !0, !0, !0, !0, !0, !0, !0, !0];
        let lows = Wide::twice(&LOWS);
        assert!(self.w + PIECE <= dense.all_w.len() - SLACK);
        for line in 0..LINES {
            let at = (first + line * 8) * WORD;
            // SAFETY: the line and its reference; rows for as many words as there are, and slack for sixteen bytes
            // more.
            unsafe {
                let place = self.unit.as_ptr().add(at);
                let reference = self.reference(at, usize::from(rows.chosen[line]));
                // The masks of words that have their own, and the codes that are not predicted.
                let has_own = rows.flags[line];
                let masks = Half::load8(rows.masks.as_ptr().add(8 * line));
                gather(masks, has_own).store8(rows.own.as_mut_ptr().add(len.masks));
                len.masks += has_own.count_ones() as usize;
                let here = codes.as_ptr().add(codes_begin + 8 * line);
                let code = Half::load8(here);
                let predicted = Half::load8(here.sub(rows.back[line].into()));
                let differ = !code.equal(predicted).signs() as u8;
                rows.flags[line] = differ;
                gather(code, differ).store8(rows.codes.as_mut_ptr().add(len.codes));
                len.codes += differ.count_ones() as usize;

                // Differences, or the words themselves.
                let of_reference = Half::load8(words.of_reference.as_ptr().add(8 * line));
                let half = |half: usize, which: Half| {
                    let from = Wide::load(reference.add(32 * half)).and(Wide::widen64_signed(which));
                    Wide::load(place.add(32 * half)).sub(from)
                };
                let halves = [half(0, of_reference), half(1, of_reference.skip::<4>())];
                let low = halves.map(|half| {
                    let low = half.shuffle(lows);
                    low.low().zip16(low.high())
                });
                let low = low[0].zip32(low[1]);
                gather(low, words.low[0][line]).store8(dense.r0.as_mut_ptr().add(len.r0));
                len.r0 += words.low[0][line].count_ones() as usize;
                gather(low.skip::<8>(), words.low[1][line]).store8(dense.r1.as_mut_ptr().add(len.r1));
                len.r1 += words.low[1][line].count_ones() as usize;
                let r2_ends = sums(word(words.r2.as_ptr().add(8 * line)));
                let w_ends = sums(word(words.w.as_ptr().add(8 * line)));
                let (r2, w) =
                    (dense.r2.as_mut_ptr().add(len.r2), dense.all_w.as_mut_ptr().add(self.w + len.w));
                let pairs = [halves[0].low(), halves[0].high(), halves[1].low(), halves[1].high()];
                for (pair, two) in pairs.into_iter().enumerate() {
                    let masks = words.masks.as_ptr().add(8 * line + 2 * pair);
                    let literals = gather_two(two, masks.read(), masks.add(1).read());
                    for word in 2 * pair..2 * pair + 2 {
                        let bytes = if word % 2 == 0 { literals } else { literals.skip::<8>() };
                        let begin = |ends: u64| usize::from(((ends << 8) >> (8 * word)) as u8);
                        // To both; what does not belong there is written over.
                        bytes.store8(r2.add(begin(r2_ends)));
                        bytes.store8(w.add(begin(w_ends)));
                    }
                }
                len.r2 += (r2_ends >> 56) as usize;
                len.w += (w_ends >> 56) as usize;
            }
        }
        len
    }
}

/// A part: its family, its symbols, and how many they are.
type Part = (usize, *const u8, usize);

/// Chooses a table for each part, and writes the streams. Returns the tables, and the sizes of the streams.
///
/// # Safety
/// The symbols of each part can be read, and `SLACK` bytes behind them; all together they are not more than a
/// piece can have.
#[inline]
#[kernel]
unsafe fn code(
    parts: &[Part],
    symbols: &mut [u16; MOST_SYMBOLS + SLACK],
    streams: &mut [[u8; MOST_STREAM + SLACK]; STREAMS],
) -> ([u8; FAMILIES], [usize; STREAMS]) {
    let (mut tables, mut len) = ([0; FAMILIES], 0);
    for &(family, from, count) in parts.iter().filter(|(.., count)| *count > 0) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            tables[family] = choose(family, from, count);
            if tables[family] == NO_TABLE {
                continue;
            }
            let to = symbols.as_mut_ptr().add(len);
            let table = Wide::all16(codes_at(family, tables[family]) as u16);
            for at in (0..count).step_by(16) {
                Wide::widen16(Half::load(from.add(at))).or(table).store(to.add(at).cast());
            }
            let whole = count.next_multiple_of(STREAMS);
            for at in count..whole {
                to.add(at).write(NO_CODE as u16);
            }
            len += whole;
        }
    }
    let mut sizes = [0; STREAMS];
    for (stream, size) in sizes.iter_mut().enumerate() {
        // SAFETY: every symbol is an entry of the table, and a stream has room for its part of all symbols.
        *size = unsafe { write_stream(&symbols[..len], stream, &mut streams[stream]) };
    }
    (tables, sizes)
}

/// As [`crate::dense::choose`].
///
/// # Safety
/// `count` symbols can be read.
#[inline]
#[kernel]
unsafe fn choose(family: usize, symbols: *const u8, count: usize) -> u8 {
    let lengths = LENGTHS[family].as_ptr();
    // SAFETY: the caller upholds the contract; the table has a row of sixteen lengths for each symbol.
    let lengths =
        |at: usize| unsafe { Wide::widen16(Half::load(lengths.add(symbols.add(at).read().into()).cast())) };
    let (mut one, mut other) = (Wide::zeros(), Wide::zeros());
    for at in (0..count - count % 2).step_by(2) {
        one = one.add16(lengths(at));
        other = other.add16(lengths(at + 1));
    }
    if count % 2 == 1 {
        one = one.add16(lengths(count - 1));
    }
    // The sixteenth is no table. Among equals the first is taken, so the lower half goes first.
    let bits = one.add16(other);
    let no_table = Half::new(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    let (low, high) = (bits.low().least16().first32(), bits.high().or(no_table).least16().first32());
    let (bits, table) =
        if low & 0xffff <= high & 0xffff { (low, low >> 16) } else { (high, 8 + (high >> 16)) };
    let least = (bits & 0xffff) as usize;
    if is_plain(family, count, least) { NO_TABLE } else { table as u8 }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::dense::tables::{MOST_BITS, TABLES};

    /// Symbols as often as each table expects them, so that most tables are chosen once.
    #[test]
    fn tables_are_chosen_as_in_the_reference() {
        if !crate::tests::paths().contains(&super::super::super::PATH) {
            return;
        }
        let mut seen = [[false; TABLES]; FAMILIES];
        for (family, seen) in seen.iter_mut().enumerate() {
            for table in 0..TABLES {
                let lengths = LENGTHS[family].iter().map(|row| row[table]).zip(0..=255);
                let mut symbols: Vec<u8> = lengths
                    .flat_map(|(length, symbol)| std::iter::repeat_n(symbol, 2 << (MOST_BITS as u8 - length)))
                    .collect();
                let len = symbols.len();
                let expected = crate::dense::choose(family, &symbols);
                symbols.resize(len + SLACK, 0);
                // SAFETY: the processor has these instructions, and as many symbols can be read.
                let chosen = unsafe { choose(family, symbols.as_ptr(), len) };
                assert_eq!(chosen, expected, "{family} {table}");
                if chosen != NO_TABLE {
                    seen[usize::from(chosen)] = true;
                }
            }
        }
        // Those of both halves of a vector.
        let count = |tables: std::ops::Range<usize>| {
            seen.iter().flat_map(|seen| &seen[tables.clone()]).filter(|seen| **seen).count()
        };
        assert!(count(0..8) > 40 && count(8..TABLES) > 40, "{seen:?}");
    }
}
