//! The load: the operations on the compared structures, their order, and how time and memory are measured.

use std::time::Duration;

use clap::ValueEnum;
use nix::time::{ClockId, clock_gettime};

/// The order in which elements are inserted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    Random,
    Sequential,
}

/// Which elements are looked up.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Finds {
    /// All equally often
    Uniform,
    /// By Zipf's law with an exponent of 0.99: the elements inserted first are looked up most often
    Zipf,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Order::Random => "random",
            Order::Sequential => "sequential",
        })
    }
}

impl std::fmt::Display for Finds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Finds::Uniform => "uniform",
            Finds::Zipf => "zipf",
        })
    }
}

/// The operations.
#[derive(Clone, Copy)]
pub struct Load {
    pub elements: u64,
    pub order: Order,
    pub finds: Finds,
    /// Integers are below this, unless it is 0.
    pub universe: u64,
    pub per_slab: usize,
}

/// An element, computed from its index alone, so that obtaining it needs no memory access.
pub trait Key: Copy {
    fn at(load: &Load, turn: u64) -> Self;
}

impl Key for u64 {
    #[inline(always)]
    fn at(load: &Load, turn: u64) -> u64 {
        match load.order {
            Order::Sequential => turn,
            Order::Random if load.universe > 0 => mix(turn) % load.universe,
            Order::Random => mix(turn),
        }
    }
}

/// A string of 8 to 40 bytes, 24 on average, made of 32 letters and digits.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; 40],
    len: u8,
}

impl Text {
    #[inline(always)]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len.into()]).unwrap_or_default()
    }
}

impl Key for Text {
    #[inline(always)]
    fn at(load: &Load, turn: u64) -> Text {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
        let first = mix(turn);
        let mut bytes = [0; 40];
        if load.order == Order::Sequential {
            bytes[..8].copy_from_slice(format!("{turn:08}").as_bytes());
        }
        let from = if load.order == Order::Sequential { 8 } else { 0 };
        for at in (from..40).step_by(8) {
            let word = mix(first ^ at as u64);
            for i in 0..8 {
                bytes[at + i] = LETTERS[(word >> (8 * i)) as usize % 32];
            }
        }
        Text { bytes, len: 8 + (first % 33) as u8 }
    }
}

/// A pseudo-random number (SplitMix64).
#[inline(always)]
pub fn mix(i: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Load {
    /// Index `i` in another order, which a multiplication yields.
    #[inline(always)]
    pub fn turn(&self, i: u64) -> u64 {
        (u128::from(i) * 2_654_435_761 % u128::from(self.elements)) as u64
    }
}

/// Ranks by Zipf's law, drawn by the method of Gray et al. (Quickly generating billion-record synthetic
/// databases, 1994), which YCSB uses, too.
pub struct Zipf {
    ranks: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

/// Zipf's exponent.
const THETA: f64 = 0.99;

impl Zipf {
    pub fn new(ranks: u64) -> Zipf {
        let n = ranks as f64;
        let zeta: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).sum();
        let two = 1.0 + 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / n).powf(1.0 - THETA)) / (1.0 - two / zeta);
        Zipf { ranks: n, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The rank of draw `i`, from 0 on.
    pub fn rank(&self, i: u64) -> u64 {
        let u = (mix(i ^ 0x5eed_0000_0000) >> 11) as f64 / (1u64 << 53) as f64;
        let at = u * self.zeta;
        if at < 1.0 {
            0
        } else if at < 1.0 + 0.5f64.powf(THETA) {
            1
        } else {
            (self.ranks * (self.eta * u - self.eta + 1.0).powf(self.alpha)).min(self.ranks - 1.0) as u64
        }
    }
}

/// CPU time of this process, in seconds.
pub fn cpu() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |now| Duration::from(now).as_secs_f64())
}

/// A figure that a file under `/proc/self` gives in KiB, converted to bytes.
fn figure(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Private anonymous memory of the process, in bytes.
pub fn memory() -> u64 {
    figure("/proc/self/smaps_rollup", "Pss_Anon:")
}

/// Peak memory of the process in bytes, including its code.
pub fn peak() -> u64 {
    figure("/proc/self/status", "VmHWM:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_8_to_40_bytes() {
        let load =
            Load { elements: 10_000, order: Order::Random, finds: Finds::Uniform, universe: 0, per_slab: 0 };
        let lengths: Vec<usize> = (0..10_000).map(|turn| Text::at(&load, turn).as_str().len()).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / 10_000.0;
        assert!((23.5..24.5).contains(&mean), "{mean}");
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&8), Some(&40)));
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        let zipf = Zipf::new(1000);
        let mut seen = vec![0u32; 1000];
        (0..1_000_000).for_each(|i| seen[zipf.rank(i) as usize] += 1);
        let sum: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-THETA)).sum();
        for rank in [1, 2, 10, 100, 1000] {
            let expected = 1e6 * f64::from(rank).powf(-THETA) / sum;
            let ratio = f64::from(seen[rank as usize - 1]) / expected;
            assert!((0.75..1.33).contains(&ratio), "rank {rank}: {ratio}");
        }
    }
}
