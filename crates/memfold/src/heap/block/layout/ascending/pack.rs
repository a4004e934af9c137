//! From a block to its runs.

use super::{CHECK, HEAD, MOST, MOST_LOW, RAW, RUN, SLACK, UNIT, WORD, check};

/// A run ends before this many words that equal the one before them.
const REPEATS: usize = 4;
/// Fewer words than this are stored unchanged.
const FEWEST: usize = 4;

/// Packs a block into `to` and returns the packed length in bytes; `None` if `to` is too short.
pub fn pack(block: &[u8], to: &mut [u8]) -> Option<usize> {
    let (words, rest) = block.as_chunks::<WORD>();
    if !rest.is_empty() || words.is_empty() {
        return None;
    }
    let count = u16::try_from(words.len()).ok()?;
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let mut out = Writer { to, at: HEAD, runs: 0 };
    for part in (Parts { word, len: words.len(), at: 0 }) {
        out.put(part, word)?;
    }
    out.finish(count)
}

/// Words that become one run.
#[derive(Debug, Clone, Copy)]
struct Part {
    at: usize,
    /// The number of words before repeats.
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
    /// The ascending words that begin here; ends at the longest distance between words if two runs take less
    /// than one.
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
        // Adjacent parts of few words are joined into one raw part.
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

/// Writes runs; it notes their starts from the end of the buffer downwards.
struct Writer<'t> {
    to: &'t mut [u8],
    at: usize,
    runs: usize,
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
        let (from, noted) = (self.at, self.to.len().checked_sub(4 * (self.runs + 1))?);
        // Bits are written eight bytes at a time.
        let to = self.to[..noted].get_mut(from..from + len + SLACK)?;
        to[CHECK..CHECK + WORD].copy_from_slice(&base.to_le_bytes());
        to[CHECK + WORD] = low;
        to[CHECK + WORD + 1] = part.repeats as u8;
        let bytes = &mut to[RUN..];
        let following = (0..rest).map(|i| word(part.at + 1 + i));
        if low == RAW {
            for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip([base].into_iter().chain(following)) {
                *to = word.to_le_bytes();
            }
            bytes[part.words * WORD..].fill(0);
        } else {
            bytes.fill(0);
            put_bits(base, low.into(), following, bytes);
        }
        let place = u16::try_from(from / UNIT).ok()?;
        let sum = check(&to[CHECK..len], part.at..part.at + part.len(), place);
        to[..CHECK].copy_from_slice(&sum.to_le_bytes());
        let note = [part.at as u16, place].map(u16::to_le_bytes);
        self.to[noted..noted + 4].copy_from_slice(note.as_flattened());
        (self.at, self.runs) = (from + len, self.runs + 1);
        Some(())
    }

    /// Moves the starts to their place, and returns the total length.
    fn finish(self, words: u16) -> Option<usize> {
        let Writer { to, at, runs } = self;
        let head = [words, u16::try_from(runs).ok()?].map(u16::to_le_bytes);
        to.get_mut(..HEAD)?.copy_from_slice(head.as_flattened());
        let end = at + 4 * runs;
        let slack = end..end + SLACK;
        if slack.end > to.len() {
            return None;
        }
        let noted = to.len() - 4 * runs;
        to[noted..].as_chunks_mut::<4>().0.reverse();
        to.copy_within(noted.., at);
        to[slack.clone()].fill(0);
        Some(slack.end)
    }
}

/// The number of low bits with which the words after the first take the least space, and the total number of
/// bits that they take then. There are `rest` of them, and the last exceeds the first by `range`.
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

/// Writes the bits of the words after the first one, `base`, into zeros.
fn put_bits(base: u64, low: usize, words: impl ExactSizeIterator<Item = u64>, bytes: &mut [u8]) {
    let mask = (1 << low) - 1;
    let high_at = words.len() * low;
    // Low bits that are not written yet, their number, and their place; likewise for the ones of high bits.
    let (mut lower, mut count, mut low_byte) = (0, 0, 0);
    let (mut ones, mut high_byte) = (0, high_at / 8);
    for (i, word) in words.enumerate() {
        let difference = word - base;
        lower |= (difference & mask) << count;
        count += low;
        // Write whole bytes.
        if count >= 64 {
            bytes[low_byte..low_byte + WORD].copy_from_slice(&lower.to_le_bytes());
            (low_byte, count) = (low_byte + WORD, count - 64);
            lower = (difference & mask) >> (low - count);
        }
        let at = high_at + (difference >> low) as usize + i;
        if at / 8 >= high_byte + WORD {
            put_word(bytes, high_byte, ones);
            (ones, high_byte) = (0, at / 8);
        }
        ones |= 1 << (at - 8 * high_byte);
    }
    put_word(bytes, low_byte, lower);
    put_word(bytes, high_byte, ones);
}

/// Sets the ones of a word.
fn put_word(bytes: &mut [u8], at: usize, ones: u64) {
    let to = &mut bytes[at..at + WORD];
    for (to, ones) in to.iter_mut().zip(ones.to_le_bytes()) {
        *to |= ones;
    }
}
