//! The layout of the data: the paper's flat tape, and the two schemes of its section 4.4 for processors that
//! are slow with unaligned words.
//!
//! ```text
//! Flat   +-------+--------+----------------------+---------+------+
//!        | codes | second | data, mixed          | indices | tail |
//!        +-------+--------+----------------------+---------+------+
//! Tapes  +-------+--------+----------+---------+---------+--------+------+
//!        | codes | second | 4 bytes  | indices | 2 bytes | 1 byte | tail |
//!        +-------+--------+----------+---------+---------+--------+------+
//! Word   +-------+--------+----------------------+---------+------+
//!        | codes | second | data in whole words  | indices | tail |
//!        +-------+--------+----------------------+---------+------+
//! ```
//!
//! The length of `codes` (first halves) follows from the block's length; `second` are the second halves, as
//! many as there are `LONG` codes. All other lengths follow from these two, and together they must make up
//! the whole form. The longest tape is written at a fixed place, after the codes, and the others are
//! appended, as in the paper. At the end all of it is moved to make room for the second halves, which the
//! paper would append too. This way a truncated form is always detected.

use super::super::pack::{INDICES, Values, indices_size, pack_indices};
use crate::bytes::Out;

/// How many items of each kind there are.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Data of four bytes.
    pub four: usize,
    pub two: usize,
    pub one: usize,
    pub indices: usize,
}

/// One of the three layouts.
pub(crate) trait Layout: Sync {
    const NAME: &'static str;
    /// How many tapes the writer needs in addition to `dst`.
    const SPARE: usize;
    type Writer<'a>: Writer<'a>;
    type Reader<'a>: Reader<'a>;
}

pub(crate) trait Writer<'a>: Sized {
    /// Data are written to `dst` after `codes` bytes.
    fn new(dst: &'a mut [u8], codes: usize, spare: [&'a mut [u8]; 2]) -> Option<Self>;
    fn one(&mut self, byte: u8) -> Option<()>;
    fn two(&mut self, bytes: [u8; 2]) -> Option<()>;
    fn four(&mut self, bytes: [u8; 4]) -> Option<()>;
    /// Adds the other tapes and returns where the last ends.
    fn finish(self, indices: &mut Values<'_>) -> Option<usize>;
}

pub(crate) trait Reader<'a>: Sized {
    /// A reader of the data, and the packed indices.
    fn new(rest: &'a [u8], counts: &Counts) -> Option<(Self, &'a [u8])>;
    fn one(&mut self) -> u8;
    fn two(&mut self) -> [u8; 2];
    fn four(&mut self) -> [u8; 4];
}

fn put_indices(out: &mut Out<'_>, indices: &mut Values<'_>) -> Option<()> {
    let indices = indices.padded(INDICES, 0);
    pack_indices(indices, out.skip(indices_size(indices.len()))?);
    Some(())
}

/// Splits `rest` into data of `data` bytes and indices, if these make up all of it.
fn data_and_indices<'a>(rest: &'a [u8], data: usize, counts: &Counts) -> Option<(&'a [u8], &'a [u8])> {
    (rest.len() == data + indices_size(counts.indices)).then(|| rest.split_at(data))
}

/// The first `N` bytes of a tape, which is long enough according to the counts.
#[inline(always)]
fn next<const N: usize>(tape: &mut &[u8]) -> [u8; N] {
    match tape.split_first_chunk::<N>() {
        Some((first, rest)) => {
            *tape = rest;
            *first
        }
        None => [0; N],
    }
}

/// Data of all sizes in sequence.
pub(crate) struct Flat;

impl Layout for Flat {
    const NAME: &'static str = "pbpm";
    const SPARE: usize = 0;
    type Writer<'a> = Out<'a>;
    type Reader<'a> = &'a [u8];
}

impl<'a> Writer<'a> for Out<'a> {
    fn new(dst: &'a mut [u8], codes: usize, _spare: [&'a mut [u8]; 2]) -> Option<Self> {
        Out::after(dst, codes)
    }

    #[inline(always)]
    fn one(&mut self, byte: u8) -> Option<()> {
        self.put([byte])
    }

    #[inline(always)]
    fn two(&mut self, bytes: [u8; 2]) -> Option<()> {
        self.put(bytes)
    }

    #[inline(always)]
    fn four(&mut self, bytes: [u8; 4]) -> Option<()> {
        self.put(bytes)
    }

    fn finish(mut self, indices: &mut Values<'_>) -> Option<usize> {
        put_indices(&mut self, indices)?;
        Some(self.len())
    }
}

impl<'a> Reader<'a> for &'a [u8] {
    fn new(rest: &'a [u8], counts: &Counts) -> Option<(Self, &'a [u8])> {
        data_and_indices(rest, counts.one + 2 * counts.two + 4 * counts.four, counts)
    }

    #[inline(always)]
    fn one(&mut self) -> u8 {
        let [byte] = next(self);
        byte
    }

    #[inline(always)]
    fn two(&mut self) -> [u8; 2] {
        next(self)
    }

    #[inline(always)]
    fn four(&mut self) -> [u8; 4] {
        next(self)
    }
}

/// A tape for each size.
pub(crate) struct Tapes;

impl Layout for Tapes {
    const NAME: &'static str = "pbpm:tapes";
    const SPARE: usize = 2;
    type Writer<'a> = TapesWriter<'a>;
    type Reader<'a> = TapesReader<'a>;
}

pub(crate) struct TapesWriter<'a> {
    four: Out<'a>,
    two: Out<'a>,
    one: Out<'a>,
}

impl<'a> Writer<'a> for TapesWriter<'a> {
    fn new(dst: &'a mut [u8], codes: usize, [two, one]: [&'a mut [u8]; 2]) -> Option<Self> {
        Some(TapesWriter {
            four: Out::after(dst, codes)?,
            two: Out::after(two, 0)?,
            one: Out::after(one, 0)?,
        })
    }

    #[inline(always)]
    fn one(&mut self, byte: u8) -> Option<()> {
        self.one.put([byte])
    }

    #[inline(always)]
    fn two(&mut self, bytes: [u8; 2]) -> Option<()> {
        self.two.put(bytes)
    }

    #[inline(always)]
    fn four(&mut self, bytes: [u8; 4]) -> Option<()> {
        self.four.put(bytes)
    }

    fn finish(mut self, indices: &mut Values<'_>) -> Option<usize> {
        put_indices(&mut self.four, indices)?;
        for mut tape in [self.two, self.one] {
            let len = tape.len();
            self.four.put_all(&tape.all()[..len])?;
        }
        Some(self.four.len())
    }
}

pub(crate) struct TapesReader<'a> {
    four: &'a [u8],
    two: &'a [u8],
    one: &'a [u8],
}

impl<'a> Reader<'a> for TapesReader<'a> {
    fn new(rest: &'a [u8], counts: &Counts) -> Option<(Self, &'a [u8])> {
        let sizes = [4 * counts.four, indices_size(counts.indices), 2 * counts.two, counts.one];
        if rest.len() != sizes.iter().sum() {
            return None;
        }
        let mut rest = rest;
        let [four, indices, two, one] = sizes.map(|size| {
            let (tape, after) = rest.split_at(size);
            rest = after;
            tape
        });
        Some((TapesReader { four, two, one }, indices))
    }

    #[inline(always)]
    fn one(&mut self) -> u8 {
        let [byte] = next(&mut self.one);
        byte
    }

    #[inline(always)]
    fn two(&mut self) -> [u8; 2] {
        next(&mut self.two)
    }

    #[inline(always)]
    fn four(&mut self) -> [u8; 4] {
        next(&mut self.four)
    }
}

/// One tape of aligned words, each of which holds data of one size. A word begun with bytes or pairs is
/// filled further even after later words have been begun; its unused rest stays zero.
pub(crate) struct Word;

impl Layout for Word {
    const NAME: &'static str = "pbpm:word";
    const SPARE: usize = 0;
    type Writer<'a> = WordWriter<'a>;
    type Reader<'a> = WordReader<'a>;
}

/// The three pointers: where the next data of each size goes.
#[derive(Debug, Default)]
struct Places {
    /// The next unused word: where four bytes go.
    four: usize,
    /// Where the next two bytes go, if that is inside a word.
    two: usize,
    /// Where the next byte goes, if that is inside a word.
    one: usize,
}

impl Places {
    #[inline(always)]
    fn four(&mut self) -> usize {
        let at = self.four;
        self.four += 4;
        at
    }

    #[inline(always)]
    fn two(&mut self) -> usize {
        let at = if self.two.is_multiple_of(4) { self.four() } else { self.two };
        self.two = at + 2;
        at
    }

    #[inline(always)]
    fn one(&mut self) -> usize {
        let at = if self.one.is_multiple_of(4) { self.four() } else { self.one };
        self.one = at + 1;
        at
    }
}

pub(crate) struct WordWriter<'a> {
    out: Out<'a>,
    codes: usize,
    places: Places,
}

impl WordWriter<'_> {
    /// Writes at a place in the data; a new word begins as zeros.
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> Option<()> {
        if self.codes + at == self.out.len() {
            self.out.put([0; 4])?;
        }
        let at = self.codes + at;
        self.out.all()[at..at + N].copy_from_slice(&bytes);
        Some(())
    }
}

impl<'a> Writer<'a> for WordWriter<'a> {
    fn new(dst: &'a mut [u8], codes: usize, _spare: [&'a mut [u8]; 2]) -> Option<Self> {
        Some(WordWriter { out: Out::after(dst, codes)?, codes, places: Places::default() })
    }

    #[inline(always)]
    fn one(&mut self, byte: u8) -> Option<()> {
        let at = self.places.one();
        self.put(at, [byte])
    }

    #[inline(always)]
    fn two(&mut self, bytes: [u8; 2]) -> Option<()> {
        let at = self.places.two();
        self.put(at, bytes)
    }

    #[inline(always)]
    fn four(&mut self, bytes: [u8; 4]) -> Option<()> {
        let at = self.places.four();
        self.put(at, bytes)
    }

    fn finish(self, indices: &mut Values<'_>) -> Option<usize> {
        self.out.finish(indices)
    }
}

pub(crate) struct WordReader<'a> {
    data: &'a [u8],
    places: Places,
}

impl WordReader<'_> {
    #[inline(always)]
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        next(&mut self.data.get(at..).unwrap_or_default())
    }
}

impl<'a> Reader<'a> for WordReader<'a> {
    fn new(rest: &'a [u8], counts: &Counts) -> Option<(Self, &'a [u8])> {
        let words = counts.four + counts.two.div_ceil(2) + counts.one.div_ceil(4);
        let (data, indices) = data_and_indices(rest, 4 * words, counts)?;
        Some((WordReader { data, places: Places::default() }, indices))
    }

    #[inline(always)]
    fn one(&mut self) -> u8 {
        let at = self.places.one();
        let [byte] = self.at(at);
        byte
    }

    #[inline(always)]
    fn two(&mut self) -> [u8; 2] {
        let at = self.places.two();
        self.at(at)
    }

    #[inline(always)]
    fn four(&mut self) -> [u8; 4] {
        let at = self.places.four();
        self.at(at)
    }
}
