//! From a unit to its compressed form.

use super::half::Half;
use super::kernel;
use super::pack::{pack, write_packed};
use super::steps::*;
use super::wide::Wide;
use crate::Effort;
use crate::format::{
    FIRST_DISTANCES, LINE, LINE_WORDS, LINES, MASKS, PIECE, RAW, WORD, WORDS, ZERO, head, predicted_from,
};
use crate::reference::hash_bits;
use crate::scratch::Working;
use crate::scratch::{Rows, SLACK};

/// A line, and as many zeros before it: references of the unit's beginning.
#[repr(align(64))]
struct Beginning([u8; 2 * LINE + SLACK]);

/// What goes on from piece to piece.
pub(super) struct State<'u> {
    pub(super) unit: &'u [u8],
    /// Bytes of the unit before it was filled up.
    len: usize,
    /// Words of the unit.
    pub(super) words: usize,
    hash_bits: u32,
    distances: [usize; 2],
    /// Bytes of part W so far, of dense pieces.
    pub(super) w: usize,
    beginning: Beginning,
}

/// As [`reference::compress`](crate::reference::compress), for a unit of `len` bytes. `unit` is filled up
/// with zeros to whole pieces.
#[kernel]
pub(crate) fn compress(
    unit: &[u8],
    len: usize,
    to: &mut [u8],
    effort: Effort,
    scratch: &mut Working,
) -> Option<usize> {
    debug_assert!(unit.len() == len.next_multiple_of(PIECE));
    let words = unit.len() / WORD;
    let hash_bits = hash_bits(words);
    scratch.hashes[..1 << hash_bits].fill(0);
    scratch.codes[..words].fill(ZERO);
    let mut beginning = Beginning([0; 2 * LINE + SLACK]);
    if let Some(line) = unit.first_chunk::<LINE>() {
        beginning.0[LINE..2 * LINE].copy_from_slice(line);
    }
    if effort == Effort::Dense {
        scratch.dense.places.fill(0);
    }
    let mut state = State { unit, len, words, hash_bits, distances: FIRST_DISTANCES, w: 0, beginning };
    let mut used = 0;
    for first in (0..words).step_by(WORDS) {
        let (distances, w) = (state.distances, state.w);
        let room = &mut to[used..];
        used += match effort {
            Effort::Fastest => state.piece::<0>(first, scratch, room),
            Effort::Fast => state.piece::<1>(first, scratch, room),
            Effort::Packed => state.piece::<2>(first, scratch, room),
            Effort::Dense => state.piece::<3>(first, scratch, room),
        }
        .or_else(|| {
            (state.distances, state.w) = (distances, w);
            if effort == Effort::Dense {
                scratch.dense.places.fill(0);
            }
            scratch.codes[words + first..][..WORDS].fill(ZERO);
            let head = state.head(first);
            let (bytes, stored) = room.get_mut(..head.len + head.piece)?.split_at_mut(head.len);
            bytes.copy_from_slice(&head.bytes(head::STORED)[..head.len]);
            stored.copy_from_slice(&unit[first * WORD..][..head.piece]);
            Some(head.len + head.piece)
        })?;
    }
    Some(used)
}

/// How a piece begins.
pub(super) struct Head {
    /// What is added to its kind.
    flags: u8,
    /// Bytes of the piece.
    pub(super) piece: usize,
    /// Bytes of the head, with the piece's length if that follows.
    pub(super) len: usize,
}

impl Head {
    /// The head of a piece of this kind; `len` of these bytes.
    #[inline(always)]
    pub(super) fn bytes(&self, kind: u8) -> [u8; 3] {
        let [low, high] = (self.piece as u16).to_le_bytes();
        [kind | self.flags, low, high]
    }
}

impl State<'_> {
    /// The head of the piece that begins at word `first`.
    #[inline(always)]
    pub(super) fn head(&self, first: usize) -> Head {
        let is_last = first + WORDS == self.words;
        let piece = PIECE.min(self.len - first * WORD);
        let short = if piece < PIECE { head::SHORT } else { 0 };
        let last = if is_last { head::LAST } else { 0 };
        Head { flags: short | last, piece, len: if piece < PIECE { 3 } else { 1 } }
    }

    /// Writes the piece that begins at word `first`; `None` if it does not shrink, or there is no room.
    #[kernel]
    fn piece<const EFFORT: u8>(
        &mut self,
        first: usize,
        scratch: &mut Working,
        to: &mut [u8],
    ) -> Option<usize> {
        for lines in (0..LINES).step_by(8) {
            self.hash(first, lines, scratch);
            propose::<EFFORT>(&self.unit[first * WORD..], lines, &mut scratch.piece);
        }
        let (bits, distances) = self.choose::<EFFORT>(first, &mut scratch.piece);
        let codes = self.words + first;
        self::codes(&mut scratch.piece, &mut scratch.codes[codes..]);
        if EFFORT == 3 {
            return self.dense(first, bits, distances, scratch, to);
        }
        let piece = &self.unit[first * WORD..][..PIECE];
        let parts = collect(piece, &mut scratch.piece, &scratch.codes[..codes + WORDS], codes);
        let packed = if EFFORT >= 2 { pack(&mut scratch.piece, parts.literals) } else { None };

        let head = self.head(first);
        let before = head.len + 2 * (LINES / 8) + distances + LINES + parts.codes.div_ceil(2) + parts.own;
        let total = before
            + match &packed {
                None => parts.literals,
                Some(packed) => {
                    16 + parts.literals.div_ceil(8) + packed.common.div_ceil(2) + parts.literals
                        - packed.common
                }
            };
        if total >= head.len + head.piece || total > to.len() {
            return None;
        }
        // SAFETY: that many bytes follow, more than three, and each part has them.
        unsafe {
            let rows = &mut scratch.piece;
            pack_halves(rows.codes.as_mut_ptr(), parts.codes, rows.halves.as_mut_ptr());
            let mut out = to.as_mut_ptr();
            let kind = if packed.is_some() { head::PACKED } else { head::PLAIN };
            out.cast::<[u8; 3]>().write(head.bytes(kind));
            out = put(out.add(head.len), bits.as_ptr().cast(), 2 * (LINES / 8));
            out = put(out, rows.distances.as_ptr(), distances);
            out = put(out, rows.flags.as_ptr(), LINES);
            out = put(out, rows.halves.as_ptr(), parts.codes.div_ceil(2));
            out = put(out, rows.own.as_ptr(), parts.own);
            match packed {
                None => put(out, rows.literals.as_ptr(), parts.literals),
                Some(packed) => write_packed(rows, parts.literals, &packed, out),
            };
        }
        Some(total)
    }

    /// Pass 1: hashes each word of eight lines, and finds out where its hash was seen last.
    #[kernel]
    fn hash(&self, first: usize, lines: usize, scratch: &mut Working) {
        let (rows, table) = (&mut scratch.piece, scratch.hashes.as_mut_ptr());
        let from = &self.unit[(first + lines * LINE_WORDS) * WORD..][..8 * LINE];
        let eight = Wide::widen32(Half::of(EIGHT));
        for line in 0..8 {
            let number = first + (lines + line) * LINE_WORDS;
            // SAFETY: the line, and eight entries of the rows. The table has an entry for every index of that
            // many bits.
            unsafe {
                let line_at = from.as_ptr().add(line * LINE);
                let (low, high) = (Wide::load(line_at), Wide::load(line_at.add(32)));
                let hash = hash_words(low).lower64(hash_words(high));
                let index = hash.shr32_by(32 - self.hash_bits);
                let numbers = Wide::all32(number as u32).add32(eight);
                let now = rows.now.as_mut_ptr().add(line * 8);
                hash.shl32::<16>().or(numbers).store(now.cast());
                let last = rows.last.as_mut_ptr().add(line * 8);
                for (pair, two) in index.words().into_iter().enumerate() {
                    let one = table.add(two as u32 as usize);
                    last.add(2 * pair).write(one.read());
                    one.write(now.add(2 * pair).read());
                    let other = table.add((two >> 32) as usize);
                    last.add(2 * pair + 1).write(other.read());
                    other.write(now.add(2 * pair + 1).read());
                }
            }
        }
    }

    /// The reference of the line at byte `at`.
    ///
    /// # Safety
    /// The distance is at most eight words longer than what lies before the line.
    #[inline(always)]
    pub(super) unsafe fn reference(&self, at: usize, distance: usize) -> *const u8 {
        let bytes = distance * WORD;
        // SAFETY: in the beginning, or in the unit before the line.
        unsafe {
            if bytes > at {
                self.beginning.0.as_ptr().add(LINE + at - bytes)
            } else {
                self.unit.as_ptr().add(at - bytes)
            }
        }
    }

    /// Pass 3: each line's distance, and which bytes differ from zero and from the reference. Returns the
    /// bits that say how distances are written, and how many bytes they take.
    #[kernel]
    fn choose<const EFFORT: u8>(&mut self, first: usize, rows: &mut Rows) -> ([u64; 2], usize) {
        let [mut now, mut before] = self.distances;
        let is_single = self.words == WORDS;
        let (mut bits, mut len) = ([0u64; 2], 0);
        for line in 0..LINES {
            let at = (first + line * LINE_WORDS) * WORD;
            // SAFETY: a line of the unit, and references that lie in the unit or in the beginning: every
            // distance that is tried is at most eight words longer than what lies before the line.
            unsafe {
                let place = self.unit.as_ptr().add(at);
                let own = (Wide::load(place), Wide::load(place.add(32)));
                let reference = |distance: usize| self.reference(at, distance);
                let zeros = [own.0, own.1].map(|half| u64::from(half.equal(Wide::zeros()).signs()));
                let not_zero = !(zeros[0] | zeros[1] << 32);
                set_word(rows.not_zero.as_mut_ptr().add(8 * line), not_zero);
                let score = |distance: usize, bonus: u32| {
                    let agree = (equal(own, reference(distance)) & not_zero).count_ones() + bonus;
                    agree << 13 | distance as u32
                };
                let [one, two, three] = [0, 1, 2].map(|number| usize::from(rows.tries[number][line]));
                let best = match EFFORT {
                    0 => {
                        if one != 0 {
                            one
                        } else {
                            now
                        }
                    }
                    1 => (score(one, 0).max(score(two, 0)).max(score(now, 1)) & 0x1fff) as usize,
                    _ => {
                        let back = if before * WORD <= at + LINE { before } else { 8 };
                        let best = score(one, 0).max(score(two, 0)).max(score(now, 1));
                        (best.max(score(three, 0)).max(score(back, 0)) & 0x1fff) as usize
                    }
                };
                set_word(rows.not_reference.as_mut_ptr().add(8 * line), !equal(own, reference(best)));
                let is_other = best != now;
                let is_back = is_other & (best == before);
                let is_far = is_other & (best > 255);
                bits[0] |= u64::from(is_back | (is_other & !is_far)) << line;
                bits[1] |= u64::from(is_back | is_far) << line;
                rows.distances.as_mut_ptr().add(len).cast::<u16>().write_unaligned(best as u16);
                len += usize::from(is_other & !is_back) + usize::from(is_far & !is_back & !is_single);
                before = if is_other { now } else { before };
                now = best;
                rows.back[line] = predicted_from(best) as u16;
                rows.chosen[line] = best as u16;
            }
        }
        self.distances = [now, before];
        (bits, len)
    }
}

/// The places of the words of a line.
const EIGHT: u64 = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);

/// The hashes of four words, in the low halves of their lanes.
#[inline]
#[kernel]
fn hash_words(words: Wide) -> Wide {
    let upper = words.shr64::<16>();
    let low = upper.mul64(Wide::all64(0x9e37_79b1));
    let high = upper.shr64::<32>().mul64(Wide::all64(0x85eb_ca77));
    let sum = low.add64(high);
    sum.xor(sum.shr64::<32>())
}

/// Pass 2: the largest distances at which the words of eight lines were seen.
#[kernel]
fn propose<const EFFORT: u8>(piece: &[u8], lines: usize, rows: &mut Rows) {
    /// Above every distance.
    const ABOVE: u32 = 0x3fff;
    let zero = Wide::zeros();
    let none = Wide::widen32(Half::of(EIGHT));
    let places = Wide::all32(0xffff);
    let from = &piece[lines * LINE..][..8 * LINE];
    for line in 0..8 {
        // SAFETY: the line, and eight entries of the rows.
        let (now, last, low, high) = unsafe {
            (
                Wide::load(rows.now.as_ptr().add(8 * line).cast()),
                Wide::load(rows.last.as_ptr().add(8 * line).cast()),
                Wide::load(from.as_ptr().add(line * LINE)),
                Wide::load(from.as_ptr().add(line * LINE + 32)),
            )
        };
        let distance = now.and(places).sub32(last.and(places));
        let is_same = now.xor(last).shr32::<16>().equal32(zero);
        let is_zero = low.equal64(zero).lower64(high.equal64(zero));
        // Least where the distance is largest; below 8 where there is none.
        let keys = none.blend(Wide::all32(ABOVE).sub32(distance), is_zero.clear(is_same));
        let keys = keys.low().narrow32(keys.high());
        let keys = keys.or(Half::all16(8).greater16(keys));
        let without = |keys: Half, least: Half| keys.or(keys.equal16(least.everywhere16()));
        let found = |least: Half| ABOVE & !least.first32();
        let one = keys.least16();
        let first_found = found(one);
        rows.tries[0][lines + line] = if EFFORT > 0 || first_found != 0 { usable(first_found) } else { 0 };
        if EFFORT > 0 {
            let keys = without(keys, one);
            let two = keys.least16();
            rows.tries[1][lines + line] = usable(found(two));
            if EFFORT > 1 {
                rows.tries[2][lines + line] = usable(found(without(keys, two).least16()));
            }
        }
    }
}

/// A distance as it is used; 0 means that none was found.
#[inline(always)]
fn usable(distance: u32) -> u16 {
    const SHORT: u64 = u64::from_le_bytes([8, 0, 4, 0, 4, 0, 6, 0]);
    if distance < 4 { (SHORT >> (16 * distance)) as u16 } else { distance as u16 }
}

/// Pass 4: code, mask and number of literals of each word, 32 words at once.
#[kernel]
fn codes(rows: &mut Rows, codes: &mut [u8]) {
    let zero = Wide::zeros();
    let codes = &mut codes[..WORDS];
    for at in (0..WORDS).step_by(32) {
        // SAFETY: rows of as many words.
        unsafe {
            let from_zero = Wide::load(rows.not_zero.as_ptr().add(at));
            let from_reference = Wide::load(rows.not_reference.as_ptr().add(at));
            // What a code saves, times 16, and the code: the largest wins.
            let own = |mask: Wide| Wide::all(7).sub_saturating(ones(mask)).shl16::<4>();
            let mut best = own(from_zero).max(own(from_reference).or(Wide::all(1)));
            best = best.max(Wide::all(RAW));
            let fixed = |best: Wide, needed: Wide, code: u8| {
                let mask = MASKS[usize::from(code)];
                let fits = needed.and(Wide::all(!mask)).equal(zero);
                let value = ((8 - mask.count_ones() as u8) << 4) | code;
                best.max(fits.and(Wide::all(value)))
            };
            best = fixed(best, from_zero, 3);
            for code in 4..15 {
                best = fixed(best, from_reference, code);
            }
            best = fixed(best, from_zero, ZERO);
            let code = best.and(Wide::all(15));
            let is_own_zero = code.equal(zero);
            let is_own_reference = code.equal(Wide::all(1));
            let own = is_own_zero.and(from_zero).or(is_own_reference.and(from_reference));
            let mask = masks_of(code).or(own);
            let is_own = is_own_zero.or(is_own_reference).signs();
            rows.flags.as_mut_ptr().add(at / 8).cast::<u32>().write_unaligned(is_own);
            code.store(codes.as_mut_ptr().add(at));
            mask.store(rows.masks.as_mut_ptr().add(at));
            ones(mask).store(rows.counts.as_mut_ptr().add(at));
        }
    }
}

/// The lengths of parts.
struct Parts {
    own: usize,
    codes: usize,
    literals: usize,
}

/// Pass 5: collects the stored masks, the literals, and the codes that are not the predicted ones. `flags`
/// says which words have a mask of their own, and afterwards which have another code than predicted.
#[kernel]
fn collect(piece: &[u8], rows: &mut Rows, codes: &[u8], at: usize) -> Parts {
    let (mut own, mut literals, mut other) = (0, 0, 0);
    let piece = &piece[..PIECE];
    let codes = &codes[..at + WORDS];
    for line in 0..LINES {
        // SAFETY: the line, and rows for as many words as there are; their slack is enough for eight bytes
        // more. A distance is no longer than what lies before the line, of codes.
        unsafe {
            let place = piece.as_ptr().add(line * LINE);
            let masks = rows.masks.as_ptr().add(8 * line);
            let has_own = rows.flags[line];
            gather(Half::load8(masks), has_own).store8(rows.own.as_mut_ptr().add(own));
            own += has_own.count_ones() as usize;
            let ends = sums(word(rows.counts.as_ptr().add(8 * line)));
            let to = rows.literals.as_mut_ptr().add(literals);
            let begins = ends << 8;
            for number in 0..8 {
                let begin = (begins >> (8 * number)) as u8;
                let bytes = gather(Half::load8(place.add(8 * number)), masks.add(number).read());
                bytes.store8(to.add(begin.into()));
            }
            literals += (ends >> 56) as usize;
            let here = codes.as_ptr().add(at + 8 * line);
            let code = Half::load8(here);
            let predicted = Half::load8(here.sub(rows.back[line].into()));
            let differ = !code.equal(predicted).signs() as u8;
            rows.flags[line] = differ;
            gather(code, differ).store8(rows.codes.as_mut_ptr().add(other));
            other += differ.count_ones() as usize;
        }
    }
    Parts { own, codes: other, literals }
}
