//! Estimates about a block, made before any candidate is tried.
//!
//! [`look`] examines a kilobyte of it, in pieces spread over the block. It counts the bytes that are zero,
//! that have the highest bit set, and that equal the byte 1, 2, 4, or 8 bytes before them. If zero and equal
//! bytes are rare, it also looks for words that repeat at any distance. The result is a **class** of blocks;
//! noise is one of them. The state records the results of each candidate by class.
//!
//! [`Residuals`] goes further: for each transform in the list it computes the differences of some runs of
//! words, and estimates their compressed size. The estimate assumes that the bytes of each rank are coded
//! separately, without prior knowledge of frequencies: `n` bytes with counts `c1`, `c2` and so on take as
//! many bits as the logarithm of `n! / (c1! c2! ...)`.

use crate::Chain;
use crate::cpu::either;
use crate::pipeline::Element;
use crate::steps::transforms::difference::Word;

/// The number of classes.
pub(super) const CLASSES: usize = 96;

/// The class of blocks that are too short to be classified.
const SHORT: usize = CLASSES - 1;

/// The class of blocks in which nothing repeats.
pub(super) const NOISE: usize = CLASSES - 2;

/// The number of pieces examined, and the bytes of one.
const PIECES: usize = 16;
const PIECE: usize = 64;

/// The most zero and equal bytes, in five times 1024 comparisons, that count as noise. For random bytes the
/// mean is 20, and 36 is three and a half standard deviations above it.
const CHANCE: u32 = 36;

/// The class of a block.
pub(super) fn look(block: &[u8]) -> usize {
    either!(look_avx2(block), look_each(block))
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn look_avx2(block: &[u8]) -> usize {
    look_each(block)
}

#[inline(always)]
fn look_each(block: &[u8]) -> usize {
    const VIEW: usize = PIECE + 8;
    if block.len() < 2 * VIEW {
        return SHORT;
    }
    let step = (block.len() - VIEW) / (PIECES - 1);
    let mut counts = [[0_u8; PIECE]; 6];
    for n in 0..PIECES {
        let view: &[u8; VIEW] = block[n * step..][..VIEW].try_into().expect("as long as a view");
        let [zero, high, one, two, four, eight] = &mut counts;
        for i in 0..PIECE {
            let byte = view[i + 8];
            let some = u8::from(byte != 0);
            zero[i] += 1 - some;
            high[i] += byte >> 7;
            one[i] += some & u8::from(byte == view[i + 7]);
            two[i] += some & u8::from(byte == view[i + 6]);
            four[i] += some & u8::from(byte == view[i + 4]);
            eight[i] += some & u8::from(byte == view[i]);
        }
    }
    let sum = |counts: &[u8; PIECE]| counts.iter().map(|&count| u32::from(count)).sum::<u32>();
    let [zero, high, one, two, four, eight] = counts.each_ref().map(sum);
    let equal = [one, two, four, eight];
    if zero + equal.iter().sum::<u32>() <= CHANCE && !repeats(block) {
        return NOISE;
    }
    let zeros = match zero {
        0..=8 => 0,
        9..=63 => 1,
        64..=191 => 2,
        192..=383 => 3,
        384..=639 => 4,
        _ => 5,
    };
    // The longest of the lags that are about equally good: bytes that repeat at one lag also repeat at its
    // multiples.
    let (mut lag, mut most) = (0, 0);
    for (i, &count) in equal.iter().enumerate() {
        if count > 0 && count + count / 8 >= most {
            (lag, most) = (i, most.max(count));
        }
    }
    let strength = match 16 * most / (1024 - zero).max(1) {
        0 => 0,
        1..4 => 1,
        _ => 2,
    };
    let text = usize::from(high <= 8 && zeros == 0);
    zeros * 12 + lag * 3 + strength + text * 72
}

/// Whether any of a few sampled words occurs elsewhere in the block, at any distance. Of large blocks, four
/// kilobytes are examined. In noise this happens by chance in about one of 500,000 blocks.
#[inline(always)]
fn repeats(block: &[u8]) -> bool {
    const VIEW: usize = 4096;
    let from = block.len().saturating_sub(VIEW) / 2;
    let view = &block[from..][..block.len().min(VIEW)];
    [4, 7].into_iter().any(|eighth| {
        let word = &view[view.len() * eighth / 8..][..4];
        // Counting lane by lane lets the compiler vectorise the loop. A lane counts to at most 64.
        let mut counts = [0_u8; PIECE];
        let mut rest = view;
        while let Some(piece) = rest.first_chunk::<{ PIECE + 3 }>() {
            for i in 0..PIECE {
                let equal = (piece[i] ^ word[0])
                    | (piece[i + 1] ^ word[1])
                    | (piece[i + 2] ^ word[2])
                    | (piece[i + 3] ^ word[3]);
                counts[i] += u8::from(equal == 0);
            }
            rest = &rest[PIECE..];
        }
        counts.iter().map(|&count| u32::from(count)).sum::<u32>() > 1
    })
}

/// The transforms before the coder of a chain: the kind and order of differences, and the bytes of a word,
/// which is the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u8);

impl Key {
    /// No estimate is possible.
    pub(super) const NONE: Key = Key(0);

    const fn new(operation: u8, width: u8, order: u8) -> Key {
        Key(1 + (operation * 4 + width) * 7 + order)
    }

    /// The key of a chain that begins with differences, a shuffle, or directly with a coder of single bytes.
    pub(super) fn of(chain: Chain) -> Key {
        // The numbers of docs/formats/pipeline.md, which never change.
        let numbers = chain.elements().map(|element| match element {
            Element::Step(number, _) => number,
            Element::Codec(_) => 0,
        });
        let (mut key, mut bare) = (Key::NONE, true);
        for number in numbers {
            match number {
                1..=24 if bare => key = Key::new(1, (number - 1) / 6, (number - 1) % 6 + 1),
                25..=48 if bare => key = Key::new(2, (number - 25) / 6, (number - 25) % 6 + 1),
                49..=51 if bare => key = Key::new(0, number - 48, 0),
                52..=55 if bare => key = Key::new(0, number - 52, 0),
                66 | 67 if bare => key = Key::new(0, 0, 0),
                _ => {}
            }
            bare = false;
        }
        key
    }

    pub(super) fn number(self) -> u8 {
        self.0
    }

    pub(super) fn from_number(number: u8) -> Key {
        Key(number)
    }
}

/// The number of sampled runs of words, and the bytes of one.
const RUNS: usize = 4;
const RUN: usize = 256;

/// Bytes of a sample.
const SAMPLE: usize = RUNS * RUN;

/// Logarithms to base 2, in 256ths.
static LOGARITHMS: [u16; SAMPLE + 1] = {
    let mut all = [0; SAMPLE + 1];
    let mut n = 2;
    while n <= SAMPLE {
        // The mantissa is squared repeatedly; each time it reaches two, the next bit of the logarithm is one.
        let whole = (n as u32).ilog2();
        let mut mantissa = (n as u64) << (30 - whole);
        let (mut bits, mut i) = (whole, 0);
        while i < 8 {
            mantissa = (mantissa * mantissa) >> 30;
            bits <<= 1;
            if mantissa >> 31 == 1 {
                bits |= 1;
                mantissa >>= 1;
            }
            i += 1;
        }
        all[n] = bits as u16;
        n += 1;
    }
    all
};

/// Estimates of a block's residuals for the transforms of a list.
pub(super) struct Residuals<'a> {
    block: &'a [u8],
    counts: [[u16; 256]; 8],
}

impl<'a> Residuals<'a> {
    /// For a block; `None` if it is too short.
    pub(super) fn new(block: &'a [u8]) -> Option<Self> {
        (block.len() >= 2 * SAMPLE).then_some(Residuals { block, counts: [[0; 256]; 8] })
    }

    /// The estimated size of a transform's residuals, in 4096ths of the block.
    pub(super) fn estimate(&mut self, key: Key) -> u16 {
        let Some(key) = key.0.checked_sub(1) else { return 4096 };
        let (operation, order) = (key / 28, usize::from(key % 7));
        match key / 7 % 4 {
            0 => self.of::<u8>(operation, order),
            1 => self.of::<u16>(operation, order),
            2 => self.of::<u32>(operation, order),
            _ => self.of::<u64>(operation, order),
        }
    }

    fn of<T: Word>(&mut self, operation: u8, order: usize) -> u16 {
        const BEFORE: usize = 8;
        let count = RUN / T::BYTES;
        self.counts[..T::BYTES].fill([0; 256]);
        let mut words = [T::default(); BEFORE + RUN];
        // All runs but the first have enough words before them.
        let step = (self.block.len() - RUN) / (RUNS - 1) / 8 * 8;
        let mut spent = 0;
        for run in 0..RUNS {
            let at = run * step;
            let before = if at > 0 { order } else { 0 };
            let from = &self.block[at - before * T::BYTES..at + RUN];
            words[..BEFORE].fill(T::default());
            for (word, from) in words[BEFORE - before..].iter_mut().zip(from.chunks_exact(T::BYTES)) {
                *word = T::load(from);
            }
            let words = &mut words[BEFORE - order..][..count + order];
            for n in 1..=order {
                for i in 0..count + order - n {
                    words[i] =
                        if operation == 1 { words[i + 1].sub(words[i]) } else { words[i + 1].xor(words[i]) };
                }
            }
            let mut bytes = [0; 8];
            for word in &words[..count] {
                word.store(&mut bytes[..T::BYTES]);
                for (counts, byte) in self.counts.iter_mut().zip(&bytes[..T::BYTES]) {
                    let count = &mut counts[usize::from(*byte)];
                    *count += 1;
                    spent += u32::from(LOGARITHMS[usize::from(*count)]);
                }
            }
        }
        let words = SAMPLE / T::BYTES;
        let all: u32 = LOGARITHMS[1..=words].iter().map(|&bits| u32::from(bits)).sum();
        let bits = (all * T::BYTES as u32).saturating_sub(spent) / 256;
        (bits * (4096 / 8) / SAMPLE as u32) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn noise(len: usize) -> Vec<u8> {
        let mut x = 1_u64;
        let next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 56) as u8
        };
        core::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn logarithms_are_correct() {
        for (n, &bits) in LOGARITHMS.iter().enumerate().skip(1) {
            let wanted = (n as f64).log2() * 256.0;
            assert!((f64::from(bits) - wanted).abs() <= 1.0, "{n}: {bits}, not {wanted}");
        }
    }

    #[test]
    fn noise_is_distinguished_from_other_data() {
        assert_eq!(look(&noise(4096)), NOISE);
        assert_eq!(look(&noise(4096)[..2000]), NOISE);
        let text: Vec<u8> = b"what is frequent in a text ".iter().copied().cycle().take(4096).collect();
        let floats: Vec<u8> = (0..512).flat_map(|i| f64::from(i).sqrt().to_le_bytes()).collect();
        let pixels: Vec<u8> = noise(2048).iter().flat_map(|&byte| [byte, 7]).collect();
        for block in [&text, &floats, &pixels, &std::vec![0; 4096]] {
            assert_ne!(look(block), NOISE);
            assert!(look(block) < CLASSES);
        }
        for len in 0..1000 {
            assert!(look(&noise(len)) < CLASSES);
        }
        // Repeats at distances other than the counted ones.
        for period in [11, 100, 999] {
            for len in [3000, 4096, 100_000] {
                let repeated: Vec<u8> = noise(period).into_iter().cycle().take(len).collect();
                assert_ne!(look(&repeated), NOISE, "{period} {len}");
            }
        }
    }

    #[test]
    fn the_right_order_of_differences_is_found() {
        for wanted in 1..=3_u32 {
            let numbers = (0..512_u64).map(|i| i.pow(wanted) * 123_456_789 + (i * 7919 % 13));
            let block: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
            let mut residuals = Residuals::new(&block).unwrap();
            let best = (1..=6).min_by_key(|&order| residuals.estimate(Key::new(1, 3, order)));
            assert_eq!(best, Some(wanted as u8));
        }
    }

    #[test]
    fn estimates_are_close_to_entropy() {
        let block = noise(4096);
        let mut residuals = Residuals::new(&block).unwrap();
        let whole = residuals.estimate(Key::new(0, 0, 0));
        assert!((3500..=4096).contains(&whole), "{whole}");
        let block = std::vec![5; 4096];
        // The first word has no predecessor.
        assert!(Residuals::new(&block).unwrap().estimate(Key::new(2, 3, 1)) < 40);
        let halves: Vec<u8> = noise(4096).iter().map(|byte| byte & 15).collect();
        let half = Residuals::new(&halves).unwrap().estimate(Key::new(0, 0, 0));
        assert!((1900..=2100).contains(&half), "{half}");
    }

    #[test]
    fn keys_name_the_transforms_before_the_coder() {
        let key = |name: &str| Key::of(name.parse().unwrap());
        assert_eq!(key("delta:8x6+shuffle:8+zstd:1"), Key::new(1, 3, 6));
        assert_eq!(key("xor:4x1+bitshuffle:4+lz4"), Key::new(2, 2, 1));
        assert_eq!(key("bitshuffle:2+zerosup"), Key::new(0, 1, 0));
        assert_eq!(key("shuffle:8+lz4"), Key::new(0, 3, 0));
        assert_eq!(key("huffman"), Key::new(0, 0, 0));
        for none in ["lz4", "zstd:1", "lagdelta:8+shuffle:8+lz4", "stride:3+huffman"] {
            assert_eq!(key(none), Key::NONE);
        }
    }
}
