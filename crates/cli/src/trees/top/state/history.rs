//! The history of a line: a sample for each look.

use std::collections::VecDeque;

use crate::trees::top::order::Values;

/// The number of samples that are kept: more than the dots of a chart.
pub const KEPT: usize = 512;

/// A line at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since the first look.
    pub at: f64,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Compressed bytes, a part of it.
    pub payload: u64,
    /// The limit of the tree.
    pub limit: u64,
    /// Share of the time in which a thread waited; unknown at the first look.
    pub stall: Option<f64>,
}

/// The samples, the newest last.
#[derive(Debug, Default, Clone)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Adds a line as it is now.
    pub fn push(&mut self, at: f64, line: &Values<'_>, limit: u64) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at,
            resident: line.memory.resident_bytes,
            payload: line.memory.payload_bytes,
            limit,
            stall: line.rates.stall_share,
        });
    }

    /// The newest sample; there is one once the line was seen.
    pub fn newest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// All samples, the oldest first.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = &Sample> {
        self.samples.iter()
    }
}
