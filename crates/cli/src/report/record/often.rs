//! The pages that faulted most: a bounded counter.
//!
//! It is exact until more pages have faulted than it holds. From then on, whenever it is full, the median
//! count is subtracted from all counts, and pages with a count of zero are dropped (Misra and Gries, 1982, in
//! batches). So a count is too small by at most `error`, and a missing page had at most that many faults.

use std::collections::HashMap;

use super::names::Name;

/// The maximum number of pages: this many fit into a hash table of 2048 places.
pub const PAGES: usize = 1792;

/// A process's number, and the number of a page in it.
pub type Key = (u32, u64);

/// What is known about a page.
#[derive(Debug, Clone, Default)]
pub struct Count {
    /// A lower bound of its faults.
    pub faults: u32,
    /// Its mapping.
    pub name: Name,
}

/// The counter.
#[derive(Debug, Default)]
pub struct Often {
    counts: HashMap<Key, Count>,
    /// A count may be too small by at most this much.
    pub error: u64,
}

impl Often {
    /// Counts one more fault.
    pub fn add(&mut self, key: Key) {
        if self.counts.len() >= PAGES && !self.counts.contains_key(&key) {
            let mut all: Vec<u32> = self.counts.values().map(|count| count.faults).collect();
            let (_, median, _) = all.select_nth_unstable(PAGES / 2);
            let median = *median;
            self.error += u64::from(median);
            self.counts.values_mut().for_each(|count| count.faults = count.faults.saturating_sub(median));
            self.counts.retain(|_, count| count.faults > 0);
        }
        self.counts.entry(key).or_default().faults += 1;
    }

    /// The pages with the most faults; among equal counts, the lowest address first.
    pub fn top(&self, most: usize) -> Vec<(Key, &Count)> {
        let mut all: Vec<(Key, &Count)> = self.counts.iter().map(|(key, count)| (*key, count)).collect();
        all.sort_by_key(|(key, count)| (std::cmp::Reverse(count.faults), *key));
        all.truncate(most);
        all
    }

    /// Pages that are counted.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.counts.len()
    }

    /// Pages of a process that faulted at least `least` times and whose mapping is not known.
    pub fn nameless(&mut self, process: u32, least: u32) -> impl Iterator<Item = (u64, &mut Name)> {
        let wanted = move |(key, count): &(&Key, &mut Count)| {
            key.0 == process && count.faults >= least && count.name == Name::Unknown
        };
        self.counts.iter_mut().filter(wanted).map(|(key, count)| (key.1, &mut count.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_while_few() {
        let mut often = Often::default();
        (0..PAGES as u64 * 3).for_each(|i| often.add((0, i % PAGES as u64 / 2)));
        assert_eq!(often.error, 0);
        assert!(often.top(3).iter().all(|(_, count)| count.faults == 6), "{:?}", often.top(3));
    }

    #[test]
    fn bounds_hold_against_exact_counting() {
        let (mut often, mut exact, mut seed) = (Often::default(), HashMap::new(), 7u64);
        for _ in 0..400_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Some pages come far more often than others.
            let wide = (seed >> 33) % 50_000;
            let key = (1, wide.min((seed >> 20) % 50_000).min((seed >> 12) % 50_000));
            often.add(key);
            *exact.entry(key).or_insert(0u64) += 1;
        }
        assert!(often.error > 0 && often.len() <= PAGES);
        for (key, count) in &exact {
            let seen = often.counts.get(key).map_or(0, |count| u64::from(count.faults));
            assert!(seen <= *count && *count <= seen + often.error, "{seen} {count} {}", often.error);
        }
    }
}
