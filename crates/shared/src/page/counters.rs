//! Counters of a process, and of all processes that have ended.

use core::sync::atomic::{AtomicU64, Ordering::*};

/// Counters that only grow.
#[repr(C)]
pub struct Counters {
    /// Pages compressed on eviction.
    pub pages_compressed: AtomicU64,
    /// Of those, pages of one repeated word.
    pub pages_same_filled: AtomicU64,
    /// Pages recompressed by the dense codec.
    pub pages_densified: AtomicU64,
    /// Faults on pages that were compressed.
    pub pages_faulted: AtomicU64,
    /// Pages restored before they were touched.
    pub pages_prefetched: AtomicU64,
    /// Pages restored from standby.
    pub pages_rescued: AtomicU64,
    /// Pages that were freed without being compressed: see `clean`.
    pub pages_clean: AtomicU64,
    /// Blocks evicted.
    pub blocks_evicted: AtomicU64,
    /// CPU time of the runtime's own threads, in ns.
    pub runtime_cpu_ns: AtomicU64,
    /// Time that the program's threads waited for room, in ns.
    pub throttled_ns: AtomicU64,
    /// Looks of the keeper that found the limit exceeded and nothing left to evict.
    pub full_looks: AtomicU64,
    /// Time during which at least one thread of the program waited, for a page or for room, in ns: see
    /// `stall.rs`.
    pub stalled_ns: AtomicU64,
    /// Total time of faults on compressed pages, ns, counted one after another.
    pub fault_ns: AtomicU64,
    /// Pages spilled to a tier beyond this machine's memory.
    pub pages_spilled: AtomicU64,
    /// Pages fetched from a tier.
    pub pages_fetched: AtomicU64,
    /// Pages that stayed in place because no codec makes them smaller; counted again at each attempt.
    pub pages_incompressible: AtomicU64,
}

impl Counters {
    /// Names and values, for statistics.
    pub fn each(&self) -> [(&'static str, &AtomicU64); 16] {
        [
            ("pages_compressed", &self.pages_compressed),
            ("pages_same_filled", &self.pages_same_filled),
            ("pages_densified", &self.pages_densified),
            ("pages_faulted", &self.pages_faulted),
            ("pages_prefetched", &self.pages_prefetched),
            ("pages_rescued", &self.pages_rescued),
            ("pages_clean", &self.pages_clean),
            ("blocks_evicted", &self.blocks_evicted),
            ("runtime_cpu_ns", &self.runtime_cpu_ns),
            ("throttled_ns", &self.throttled_ns),
            ("full_looks", &self.full_looks),
            ("stalled_ns", &self.stalled_ns),
            ("fault_ns", &self.fault_ns),
            ("pages_spilled", &self.pages_spilled),
            ("pages_fetched", &self.pages_fetched),
            ("pages_incompressible", &self.pages_incompressible),
        ]
    }

    pub(super) fn drain_into(&self, total: &Counters) {
        for ((_, from), (_, to)) in self.each().into_iter().zip(total.each()) {
            to.fetch_add(from.swap(0, Relaxed), Relaxed);
        }
    }
}
