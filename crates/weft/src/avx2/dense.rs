//! Dense pieces: see [`crate::dense`] for their form.

use core::arch::x86_64::*;
use core::mem::offset_of;

use super::decode::{Parts, State as Decoder};
use super::encode::State as Encoder;
use super::vector::*;
use crate::dense::{
    FAMILIES, MIDDLE, MOST_STREAM, NO_TABLE, Rows, STREAMS, WIDE, family, is_plain, matches,
    tables::{CODES, LENGTHS, MOST_BITS, NO_CODE, SYMBOLS, TABLES, code, codes_at},
};
use crate::format::{LINE, LINES, PIECE, WORD, WORDS, head};
use crate::scratch::{self, MOST_FORM, SLACK};
use crate::{Malformed, Scratch};

/// Symbols that fit into a register of bits.
const AT_ONCE: usize = 56 / MOST_BITS;

/// What is known of each word once it has a code.
#[repr(align(64))]
struct Words {
    /// The mask of literals, without the two lowest bits where the word starts from its reference: those are
    /// in `low`, by line.
    masks: [u8; WORDS],
    low: [[u8; LINES]; 2],
    /// 0xff for words that start from their reference.
    of_reference: [u8; WORDS],
    /// How many literals of R2, and of W.
    r2: [u8; WORDS],
    w: [u8; WORDS],
}

impl Words {
    fn new() -> Self {
        Words {
            masks: [0; WORDS],
            low: [[0; LINES]; 2],
            of_reference: [0; WORDS],
            r2: [0; WORDS],
            w: [0; WORDS],
        }
    }

    /// Notes 32 words from `at` on, by their codes and masks.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    fn note(&mut self, at: usize, code: __m256i, mask: __m256i) {
        assert!(at <= WORDS - 32);
        let from_zero = from_zero(code);
        let of_reference = _mm256_andnot_si256(from_zero, mask);
        let rest = _mm256_andnot_si256(_mm256_andnot_si256(from_zero, all(3)), mask);
        let count = ones(rest);
        let low = [
            _mm256_movemask_epi8(_mm256_slli_epi16::<7>(of_reference)) as u32,
            _mm256_movemask_epi8(_mm256_slli_epi16::<6>(of_reference)) as u32,
        ];
        for (rows, bits) in self.low.iter_mut().zip(low) {
            rows[at / 8..][..4].copy_from_slice(&bits.to_le_bytes());
        }
        // SAFETY: rows of as many words.
        unsafe {
            store(self.masks.as_mut_ptr().add(at), rest);
            store(self.of_reference.as_mut_ptr().add(at), _mm256_xor_si256(from_zero, all(0xff)));
            store(self.r2.as_mut_ptr().add(at), _mm256_andnot_si256(from_zero, count));
            store(self.w.as_mut_ptr().add(at), _mm256_and_si256(from_zero, count));
        }
    }
}

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

impl Encoder<'_> {
    /// Writes a dense piece whose words have their codes and masks.
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    pub(super) fn dense(
        &mut self,
        first: usize,
        bits: [u64; 2],
        distances: usize,
        scratch: &mut Scratch,
        to: &mut [u8],
    ) -> Option<usize> {
        let codes_begin = self.words + first;
        let len = self.collect_dense(first, scratch, codes_begin);
        let Scratch { piece: rows, dense, .. } = scratch;
        // SAFETY: as many codes, and slack behind both rows.
        unsafe { pack_halves(rows.codes.as_mut_ptr(), len.codes, rows.halves.as_mut_ptr()) };
        let (begin, end) = (self.w, self.w + len.w);
        self.w = end;
        let Rows { r0, r1, r2, matches: found_rows, places, w, all_w, .. } = &mut *dense;
        let found = matches::find(&all_w[..end], begin, places, found_rows, w);

        let coded = [
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
        let (mut tables, mut symbols, mut plain) = ([0u8; FAMILIES + 1], 0, 0);
        for (family, from, count) in coded {
            if count == 0 {
                continue;
            }
            // SAFETY: the part, and slack behind it; at most as many symbols as there can be.
            unsafe {
                tables[family] = choose(family, from, count);
                if tables[family] == NO_TABLE {
                    plain += count;
                    continue;
                }
                let to = dense.symbols.as_mut_ptr().add(symbols);
                let table = _mm256_set1_epi16(codes_at(family, tables[family]) as i16);
                for at in (0..count).step_by(16) {
                    let wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(from.add(at).cast()));
                    store(to.add(at).cast(), _mm256_or_si256(wide, table));
                }
                let whole = count.next_multiple_of(STREAMS);
                for at in count..whole {
                    to.add(at).write(NO_CODE as u16);
                }
                symbols += whole;
            }
        }
        let mut sizes = [0; STREAMS];
        for (stream, size) in sizes.iter_mut().enumerate() {
            // SAFETY: every symbol is an entry of the table, and a stream has room for its part of all symbols.
            *size = unsafe { write_stream(&dense.symbols[..symbols], stream, &mut dense.streams[stream]) };
        }

        let is_near = |size: &usize| (size + MIDDLE).wrapping_sub(sizes[0]) < 256;
        let is_wide = !sizes[1..STREAMS - 1].iter().all(is_near);
        let sizes_len = if is_wide { 2 * (STREAMS - 1) } else { STREAMS };
        let matches_len = if found.matches > 0 { 2 + found.more + found.matches } else { 0 };
        let total = 1
            + 2 * (LINES / 8)
            + 1
            + 4
            + sizes_len
            + matches_len
            + distances
            + sizes.iter().sum::<usize>()
            + plain;
        if total > PIECE || total > to.len() {
            return None;
        }
        let last = if first + WORDS == self.words { head::LAST } else { 0 };
        let mut header = [0; 16];
        header[0] = found.matches as u8;
        for (pair, tables) in header[1..5].iter_mut().zip(tables.chunks_exact(2)) {
            *pair = tables[0] | tables[1] << 4;
        }
        let wide = if is_wide { WIDE } else { 0 };
        header[4] = tables[6] | wide << 4;
        header[5..7].copy_from_slice(&(sizes[0] as u16).to_le_bytes());
        for (number, size) in sizes[1..STREAMS - 1].iter().enumerate() {
            if is_wide {
                header[7 + 2 * number..][..2].copy_from_slice(&(*size as u16).to_le_bytes());
            } else {
                header[7 + number] = (size + MIDDLE - sizes[0]) as u8;
            }
        }
        // SAFETY: `total` bytes follow, and each part has them.
        unsafe {
            let mut out = to.as_mut_ptr();
            out.write(head::DENSE | last);
            out = put(out.add(1), bits.as_ptr().cast(), 2 * (LINES / 8));
            out = put(out, header.as_ptr(), 5 + sizes_len);
            if found.matches > 0 {
                out.write(tables[7] | tables[8] << 4);
                out.add(1).write(found.more as u8);
                out = put(out.add(2), dense.matches.more.as_ptr(), found.more);
                out = put(out, dense.matches.lows.as_ptr(), found.matches);
            }
            out = put(out, rows.distances.as_ptr(), distances);
            for (stream, size) in dense.streams.iter().zip(sizes) {
                out = put(out, stream.as_ptr(), size);
            }
            for (family, from, count) in &coded[5..] {
                if tables[*family] == NO_TABLE {
                    out = put(out, *from, *count);
                }
            }
            debug_assert_eq!(out.offset_from(to.as_ptr()), total as isize);
        }
        Some(total)
    }

    /// Collects the symbols of all parts: as `collect` of other efforts, but literals go to four parts.
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    fn collect_dense(&self, first: usize, scratch: &mut Scratch, codes_begin: usize) -> Lengths {
        let Scratch { codes, piece: rows, dense, .. } = scratch;
        let codes = &codes[..codes_begin + WORDS];
        let mut words = Words::new();
        for at in (0..WORDS).step_by(32) {
            // SAFETY: rows of as many words.
            unsafe {
                let (code, mask) =
                    (load(codes.as_ptr().add(codes_begin + at)), load(rows.masks.as_ptr().add(at)));
                words.note(at, code, mask);
            }
        }
        let mut len = Lengths::default();
        #[rustfmt::skip]
        let lows = _mm256_setr_epi8(
            0, 8, 1, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
            0, 8, 1, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        );
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
                let masks = load8(rows.masks.as_ptr().add(8 * line));
                store8(rows.own.as_mut_ptr().add(len.masks), gather(masks, has_own));
                len.masks += has_own.count_ones() as usize;
                let here = codes.as_ptr().add(codes_begin + 8 * line);
                let code = load8(here);
                let predicted = load8(here.sub(rows.back[line].into()));
                let differ = !_mm_movemask_epi8(_mm_cmpeq_epi8(code, predicted)) as u8;
                rows.flags[line] = differ;
                store8(rows.codes.as_mut_ptr().add(len.codes), gather(code, differ));
                len.codes += differ.count_ones() as usize;

                // Differences, or the words themselves.
                let of_reference = load8(words.of_reference.as_ptr().add(8 * line));
                let half = |half: usize, which: __m128i| {
                    let from = _mm256_and_si256(load(reference.add(32 * half)), _mm256_cvtepi8_epi64(which));
                    _mm256_sub_epi8(load(place.add(32 * half)), from)
                };
                let halves = [half(0, of_reference), half(1, _mm_srli_si128::<4>(of_reference))];
                let low = halves.map(|half| {
                    let low = _mm256_shuffle_epi8(half, lows);
                    _mm_unpacklo_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low))
                });
                let low = _mm_unpacklo_epi32(low[0], low[1]);
                store8(dense.r0.as_mut_ptr().add(len.r0), gather(low, words.low[0][line]));
                len.r0 += words.low[0][line].count_ones() as usize;
                store8(
                    dense.r1.as_mut_ptr().add(len.r1),
                    gather(_mm_srli_si128::<8>(low), words.low[1][line]),
                );
                len.r1 += words.low[1][line].count_ones() as usize;
                let r2_ends = sums(word(words.r2.as_ptr().add(8 * line)));
                let w_ends = sums(word(words.w.as_ptr().add(8 * line)));
                let (r2, w) =
                    (dense.r2.as_mut_ptr().add(len.r2), dense.all_w.as_mut_ptr().add(self.w + len.w));
                let pairs = [
                    _mm256_castsi256_si128(halves[0]),
                    _mm256_extracti128_si256::<1>(halves[0]),
                    _mm256_castsi256_si128(halves[1]),
                    _mm256_extracti128_si256::<1>(halves[1]),
                ];
                for (pair, two) in pairs.into_iter().enumerate() {
                    let masks = words.masks.as_ptr().add(8 * line + 2 * pair);
                    let literals = gather_two(two, masks.read(), masks.add(1).read());
                    for word in 2 * pair..2 * pair + 2 {
                        let bytes = if word % 2 == 0 { literals } else { _mm_srli_si128::<8>(literals) };
                        let begin = |ends: u64| usize::from(((ends << 8) >> (8 * word)) as u8);
                        // To both; what does not belong there is written over.
                        store8(r2.add(begin(r2_ends)), bytes);
                        store8(w.add(begin(w_ends)), bytes);
                    }
                }
                len.r2 += (r2_ends >> 56) as usize;
                len.w += (w_ends >> 56) as usize;
            }
        }
        len
    }
}

/// As [`crate::dense::choose`].
///
/// # Safety
/// `count` symbols can be read.
#[inline]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
unsafe fn choose(family: usize, symbols: *const u8, count: usize) -> u8 {
    let step = match family {
        family::FLAGS | family::CODES | family::MASKS | family::TOKENS => 1,
        _ => 2,
    };
    let lengths = LENGTHS[family].as_ptr();
    // SAFETY: the caller upholds the contract; the table has a row of eight lengths for each symbol.
    let lengths =
        |at: usize| unsafe { _mm_cvtepu8_epi16(load8(lengths.add(symbols.add(at).read().into()).cast())) };
    let (mut one, mut other) = (_mm_setzero_si128(), _mm_setzero_si128());
    let (mut at, mut sampled) = (0, 0);
    while at + step < count {
        one = _mm_add_epi16(one, lengths(at));
        other = _mm_add_epi16(other, lengths(at + step));
        at += 2 * step;
        sampled += 2;
    }
    if at < count {
        one = _mm_add_epi16(one, lengths(at));
        sampled += 1;
    }
    let least = _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_add_epi16(one, other))) as u32;
    if is_plain(family, sampled, (least & 0xffff) as usize) { NO_TABLE } else { (least >> 16) as u8 }
}

/// Writes the symbols of a stream, and returns its size.
///
/// # Safety
/// All symbols are places in [`CODES`], and the stream has room for them.
#[inline]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
unsafe fn write_stream(symbols: &[u16], stream: usize, to: &mut [u8; MOST_STREAM + SLACK]) -> usize {
    let (mut bits, mut have) = (0u64, 0);
    let mut out = to.as_mut_ptr();
    let put = |bits: &mut u64, have: &mut u32, symbol: u16| {
        // SAFETY: the caller upholds the contract.
        let (length, code) = code(unsafe { *CODES.get_unchecked(usize::from(symbol)) });
        *bits |= code << *have;
        *have += length;
    };
    // SAFETY: room for all symbols, and eight bytes more.
    unsafe {
        let mut rest = symbols.chunks_exact(STREAMS * AT_ONCE);
        for some in &mut rest {
            for number in 0..AT_ONCE {
                put(&mut bits, &mut have, *some.get_unchecked(number * STREAMS + stream));
            }
            set_word(out, bits);
            out = out.add(have as usize / 8);
            bits >>= have & !7;
            have &= 7;
        }
        for some in rest.remainder().chunks_exact(STREAMS) {
            put(&mut bits, &mut have, *some.get_unchecked(stream));
        }
        set_word(out, bits);
        out.offset_from(to.as_ptr()) as usize + (have as usize).div_ceil(8)
    }
}

/// The streams of a piece that is being read: for each, the next bits below a bit that marks their end, and
/// where they come from.
#[derive(Clone, Copy)]
struct Streams {
    bits: [u64; STREAMS],
    at: [*const u8; STREAMS],
}

impl Streams {
    const MARK: u64 = 1 << 63;

    /// Bits that were used up.
    #[inline(always)]
    fn used(&self, stream: usize) -> u32 {
        self.bits[stream].leading_zeros()
    }

    /// Makes at least 56 bits of each stream available.
    ///
    /// # Safety
    /// Eight bytes can be read behind what is used up.
    #[inline(always)]
    unsafe fn fill(&mut self) {
        for stream in 0..STREAMS {
            let used = self.used(stream);
            // SAFETY: the caller upholds the contract.
            unsafe {
                self.at[stream] = self.at[stream].add(used as usize / 8);
                self.bits[stream] = (word(self.at[stream]) | Self::MARK) >> (used % 8);
            }
        }
    }

    /// Reads `count` symbols, and writes up to five bytes more.
    ///
    /// # Safety
    /// There is room for them, and as many bytes behind each stream as its part of the symbols can take.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    unsafe fn read(&mut self, table: &[u16; 1 << MOST_BITS], to: *mut u8, count: usize) {
        let mut streams = *self;
        let next = |streams: &mut Streams, stream: usize, to: *mut u8| {
            let entry = table[(streams.bits[stream] & ((1 << MOST_BITS) - 1)) as usize];
            streams.bits[stream] >>= entry & 63;
            // SAFETY: the caller upholds the contract.
            unsafe { to.write((entry >> 8) as u8) };
        };
        let mut at = 0;
        // SAFETY: the caller upholds the contract.
        unsafe {
            while at + STREAMS * AT_ONCE <= count {
                streams.fill();
                for round in 0..AT_ONCE {
                    for stream in 0..STREAMS {
                        next(&mut streams, stream, to.add(at + STREAMS * round + stream));
                    }
                }
                at += STREAMS * AT_ONCE;
            }
            if at < count {
                streams.fill();
                while at + STREAMS <= count {
                    for stream in 0..STREAMS {
                        next(&mut streams, stream, to.add(at + stream));
                    }
                    at += STREAMS;
                }
                for stream in 0..count - at {
                    next(&mut streams, stream, to.add(at + stream));
                }
            }
        }
        *self = streams;
    }
}

impl Decoder {
    /// Restores the dense piece that begins at word `first`; returns the length of its form.
    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    pub(super) fn dense(
        &mut self,
        first: usize,
        form: &[u8],
        unit: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize, Malformed> {
        /// Bytes that may be read behind the form: all of a stream that begins at its end.
        const BEHIND: usize = MOST_STREAM + SLACK;
        const _: () = assert!(MOST_FORM + SLACK >= PIECE + BEHIND);
        let Scratch { codes, piece: rows, dense, .. } = scratch;
        // A longer one would have been stored.
        let size = form.len().min(PIECE - 1);
        let place = if form.len() >= size + BEHIND {
            form.as_ptr()
        } else {
            rows.form[..size].copy_from_slice(&form[..size]);
            rows.form.as_ptr()
        };
        let mut parts = Parts { form: place, used: 0, size };
        let bits = self.bits(&mut parts)?;
        // SAFETY: what was taken.
        let taken = |from: *const u8, at: usize| usize::from(unsafe { from.add(at).read() });
        let header = parts.take(5)?;
        let matches = taken(header, 0);
        let half = |number: usize| taken(header, 1 + number / 2) >> (4 * (number % 2)) & 15;
        let is_wide = match half(7) {
            0 => false,
            wide if wide == usize::from(WIDE) => true,
            _ => return Err(Malformed),
        };
        let mut tables = [0; FAMILIES];
        (0..7).for_each(|family| tables[family] = half(family));
        let sizes_at = parts.take(if is_wide { 2 * (STREAMS - 1) } else { STREAMS })?;
        let two = |at: usize| taken(sizes_at, at) | taken(sizes_at, at + 1) << 8;
        let mut sizes = [two(0); STREAMS - 1];
        for stream in 1..STREAMS - 1 {
            sizes[stream] = match is_wide {
                true => two(2 * stream),
                false => (sizes[0] + taken(sizes_at, 1 + stream)).checked_sub(MIDDLE).ok_or(Malformed)?,
            };
        }
        let (mut more, mut more_len, mut lows) = (place, 0, place);
        if matches > 0 {
            let pair = parts.take(2)?;
            (tables[7], tables[8]) = (taken(pair, 0) & 15, taken(pair, 0) >> 4);
            more_len = taken(pair, 1);
            more = parts.take(more_len)?;
            lows = parts.take(matches)?;
        }
        let is_none = |family: usize| family <= family::W && tables[family] == usize::from(NO_TABLE);
        if (0..FAMILIES).any(|family| tables[family] >= TABLES && !is_none(family)) {
            return Err(Malformed);
        }
        let table = |family: usize| &SYMBOLS[family][tables[family] % TABLES];

        let distances = parts.take(self.distances_len(bits))?;
        let mut ends = [place; STREAMS - 1];
        let mut streams = Streams { bits: [0; STREAMS], at: [place; STREAMS] };
        for (stream, (size, end)) in sizes.into_iter().zip(&mut ends).enumerate() {
            streams.at[stream] = parts.take(size)?;
            // SAFETY: behind the part.
            *end = unsafe { streams.at[stream].add(size) };
        }
        let begin_of_last = parts.take(0)?;
        streams.at[STREAMS - 1] = begin_of_last;
        // SAFETY: there is something behind the form.
        streams.bits = streams.at.map(|at| unsafe { word(at) } | Streams::MARK);
        let codes = &mut codes[..self.words + first + WORDS];
        let mut words = Words::new();
        // SAFETY: rows with slack for all symbols that there can be; `BEHIND` bytes behind the form.
        let (r0, r1, r2, w) = unsafe {
            streams.read(table(family::FLAGS), rows.flags.as_mut_ptr(), LINES);
            let flags =
                (0..LINES).step_by(8).map(|at| word(rows.flags.as_ptr().add(at)).count_ones() as usize);
            let count = flags.sum::<usize>();
            streams.read(table(family::CODES), rows.halves.as_mut_ptr(), count.div_ceil(2));
            for at in (0..count).step_by(32) {
                store(rows.codes.as_mut_ptr().add(at), unpack_halves(rows.halves.as_ptr().add(at / 2)));
            }
            let flags = rows.flags;
            self.lines(bits, distances, flags.as_ptr(), first, rows, codes)?;
            let codes = codes.as_ptr().add(self.words + first);
            let has_own =
                |at: usize| _mm256_movemask_epi8(_mm256_cmpgt_epi8(all(2), load(codes.add(at)))) as u32;
            let own = (0..WORDS).step_by(32).map(|at| has_own(at).count_ones() as usize).sum();
            streams.read(table(family::MASKS), rows.own.as_mut_ptr(), own);
            if matches > 0 {
                streams.read(table(family::TOKENS), dense.matches.tokens.as_mut_ptr(), matches);
                streams.read(table(family::HIGHS), dense.matches.highs.as_mut_ptr(), matches);
            }
            let mut own = rows.own.as_ptr();
            for at in (0..WORDS).step_by(32) {
                let code = load(codes.add(at));
                words.note(at, code, own_masks(code, &mut own));
            }
            let count = |counts: &[u8; WORDS]| {
                let mut lanes = _mm256_setzero_si256();
                for at in (0..WORDS).step_by(32) {
                    let bytes = load(counts.as_ptr().add(at));
                    lanes = _mm256_add_epi64(lanes, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
                }
                sum(lanes)
            };
            let low = |flags: &[u8; LINES]| {
                (0..LINES).step_by(8).map(|at| word(flags.as_ptr().add(at)).count_ones() as usize).sum()
            };
            (low(&words.low[0]), low(&words.low[1]), count(&words.r2), count(&words.w))
        };

        // SAFETY: `more_len` bytes.
        let more = unsafe { core::slice::from_raw_parts(more, more_len) };
        let mut lengths = [[0; 2]; matches::MOST_MATCHES];
        let covered = matches::lengths(&dense.matches.tokens[..matches], more, w, &mut lengths)?;
        let literals = w - covered;
        let begin = self.w;
        self.w += w;
        let counts = [r0, r1, r2, literals];
        let to = [
            dense.r0.as_mut_ptr(),
            dense.r1.as_mut_ptr(),
            dense.r2.as_mut_ptr(),
            if matches > 0 { dense.w.as_mut_ptr() } else { dense.all_w[begin..].as_mut_ptr() },
        ];
        for family in (0..4).filter(|family| !is_none(*family)) {
            // SAFETY: as above.
            unsafe { streams.read(table(family), to[family], counts[family]) };
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
                    let len = unsafe { end.offset_from(begin_of_last) };
                    parts.take(len as usize)?;
                }
            }
        }
        for family in (0..4).filter(|family| is_none(*family)) {
            // SAFETY: the part's bytes, and room for them.
            unsafe { put(to[family], parts.take(counts[family])?, counts[family]) };
        }
        if matches > 0 {
            // SAFETY: as many matches, whose lengths add up to at most what is covered.
            unsafe { apply(&lengths[..matches], lows, literals, begin, dense)? };
        }
        // SAFETY: as many literals as the words have.
        unsafe { words_from_parts(&words, rows, dense, begin, first, unit) };
        Ok(parts.used)
    }
}

/// Makes part W from its literals and matches.
///
/// # Safety
/// The lengths fit into the piece's part W, there is an offset for each, and as many literals as are not
/// covered.
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
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
                store(all.add(to + step), load(dense.w.as_ptr().add(from + step)));
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
                    let sixteen = _mm_loadu_si128(all.add(at - offset + step).cast());
                    _mm_storeu_si128(all.add(at + step).cast(), sixteen);
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
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
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
            let which = _mm_cvtsi64_si128(of_reference as i64);
            let from = |base: usize, ends: u64| {
                let begins = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((ends << 8) as i64));
                _mm256_add_epi32(begins, _mm256_set1_epi32(base as i32))
            };
            let place_of =
                _mm256_blendv_epi8(from(w, w_ends), from(r2, r2_ends), _mm256_cvtepi8_epi32(which));
            _mm256_store_si256(places.0.as_mut_ptr().cast(), place_of);
            (r2, w) = (r2 + (r2_ends >> 56) as usize, w + (w_ends >> 56) as usize);
            let masks = words.masks.as_ptr().add(8 * line);
            let two = |pair: usize| {
                let [one, other] =
                    [2 * pair, 2 * pair + 1].map(|word| load8(parts.add(places.0[word] as usize)));
                let masks = masks.add(2 * pair);
                spread_two(_mm_unpacklo_epi64(one, other), masks.read(), masks.add(1).read())
            };
            let low = _mm_unpacklo_epi8(
                spread(load8(r0), words.low[0][line]),
                spread(load8(r1), words.low[1][line]),
            );
            r0 = r0.add(words.low[0][line].count_ones() as usize);
            r1 = r1.add(words.low[1][line].count_ones() as usize);
            let literals = [
                _mm256_or_si256(_mm256_set_m128i(two(1), two(0)), _mm256_cvtepu16_epi64(low)),
                _mm256_or_si256(
                    _mm256_set_m128i(two(3), two(2)),
                    _mm256_cvtepu16_epi64(_mm_srli_si128::<8>(low)),
                ),
            ];
            let which = [_mm256_cvtepi8_epi64(which), _mm256_cvtepi8_epi64(_mm_srli_si128::<4>(which))];
            let half = |half: usize, from: *const u8| {
                _mm256_add_epi8(literals[half], _mm256_and_si256(which[half], load(from.add(32 * half))))
            };
            if bytes > at {
                let from = LINE - (bytes - at).min(LINE);
                if line == 0 && first == 0 {
                    let one = half(0, beginning.0.as_ptr().add(from));
                    store(beginning.0.as_mut_ptr().add(LINE), one);
                } else {
                    put(beginning.0.as_mut_ptr().add(LINE), unit, LINE);
                }
                let from = beginning.0.as_ptr().add(from);
                store(place, half(0, from));
                store(place.add(32), half(1, from));
            } else {
                // A line without references need not wait for the lines before it.
                let from = if of_reference == 0 { beginning.0.as_ptr() } else { place.sub(bytes) };
                store(place, half(0, from));
                store(place.add(32), half(1, from));
            }
        }
    }
}
