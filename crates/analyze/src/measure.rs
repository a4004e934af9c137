//! Measures codecs on the sampled clusters, with confidence intervals.
//!
//! Ratios are sums over sums. Their errors are those of a ratio of cluster means (Cochran, Sampling
//! Techniques, section 6.4): pages of one cluster are similar, so clusters, not pages, count as independent.
//!
//! The first codec is fast and gets all clusters. Slower codecs get some of them, and their results are
//! compared with the first codec's results on the same clusters (double sampling, section 12.9). Data that
//! compress well with one codec compress well with another, so little precision is lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use memfold_codec::patterns::Patterns;
use memfold_codec::{Codec, Compressed, Scratch, ScratchBuf, same_filled};

use crate::PAGE;
use crate::sample::{CLUSTER, Cluster};

/// Bytes that a same-filled block takes.
const SAME: u64 = 8;
/// A block whose compressed form would exceed this many 64ths of it is kept uncompressed, as in the store.
const THRESHOLD: usize = 60;
/// 95 % of a normal distribution are within this many standard deviations.
const SIGMAS: f64 = 1.96;

/// Sums over clusters of two sizes: the original size or the first codec's result, and a codec's result.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    /// Clusters with at least one page.
    pub clusters: u64,
    original: f64,
    compressed: f64,
    /// Sums of squares and products.
    squares: [f64; 3],
    /// The blocks, and how many of them are stored raw.
    pub blocks: u64,
    #[allow(missing_docs)]
    pub raw: u64,
    /// Time to compress and to decompress all of them.
    pub compress_ns: u64,
    #[allow(missing_docs)]
    pub decompress_ns: u64,
}

impl Sums {
    fn add(&mut self, original: u64, compressed: u64) {
        let (x, y) = (original as f64, compressed as f64);
        self.clusters += 1;
        self.original += x;
        self.compressed += y;
        self.squares = [self.squares[0] + x * x, self.squares[1] + x * y, self.squares[2] + y * y];
    }

    /// Original bytes per compressed byte; `None` before the first block.
    pub fn ratio(&self) -> Option<f64> {
        (self.compressed > 0.0).then(|| self.original / self.compressed)
    }

    /// Half of the 95 % confidence interval of the share of compressed bytes, relative to that share. `all` is
    /// the number of existing clusters.
    pub fn relative_error(&self, all: u64) -> f64 {
        let n = self.clusters as f64;
        if n >= all as f64 {
            return 0.0;
        }
        if n < 2.0 || self.compressed == 0.0 {
            return f64::INFINITY;
        }
        let share = self.compressed / self.original;
        let [xx, xy, yy] = self.squares;
        let residues = (yy - 2.0 * share * xy + share * share * xx).max(0.0);
        let error = ((1.0 - n / all as f64) * residues / (n * (n - 1.0))).sqrt();
        SIGMAS * error / (self.compressed / n)
    }

    /// Microseconds per block.
    pub fn microseconds(&self) -> (f64, f64) {
        let each = |ns: u64| if self.blocks == 0 { 0.0 } else { ns as f64 / 1000.0 / self.blocks as f64 };
        (each(self.compress_ns), each(self.decompress_ns))
    }
}

/// A codec with blocks of one size, and its results.
pub struct Trial {
    /// The codec.
    pub codec: &'static dyn Codec,
    /// Pages of a block.
    pub pages: usize,
    /// The results.
    pub sums: Sums,
    compress: Scratch<'static>,
    decompress: Scratch<'static>,
}

impl Trial {
    /// A trial without results. Its working memory stays until the process ends.
    pub fn new(codec: &'static dyn Codec, pages: usize) -> Self {
        let len = pages * PAGE;
        Trial {
            codec,
            pages,
            sums: Sums::default(),
            compress: ScratchBuf::with_size(codec.compress_scratch_up_to(len)).leak(),
            decompress: ScratchBuf::with_size(codec.decompress_scratch(len)).leak(),
        }
    }
}

/// A page with its compressed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Its number.
    pub number: u64,
    /// Its mapping.
    pub mapping: u32,
    /// Its compressed bytes.
    pub bytes: u16,
}

/// Everything that is measured.
pub struct Measure {
    /// Codecs and block sizes. The first uses single pages, and its result for each page is kept.
    trials: Vec<Trial>,
    /// Time spent on all but the first codec.
    aside: Duration,
    /// The pages, as the first trial compresses them.
    pub pages: Vec<Page>,
    /// The first trial's sums by mapping.
    pub by_mapping: HashMap<usize, Sums>,
    /// Words by their patterns, in pages that are not same-filled.
    pub patterns: Patterns,
    /// Pages of zeros, and pages that repeat another word.
    pub zeros: u64,
    #[allow(missing_docs)]
    pub same: u64,
    form: Vec<u8>,
    again: Vec<u8>,
}

/// A codec did not restore the data that it was given: a bug in memfold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl Measure {
    /// Measures `main` on single pages, and the others on blocks of the given sizes.
    pub fn new(
        main: &'static dyn Codec,
        others: impl IntoIterator<Item = (&'static dyn Codec, usize)>,
    ) -> Self {
        let trials = std::iter::once((main, 1)).chain(others);
        let trials: Vec<Trial> = trials.map(|(codec, pages)| Trial::new(codec, pages)).collect();
        let most = trials.iter().map(|trial| trial.codec.bound(CLUSTER * PAGE)).max().unwrap_or(0);
        Measure {
            trials,
            aside: Duration::ZERO,
            pages: Vec::new(),
            by_mapping: HashMap::new(),
            patterns: Patterns::default(),
            zeros: 0,
            same: 0,
            form: vec![0; most],
            again: vec![0; CLUSTER * PAGE],
        }
    }

    /// Measures one cluster with the first codec, or with all.
    pub fn add(&mut self, cluster: &Cluster, by_all: bool) -> Result<(), Mismatch> {
        if cluster.pages.is_empty() {
            return Ok(());
        }
        for page in cluster.bytes.chunks_exact(PAGE) {
            match same_filled(page) {
                Some(0) => self.zeros += 1,
                Some(_) => self.same += 1,
                None => self.patterns.add(page),
            }
        }
        let mut first = 0;
        for (number, trial) in self.trials.iter_mut().enumerate() {
            let begin = Instant::now();
            let mut sizes = Vec::with_capacity(CLUSTER);
            for block in cluster.bytes.chunks(trial.pages * PAGE) {
                sizes.push(compress(trial, block, &mut self.form, &mut self.again)?);
            }
            let sum = sizes.iter().sum();
            if number > 0 {
                trial.sums.add(first, sum);
                self.aside += begin.elapsed();
                continue;
            }
            first = sum;
            trial.sums.add(cluster.bytes.len() as u64, sum);
            let mut mine: HashMap<usize, (u64, u64)> = HashMap::new();
            for (&(number, mapping), &bytes) in cluster.pages.iter().zip(&sizes) {
                self.pages.push(Page { number, mapping: mapping as u32, bytes: bytes as u16 });
                let sum = mine.entry(mapping).or_default();
                *sum = (sum.0 + PAGE as u64, sum.1 + bytes);
            }
            for (mapping, (original, compressed)) in mine {
                self.by_mapping.entry(mapping).or_default().add(original, compressed);
            }
            if !by_all {
                break;
            }
        }
        Ok(())
    }

    /// The codecs and block sizes, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Time spent on all but the first codec.
    pub fn aside(&self) -> Duration {
        self.aside
    }

    /// Compressed bytes per byte in a trial, and half of its confidence interval relative to that; `all` is
    /// the number of existing clusters. `None` before the first block.
    pub fn share(&self, trial: usize, all: u64) -> Option<(f64, f64)> {
        let first = &self.trials[0].sums;
        let (share, error) = (1.0 / first.ratio()?, first.relative_error(all));
        if trial == 0 {
            return Some((share, error));
        }
        let sums = &self.trials[trial].sums;
        // This codec got only some of the first codec's clusters, which adds an error of its own.
        let own = sums.relative_error(all);
        Some((share / sums.ratio()?, own.hypot(error)))
    }
}

/// Compresses a block, checks that it is restored, and returns its stored size.
fn compress(trial: &mut Trial, block: &[u8], form: &mut [u8], again: &mut [u8]) -> Result<u64, Mismatch> {
    trial.sums.blocks += 1;
    if same_filled(block).is_some() {
        return Ok(SAME);
    }
    let begin = Instant::now();
    let done = trial.codec.compress(block, form, block.len() * THRESHOLD / 64, &mut trial.compress);
    trial.sums.compress_ns += begin.elapsed().as_nanos() as u64;
    let Compressed::Fits(len) = done else {
        trial.sums.raw += 1;
        return Ok(block.len() as u64);
    };
    let again = &mut again[..block.len()];
    let begin = Instant::now();
    let back = trial.codec.decompress(&form[..len], again, &mut trial.decompress);
    trial.sums.decompress_ns += begin.elapsed().as_nanos() as u64;
    if back.is_err() || again != block {
        return Err(Mismatch(trial.codec.name().to_owned()));
    }
    Ok(len as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws samples of 100 from 2,000 clusters of two kinds: the interval contains the true ratio about 95
    /// times out of 100.
    #[test]
    fn intervals_hold_what_they_promise() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let clusters: Vec<(u64, u64)> = (0..2000)
            .map(|i| {
                let pages = 4 + random() % 13;
                let each = if i % 3 == 0 { 400 } else { 1500 } + random() % 500;
                (pages * 4096, pages * each)
            })
            .collect();
        let (x, y) = clusters.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let truth = y as f64 / x as f64;
        let mut held = 0;
        for _ in 0..500 {
            let mut sums = Sums::default();
            for _ in 0..100 {
                let (x, y) = clusters[(random() % 2000) as usize];
                sums.add(x, y);
            }
            let share = 1.0 / sums.ratio().unwrap();
            held += u32::from((share / truth - 1.0).abs() < sums.relative_error(2000));
        }
        assert!((450..500).contains(&held), "{held} of 500");
        assert_eq!(Sums::default().ratio(), None);
    }
}
