//! The summary of millions of operations for drawing: the number in each cell of a grid, by class of event,
//! and the times of the slow ones.

use serde::Serialize;

use super::trace;

/// Columns of the grid: the operations in order, equally many per column.
pub const COLUMNS: usize = 640;
/// Rows of the grid per factor of ten in time. The lowest row begins at ten nanoseconds.
pub const ROWS_OF_TEN: usize = 30;
/// Rows, up to 100 ms; longer times are in the highest row.
pub const ROWS: usize = 7 * ROWS_OF_TEN;
/// Number of pieces for which a mean is computed.
const PIECES: usize = 100;
/// Fractions per factor of ten, in the distribution.
const FRACTIONS_OF_TEN: u32 = 10;

/// The classes of events during an operation, the least remarkable first. If several events happen, the last
/// class counts. The names are those in the drawings.
const CLASSES: [(&str, u32); 7] = [
    ("nothing else", 0),
    ("allocated", trace::ALLOCATED),
    ("first touch of memory", trace::FAULTED),
    ("packed", trace::PACKED),
    ("brought back", trace::BROUGHT),
    ("compressed", trace::COMPRESSED),
    ("interrupted", trace::INTERRUPTED),
];

/// Operations of one class.
#[derive(Serialize)]
pub struct Class {
    name: &'static str,
    count: u64,
    seconds: f64,
    most_ns: u32,
    /// Pairs of a cell (column times [`ROWS`] plus row) and its count.
    cells: Vec<u32>,
}

/// All operations of a kind.
#[derive(Serialize)]
pub struct Summary {
    count: u64,
    seconds: f64,
    classes: Vec<Class>,
    /// Mean times in nanoseconds for pieces of equal length, without interrupted operations.
    mean: Vec<f64>,
    /// Fractions of operations that took longer than a time, with that time in nanoseconds.
    distribution: Vec<(f64, u32)>,
}

impl Summary {
    /// A line of text.
    pub fn line(&self) -> String {
        let mean = self.seconds * 1e9 / self.count as f64;
        let mut line = format!("mean {mean:.0} ns");
        for class in self.classes.iter().filter(|class| class.count > 0) {
            line += &format!(", {} {}", class.name, class.count);
        }
        line
    }
}

/// The class of an operation by its flags.
fn class_of(flags: u32) -> usize {
    // A new leaf matters more than the page fault of the memory that it touches first.
    let flags = if flags & trace::LEAF != 0 { flags & !trace::FAULTED | trace::ALLOCATED } else { flags };
    CLASSES.iter().rposition(|(_, flag)| *flag == 0 || flags & flag != 0).unwrap_or(0)
}

fn row_of(ns: u32) -> usize {
    let at = (f64::from(ns.max(1)).log10() - 1.0) * ROWS_OF_TEN as f64;
    (at.max(0.0) as usize).min(ROWS - 1)
}

/// Sums up operations in their order: nanoseconds and flags.
pub fn summary(records: &[(u32, u32)]) -> Summary {
    let mut grids = vec![vec![0u32; COLUMNS * ROWS]; CLASSES.len()];
    let mut classes: Vec<Class> = CLASSES
        .iter()
        .map(|(name, _)| Class { name, count: 0, seconds: 0.0, most_ns: 0, cells: Vec::new() })
        .collect();
    let mut sums = vec![(0.0, 0u64); PIECES];
    for (i, (ns, flags)) in records.iter().enumerate() {
        let number = class_of(*flags);
        grids[number][i * COLUMNS / records.len() * ROWS + row_of(*ns)] += 1;
        let class = &mut classes[number];
        class.count += 1;
        class.seconds += f64::from(*ns) * 1e-9;
        class.most_ns = class.most_ns.max(*ns);
        if flags & trace::INTERRUPTED == 0 {
            let piece = &mut sums[i * PIECES / records.len()];
            *piece = (piece.0 + f64::from(*ns), piece.1 + 1);
        }
    }
    for (class, grid) in classes.iter_mut().zip(&grids) {
        class.cells = (0..)
            .zip(grid)
            .filter(|(_, count)| **count > 0)
            .flat_map(|(cell, count)| [cell, *count])
            .collect();
    }
    Summary {
        count: records.len() as u64,
        seconds: classes.iter().map(|class| class.seconds).sum(),
        classes,
        mean: sums.iter().map(|(sum, count)| sum / (*count).max(1) as f64).collect(),
        distribution: distribution(records.iter().map(|(ns, _)| *ns).collect()),
    }
}

/// The distribution from all operations to the slowest one, in equal steps of the fraction's logarithm.
fn distribution(mut all: Vec<u32>) -> Vec<(f64, u32)> {
    all.sort_unstable();
    let mut rows = Vec::new();
    for step in 0.. {
        let fraction = 10f64.powf(-f64::from(step) / f64::from(FRACTIONS_OF_TEN));
        let longer = (all.len() as f64 * fraction).round() as usize;
        if longer <= 1 {
            break;
        }
        rows.push((fraction, all[all.len() - longer]));
    }
    rows.extend(all.last().map(|most| (1.0 / all.len() as f64, *most)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_in_one_cell() {
        let records: Vec<(u32, u32)> = (0..100_000).map(|i| (i * 37 % 5_000_000, i % 64)).collect();
        let summary = summary(&records);
        let counted: u32 =
            summary.classes.iter().flat_map(|class| class.cells.iter().skip(1).step_by(2)).sum();
        assert_eq!(counted, 100_000);
        assert_eq!(summary.classes.iter().map(|class| class.count).sum::<u64>(), 100_000);
        assert!(summary.distribution.is_sorted_by(|a, b| a.0 > b.0 && a.1 <= b.1));
    }

    #[test]
    fn the_most_remarkable_names_an_operation() {
        assert_eq!(CLASSES[class_of(0)].0, "nothing else");
        assert_eq!(CLASSES[class_of(trace::PACKED | trace::ALLOCATED)].0, "packed");
        assert_eq!(CLASSES[class_of(trace::LEAF | trace::FAULTED)].0, "allocated");
        assert_eq!(CLASSES[class_of(trace::LEAF | trace::COMPRESSED)].0, "compressed");
        assert_eq!(CLASSES[class_of(trace::INTERRUPTED | trace::COMPRESSED)].0, "interrupted");
    }

    #[test]
    fn rows_are_of_equal_ratio() {
        assert_eq!((row_of(0), row_of(10), row_of(100), row_of(1_000_000)), (0, 0, 30, 150));
        assert_eq!(row_of(u32::MAX), ROWS - 1);
    }
}
