//! Finds the lag of a block. All lags up to [`LAGS`] are judged by a few words spread over the block, and the
//! best of them, with first and second differences, by many more. The shorter the differences, the better the
//! lag.
//!
//! Words are taken eight at a time from consecutive places, so that the compiler vectorises the loops;
//! AVX-512 has an instruction that computes the lengths of eight numbers at once.

use super::Lag;
use crate::cpu::{Path, path};
use crate::steps::transforms::difference::Word;

/// The largest lag that is tried.
const LAGS: usize = 128;

/// Words that are judged together.
const RUN: usize = 8;

/// Runs by which each lag is judged at first.
const FEW: usize = 12;

/// Runs by which the best are judged.
const MANY: usize = 64;

/// How many of the lags are judged by more runs.
const FINALISTS: usize = 4;

/// The lag with the shortest differences; 0 if no lag makes them shorter than the words themselves. It is
/// less than half the number of words.
pub(super) fn find<T: Word>(src: &[u8]) -> Lag {
    #[cfg(target_arch = "x86_64")]
    match path() {
        // SAFETY: the processor has the instructions that the path names.
        Path::Avx512 => return unsafe { find_avx512::<T>(src) },
        // SAFETY: as above.
        Path::Avx2 => return unsafe { find_avx2::<T>(src) },
        Path::Sse4 | Path::Scalar => {}
    }
    find_each::<T, false>(src)
}

/// # Safety
/// The processor has AVX2 and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,lzcnt")]
unsafe fn find_avx2<T: Word>(src: &[u8]) -> Lag {
    find_each::<T, false>(src)
}

/// # Safety
/// The processor has AVX-512 with F, BW, CD, DQ and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,lzcnt")]
unsafe fn find_avx512<T: Word>(src: &[u8]) -> Lag {
    find_each::<T, true>(src)
}

/// If `WIDE`, a run costs next to nothing, so it does not pay to check between runs whether a lag is
/// hopeless.
#[inline(always)]
fn find_each<T: Word, const WIDE: bool>(src: &[u8]) -> Lag {
    let none = Lag { words: 0, twice: false };
    let count = src.len() / T::BYTES;
    let most = LAGS.min(count / 2);
    if count - most < RUN {
        return none;
    }
    // Places that have all lags before them.
    let places = Places::new(most, count, FEW);
    let mut best = [(u32::MAX, 0); FINALISTS];
    for lag in 1..=most {
        let mut bits = [0; RUN];
        for n in 0..places.runs {
            let at = places.at(n);
            add::<T>(&mut bits, once(src, at, lag));
            if !WIDE && sum(&bits) >= best[FINALISTS - 1].0 {
                break;
            }
        }
        // A short lag compresses no better, but of two equally good ones it is the likelier.
        if sum(&bits) < best[FINALISTS - 1].0 {
            best[FINALISTS - 1] = (sum(&bits), lag);
            best.sort_unstable();
        }
    }
    let judge = |lag: Lag| {
        let places = Places::new((2 * lag.words).min(count - RUN), count, MANY);
        let mut bits = [0; RUN];
        for n in 0..places.runs {
            let at = places.at(n);
            match lag {
                Lag { words: 0, .. } => add::<T>(&mut bits, eight(src, at)),
                Lag { words, twice: false } => add::<T>(&mut bits, once(src, at, words)),
                Lag { words, twice: true } => add::<T>(&mut bits, twice(src, at, words)),
            }
        }
        // As if it had been judged by as many runs as the others.
        sum(&bits) * MANY as u32 / places.runs as u32
    };
    let lags = best.into_iter().filter(|&(_, lag)| lag > 0 && 2 * lag + RUN <= count);
    let choices = lags.flat_map(|(_, words)| [false, true].map(|twice| Lag { words, twice }));
    choices.chain([none]).min_by_key(|&lag| judge(lag)).unwrap_or(none)
}

/// Runs spread evenly over words.
struct Places {
    from: usize,
    room: usize,
    runs: usize,
}

impl Places {
    /// At most `most` runs between two words. There must be room for at least one.
    #[inline(always)]
    fn new(from: usize, to: usize, most: usize) -> Self {
        Places { from, room: to - from - RUN, runs: most.min((to - from) / RUN) }
    }

    #[inline(always)]
    fn at(&self, n: usize) -> usize {
        self.from + n * self.room / (self.runs - 1).max(1)
    }
}

/// The words of a run.
#[inline(always)]
fn eight<T: Word>(src: &[u8], at: usize) -> [T; RUN] {
    let bytes = &src[at * T::BYTES..][..RUN * T::BYTES];
    core::array::from_fn(|k| T::load(&bytes[k * T::BYTES..][..T::BYTES]))
}

#[inline(always)]
fn once<T: Word>(src: &[u8], at: usize, lag: usize) -> [T; RUN] {
    let (now, before) = (eight::<T>(src, at), eight::<T>(src, at - lag));
    core::array::from_fn(|k| now[k].sub(before[k]))
}

#[inline(always)]
fn twice<T: Word>(src: &[u8], at: usize, lag: usize) -> [T; RUN] {
    let (now, before) = (once::<T>(src, at, lag), once::<T>(src, at - lag, lag));
    core::array::from_fn(|k| now[k].sub(before[k]))
}

#[inline(always)]
fn add<T: Word>(bits: &mut [u32; RUN], words: [T; RUN]) {
    for (bits, word) in bits.iter_mut().zip(words) {
        *bits += word.bits();
    }
}

#[inline(always)]
fn sum(bits: &[u32; RUN]) -> u32 {
    bits.iter().sum()
}
