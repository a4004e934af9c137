//! From a block to its runs.

use super::{HEAD, MOST, MOST_LOW, RAW, RUN, SLACK, UNIT, WORD, check};

/// So many equal words and more, behind the one that they are equal to, end a run.
const REPEATS: usize = 4;
/// Fewer words than these are kept as they are.
const FEWEST: usize = 4;

/// Packs a block into `to`, and says how many bytes it takes; `None` if there is not enough room.
pub fn pack(block: &[u8], to: &mut [u8]) -> Option<usize> {
    let (words, rest) = block.as_chunks::<WORD>();
    if !rest.is_empty() || words.is_empty() {
        return None;
    }
    let count = u16::try_from(words.len()).ok()?;
    let word = |at: usize| u64::from_le_bytes(words[at]);
    // Where runs begin is known when all are: first how many there are, which costs a look at each word.
    let runs = Parts { word, len: words.len(), at: 0 }.count();
    let mut out = Writer { to, at: HEAD + 4 * runs, runs, run: 0 };
    out.to.get_mut(..out.at)?[..HEAD]
        .copy_from_slice([count, u16::try_from(runs).ok()?].map(u16::to_le_bytes).as_flattened());
    for part in (Parts { word, len: words.len(), at: 0 }) {
        out.put(part, word)?;
    }
    let end = out.at;
    out.to.get_mut(end..end + SLACK)?.fill(0);
    Some(end + SLACK)
}

/// What becomes a run.
#[derive(Debug, Clone, Copy)]
struct Part {
    at: usize,
    /// How many words there are before repeats.
    words: usize,
    repeats: usize,
    is_raw: bool,
}

impl Part {
    fn len(self) -> usize {
        self.words + self.repeats
    }
}

/// The runs of a block.
struct Parts<W> {
    word: W,
    len: usize,
    at: usize,
}

impl<W: Fn(usize) -> u64> Parts<W> {
    /// The ascending words that begin here, up to the longest distance if two runs take less than one.
    fn ascending(&self, at: usize) -> Part {
        let first = (self.word)(at);
        let (mut last, mut words, mut repeats) = (first, 1, 0);
        let (mut longest, mut far) = (0, (first, 0));
        while at + words < self.len && words < MOST {
            let next = (self.word)(at + words);
            if next < last {
                break;
            }
            if next == last {
                let rest = at + words..self.len.min(at + words + usize::from(u8::MAX));
                let equal = rest.take_while(|&at| (self.word)(at) == last).count();
                if equal >= REPEATS {
                    repeats = equal;
                    break;
                }
            }
            if next - last > longest {
                (longest, far) = (next - last, (last, words));
            }
            (last, words) = (next, words + 1);
        }
        let (before, count) = far;
        if count > 0 {
            let one = low_bits(last - first, words - 1).1;
            let two = low_bits(before - first, count - 1).1
                + low_bits(last - before - longest, words - count - 1).1;
            if two + 8 * (RUN as u64 + 4) < one {
                (words, repeats) = (count, 0);
            }
        }
        Part { at, words, repeats, is_raw: false }
    }
}

impl<W: Fn(usize) -> u64> Iterator for Parts<W> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let at = self.at;
        // What does not ascend goes together.
        let mut raw = 0;
        while at + raw < self.len {
            let part = self.ascending(at + raw);
            if part.len() < FEWEST && raw + part.len() <= MOST {
                raw += part.len();
                continue;
            }
            if raw == 0 {
                self.at += part.len();
                return Some(part);
            }
            break;
        }
        self.at += raw;
        (raw > 0).then_some(Part { at, words: raw, repeats: 0, is_raw: true })
    }
}

struct Writer<'t> {
    to: &'t mut [u8],
    at: usize,
    runs: usize,
    run: usize,
}

impl Writer<'_> {
    fn put(&mut self, part: Part, word: impl Fn(usize) -> u64) -> Option<()> {
        let (base, last) = (word(part.at), word(part.at + part.words - 1));
        let rest = part.words - 1;
        let low = if part.is_raw { RAW } else { low_bits(last - base, rest).0 };
        let bits = if low == RAW {
            part.words * u64::BITS as usize
        } else {
            rest * (usize::from(low) + 1) + usize::try_from((last - base) >> low).ok()?
        };
        let len = (RUN + bits.div_ceil(8)).next_multiple_of(UNIT);
        let from = self.at;
        // Bits are put in eight bytes at a time.
        let to = self.to.get_mut(from..from + len + SLACK)?;
        to.fill(0);
        to[4..4 + WORD].copy_from_slice(&base.to_le_bytes());
        to[4 + WORD] = low;
        to[5 + WORD] = part.repeats as u8;
        let bytes = &mut to[RUN..];
        if low == RAW {
            for (i, to) in bytes[..part.words * WORD].as_chunks_mut().0.iter_mut().enumerate() {
                *to = word(part.at + i).to_le_bytes();
            }
        } else {
            let mask = (1 << low) - 1;
            for i in 0..rest {
                let difference = word(part.at + i + 1) - base;
                put_bits(bytes, i * usize::from(low), difference & mask);
                put_bits(bytes, rest * usize::from(low) + (difference >> low) as usize + i, 1);
            }
        }
        let place = u16::try_from(from / UNIT).ok()?;
        let sum = check(&to[4..len], part.at..part.at + part.len(), place);
        to[..4].copy_from_slice(&sum.to_le_bytes());
        for (at, number) in [(0, part.at as u16), (self.runs, place)] {
            let at = HEAD + 2 * (at + self.run);
            self.to[at..at + 2].copy_from_slice(&number.to_le_bytes());
        }
        (self.at, self.run) = (from + len, self.run + 1);
        Some(())
    }
}

/// The low bits with which `rest` words after the first one take least, the last of which is so much more, and all bits that they take.
fn low_bits(range: u64, rest: usize) -> (u8, u64) {
    let rest = rest as u64;
    let low = range.checked_div(rest).and_then(u64::checked_ilog2).unwrap_or(0);
    let bits = |low: u32| rest * u64::from(low + 1) + range.checked_shr(low).unwrap_or(0);
    let low = if bits(low + 1) < bits(low) { low + 1 } else { low };
    match u8::try_from(low) {
        Ok(few) if few <= MOST_LOW => (few, bits(low)),
        _ => (RAW, (rest + 1) * u64::from(u64::BITS)),
    }
}

#[inline]
fn put_bits(bytes: &mut [u8], at: usize, bits: u64) {
    let to = &mut bytes[at / 8..][..WORD];
    let word = u64::from_le_bytes(to.try_into().unwrap_or_default()) | bits << (at % 8);
    to.copy_from_slice(&word.to_le_bytes());
}
