//! From a dense form back to the piece.

use core::mem::offset_of;

use super::super::decode::{Parts, State};
use super::super::half::Half;
use super::super::kernel;
use super::super::steps::*;
use super::super::wide::Wide;
use super::streams::Streams;
use super::{Words, ones_of_lines};
use crate::Malformed;
use crate::dense::{
    FAMILIES, MIDDLE, MOST_STREAM, NO_TABLE, Rows, STREAMS, WIDE, family, matches,
    tables::{MOST_BITS, SYMBOLS, TABLES},
};
use crate::format::{LINE, LINES, PIECE, WORD, WORDS};
use crate::scratch::Working;
use crate::scratch::{self, MOST_FORM, SLACK};

impl State {
    /// Restores the dense piece that begins at word `first`; returns the length of its form.
    #[kernel]
    pub(in super::super) fn dense(
        &mut self,
        first: usize,
        form: &[u8],
        unit: &mut [u8],
        scratch: &mut Working,
    ) -> Result<usize, Malformed> {
        let Working { codes, piece: rows, dense, .. } = scratch;
        // The format has no longer ones: a whole piece would have been stored.
        let mut parts = Parts::new(form, PIECE - 1, BEHIND, rows);
        let bits = self.bits(&mut parts)?;
        let header = Header::take(&mut parts)?;
        let distances = parts.take(self.distances_len(bits))?;
        let (mut streams, ends) = header.streams(&mut parts)?;

        let codes = &mut codes[..self.words + first + WORDS];
        let mut words = Words::new();
        // SAFETY: rows with room for all symbols that there can be; `BEHIND` bytes behind the form.
        let lengths = unsafe {
            streams.read(header.table(family::FLAGS), rows.flags.as_mut_ptr(), LINES);
            let count = ones_of_lines(&rows.flags);
            streams.read(header.table(family::CODES), rows.halves.as_mut_ptr(), count.div_ceil(2));
            for at in (0..count).step_by(32) {
                unpack_halves(rows.halves.as_ptr().add(at / 2)).store(rows.codes.as_mut_ptr().add(at));
            }
            let flags = rows.flags;
            self.lines(bits, distances, flags.as_ptr(), first, rows, codes)?;
            let codes = &codes[self.words + first..];
            streams.read(header.table(family::MASKS), rows.own.as_mut_ptr(), count_own(codes));
            let mut own = rows.own.as_ptr();
            for at in (0..WORDS).step_by(32) {
                let code = Wide::load(codes.as_ptr().add(at));
                words.note(at, code, own_masks(code, &mut own));
            }
            if header.matches > 0 {
                streams.read(header.table(family::TOKENS), dense.matches.tokens.as_mut_ptr(), header.matches);
                streams.read(header.table(family::HIGHS), dense.matches.highs.as_mut_ptr(), header.matches);
            }
            words.lengths()
        };
        let begin = self.w;
        self.w += lengths[family::W];
        header.literals(lengths, begin, streams, ends, &mut parts, dense)?;
        // SAFETY: as many literals as the words have.
        unsafe { words_from_parts(&words, rows, dense, begin, first, unit) };
        Ok(parts.used)
    }
}

/// Bytes that may be read behind the form: all of a stream that begins at its end.
const BEHIND: usize = MOST_STREAM + SLACK;
const _: () = assert!(MOST_FORM + SLACK >= PIECE + BEHIND);

/// What comes before the distances.
struct Header {
    /// How many matches there are.
    matches: usize,
    /// The table of each family.
    tables: [usize; FAMILIES],
    /// The sizes of all streams but the last.
    sizes: [usize; STREAMS - 1],
    /// Further bytes of the matches' lengths, and the low bytes of their offsets.
    more: *const u8,
    more_len: usize,
    lows: *const u8,
}

impl Header {
    fn take(parts: &mut Parts) -> Result<Self, Malformed> {
        // SAFETY: for bytes that were taken.
        let byte = |from: *const u8, at: usize| usize::from(unsafe { from.add(at).read() });
        let first = parts.take(5)?;
        let matches = byte(first, 0);
        let half = |number: usize| byte(first, 1 + number / 2) >> (4 * (number % 2)) & 15;
        let is_wide = match half(7) {
            0 => false,
            wide if wide == usize::from(WIDE) => true,
            _ => return Err(Malformed),
        };
        let mut tables = [0; FAMILIES];
        (0..7).for_each(|family| tables[family] = half(family));
        let sizes_at = parts.take(if is_wide { 2 * (STREAMS - 1) } else { STREAMS })?;
        let two = |at: usize| byte(sizes_at, at) | byte(sizes_at, at + 1) << 8;
        let mut sizes = [two(0); STREAMS - 1];
        for stream in 1..STREAMS - 1 {
            sizes[stream] = match is_wide {
                true => two(2 * stream),
                false => (sizes[0] + byte(sizes_at, 1 + stream)).checked_sub(MIDDLE).ok_or(Malformed)?,
            };
        }
        let (mut more, mut more_len, mut lows) = (first, 0, first);
        if matches > 0 {
            let pair = parts.take(2)?;
            (tables[7], tables[8]) = (byte(pair, 0) & 15, byte(pair, 0) >> 4);
            more_len = byte(pair, 1);
            more = parts.take(more_len)?;
            lows = parts.take(matches)?;
        }
        let header = Header { matches, tables, sizes, more, more_len, lows };
        let is_wrong = |family: usize| header.tables[family] >= TABLES && !header.is_plain(family);
        if (0..FAMILIES).any(is_wrong) { Err(Malformed) } else { Ok(header) }
    }

    /// Whether the family is a part that is not coded.
    fn is_plain(&self, family: usize) -> bool {
        family <= family::W && self.tables[family] == usize::from(NO_TABLE)
    }

    fn table(&self, family: usize) -> &'static [u16; 1 << MOST_BITS] {
        &SYMBOLS[family][self.tables[family].min(TABLES - 1)]
    }

    /// The streams, which begin here, and the ends of all but the last.
    #[inline(always)]
    fn streams(&self, parts: &mut Parts) -> Result<(Streams, [*const u8; STREAMS - 1]), Malformed> {
        let mut at = [self.lows; STREAMS];
        let mut ends = [self.lows; STREAMS - 1];
        for (stream, (size, end)) in self.sizes.into_iter().zip(&mut ends).enumerate() {
            at[stream] = parts.take(size)?;
            // SAFETY: behind the part.
            *end = unsafe { at[stream].add(size) };
        }
        at[STREAMS - 1] = parts.take(0)?;
        // SAFETY: there is something behind the form.
        let bits = at.map(|at| unsafe { word(at) } | Streams::MARK);
        Ok((Streams { bits, at }, ends))
    }

    /// Reads the four parts, of these lengths; part W of the unit has `begin` bytes so far.
    #[inline]
    #[kernel]
    fn literals(
        &self,
        lengths: [usize; 4],
        begin: usize,
        mut streams: Streams,
        ends: [*const u8; STREAMS - 1],
        parts: &mut Parts,
        dense: &mut Rows,
    ) -> Result<(), Malformed> {
        // SAFETY: that many bytes were taken.
        let more = unsafe { core::slice::from_raw_parts(self.more, self.more_len) };
        let mut matches = [[0; 2]; matches::MOST_MATCHES];
        let [r0, r1, r2, w] = lengths;
        let covered = matches::lengths(&dense.matches.tokens[..self.matches], more, w, &mut matches)?;
        let counts = [r0, r1, r2, w - covered];
        let to = [
            dense.r0.as_mut_ptr(),
            dense.r1.as_mut_ptr(),
            dense.r2.as_mut_ptr(),
            if self.matches > 0 { dense.w.as_mut_ptr() } else { dense.all_w[begin..].as_mut_ptr() },
        ];
        let last_begins = parts.take(0)?;
        for family in (0..4).filter(|family| !self.is_plain(*family)) {
            // SAFETY: rows with room for as many literals; `BEHIND` bytes behind the form.
            unsafe { streams.read(self.table(family), to[family], counts[family]) };
        }
        // Each stream ends where the next part begins.
        for stream in 0..STREAMS {
            let used = streams.used(stream).div_ceil(8) as usize;
            // SAFETY: not farther than was read.
            let end = unsafe { streams.at[stream].add(used) };
            match ends.get(stream) {
                Some(expected) if *expected != end => return Err(Malformed),
                Some(_) => {}
                None => {
                    // SAFETY: both in the form, or behind it.
                    let len = unsafe { end.offset_from(last_begins) };
                    parts.take(len as usize)?;
                }
            }
        }
        for family in (0..4).filter(|family| self.is_plain(*family)) {
            // SAFETY: the part's bytes, and room for them.
            unsafe { put(to[family], parts.take(counts[family])?, counts[family]) };
        }
        if self.matches > 0 {
            // SAFETY: as many matches, whose lengths add up to at most the length of part W.
            unsafe { apply(&matches[..self.matches], self.lows, counts[3], begin, dense)? };
        }
        Ok(())
    }
}

/// How many words have a mask of their own, by their codes.
#[inline]
#[kernel]
fn count_own(codes: &[u8]) -> usize {
    let codes = &codes[..WORDS];
    let own = (0..WORDS).step_by(32).map(|at| {
        // SAFETY: 32 codes.
        let code = unsafe { Wide::load(codes.as_ptr().add(at)) };
        Wide::all(2).greater(code).signs().count_ones() as usize
    });
    own.sum()
}

/// Makes part W from its literals and matches.
///
/// # Safety
/// The lengths fit into the piece's part W, there is an offset for each, and as many literals as are not
/// covered.
#[kernel]
unsafe fn apply(
    lengths: &[[u16; 2]],
    lows: *const u8,
    literals: usize,
    begin: usize,
    dense: &mut Rows,
) -> Result<(), Malformed> {
    let all = dense.all_w.as_mut_ptr();
    let (mut at, mut used) = (begin, 0);
    // SAFETY: the caller upholds the contract; both rows have slack for 32 bytes more.
    unsafe {
        let copy = |to: usize, from: usize, count: usize| {
            for step in (0..count).step_by(32) {
                Wide::load(dense.w.as_ptr().add(from + step)).store(all.add(to + step));
            }
        };
        for (number, lengths) in lengths.iter().enumerate() {
            let [before, length] = lengths.map(usize::from);
            copy(at, used, before);
            (at, used) = (at + before, used + before);
            let offset = usize::from(lows.add(number).read()) | usize::from(dense.matches.highs[number]) << 8;
            if offset == 0 || offset > at {
                return Err(Malformed);
            }
            if offset >= 16 {
                for step in (0..length).step_by(16) {
                    Half::load(all.add(at - offset + step)).store(all.add(at + step));
                }
            } else {
                for step in 0..length {
                    all.add(at + step).write(all.add(at - offset + step).read());
                }
            }
            at += length;
        }
        copy(at, used, literals - used);
    }
    Ok(())
}

/// Puts words together: literals at their places, and the reference's bytes, to which differences are added.
///
/// # Safety
/// The parts have as many literals as the words, and slack behind them.
#[kernel]
unsafe fn words_from_parts(
    words: &Words,
    rows: &scratch::Rows,
    dense: &Rows,
    begin: usize,
    first: usize,
    unit: &mut [u8],
) {
    /// Zeros, and the first line of the unit behind them.
    #[repr(align(64))]
    struct Beginning([u8; 2 * LINE + SLACK]);
    #[repr(align(32))]
    struct Places([u32; 8]);
    let mut beginning = Beginning([0; 2 * LINE + SLACK]);
    let unit = unit[..(first + WORDS) * WORD].as_mut_ptr();
    let parts = (dense as *const Rows).cast::<u8>();
    let (mut r0, mut r1) = (dense.r0.as_ptr(), dense.r1.as_ptr());
    let (mut r2, mut w) = (offset_of!(Rows, r2), offset_of!(Rows, all_w) + begin);
    let mut places = Places([0; 8]);
    for line in 0..LINES {
        let at = (first + 8 * line) * WORD;
        let bytes = usize::from(rows.back[line]) * WORD;
        // SAFETY: the line; literals that the caller vouches for; a reference in the unit before the line, or in the
        // beginning.
        unsafe {
            let place = unit.add(at);
            let r2_ends = sums(word(words.r2.as_ptr().add(8 * line)));
            let w_ends = sums(word(words.w.as_ptr().add(8 * line)));
            let of_reference = word(words.of_reference.as_ptr().add(8 * line));
            let which = Half::of(of_reference);
            let from =
                |base: usize, ends: u64| Wide::widen32(Half::of(ends << 8)).add32(Wide::all32(base as u32));
            let place_of = from(w, w_ends).blend(from(r2, r2_ends), Wide::widen32_signed(which));
            place_of.store(places.0.as_mut_ptr().cast());
            (r2, w) = (r2 + (r2_ends >> 56) as usize, w + (w_ends >> 56) as usize);
            let masks = words.masks.as_ptr().add(8 * line);
            let two = |pair: usize| {
                let [one, other] =
                    [2 * pair, 2 * pair + 1].map(|word| Half::load8(parts.add(places.0[word] as usize)));
                let masks = masks.add(2 * pair);
                spread_two(one.zip64(other), masks.read(), masks.add(1).read())
            };
            let low =
                spread(Half::load8(r0), words.low[0][line]).zip(spread(Half::load8(r1), words.low[1][line]));
            r0 = r0.add(words.low[0][line].count_ones() as usize);
            r1 = r1.add(words.low[1][line].count_ones() as usize);
            let literals = [
                Wide::join(two(0), two(1)).or(Wide::widen16_to_64(low)),
                Wide::join(two(2), two(3)).or(Wide::widen16_to_64(low.skip::<8>())),
            ];
            let which = [Wide::widen64_signed(which), Wide::widen64_signed(which.skip::<4>())];
            let half = |half: usize, from: *const u8| {
                literals[half].add(which[half].and(Wide::load(from.add(32 * half))))
            };
            if bytes > at {
                let from = LINE - (bytes - at).min(LINE);
                if line == 0 && first == 0 {
                    let one = half(0, beginning.0.as_ptr().add(from));
                    one.store(beginning.0.as_mut_ptr().add(LINE));
                } else {
                    put(beginning.0.as_mut_ptr().add(LINE), unit, LINE);
                }
                let from = beginning.0.as_ptr().add(from);
                half(0, from).store(place);
                half(1, from).store(place.add(32));
            } else {
                // A line without references need not wait for the lines before it.
                let from = if of_reference == 0 { beginning.0.as_ptr() } else { place.sub(bytes) };
                half(0, from).store(place);
                half(1, from).store(place.add(32));
            }
        }
    }
}
