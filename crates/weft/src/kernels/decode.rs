//! From the compressed form back to the unit.

use super::half::Half;
use super::kernel;
use super::steps::*;
use super::wide::Wide;
use crate::Malformed;
use crate::format::{
    FIRST_DISTANCES, LEAST_DISTANCE, LINE, LINE_WORDS, LINES, PIECE, WORD, WORDS, ZERO, head, most_distance,
};
use crate::scratch::{MOST_FORM, Rows, SLACK, Working};

/// Zeros, and the first line of the unit behind them: references of the unit's beginning.
#[repr(align(64))]
struct Beginning([u8; 2 * LINE + SLACK]);

/// What goes on from piece to piece.
pub(super) struct State {
    /// Words of the unit.
    pub(super) words: usize,
    distances: [usize; 2],
    /// Bytes of part W so far, of dense pieces.
    pub(super) w: usize,
}

/// As [`reference::decompress`](crate::reference::decompress), for a unit of `len` bytes. `unit` has room for
/// whole pieces.
#[kernel]
pub(crate) fn decompress(
    from: &[u8],
    unit: &mut [u8],
    len: usize,
    scratch: &mut Working,
) -> Result<(), Malformed> {
    debug_assert!(unit.len() == len.next_multiple_of(PIECE));
    let words = unit.len() / WORD;
    scratch.codes[..words].fill(ZERO);
    let mut state = State { words, distances: FIRST_DISTANCES, w: 0 };
    let mut rest = from;
    for first in (0..words).step_by(WORDS) {
        let (&kind, mut form) = rest.split_first().ok_or(Malformed)?;
        let mut kind = kind ^ if first + WORDS == words { head::LAST } else { 0 };
        let piece_len = PIECE.min(len - first * WORD);
        if piece_len < PIECE {
            let (length, behind) = form.split_first_chunk().ok_or(Malformed)?;
            if usize::from(u16::from_le_bytes(*length)) != piece_len {
                return Err(Malformed);
            }
            (kind, form) = (kind ^ head::SHORT, behind);
        }
        rest = match kind {
            head::STORED => {
                let (piece, rest) = form.split_at_checked(piece_len).ok_or(Malformed)?;
                unit[first * WORD..][..piece_len].copy_from_slice(piece);
                scratch.codes[words + first..][..WORDS].fill(ZERO);
                rest
            }
            head::PLAIN | head::PACKED => {
                let len = state.piece(kind, first, form, unit, scratch)?;
                &form[len..]
            }
            head::DENSE => {
                let len = state.dense(first, form, unit, scratch)?;
                &form[len..]
            }
            _ => return Err(Malformed),
        };
    }
    if rest.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// The parts of a form that are not read yet. What lies behind `size` bytes can be read, and means nothing.
pub(super) struct Parts {
    pub(super) form: *const u8,
    /// Bytes that belong to parts so far.
    pub(super) used: usize,
    pub(super) size: usize,
}

impl Parts {
    /// The parts of a form of at most `most` bytes. Wide loads read beyond parts, so the form is copied
    /// unless `behind` bytes follow it.
    #[inline(always)]
    pub(super) fn new(form: &[u8], most: usize, behind: usize, rows: &mut Rows) -> Parts {
        assert!(most + behind <= rows.form.len());
        let size = form.len().min(most);
        let place = if form.len() >= size + behind {
            form.as_ptr()
        } else {
            rows.form[..size].copy_from_slice(&form[..size]);
            rows.form.as_ptr()
        };
        Parts { form: place, used: 0, size }
    }

    /// The next part.
    #[inline(always)]
    pub(super) fn take(&mut self, len: usize) -> Result<*const u8, Malformed> {
        let at = self.used;
        self.used += len;
        if self.used > self.size {
            return Err(Malformed);
        }
        // SAFETY: within the form.
        Ok(unsafe { self.form.add(at) })
    }
}

impl State {
    /// Restores the piece that begins at word `first`; returns the length of its form.
    #[kernel]
    fn piece(
        &mut self,
        kind: u8,
        first: usize,
        form: &[u8],
        unit: &mut [u8],
        scratch: &mut Working,
    ) -> Result<usize, Malformed> {
        let Working { codes, piece: rows, .. } = scratch;
        let mut parts = Parts::new(form, MOST_FORM, SLACK, rows);
        let codes = &mut codes[..self.words + first + WORDS];
        self.distances_and_codes(&mut parts, first, rows, codes)?;
        let literals = masks(&mut parts, rows, &codes[self.words + first..])?;
        let place = self::literals(kind, &mut parts, rows, literals)?;
        // SAFETY: as many literals are there as the masks have bits, and slack behind them.
        unsafe { spread_literals(rows, place, &mut unit[first * WORD..][..PIECE]) };
        merge(rows, first, unit);
        Ok(parts.used)
    }

    /// Pass 1: the distance of each line, and the codes.
    #[kernel]
    fn distances_and_codes(
        &mut self,
        parts: &mut Parts,
        first: usize,
        rows: &mut Rows,
        codes: &mut [u8],
    ) -> Result<(), Malformed> {
        let bits = self.bits(parts)?;
        let next = parts.take(self.distances_len(bits))?;
        let flags = parts.take(LINES)?;
        // SAFETY: one flag for each line.
        let count = (0..LINES)
            .step_by(8)
            .map(|at| unsafe { word(flags.add(at)) }.count_ones() as usize)
            .sum::<usize>();
        let halves = parts.take(count.div_ceil(2))?;
        for at in (0..count).step_by(32) {
            // SAFETY: within the slack of both.
            unsafe { unpack_halves(halves.add(at / 2)).store(rows.codes.as_mut_ptr().add(at)) };
        }
        // SAFETY: what was counted, and a flag for each line.
        unsafe { self.lines(bits, next, flags, first, rows, codes) }
    }

    /// The bits that say how distances are written.
    #[inline(always)]
    pub(super) fn bits(&self, parts: &mut Parts) -> Result<[u64; 2], Malformed> {
        let bits = parts.take(2 * (LINES / 8))?;
        // SAFETY: sixteen bytes.
        Ok(unsafe { [word(bits), word(bits.add(8))] })
    }

    /// How many bytes the distances take.
    #[inline(always)]
    pub(super) fn distances_len(&self, bits: [u64; 2]) -> usize {
        let far = (bits[1] & !bits[0]).count_ones() as usize;
        let new = (bits[0] ^ bits[1]).count_ones() as usize;
        if self.words == WORDS { new } else { new + far }
    }

    /// The distance and the codes of each line.
    ///
    /// # Safety
    /// The distances that the bits announce are at `next` and two bytes behind them, a flag for each line at
    /// `flags`, and the codes that these announce in `rows.codes`.
    #[inline]
    #[kernel]
    pub(super) unsafe fn lines(
        &mut self,
        bits: [u64; 2],
        mut next: *const u8,
        flags: *const u8,
        first: usize,
        rows: &mut Rows,
        codes: &mut [u8],
    ) -> Result<(), Malformed> {
        let is_single = self.words == WORDS;
        let most = most_distance(self.words);
        let [mut now, mut before] = self.distances;
        let mut stored = 0;
        let mut is_wrong = false;
        let begin = self.words + first;
        debug_assert!(codes.len() == begin + WORDS);
        for line in 0..LINES {
            let low = (bits[0] >> line & 1) as usize;
            let high = (bits[1] >> line & 1) as usize;
            // SAFETY: a byte or two of the distances, or behind them in the form.
            let written = unsafe { usize::from(next.cast::<u16>().read_unaligned()) };
            let value = match (is_single, high) {
                (true, _) => (written & 0xff) + 256 * high,
                (false, 0) => written & 0xff,
                (false, _) => written,
            };
            let is_new = low ^ high;
            // SAFETY: as many as were counted.
            next = unsafe { next.add(is_new + (high & !low & usize::from(!is_single))) };
            let distance = if is_new != 0 {
                value
            } else if low != 0 {
                before
            } else {
                now
            };
            before = if low | high != 0 { now } else { before };
            now = distance;
            is_wrong |= !(LEAST_DISTANCE..=most).contains(&distance);
            rows.back[line] = distance as u16;
            // A wrong distance is noticed below; until then it must not lead anywhere else.
            let back = distance.min(most);
            let back = if back < LINE_WORDS { 2 * back } else { back };
            // SAFETY: every flag, and codes within the rows: `begin` is more than any distance, and than
            // twice a short one.
            unsafe {
                let flags = flags.add(line).read();
                let place = codes.as_mut_ptr().add(begin + 8 * line);
                let control = spread_control(flags);
                let own = Half::load8(rows.codes.as_ptr().add(stored)).shuffle(control);
                own.blend(Half::load8(place.sub(back)), control).store8(place);
                stored += flags.count_ones() as usize;
            }
        }
        self.distances = [now, before];
        if is_wrong { Err(Malformed) } else { Ok(()) }
    }
}

/// Pass 2: the mask of each word and how many literals it has; returns how many all have. Also which bytes of
/// each word do not come from the reference.
#[kernel]
fn masks(parts: &mut Parts, rows: &mut Rows, codes: &[u8]) -> Result<usize, Malformed> {
    let codes = &codes[..WORDS];
    let begin = parts.take(0)?;
    let mut own = begin;
    let mut literals = Wide::zeros();
    for at in (0..WORDS).step_by(32) {
        // SAFETY: rows of as many words; at most a mask for each word, for which there is room behind the
        // form.
        unsafe {
            let code = Wide::load(codes.as_ptr().add(at));
            let mask = own_masks(code, &mut own);
            let count = ones(mask);
            mask.store(rows.masks.as_mut_ptr().add(at));
            mask.or(from_zero(code)).store(rows.not_reference.as_mut_ptr().add(at));
            count.store(rows.counts.as_mut_ptr().add(at));
            literals = literals.add64(count.sums());
        }
    }
    // SAFETY: both in the form.
    parts.take(unsafe { own.offset_from(begin) } as usize)?;
    Ok(sum(literals))
}

/// Pass 3: the literals, unpacked if necessary; returns where they are.
#[kernel]
fn literals(kind: u8, parts: &mut Parts, rows: &mut Rows, literals: usize) -> Result<*const u8, Malformed> {
    if kind == head::PLAIN {
        return parts.take(literals);
    }
    let mut table = [0; 16];
    // SAFETY: sixteen bytes.
    unsafe { put(table.as_mut_ptr(), parts.take(16)?, 16) };
    let bits = parts.take(literals.div_ceil(8))?;
    let mut count = 0;
    for at in 0..literals / 64 {
        // SAFETY: a bit for each literal.
        count += unsafe { word(bits.add(8 * at)) }.count_ones() as usize;
    }
    if !literals.is_multiple_of(64) {
        // SAFETY: the last ones, and what follows them.
        let last = unsafe { word(bits.add(literals / 64 * 8)) };
        count += (last & ((1 << (literals % 64)) - 1)).count_ones() as usize;
    }
    let halves = parts.take(count.div_ceil(2))?;
    for at in (0..count).step_by(32) {
        // SAFETY: within the slack of both.
        unsafe {
            literals_of(&table, unpack_halves(halves.add(at / 2))).store(rows.common.as_mut_ptr().add(at))
        };
    }
    let mut other = parts.take(literals - count)?;
    let mut common = rows.common.as_ptr();
    for at in (0..literals).step_by(8) {
        // SAFETY: as many as were counted, and eight more at most. (Bits behind the last one are not counted,
        // and what they choose means nothing.)
        unsafe {
            let bits = bits.add(at / 8).read();
            let bytes = spread(Half::load8(common), bits).or(spread(Half::load8(other), !bits));
            bytes.store8(rows.literals.as_mut_ptr().add(at));
            common = common.add(bits.count_ones() as usize);
            other = other.add(8 - bits.count_ones() as usize);
        }
    }
    Ok(rows.literals.as_ptr())
}

/// Pass 4: the literals to their places, and zeros elsewhere.
///
/// # Safety
/// There are as many literals as the masks have bits, and eight bytes behind them.
#[kernel]
unsafe fn spread_literals(rows: &Rows, literals: *const u8, piece: &mut [u8]) {
    let piece = &mut piece[..PIECE];
    let mut literals = literals;
    for line in 0..LINES {
        // SAFETY: the line; the caller upholds the contract.
        unsafe {
            let begins = sums(word(rows.counts.as_ptr().add(8 * line)));
            let masks = rows.masks.as_ptr().add(8 * line);
            let to = piece.as_mut_ptr().add(line * LINE);
            for number in 0..8 {
                let begin = ((begins << 8) >> (8 * number)) as u8;
                let bytes = Half::load8(literals.add(begin.into()));
                spread(bytes, masks.add(number).read()).store8(to.add(8 * number));
            }
            literals = literals.add((begins >> 56) as usize);
        }
    }
}

/// Pass 5: the reference's bytes, where words have no literals; half a line at a time.
#[kernel]
fn merge(rows: &Rows, first: usize, unit: &mut [u8]) {
    let bit = Wide::all64(0x8040_2010_0804_0201);
    let number = Wide::join(
        Half::new(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]),
        Half::new(&[2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]),
    );
    let mut beginning = Beginning([0; 2 * LINE + SLACK]);
    // Every place in the unit is made from this one pointer.
    let unit = unit[..(first + WORDS) * WORD].as_mut_ptr();
    for line in 0..LINES {
        let at = (first + line * LINE_WORDS) * WORD;
        let bytes = usize::from(rows.back[line]) * WORD;
        // SAFETY: the line; a reference in the unit before it, or in the beginning, where at most 128 bytes
        // are read from anywhere in it.
        unsafe {
            let place = unit.add(at);
            let keep = word(rows.not_reference.as_ptr().add(8 * line));
            let half = |half: usize, from: *const u8| {
                let kept = Wide::all32((keep >> (32 * half)) as u32).shuffle(number);
                let from_reference = kept.and(bit).equal(Wide::zeros());
                let to = place.add(32 * half);
                Wide::load(to).or(from_reference.and(Wide::load(from.add(32 * half)))).store(to);
            };
            if bytes > at {
                // Zeros before the unit, then its first line. In that line the second half may refer to the
                // first.
                let begin = LINE - (bytes - at).min(LINE);
                let copy = |beginning: &mut Beginning| {
                    put(beginning.0.as_mut_ptr().add(LINE), unit, LINE);
                };
                copy(&mut beginning);
                half(0, beginning.0.as_ptr().add(begin));
                if line == 0 && first == 0 {
                    copy(&mut beginning);
                }
                half(1, beginning.0.as_ptr().add(begin));
            } else if keep != u64::MAX {
                let from = place.sub(bytes);
                half(0, from);
                half(1, from);
            }
        }
    }
}
