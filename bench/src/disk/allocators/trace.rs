//! The trace, the same for all: fill, overwrite, trim half, refill, trim 90 %.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Keeper;
use crate::clock::thread_cpu;
use crate::random::Random;

/// The number of blobs when all exist.
pub const BLOBS: usize = 200_000;
const OVERWRITES: usize = 400_000;
/// Steps between two readings of memory and clock.
const BATCH: usize = 1024;

/// The results.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Memory divided by payload after filling, overwriting, trimming half, and trimming 90 %.
    pub after: [Option<f64>; 4],
    /// The largest value after everything was filled.
    pub worst: Option<f64>,
    /// Per allocation or release.
    pub ns: f64,
    /// It took too long: the figures end there.
    pub given_up: bool,
}

/// A change of a blob: it then has this length, or does not exist.
struct Step {
    blob: usize,
    len: Option<usize>,
}

/// See the module.
pub struct Trace<'a> {
    sizes: &'a [usize],
    random: Random,
    /// The current lengths.
    lens: Vec<Option<usize>>,
    payload: usize,
    operations: usize,
    time: Duration,
}

impl<'a> Trace<'a> {
    pub fn new(sizes: &'a [usize]) -> Self {
        let lens = vec![None; BLOBS];
        Trace { sizes, random: Random(42), lens, payload: 0, operations: 0, time: Duration::ZERO }
    }

    /// Runs the trace. The maker receives the initial lengths.
    pub fn run(mut self, keeper: impl Fn(&[usize]) -> Box<dyn Keeper>, most: Duration) -> Figures {
        let first: Vec<usize> = (0..BLOBS).map(|i| self.sizes[i % self.sizes.len()]).collect();
        let fill: Vec<Step> =
            first.iter().enumerate().map(|(blob, &len)| Step { blob, len: Some(len) }).collect();
        let overwrite: Vec<Step> = (0..OVERWRITES)
            .map(|_| {
                let blob = self.random.below(BLOBS);
                Step { blob, len: Some(self.size()) }
            })
            .collect();
        let half = self.order(BLOBS / 2);
        let trim = half.iter().map(|&blob| Step { blob, len: None }).collect();
        let refill = half.iter().map(|&blob| Step { blob, len: Some(self.size()) }).collect();
        let most_of_all = self.order(BLOBS / 10 * 9);
        let last = most_of_all.iter().map(|&blob| Step { blob, len: None }).collect();
        // All memory of the trace is allocated before the keeper is made, because a keeper may count what is new.
        let mut keeper = keeper(&first);
        let mut figures = Figures::default();
        for (phase, steps) in [fill, overwrite, trim, refill, last].into_iter().enumerate() {
            let ratio = self.phase(&steps, &mut *keeper, most, (phase > 0).then_some(&mut figures.worst));
            if self.time > most {
                figures.given_up = true;
                return figures;
            }
            // The memory of the refilled area matters only if it is the worst.
            if let Some(after) = [Some(0), Some(1), Some(2), None, Some(3)][phase] {
                figures.after[after] = ratio;
            }
            keeper.check(&self.lens);
            // Never freed: a large release now would look as if the keeper had done it.
            std::mem::forget(steps);
        }
        figures.ns = self.time.as_nanos() as f64 / self.operations as f64;
        figures
    }

    fn size(&mut self) -> usize {
        self.sizes[self.random.below(self.sizes.len())]
    }

    /// The first `n` of all blobs, shuffled.
    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..BLOBS).collect();
        for i in 0..n {
            let j = i + self.random.below(BLOBS - i);
            order.swap(i, j);
        }
        order.truncate(n);
        order
    }

    /// Does the steps; returns memory divided by payload at the end.
    fn phase(
        &mut self,
        steps: &[Step],
        keeper: &mut dyn Keeper,
        most: Duration,
        mut worst: Option<&mut Option<f64>>,
    ) -> Option<f64> {
        for batch in steps.chunks(BATCH) {
            let begun = thread_cpu();
            for step in batch {
                let before = std::mem::replace(&mut self.lens[step.blob], step.len);
                if let Some(len) = before {
                    keeper.free(step.blob, len);
                    self.payload -= len;
                    self.operations += 1;
                }
                if let Some(len) = step.len {
                    keeper.put(step.blob, len);
                    self.payload += len;
                    self.operations += 1;
                }
            }
            keeper.tick();
            self.time += thread_cpu() - begun;
            if self.time > most {
                return None;
            }
            if let Some(worst) = &mut worst {
                let now = keeper.bytes().map(|bytes| bytes as f64 / self.payload as f64);
                **worst = now.map(|now| worst.unwrap_or(now).max(now));
            }
        }
        let begun = thread_cpu();
        keeper.settle();
        self.time += thread_cpu() - begun;
        keeper.bytes().map(|bytes| bytes as f64 / self.payload as f64)
    }
}
