//! What the device holds, and what it costs.

use std::sync::atomic::Ordering::*;

use serde::Serialize;

use crate::backing::Backing;
use crate::disk::Disk;
use crate::index::leaf::PAGE;
use crate::index::stripes::LEAF_BYTES;

/// All statistics. `memory_bytes` is the sum of `payload_bytes`, `resident_bytes` and `overhead_bytes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of the device.
    pub size_bytes: u64,
    /// The most memory that it may take.
    pub limit_bytes: u64,
    /// Bytes of pages that are not holes.
    pub logical_bytes: u64,
    /// Of these, pages of one repeated word, which take memory only in the index.
    pub same_filled_bytes: u64,
    /// Of these, pages with the same content as others, which take memory only in the index.
    pub shared_bytes: u64,
    /// Of these, pages in blocks of the dense tier.
    pub dense_bytes: u64,
    /// Compressed bytes.
    pub payload_bytes: u64,
    /// Bytes of pages of which an uncompressed copy is also kept.
    pub resident_bytes: u64,
    /// Compressed bytes that are on the backing device, not in memory.
    pub spilled_bytes: u64,
    /// Bytes of the backing device in use.
    pub backing_bytes: u64,
    /// Blobs written to it, and blobs read from it.
    pub spills: u64,
    #[allow(missing_docs)]
    pub spill_faults: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Everything that is neither payload nor resident: the index, the store's headers and holes, working memory.
    pub overhead_bytes: u64,
    /// All memory that the device takes. Working memory that is currently released counts towards the limit,
    /// but not here.
    pub memory_bytes: u64,
    /// The peak of the bytes that counted towards the limit.
    pub peak_memory_bytes: u64,
    /// `logical_bytes` minus all memory that the device takes.
    pub saved_bytes: i64,
    /// `logical_bytes` per byte of payload, and per byte of all memory; `None` if there is nothing to compare.
    pub compression_ratio: Option<f64>,
    #[allow(missing_docs)]
    pub memory_ratio: Option<f64>,
    /// Compressed pages and blocks.
    pub blobs: u64,
    /// Bytes of holes and unused ends in the store, which the background thread releases.
    pub loose_bytes: u64,
    /// Blobs that were moved to close holes.
    pub blobs_moved: u64,
    /// Pages read, pages written, in whole or in part, and trimmed pages that were not holes.
    pub pages_read: u64,
    #[allow(missing_docs)]
    pub pages_written: u64,
    #[allow(missing_docs)]
    pub pages_trimmed: u64,
    /// Decompressions for reading.
    pub faults: u64,
    /// Reads of pages that were resident.
    pub resident_hits: u64,
    /// Blocks that were made denser.
    pub merges: u64,
    /// Pages that went back from the dense tier to the fast tier because they are read often.
    pub promotions: u64,
    /// Writes that were refused at the limit.
    pub refused_writes: u64,
    /// Whether memory that cannot be given up takes nine tenths of the limit.
    pub nearly_full: bool,
}

impl Disk {
    /// Collects the statistics.
    pub fn stats(&self) -> Stats {
        let unused = self.count_works();
        let (counts, budget, store) = (&self.counts, self.budget(), self.store.store().stats());
        let backing = self.backing.as_ref();
        let pages = |count: u64| count * PAGE as u64;
        let logical = self.logical_bytes();
        let (memory_bytes, resident_bytes) = (budget.used() - unused, self.resident.bytes());
        Stats {
            size_bytes: self.options.size,
            limit_bytes: budget.limit(),
            logical_bytes: logical,
            same_filled_bytes: pages(counts.fills.load(Relaxed)),
            shared_bytes: self.shared.as_ref().map_or(0, |shared| pages(shared.saved.load(Relaxed))),
            dense_bytes: pages(counts.joined.load(Relaxed)),
            payload_bytes: store.payload_bytes,
            resident_bytes,
            spilled_bytes: backing.map_or(0, Backing::compressed_bytes),
            backing_bytes: backing.map_or(0, Backing::used_bytes),
            spills: backing.map_or(0, |it| it.written.load(Relaxed)),
            spill_faults: backing.map_or(0, |it| it.read.load(Relaxed)),
            index_bytes: self.stripes.count() * LEAF_BYTES,
            overhead_bytes: memory_bytes.saturating_sub(store.payload_bytes + resident_bytes),
            memory_bytes,
            peak_memory_bytes: budget.most(),
            saved_bytes: logical as i64 - memory_bytes as i64,
            compression_ratio: ratio(logical, store.payload_bytes),
            memory_ratio: ratio(logical, memory_bytes),
            blobs: store.blobs,
            loose_bytes: store.hole_bytes + store.slack_bytes,
            blobs_moved: counts.moved.load(Relaxed),
            pages_read: counts.pages_read.load(Relaxed),
            pages_written: counts.pages_written.load(Relaxed),
            pages_trimmed: counts.pages_trimmed.load(Relaxed),
            faults: counts.faults.load(Relaxed),
            resident_hits: self.resident.hits.load(Relaxed),
            merges: counts.merges.load(Relaxed),
            promotions: counts.promotions.load(Relaxed),
            refused_writes: counts.refused.load(Relaxed),
            nearly_full: self.is_nearly_full(),
        }
    }
}

fn ratio(logical: u64, bytes: u64) -> Option<f64> {
    (logical > 0 && bytes > 0).then(|| (logical as f64 / bytes as f64 * 1000.0).round() / 1000.0)
}
