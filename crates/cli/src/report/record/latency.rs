//! The latencies of faults over time: a count for each column of time and each class of latency, two classes per
//! doubling.

use super::steps::COLUMNS;

/// Number of classes; the last includes everything longer.
pub const CLASSES: usize = 50;
const FIRST_LOG: u32 = 9;

/// The class of a latency. The first ends at 768 ns.
pub fn class_of(ns: u64) -> usize {
    let ns = ns.max(1 << FIRST_LOG);
    let log = ns.ilog2();
    let half = ns >> (log - 1) & 1;
    (((log - FIRST_LOG) * 2) as usize + half as usize).min(CLASSES - 1)
}

/// The lower bound of a class in ns; the first class has no lower bound.
pub fn class_start(class: usize) -> u64 {
    (2 + class as u64 % 2) << (FIRST_LOG as usize - 1 + class / 2)
}

/// The record.
#[derive(Debug)]
pub struct Latency {
    columns: Vec<[u32; CLASSES]>,
}

impl Latency {
    /// An empty record.
    pub fn new() -> Self {
        Latency { columns: Vec::with_capacity(COLUMNS) }
    }

    /// Adds a fault.
    pub fn add(&mut self, column: usize, ns: u64) {
        if self.columns.len() <= column {
            self.columns.resize(column + 1, [0; CLASSES]);
        }
        self.columns[column][class_of(ns)] += 1;
    }

    /// Merges columns in pairs, because they have become twice as wide.
    pub fn merge(&mut self) {
        let pairs = self.columns.chunks(2).map(|pair| {
            let mut sum = pair[0];
            let second = pair.iter().skip(1).flatten();
            sum.iter_mut().zip(second).for_each(|(a, b)| *a += b);
            sum
        });
        self.columns = pairs.collect();
    }

    /// Counts by column and class.
    pub fn columns(&self) -> &[[u32; CLASSES]] {
        &self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other() {
        for class in 1..CLASSES {
            let start = class_start(class);
            assert_eq!((class_of(start), class_of(start - 1)), (class, class - 1));
        }
        assert_eq!((class_of(0), class_of(u64::MAX)), (0, CLASSES - 1));
    }

    #[test]
    fn merging_adds_up() {
        let mut latency = Latency::new();
        (0..5).for_each(|column| latency.add(column, 1 << (10 + column)));
        latency.merge();
        assert_eq!(latency.columns().len(), 3);
        let sums: Vec<u32> = latency.columns().iter().map(|column| column.iter().sum()).collect();
        assert_eq!(sums, [2, 2, 1]);
        assert_eq!(latency.columns()[1][class_of(1 << 13)], 1);
    }
}
