//! The decompressor. It trusts no input: a stream that exceeds the remaining input is an error, and each
//! index is checked before it is used. The inner loop reads only the block, and rows of the scratch that are
//! long enough for any streams.

use super::format::{
    CODED, COMMON, ESCAPE, FILL, FILL_LEN, KIND, LAST, MAX_DISTANCES, NARROW, PACKED, RAW, SEGMENT, STATIC,
    STATIC_TABLE, WIDE, granule, words_back,
};
use super::kernels::{BitRow, Kernels, Literals};
use super::scratch::{Decompressor, NOWHERE, SLACK};
use crate::{Malformed, fill};

/// Fills `dst`, which is not empty, from `src`.
#[inline(always)]
pub(super) fn decompress<K: Kernels>(
    kernels: K,
    src: &[u8],
    dst: &mut [u8],
    work: &mut Decompressor,
) -> Result<(), Malformed> {
    let mut input = Input(src);
    for at in (0..dst.len()).step_by(SEGMENT) {
        let len = SEGMENT.min(dst.len() - at);
        let kind = input.byte()?;
        let last = if at + len == dst.len() { LAST } else { 0 };
        if kind & LAST != last {
            return Err(Malformed);
        }
        let kind = kind & !LAST;
        match kind & KIND {
            RAW if kind == RAW => dst[at..at + len].copy_from_slice(input.take(len)?),
            FILL if kind == FILL => {
                if usize::from(input.half()?) != len || len <= FILL_LEN {
                    return Err(Malformed);
                }
                let word = input.take(8)?.try_into().expect("eight bytes");
                fill(&mut dst[at..at + len], u64::from_le_bytes(word));
            }
            CODED if kind & !(KIND | STATIC | PACKED | NARROW | WIDE) == 0 => {
                coded(kernels, kind, &mut input, dst, at, len, work)?;
            }
            _ => return Err(Malformed),
        }
    }
    if input.0.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// The remaining compressed form.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    #[inline(always)]
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Like `take`, but the slice continues with bytes that a vector may read past the end.
    #[inline(always)]
    fn take_padded<'b>(&mut self, count: usize, spare: &'b mut [u8]) -> Result<&'b [u8], Malformed>
    where
        'a: 'b,
    {
        let all = self.0;
        let taken = self.take(count)?;
        if let Some(padded) = all.get(..count + SLACK) {
            return Ok(padded);
        }
        let padded = &mut spare[..count + SLACK];
        padded[..count].copy_from_slice(taken);
        Ok(padded)
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    #[inline(always)]
    fn half(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("two bytes")))
    }
}

/// Decodes a coded segment.
#[inline(always)]
fn coded<K: Kernels>(
    kernels: K,
    kind: u8,
    input: &mut Input<'_>,
    dst: &mut [u8],
    at: usize,
    len: usize,
    work: &mut Decompressor,
) -> Result<(), Malformed> {
    let wide = kind & WIDE != 0;
    let size = granule(wide);
    let (granules, words) = (len / size, len / size * (size / 8));
    let count = usize::from(input.byte()?);
    let literals = usize::from(input.half()?);
    if granules == 0 || count > MAX_DISTANCES || literals > 8 * words {
        return Err(Malformed);
    }
    distances(kind, input, count, work)?;
    if kind & PACKED != 0 {
        packed(kernels, input, literals, work)?;
    } else {
        work.literals[..literals].copy_from_slice(input.take(literals)?);
    }
    changes(kernels, input, count, granules, work)?;
    symbols(kernels, kind, input, words, work)?;
    let tail = input.take(len % size)?;
    dst[at + granules * size..at + len].copy_from_slice(tail);
    if kernels.rebuild(dst, at, granules, wide, work) == literals { Ok(()) } else { Err(Malformed) }
}

/// Shuffle controls that select four of eight symbols, from the n-th on.
const PICK: [u64; 4] =
    [0x0706_0504_0302_0100, 0x0908_0706_0504_0302, 0x0B0A_0908_0706_0504, 0x0D0C_0B0A_0908_0706];

/// Reads the distances, and computes for each how far back its guesses are.
#[inline(always)]
fn distances(
    kind: u8,
    input: &mut Input<'_>,
    count: usize,
    work: &mut Decompressor,
) -> Result<(), Malformed> {
    // Granules without a distance start from zeros, and their guesses are zero.
    work.distances.fill(NOWHERE);
    if kind & WIDE == 0 {
        work.guesses.fill([u64::MAX, 0]);
        work.symbols[..8].fill(0);
    }
    let narrow = kind & NARROW != 0;
    let bytes = input.take(if narrow { (3 * count).div_ceil(2) } else { 2 * count })?;
    for i in 0..count {
        let distance = if narrow {
            let two = u16::from_le_bytes([bytes[3 * i / 2], bytes[3 * i / 2 + 1]]);
            if i % 2 == 0 { two & 0xFFF } else { two >> 4 }
        } else {
            u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])
        };
        let distance = usize::from(distance);
        if distance < granule(kind & WIDE != 0) {
            return Err(Malformed);
        }
        work.distances[i] = distance;
        if kind & WIDE == 0 {
            let back = words_back(distance);
            work.guesses[i] = [back.div_ceil(4) as u64, PICK[back.wrapping_neg() % 4]];
        }
    }
    let odd = narrow && count % 2 == 1;
    if odd && bytes[bytes.len() - 1] > 15 { Err(Malformed) } else { Ok(()) }
}

/// The first `count` codes in lines of 64, the last padded with zeros, so that loops need no unpredictable
/// end conditions.
#[inline(always)]
fn in_lines(codes: &mut Literals, count: usize) -> &[[u8; 64]] {
    codes[count..count + 64].fill(0);
    codes[..count.next_multiple_of(64)].as_chunks().0
}

/// Reads which granules change to another distance, and to which one.
#[inline(always)]
fn changes<K: Kernels>(
    kernels: K,
    input: &mut Input<'_>,
    distances: usize,
    granules: usize,
    work: &mut Decompressor,
) -> Result<(), Malformed> {
    work.changed.fill(0);
    work.indices[0] = 0;
    if distances < 2 {
        return Ok(());
    }
    let count = restore(kernels, input, granules, &mut work.changed)?;
    let packed = input.take_padded(count.div_ceil(2), &mut work.rest)?;
    kernels.unpack(packed, count, &mut work.codes);
    if count % 2 == 1 && packed[count / 2] > 15 {
        return Err(Malformed);
    }
    let all = in_lines(&mut work.codes, count);
    let most = |line: &[u8; 64]| line.iter().fold(0, |most, &index| most.max(index));
    if all.iter().any(|line| usize::from(most(line)) >= distances) {
        return Err(Malformed);
    }
    work.indices[1..=count].copy_from_slice(&work.codes[..count]);
    Ok(())
}

/// Reads which words have a symbol other than the guessed one, and those symbols.
#[inline(always)]
fn symbols<K: Kernels>(
    kernels: K,
    kind: u8,
    input: &mut Input<'_>,
    words: usize,
    work: &mut Decompressor,
) -> Result<(), Malformed> {
    let mut table = [0; 16];
    let known = if kind & STATIC != 0 {
        table[..STATIC_TABLE.len()].copy_from_slice(&STATIC_TABLE);
        STATIC_TABLE.len()
    } else {
        let known = usize::from(input.byte()?);
        if known > STATIC_TABLE.len() {
            return Err(Malformed);
        }
        let masks = input.take(known)?;
        let from_reference = input.half()?;
        if from_reference >> known != 0 {
            return Err(Malformed);
        }
        for (i, &mask) in masks.iter().enumerate() {
            table[i] = u16::from(mask) | (from_reference >> i & 1) << 8;
        }
        known
    };

    let misses = restore(kernels, input, words, &mut work.missed)?;
    let packed = input.take_padded(misses.div_ceil(2), &mut work.rest)?;
    kernels.unpack(packed, misses, &mut work.codes);
    if misses % 2 == 1 && packed[misses / 2] > 15 {
        return Err(Malformed);
    }
    let escapes = |line: &[u8; 64]| line.iter().map(|&code| u8::from(code == ESCAPE)).sum::<u8>();
    let escapes: usize =
        in_lines(&mut work.codes, misses).iter().map(|line| usize::from(escapes(line))).sum();
    let Decompressor { codes, rest, miss_masks, miss_flags, .. } = work;
    let masks = input.take_padded(escapes, rest)?;
    let from_reference = input.take(escapes.div_ceil(8))?;
    let mut flags = [0; size_of::<super::kernels::Flags>()];
    flags[..from_reference.len()].copy_from_slice(from_reference);
    if !kernels.look_up(codes, misses, &table, known, masks, &flags, miss_masks, miss_flags) {
        return Err(Malformed);
    }
    // Bits after the last one must be zero.
    match from_reference.last() {
        Some(&last) if !escapes.is_multiple_of(8) && last >> (escapes % 8) != 0 => Err(Malformed),
        _ => Ok(()),
    }
}

/// Reads literals of which the common ones have short codes.
#[inline(always)]
fn packed<K: Kernels>(
    kernels: K,
    input: &mut Input<'_>,
    count: usize,
    work: &mut Decompressor,
) -> Result<(), Malformed> {
    let common = input.take(COMMON)?.try_into().expect("sixteen bytes");
    let Decompressor { packed: spare, codes, rest, literals, .. } = work;
    let bits = input.take_padded(count.div_ceil(8), spare)?;
    let word = |i: usize| u64::from_le_bytes(bits[8 * i..][..8].try_into().expect("eight bytes"));
    let ones: u32 = (0..count / 64).map(|i| word(i).count_ones()).sum();
    let last = word(count / 64) & ((1 << (count % 64)) - 1);
    let with = (ones + last.count_ones()) as usize;
    // Bits after the last literal must be zero: otherwise more literals would have a code than there are.
    if !count.is_multiple_of(8) && bits[count / 8] >> (count % 8) != 0 {
        return Err(Malformed);
    }
    let packed = input.take_padded(with.div_ceil(2), rest)?;
    if with % 2 == 1 && packed[with / 2] > 15 {
        return Err(Malformed);
    }
    kernels.unpack(packed, with, codes);
    let rest = input.take_padded(count - with, rest)?;
    kernels.join(bits, count, codes, common, rest, literals);
    Ok(())
}

/// The inverse of zero suppression for a row of `bits` bits; returns how many of them are set.
#[inline(always)]
fn restore(
    kernels: impl Kernels,
    input: &mut Input<'_>,
    bits: usize,
    row: &mut BitRow,
) -> Result<usize, Malformed> {
    let len = bits.div_ceil(8);
    let mut which = [0; 8];
    let flags = input.take(len.div_ceil(8))?;
    which[..flags.len()].copy_from_slice(flags);
    let which = u64::from_le_bytes(which);
    let mut spare = [0; 64 + SLACK];
    let count = which.count_ones() as usize;
    let given = input.take_padded(count, &mut spare)?;
    let whole = kernels.restore(which, given, row);
    // Stored bytes must not be zero; bits after the last one must be zero, both in the flags and in the last
    // byte.
    let flags_beyond = len < 64 && which >> len != 0;
    let bits_beyond = !bits.is_multiple_of(8) && row[bits / 8] >> (bits % 8) != 0;
    if !whole | flags_beyond | bits_beyond {
        return Err(Malformed);
    }
    Ok(row
        .chunks_exact(8)
        .map(|bits| u64::from_le_bytes(bits.try_into().expect("eight bytes")))
        .map(|bits| bits.count_ones() as usize)
        .sum())
}
