//! What was resident when: a bounded record for the report.
//!
//! When the record is full, neighbours are merged, keeping the larger value
//! of each, so that no peak is lost and the steps become twice as long.

/// The most points that are kept: more than a chart has pixels.
const POINTS: usize = 2048;

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Seconds since the start.
    pub at: f64,
    /// Memory of the tree, everything included.
    pub resident: u64,
    /// What the programs believe to have.
    pub logical: u64,
    /// Compressed bytes in the stores.
    pub payload: u64,
}

/// The record.
#[derive(Debug, Default)]
pub struct Series {
    points: Vec<Point>,
    /// Samples that make up one point.
    step: usize,
    /// Samples in the last point.
    filled: usize,
}

impl Series {
    /// An empty record.
    pub fn new() -> Self {
        Self { points: Vec::with_capacity(POINTS), step: 1, filled: 0 }
    }

    /// Adds a sample.
    pub fn add(&mut self, point: Point) {
        if self.filled > 0 && self.filled < self.step {
            if let Some(last) = self.points.last_mut() {
                *last = merged(*last, point);
            }
            self.filled += 1;
            return;
        }
        if self.points.len() == POINTS {
            self.points =
                self.points.chunks(2).map(|pair| pair.iter().copied().fold(pair[0], merged)).collect();
            self.step *= 2;
        }
        self.points.push(point);
        self.filled = 1;
    }

    /// The record so far, in order of time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

fn merged(a: Point, b: Point) -> Point {
    Point {
        at: a.at,
        resident: a.resident.max(b.resident),
        logical: a.logical.max(b.logical),
        payload: a.payload.max(b.payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_no_peak_lost() {
        let mut series = Series::new();
        for i in 0..100_000u64 {
            let resident = if i == 77_777 { 1_000_000_000 } else { i };
            series.add(Point { at: i as f64, resident, logical: 2 * i, payload: 0 });
        }
        let points = series.points();
        assert!(points.len() <= POINTS && points.len() > POINTS / 4, "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.at < b.at));
        assert_eq!(points.iter().map(|p| p.resident).max(), Some(1_000_000_000));
        assert_eq!(points.iter().map(|p| p.logical).max(), Some(199_998));
        assert!(points.last().is_some_and(|p| p.at > 99_000.0));
    }
}
