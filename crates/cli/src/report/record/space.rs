//! Where faults and compressions happened, over time: a bounded map of the address spaces of all processes.
//!
//! A row is a block of 2 MiB in which something happened. When there are too many rows, all blocks double in
//! size, up to a maximum. Events without room even then are counted in `left_out`. So the sum over all rows
//! plus `left_out` is the number of events.

use std::collections::BTreeMap;

use super::names::Name;
use super::steps::COLUMNS;

/// The maximum number of rows.
pub const ROWS: usize = 128;
/// The initial number of pages of a block, as a shift.
const FIRST_SHIFT: u32 = 9;
/// Blocks never become larger than this (1 GiB).
const LAST_SHIFT: u32 = 18;

/// The two counts: faults, and pages compressed.
pub type Pair = [u32; 2];
/// Index of [`Pair`].
pub const FAULTS: usize = 0;
/// Index of [`Pair`].
pub const COMPRESSED: usize = 1;

/// A block of a process.
#[derive(Debug, Clone)]
pub struct Row {
    /// Counts by column of time.
    pub cells: Vec<Pair>,
    /// The number of a page in the block, which identifies the mapping.
    pub page: u64,
    /// The mapping of that page.
    pub name: Name,
}

/// The map.
#[derive(Debug)]
pub struct Space {
    shift: u32,
    rows: BTreeMap<(u32, u64), Row>,
    /// Counts of events without room.
    pub left_out: [u64; 2],
}

impl Space {
    /// An empty map.
    pub fn new() -> Self {
        Space { shift: FIRST_SHIFT, rows: BTreeMap::new(), left_out: [0; 2] }
    }

    /// Adds `count` events of a kind at a page of a process.
    pub fn add(&mut self, process: u32, page: u64, column: usize, kind: usize, count: u32) {
        let key = |shift: u32| (process, page >> shift);
        if self.rows.len() >= ROWS && !self.rows.contains_key(&key(self.shift)) {
            while self.rows.len() > ROWS * 3 / 4 && self.shift < LAST_SHIFT {
                self.coarsen();
            }
            if self.rows.len() >= ROWS && !self.rows.contains_key(&key(self.shift)) {
                self.left_out[kind] += u64::from(count);
                return;
            }
        }
        let fresh = || Row { cells: Vec::new(), page, name: Name::Unknown };
        let row = self.rows.entry(key(self.shift)).or_insert_with(fresh);
        let column = column.min(COLUMNS - 1);
        if row.cells.len() <= column {
            row.cells.resize(column + 1, [0; 2]);
        }
        row.cells[column][kind] += count;
    }

    fn coarsen(&mut self) {
        self.shift += 1;
        let mut rows: BTreeMap<(u32, u64), Row> = BTreeMap::new();
        for ((process, block), row) in std::mem::take(&mut self.rows) {
            match rows.entry((process, block >> 1)) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(row);
                }
                std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().join(row),
            }
        }
        self.rows = rows;
    }

    /// Merges columns in pairs, because they have become twice as wide.
    pub fn merge(&mut self) {
        for row in self.rows.values_mut() {
            let pairs = row
                .cells
                .chunks(2)
                .map(|pair| pair.iter().skip(1).fold(pair[0], |a, b| [a[0] + b[0], a[1] + b[1]]));
            row.cells = pairs.collect();
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        memfold_proc::PAGE << self.shift
    }

    /// Rows by process and address.
    pub fn rows(&self) -> impl Iterator<Item = (u32, u64, &Row)> {
        self.rows.iter().map(|((process, block), row)| (*process, block * self.block_bytes(), row))
    }

    /// Rows of a process whose mapping is not known.
    pub fn nameless(&mut self, process: u32) -> impl Iterator<Item = &mut Row> {
        let rows = self.rows.range_mut((process, 0)..=(process, u64::MAX));
        rows.map(|(_, row)| row).filter(|row| row.name == Name::Unknown)
    }
}

impl Row {
    /// Faults and pages compressed over the whole time.
    pub fn sums(&self) -> [u64; 2] {
        self.cells.iter().fold([0; 2], |sum, cell| [sum[0] + u64::from(cell[0]), sum[1] + u64::from(cell[1])])
    }

    fn join(&mut self, other: Row) {
        if self.name == Name::Unknown || other.name != Name::Unknown && other.sums() > self.sums() {
            (self.name, self.page) = (other.name, other.page);
        }
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), [0; 2]);
        }
        for (own, new) in self.cells.iter_mut().zip(other.cells) {
            *own = [own[0] + new[0], own[1] + new[1]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_adds_up_as_exact_counting_does() {
        let (mut space, mut exact, mut seed) = (Space::new(), BTreeMap::new(), 1u64);
        for i in 0..100_000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Four processes of 1 GiB each, with a hole between the halves.
            let (process, page) = ((seed >> 60) as u32 % 4, (seed >> 33) % (1 << 18));
            let page = page + (page >> 17 << 20);
            let (column, kind) = ((i / 1000) as usize, (i % 2) as usize);
            space.add(process, page, column, kind, 3);
            *exact.entry((process, page, column, kind)).or_insert(0u64) += 3;
            assert!(space.rows.len() <= ROWS);
        }
        assert_eq!(space.left_out, [0, 0]);
        space.merge();
        for ((process, block), row) in &space.rows {
            for (column, cell) in row.cells.iter().enumerate() {
                for (kind, count) in cell.iter().enumerate() {
                    let inside = |(p, page, c, k): &(u32, u64, usize, usize)| {
                        p == process && page >> space.shift == *block && c / 2 == column && *k == kind
                    };
                    if count % 7 == 0 {
                        let sum: u64 = exact.iter().filter(|(key, _)| inside(key)).map(|(_, n)| n).sum();
                        assert_eq!(u64::from(*count), sum);
                    }
                }
            }
        }
        let sums =
            space.rows().fold([0; 2], |sum, (_, _, row)| [sum[0] + row.sums()[0], sum[1] + row.sums()[1]]);
        assert_eq!(sums, [150_000, 150_000]);
    }

    #[test]
    fn too_many_processes_are_counted_apart() {
        let mut space = Space::new();
        (0..ROWS as u32 + 10).for_each(|process| space.add(process, 7, 0, FAULTS, 2));
        assert_eq!((space.rows().count(), space.left_out), (ROWS, [20, 0]));
        space.add(3, 9, 500, COMPRESSED, 1);
        assert_eq!(space.rows.values().map(|row| row.sums()[COMPRESSED]).sum::<u64>(), 1);
    }
}
