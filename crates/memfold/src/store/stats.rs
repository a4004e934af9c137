//! What the store holds, and what it costs: every byte is counted in exactly one of these.

use super::blob::HEADER;
use super::class::table::place_of;
use super::memory::Memory;
use super::{Store, Tuning};

/// Statistics. `resident_bytes` is the sum of `payload_bytes` and all overhead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blobs in the store.
    pub blobs: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Their headers.
    pub header_bytes: u64,
    /// By how much slots are longer than their blobs.
    pub rounding_bytes: u64,
    /// Slots that hold nothing.
    pub hole_bytes: u64,
    /// Committed memory above the last slot: the reserve, and the ends of pages.
    pub slack_bytes: u64,
    /// Descriptions of classes, and headers of slots that hold nothing.
    pub table_bytes: u64,
    /// Memory that the store has committed.
    pub resident_bytes: u64,
}

impl Stats {
    /// Everything that is not payload.
    pub fn overhead_bytes(&self) -> u64 {
        self.resident_bytes - self.payload_bytes
    }
}

impl<M: Memory> Store<M> {
    /// The statistics. Each class is counted exactly, one after the other.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for (number, class) in self.classes.iter() {
            let locked = class.lock(&self.memory);
            let slot = u64::from(class.slot);
            let header = HEADER as u64 * locked.live;
            stats.blobs += locked.live;
            stats.payload_bytes += locked.payload;
            stats.header_bytes += header;
            stats.rounding_bytes += locked.live * slot - locked.payload;
            stats.hole_bytes += locked.holes() * slot;
            stats.slack_bytes += locked.slack() as u64;
            // The starts of groups, and by how much segments are longer than their groups.
            stats.table_bytes += locked.used_bytes() as u64 - locked.top * slot - header;
            stats.resident_bytes += locked.committed as u64;
            if place_of(number).1 == 0 {
                stats.table_bytes += self.memory.page_size() as u64;
                stats.resident_bytes += self.memory.page_size() as u64;
            }
        }
        stats
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning::DEFAULT
    }
}
