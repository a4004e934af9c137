//! Selects the pages to sample: clusters of 16 adjacent pages, so that blocks of several pages and the similarity
//! of neighbours can be measured, spread over all pages.
//!
//! Every prefix of the order is evenly spread: the first cluster is drawn from all of them, the next two from
//! the two halves, the next four from the quarters, and so on. The position within each part is random.
//! Otherwise data laid out in powers of two would always show the same place.

use std::collections::HashSet;

use crate::PAGE;
use crate::index::Index;
use crate::source::Source;

/// Pages of a cluster.
pub const CLUSTER: usize = 16;

/// The numbers of clusters, each once.
#[derive(Debug)]
pub struct Order {
    clusters: u64,
    taken: HashSet<u64>,
    drawn: u64,
    state: u64,
}

impl Order {
    /// An order for this many pages.
    pub fn new(pages: u64) -> Self {
        Order { clusters: pages.div_ceil(CLUSTER as u64), taken: HashSet::new(), drawn: 0, state: 1 }
    }

    /// The number of clusters.
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Returns the same numbers in each run, so that two runs sample the same pages.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Iterator for Order {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while (self.taken.len() as u64) < self.clusters {
            // Draws 2^r to 2^(r+1) are spread over 2^r parts.
            self.drawn += 1;
            let level = self.drawn.ilog2();
            let part = self.drawn - (1 << level);
            let part = if level == 0 { 0 } else { part.reverse_bits() >> (64 - level) };
            let at = |part: u64| ((u128::from(self.clusters) * u128::from(part)) >> level) as u64;
            let (begin, end) = (at(part), at(part + 1));
            if begin == end {
                continue;
            }
            let from = self.random() % (end - begin);
            let free = (0..end - begin).map(|i| begin + (from + i) % (end - begin));
            if let Some(number) = free.into_iter().find(|number| !self.taken.contains(number)) {
                self.taken.insert(number);
                return Some(number);
            }
        }
        None
    }
}

/// Adjacent pages as they were read.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Each page's number and its mapping.
    pub pages: Vec<(u64, usize)>,
    /// Their contents, one after the other.
    pub bytes: Vec<u8>,
}

/// Reads cluster `number`. Omits pages that are gone.
pub fn read(source: &dyn Source, index: &Index, number: u64) -> Cluster {
    let first = number * CLUSTER as u64;
    let end = (first + CLUSTER as u64).min(index.pages());
    let mut cluster = Cluster::default();
    let mut at = first;
    while at < end {
        let Some((run, mapping)) = index.find(at) else { break };
        let wanted = run.pages.min(end - at);
        let begin = cluster.bytes.len();
        cluster.bytes.resize(begin + wanted as usize * PAGE, 0);
        let got = source.read(run.address, &mut cluster.bytes[begin..]) / PAGE;
        cluster.bytes.truncate(begin + got * PAGE);
        cluster.pages.extend((at..at + got as u64).map(|page| (page, mapping)));
        // Other pages may follow a page that is gone.
        at += if (got as u64) < wanted { got as u64 + 1 } else { wanted };
    }
    cluster
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_comes_once_and_every_beginning_is_spread() {
        for pages in [1, 15, 16, 17, 160, 16 * 1000, 16 * 1024 + 3] {
            let mut seen: Vec<u64> = Order::new(pages).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..pages.div_ceil(16)).collect::<Vec<_>>());
        }
        let clusters = 100_000;
        for taken in [64, 1024, 3000] {
            let mut tenths = [0_usize; 10];
            Order::new(clusters * 16).take(taken).for_each(|it| tenths[(it * 10 / clusters) as usize] += 1);
            let even = taken / 10;
            assert!(tenths.iter().all(|it| it.abs_diff(even) <= even / 4 + 2), "{taken}: {tenths:?}");
        }
        // Data laid out in powers of two do not always show the same place.
        let places: HashSet<u64> = Order::new(1 << 24).take(256).map(|it| it % 32).collect();
        assert!(places.len() > 24);
    }
}
