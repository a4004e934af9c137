//! Repetitions in part W: each is a match with literals before it.
//!
//! ```text
//!   token: low half: literals before the match; high half: length of the match - 4. 15: the rest is in `more`, as
//!          bytes that are added up to the first that is not 255; that of the literals comes first
//!   offset, from 1: its low byte in `lows`, its high byte in `highs`. Matches may overlap themselves, and reach back
//!          into the parts W of earlier pieces of the unit
//! ```

use crate::Malformed;
use crate::scratch::SLACK;

/// The shortest match.
pub(crate) const LEAST: usize = 4;
/// The most matches of a piece; what follows the last is literals.
pub(crate) const MOST_MATCHES: usize = 255;
/// The most bytes of `more`.
pub(crate) const MOST_MORE: usize = 255;
/// Bytes of `more` that one match can take.
const MORE: usize = 2 * (crate::format::PIECE / 255 + 1);
/// Entries of the table of places.
pub(crate) const PLACES: usize = 1 << 11;
/// After so many places without a match, one more is skipped.
const PATIENCE: u32 = 5;
/// Parts that are no longer than this have no matches.
const SHORTEST: usize = 24;
/// A match begins at least this far before the end.
const LAST: usize = 12;

/// What describes the matches of a piece.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Rows {
    pub tokens: [u8; MOST_MATCHES + SLACK],
    pub lows: [u8; MOST_MATCHES + SLACK],
    pub highs: [u8; MOST_MATCHES + SLACK],
    pub more: [u8; MOST_MORE + SLACK],
}

impl Rows {
    pub(crate) const fn new() -> Self {
        Rows {
            tokens: [0; MOST_MATCHES + SLACK],
            lows: [0; MOST_MATCHES + SLACK],
            highs: [0; MOST_MATCHES + SLACK],
            more: [0; MOST_MORE + SLACK],
        }
    }
}

/// How much was found.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Found {
    pub matches: usize,
    pub more: usize,
    /// Literals that no match covers.
    pub literals: usize,
}

#[inline(always)]
fn four(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

#[inline(always)]
fn place_of(four: u32) -> usize {
    (four.wrapping_mul(2_654_435_761) >> (32 - PLACES.ilog2())) as usize
}

/// How many bytes are the same from `one` and from `other` on, to the end.
#[inline(always)]
fn same(all: &[u8], one: usize, other: usize) -> usize {
    let (one, other) = (&all[one..], &all[other..]);
    let mut count = 0;
    while let (Some(a), Some(b)) = (
        one.get(count..).and_then(|rest| rest.first_chunk::<8>()),
        other.get(count..).and_then(|rest| rest.first_chunk::<8>()),
    ) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return count + differ.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    count + one[count..].iter().zip(&other[count..]).take_while(|(a, b)| a == b).count()
}

/// Looks for matches in `all` from `begin` on; writes those to `rows` and the literals that they leave to
/// `literals`. Places of earlier pieces are in `places`.
#[inline(always)]
pub(crate) fn find(
    all: &[u8],
    begin: usize,
    places: &mut [u16; PLACES],
    rows: &mut Rows,
    literals: &mut [u8],
) -> Found {
    let mut found = Found::default();
    let (mut at, mut begin, mut missed) = (begin.max(1), begin, 0u32);
    let last = if all.len() - begin > SHORTEST { all.len() - LAST } else { 0 };
    while at < last {
        let here = four(all, at);
        let place = &mut places[place_of(here.unwrap_or(0))];
        let mut before = usize::from(core::mem::replace(place, at as u16));
        if four(all, before) != here {
            at += 1 + (missed >> PATIENCE) as usize;
            missed += 1;
            continue;
        }
        let mut length = LEAST + same(all, before + LEAST, at + LEAST);
        while at > begin && before > 0 && all[at - 1] == all[before - 1] {
            (at, before, length) = (at - 1, before - 1, length + 1);
        }
        let new = &all[begin..at];
        literals[found.literals..][..new.len()].copy_from_slice(new);
        found.literals += new.len();
        found.put(rows, new.len(), length, at - before);
        let mut note = |at: usize| {
            if let Some(four) = four(all, at) {
                places[place_of(four)] = at as u16;
            }
        };
        if length > LEAST + 2 {
            note(at + 2);
        }
        note(at + length - 2);
        at += length;
        (begin, missed) = (at, 0);
        if found.matches == MOST_MATCHES || found.more + MORE > MOST_MORE {
            break;
        }
    }
    let rest = &all[begin..];
    literals[found.literals..][..rest.len()].copy_from_slice(rest);
    found.literals += rest.len();
    found
}

impl Found {
    /// Adds a match after so many literals.
    #[inline(always)]
    fn put(&mut self, rows: &mut Rows, literals: usize, length: usize, offset: usize) {
        let length = length - LEAST;
        let half = |number: usize| number.min(15) as u8;
        rows.tokens[self.matches] = half(literals) | half(length) << 4;
        [rows.lows[self.matches], rows.highs[self.matches]] = (offset as u16).to_le_bytes();
        self.matches += 1;
        for number in [literals, length] {
            let Some(mut more) = number.checked_sub(15) else { continue };
            while more >= 255 {
                rows.more[self.more] = 255;
                self.more += 1;
                more -= 255;
            }
            rows.more[self.more] = more as u8;
            self.more += 1;
        }
    }
}

/// For each match: how many literals come before it, and how long it is. Returns how many bytes all matches
/// cover; part W of the piece has `most`.
pub(crate) fn lengths(
    tokens: &[u8],
    more: &[u8],
    most: usize,
    lengths: &mut [[u16; 2]; MOST_MATCHES],
) -> Result<usize, Malformed> {
    let mut more = more.iter();
    let mut number = |half: u8| {
        let mut sum = usize::from(half);
        if half == 15 {
            loop {
                let byte = more.next().ok_or(Malformed)?;
                sum += usize::from(*byte);
                if *byte < 255 {
                    break;
                }
            }
        }
        Ok(sum)
    };
    let (mut all, mut covered) = (0, 0);
    for (token, lengths) in tokens.iter().zip(lengths) {
        let (literals, length) = (number(token & 15)?, number(token >> 4)? + LEAST);
        all += literals + length;
        covered += length;
        if all > most {
            return Err(Malformed);
        }
        *lengths = [literals as u16, length as u16];
    }
    if more.next().is_some() { Err(Malformed) } else { Ok(covered) }
}
