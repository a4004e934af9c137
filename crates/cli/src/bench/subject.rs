//! The subject of a measurement: a codec as it is, or one that trains dictionaries on the blocks it gets.
//!
//! A training codec begins each pass without any dictionary. It gets the blocks in order, and at intervals
//! trains on blocks that were already compressed. So no block is compressed with a dictionary that was
//! trained on it. The result is that of a codec that sees such data for the first time, including the blocks
//! before the first dictionary.
//!
//! In memfold a background thread does the training. So training time does not count as the codec's time; it
//! is reported separately.

use std::time::{Duration, Instant};

use memfold_codec::dict::Dictionaries;
use memfold_codec::{Codec, CodecId};

/// The number of blocks between two checks of the collected samples.
const BETWEEN: usize = 16;

/// Dictionaries of a pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trained {
    /// The number of dictionaries.
    pub versions: usize,
    /// Bytes that they take while blocks need them, including decompression tables.
    pub bytes: u64,
    /// Bytes of the compression tables.
    pub encoder: usize,
    /// Time to train and to find out whether a dictionary pays off.
    pub time: Duration,
}

/// A codec to be measured.
pub struct Subject<'a> {
    codec: &'a dyn Codec,
    workload: Option<Dictionaries>,
    /// Bytes of all blocks.
    kept: u64,
    aside: Duration,
}

impl<'a> Subject<'a> {
    /// The codec, for these blocks.
    pub fn new(codec: &'a dyn Codec, blocks: &[&[u8]]) -> Self {
        let kept = blocks.iter().map(|block| block.len() as u64).sum();
        Self { codec, workload: None, kept, aside: Duration::ZERO }
    }

    /// Drops all dictionaries and begins a new pass.
    pub fn begin_pass(&mut self) {
        if self.codec.id() != CodecId::ZSTD_DICT {
            return;
        }
        self.forget();
        let level = Dictionaries::of_name(self.codec.name()).map_or(1, Dictionaries::level);
        self.workload = Dictionaries::new(level);
        self.aside = Duration::ZERO;
        if let Some(workload) = &self.workload {
            workload.maintain(self.kept);
        }
    }

    /// The codec that compresses and decompresses.
    pub fn codec(&self) -> &dyn Codec {
        self.workload.as_ref().map_or(self.codec, |workload| workload)
    }

    /// Must be called after block `number` of the pass.
    pub fn between_blocks(&mut self, number: usize) {
        if let Some(workload) = self.workload.as_ref().filter(|_| number % BETWEEN == BETWEEN - 1) {
            let start = Instant::now();
            workload.maintain(self.kept);
            self.aside += start.elapsed();
        }
    }

    /// Time in this pass that does not belong to the codec.
    pub fn aside(&self) -> Duration {
        self.aside
    }

    /// The dictionaries of the last pass.
    pub fn trained(&self) -> Option<Trained> {
        let workload = self.workload.as_ref()?;
        let versions = workload.versions();
        Some(Trained {
            versions: versions.len(),
            bytes: versions.iter().map(|version| version.memory as u64).sum(),
            encoder: workload.encoder_memory(),
            time: self.aside,
        })
    }

    /// Releases all dictionaries: no form of an earlier pass will be read again.
    fn forget(&mut self) {
        if let Some(workload) = &self.workload {
            workload.release_all();
        }
    }
}

impl Drop for Subject<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use memfold_codec::codec;

    use super::*;
    use crate::bench::corpus::tests::plan;
    use crate::bench::measure::measure;
    use crate::bench::sums::Sums;

    /// Similar lines, in a different order in each block.
    fn blocks(count: u64) -> Vec<Vec<u8>> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let lines: Vec<String> =
            (0..300).map(|_| format!("{:x} {:x} {:x};", next(), next(), next())).collect();
        let block = |_| {
            let mut text = String::new();
            while text.len() < 1024 {
                text += &lines[(next() % 300) as usize];
            }
            text.into_bytes()[..1024].to_vec()
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn dictionaries_are_counted_and_each_pass_begins_anew() {
        let all = blocks(4000);
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let threshold = plan(&["--threshold=4096"]).threshold;
        let of = |name, passes| measure(codec(name).unwrap(), &all, 1024, threshold, Some(passes)).unwrap();
        let (plain, once, thrice) = (of("zstd:1", 1), of("zstd-dict:1", 1), of("zstd-dict:1", 3));
        assert_eq!(once.sizes, thrice.sizes, "what a pass learns is not there in the next");
        let trained = once.trained.unwrap();
        assert!(trained.versions > 0 && trained.bytes > 4096 && trained.time > Duration::ZERO);
        assert!(plain.trained.is_none());
        // The first blocks had no dictionary.
        let first = |sizes: &[Option<usize>]| sizes[..100].iter().flatten().sum::<usize>();
        assert_eq!(first(&once.sizes), first(&plain.sizes) + 100);
        let sums = |measured| Sums::new(&all, measured);
        let forms: usize = once.sizes.iter().flatten().sum();
        assert_eq!(sums(&once).compressed(), forms as u64 + trained.bytes);
        assert!(sums(&once).compressed() < sums(&plain).compressed());
    }
}
