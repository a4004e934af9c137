//! The loops in their simplest form: the reference for the other paths, and the fallback for processors
//! without vector instructions.

use super::format::{ESCAPE, FROM_REFERENCE, granule};
use super::kernels::{
    BitRow, ByteRow, Flags, Kernels, LiteralBits, Literals, Misses, Places, VIEW, bits_of_edge,
};
use super::scratch::{Choice, Decompressor};

/// The path that every processor can take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar;

/// The word at `at`.
#[inline]
pub(super) fn word(src: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(src[at..at + 8].try_into().expect("eight bytes"))
}

/// A bit for each byte of `word` that is not zero.
#[inline]
pub(super) fn nonzero(word: u64) -> u8 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let high = (((word & LOW) + LOW) | word) & !LOW;
    // Moves bit 7 of byte i to bit 56 + i.
    ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Eight ones for each bit of `mask`.
#[inline]
fn bytes(mask: u8) -> u64 {
    // Byte i keeps bit i, then becomes 0x80 if it is not zero, then 0xFF.
    let bits = (u64::from(mask) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    let high = (((bits & 0x7F7F_7F7F_7F7F_7F7F) + 0x7F7F_7F7F_7F7F_7F7F) | bits) & 0x8080_8080_8080_8080;
    (high >> 7) * 0xFF
}

/// The code of each symbol, 15 for symbols without one.
#[inline(always)]
pub(super) fn codes_of_symbols(table: &[u16]) -> [u8; 512] {
    let mut codes = [ESCAPE; 512];
    for (code, &symbol) in table.iter().enumerate() {
        codes[usize::from(symbol & 511)] = code as u8;
    }
    codes
}

/// The code of each literal, 0x80 for literals without one.
pub(super) fn codes_of(common: &[u8; 16]) -> [u8; 256] {
    let mut codes = [0x80; 256];
    for (code, &literal) in common.iter().enumerate() {
        codes[usize::from(literal)] = code as u8;
    }
    codes
}

/// [`Kernels::common`], written so that a compiler can vectorise it.
#[inline(always)]
pub(super) fn common(counts: &[u16; 256], total: usize) -> [u8; 16] {
    let reach = |least: i16| counts.iter().map(|&count| i16::from(count as i16 >= least)).sum::<i16>();
    // The highest count that more than sixteen literals reach, or zero, determined bit by bit.
    let mut edge = 0;
    for bit in (0..bits_of_edge(total)).rev() {
        if reach(edge + (1 << bit)) > 16 {
            edge += 1 << bit;
        }
    }
    // All above it, and enough with exactly that count to make sixteen.
    let (mut common, mut len) = ([0; 16], 0);
    let mut wanted = 16 - reach(edge + 1);
    for (literal, &count) in counts.iter().enumerate() {
        let just = count as i16 == edge && wanted > 0;
        wanted -= i16::from(just);
        if just || count as i16 > edge {
            common[len] = literal as u8;
            len += 1;
        }
    }
    common
}

impl Kernels for Scalar {
    fn fetch(self, _bytes: &[u8]) {}

    fn samples(self, view: &[u8; VIEW], density: u8) -> u64 {
        (0..64).fold(0, |mask, j| {
            let [before, a, b, c] = [view[j], view[j + 1], view[j + 2], view[j + 3]];
            let begins = before == 0 && a != 0 && b != 0;
            let mixed = a ^ b.wrapping_mul(3) ^ c.wrapping_mul(5);
            mask | u64::from(begins || mixed & density == 11 & density) << j
        })
    }

    fn places(self, mut samples: u64, base: u16, places: &mut Places, mut count: usize) -> usize {
        while samples != 0 {
            places[count] = base + samples.trailing_zeros() as u16;
            samples &= samples - 1;
            count += 1;
        }
        count
    }

    fn search(
        self,
        src: &[u8],
        at: usize,
        granules: usize,
        wide: bool,
        distances: &[u16],
        choice: &mut Choice,
    ) {
        let (size, words) = (granule(wide), granule(wide) / 8);
        let mut last = 0;
        for g in 0..granules {
            let at = at + size * g;
            let mut best = (u32::MAX, 0);
            for (q, &distance) in distances.iter().enumerate() {
                // Data before the start of the block are zeros.
                let there = at.checked_sub(usize::from(distance));
                let mut cost = u32::from(q != last);
                for i in 0..words {
                    let here = word(src, at + 8 * i);
                    let differs = nonzero(here ^ there.map_or(0, |there| word(src, there + 8 * i)));
                    cost += 2 * differs.count_ones().min(nonzero(here).count_ones());
                }
                if cost < best.0 {
                    best = (cost, q);
                }
            }
            last = best.1;
            choice.index[1 + g] = last as u8;
            let there = at.checked_sub(usize::from(distances[last]));
            for i in 0..words {
                let here = word(src, at + 8 * i);
                choice.nonzero[words * g + i] = nonzero(here);
                choice.differs[words * g + i] =
                    nonzero(here ^ there.map_or(0, |there| word(src, there + 8 * i)));
            }
        }
    }

    fn changes(self, granules: usize, choice: &Choice, changed: &mut BitRow, codes: &mut Literals) -> usize {
        let mut count = 0;
        for (g, pair) in choice.index[..=granules].windows(2).enumerate() {
            let change = pair[0] != pair[1];
            codes[count] = pair[1];
            changed[g / 8] |= u8::from(change) << (g % 8);
            count += usize::from(change);
        }
        count
    }

    fn symbols(self, words: usize, choice: &mut Choice) {
        for i in 0..words {
            let (differs, nonzero) = (choice.differs[i], choice.nonzero[i]);
            let from_reference = differs.count_ones() < nonzero.count_ones();
            let mask = if from_reference { differs } else { nonzero };
            choice.mask[i] = mask;
            choice.symbols[4 + i] = u16::from(mask) | if from_reference { FROM_REFERENCE } else { 0 };
        }
    }

    fn literals(self, segment: &[u8], words: usize, choice: &mut Choice) -> usize {
        let mut count = 0;
        for i in 0..words {
            for j in 0..8 {
                choice.literals[count] = segment[8 * i + j];
                count += usize::from(choice.mask[i] >> j & 1);
            }
        }
        count
    }

    fn misses(self, words: usize, choice: &mut Choice) -> usize {
        choice.missed.fill(0);
        let mut count = 0;
        for i in 0..words {
            let symbol = choice.symbols[4 + i];
            let missed = symbol != choice.guesses[i];
            choice.missed[i / 8] |= u8::from(missed) << (i % 8);
            choice.misses[count] = symbol;
            count += usize::from(missed);
        }
        count
    }

    fn code(
        self,
        misses: &Misses,
        count: usize,
        table: &[u16],
        codes: &mut Literals,
        masks: &mut Literals,
        flags: &mut Flags,
    ) -> usize {
        let code = codes_of_symbols(table);
        let mut escapes = 0;
        for (&symbol, to) in misses[..count].iter().zip(codes) {
            let code = code[usize::from(symbol & 511)];
            *to = code;
            let escape = code == ESCAPE;
            masks[escapes] = symbol as u8;
            flags[escapes / 8] |= (u8::from(escape) & (symbol >> 8) as u8) << (escapes % 8);
            escapes += usize::from(escape);
        }
        escapes
    }

    fn look_up(
        self,
        codes: &Literals,
        count: usize,
        table: &[u16; 16],
        known: usize,
        masks: &[u8],
        flags: &Flags,
        to_masks: &mut ByteRow,
        to_flags: &mut ByteRow,
    ) -> bool {
        let mut escapes = 0;
        for ((mask, flag), &code) in to_masks.iter_mut().zip(to_flags).zip(&codes[..count]) {
            let symbol = table[usize::from(code & 15)];
            (*mask, *flag) = (symbol as u8, ((symbol >> 8 & 1) as u8).wrapping_neg());
            if code == ESCAPE {
                *mask = masks[escapes];
                *flag = (flags[escapes / 8] >> (escapes % 8) & 1).wrapping_neg();
                escapes += 1;
            } else if usize::from(code) >= known {
                return false;
            }
        }
        true
    }

    fn suppress(self, row: &BitRow, out: &mut [u8]) -> u64 {
        let (mut which, mut count) = (0, 0);
        for (i, &byte) in row.iter().enumerate() {
            out[count] = byte;
            which |= u64::from(byte != 0) << i;
            count += usize::from(byte != 0);
        }
        which
    }

    fn restore(self, which: u64, bytes: &[u8], row: &mut BitRow) -> bool {
        let zeros = bytes[..which.count_ones() as usize].contains(&0);
        let mut bytes = bytes.iter();
        for (i, byte) in row.iter_mut().enumerate() {
            *byte = if which >> i & 1 == 1 { *bytes.next().expect("one for each bit") } else { 0 };
        }
        !zeros
    }

    fn common(self, counts: &[u16; 256], total: usize) -> [u8; 16] {
        common(counts, total)
    }

    fn split(
        self,
        literals: &Literals,
        count: usize,
        common: &[u8; 16],
        bits: &mut LiteralBits,
        codes: &mut Literals,
        rest: &mut Literals,
    ) -> usize {
        let code = codes_of(common);
        bits[..count.div_ceil(8)].fill(0);
        let mut common = 0;
        for (i, &literal) in literals[..count].iter().enumerate() {
            let code = code[usize::from(literal)];
            let has = code >> 7 ^ 1;
            codes[common] = code;
            rest[i - common] = literal;
            bits[i / 8] |= has << (i % 8);
            common += usize::from(has);
        }
        common
    }

    fn pack(self, codes: &Literals, count: usize, out: &mut [u8]) {
        let half = count.div_ceil(2);
        for (i, out) in out[..half].iter_mut().enumerate() {
            let high = if half + i < count { codes[half + i] } else { 0 };
            *out = codes[i] | high << 4;
        }
    }

    fn unpack(self, packed: &[u8], count: usize, codes: &mut Literals) {
        let half = count.div_ceil(2);
        for (i, code) in codes[..count].iter_mut().enumerate() {
            *code = if i < half { packed[i] & 15 } else { packed[i - half] >> 4 };
        }
    }

    fn join(
        self,
        bits: &[u8],
        count: usize,
        codes: &Literals,
        common: &[u8; 16],
        rest: &[u8],
        literals: &mut Literals,
    ) {
        let (mut from_codes, mut from_rest) = (0, 0);
        for (i, literal) in literals[..count].iter_mut().enumerate() {
            let has_code = usize::from(bits[i / 8] >> (i % 8) & 1);
            let coded = common[usize::from(codes[from_codes] & 15)];
            *literal = if has_code == 1 { coded } else { rest[from_rest] };
            from_codes += has_code;
            from_rest += 1 - has_code;
        }
    }

    fn rebuild(
        self,
        dst: &mut [u8],
        at: usize,
        granules: usize,
        wide: bool,
        work: &mut Decompressor,
    ) -> usize {
        let (size, words) = (granule(wide), granule(wide) / 8);
        let (mut literals, mut misses, mut change) = (0, 0, 0);
        for g in 0..granules {
            change += usize::from(work.changed[g / 8] >> (g % 8) & 1);
            let q = usize::from(work.indices[change]);
            let at = at + size * g;
            let there = at.checked_sub(work.distances[q]);
            let [from, control] = work.guesses[q];
            // (Not used in a wide segment, where all guesses are zero.)
            let from = 4 * (2 + g).saturating_sub(from as usize) + control as usize % 16 / 2;
            for i in 0..words {
                let w = words * g + i;
                let guess = if wide { 0 } else { work.symbols[from + i] };
                let missed = work.missed[w / 8] >> (w % 8) & 1 == 1;
                let known = u16::from(work.miss_flags[misses]) << 8 & FROM_REFERENCE;
                let known = known | u16::from(work.miss_masks[misses]);
                let symbol = if missed { known } else { guess };
                misses += usize::from(missed);
                work.symbols[8 + w] = symbol;

                let mask = symbol as u8;
                let mut spread = 0;
                for j in 0..8 {
                    if mask >> j & 1 == 1 {
                        spread |= u64::from(work.literals[literals]) << (8 * j);
                        literals += 1;
                    }
                }
                let from_reference = symbol & FROM_REFERENCE != 0;
                let start = there.filter(|_| from_reference).map_or(0, |there| word(dst, there + 8 * i));
                let made = start & !bytes(mask) | spread;
                dst[at + 8 * i..][..8].copy_from_slice(&made.to_le_bytes());
            }
        }
        literals
    }
}
