//! Traces one structure operation by operation: the time of each, and the events during it.
//!
//! Runs in its own process and writes a file of records in the order of operations: all insertions, then the
//! removals of half of them. A record has eight bytes, in the machine's byte order:
//!
//! ```text
//! | 0..4                        | 4..8                       |
//! | nanoseconds, at most 2^32-1 | flags: the constants below |
//! ```
//!
//! The events are determined outside of the timed section, after each operation: allocations by a count; the
//! work of a slab list and its heap by their statistics; the work of the kernel by `getrusage`, after
//! operations that took more than a microsecond.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use memfold::collections::{SlabList, slablist};
use memfold::heap::{self, Heap, Limit, Options};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use super::{allocations, clock};
use crate::compare::Set;
use crate::load::{Key, Load, memory};

/// Memory was allocated.
pub const ALLOCATED: u32 = 1;
/// Leaves were repacked, and none was added.
pub const PACKED: u32 = 2;
/// A block was restored.
pub const BROUGHT: u32 = 4;
/// A block was compressed.
pub const COMPRESSED: u32 = 8;
/// The kernel had to provide memory.
pub const FAULTED: u32 = 16;
/// The kernel ran other threads.
pub const INTERRUPTED: u32 = 32;
/// There is one more leaf.
pub const LEAF: u32 = 64;

/// Operations of this many nanoseconds or more query the kernel.
const SLOW: f64 = 1000.0;

/// The minimum length of an interruption in nanoseconds. A shorter operation was not interrupted itself: the
/// interruption was between it and the one before.
const INTERRUPTION: f64 = 20_000.0;

/// What a process reports at its end.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Remaining elements.
    pub left: u64,
    /// Samples: operations and seconds so far, bytes of memory and, if there is a heap, its frames, payload and
    /// tables.
    pub samples: Vec<Vec<f64>>,
}

/// Determines the events during an operation.
trait Look<S> {
    fn after(&mut self, set: &S, allocated: bool, is_slow: bool) -> u32;
    /// Frames, payload, tables.
    fn memory(&self) -> Option<[u64; 3]> {
        None
    }
}

/// For structures that only use the allocator.
struct Allocator;

impl<S> Look<S> for Allocator {
    fn after(&mut self, _: &S, allocated: bool, _: bool) -> u32 {
        if allocated { ALLOCATED } else { 0 }
    }
}

/// For structures in a heap.
struct InHeap<'a> {
    heap: &'a Heap,
    list: slablist::Stats,
    blocks: heap::Stats,
    /// Whether blocks may be evicted; if so, the heap is queried each time.
    leave: bool,
}

impl Look<SlabList<'_, u64>> for InHeap<'_> {
    fn after(&mut self, set: &SlabList<'_, u64>, allocated: bool, is_slow: bool) -> u32 {
        let mut flags = 0;
        let (now, last) = (set.stats(), std::mem::replace(&mut self.list, set.stats()));
        if now.leaves_made - now.leaves_freed > last.leaves_made - last.leaves_freed {
            flags |= LEAF;
        } else if now.packs > last.packs || allocated && is_slow {
            // Repacking a single leaf does not count as a pack. It allocates plain memory and takes some
            // microseconds, which identifies it.
            flags |= PACKED;
        } else if allocated {
            flags |= ALLOCATED;
        }
        if self.leave {
            let now = self.heap.stats();
            if now.faults > self.blocks.faults {
                flags |= BROUGHT;
            }
            if now.compressions > self.blocks.compressions {
                flags |= COMPRESSED;
            }
            self.blocks = now;
        }
        flags
    }

    fn memory(&self) -> Option<[u64; 3]> {
        let now = self.heap.stats();
        Some([now.frame_bytes, now.payload_bytes, now.table_bytes])
    }
}

/// The kernel's counters for this thread.
#[derive(Default)]
struct Kernel {
    faults: i64,
    interruptions: i64,
}

impl Kernel {
    /// The flags of events since the last call.
    fn since(&mut self) -> u32 {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return 0 };
        let faults = usage.minor_page_faults() + usage.major_page_faults();
        let interruptions = usage.involuntary_context_switches();
        let mut flags = 0;
        if std::mem::replace(&mut self.faults, faults) < faults {
            flags |= FAULTED;
        }
        if std::mem::replace(&mut self.interruptions, interruptions) < interruptions {
            flags |= INTERRUPTED;
        }
        flags
    }
}

fn record<S: Set<u64>>(
    load: Load,
    samples: u64,
    mut set: S,
    mut look: impl Look<S>,
    to: &Path,
) -> Result<Report, String> {
    let all = load.elements + load.elements / 2;
    // Nonzero values are written, so that the kernel has already provided the memory.
    let mut records = vec![(1u64, 1u32); all as usize];
    let mut memories: Vec<(u64, u64, u64, Option<[u64; 3]>)> = Vec::with_capacity(samples as usize + 2);
    let (rate, mut kernel) = (clock::Rate::new(), Kernel::default());
    let slow = (SLOW * rate.per_ns()) as u64;
    let interruption = (INTERRUPTION * rate.per_ns()) as u64;
    let every = (all / samples).max(1);
    let before = memory();
    let mut sum = 0;
    kernel.since();
    for i in 0..all {
        let is_insertion = i < load.elements;
        let key = u64::at(&load, if is_insertion { i } else { load.turn(i - load.elements) });
        let made = allocations::count();
        let begin = clock::ticks();
        if is_insertion {
            set.insert(&key);
        } else {
            set.remove(&key);
        }
        let took = clock::ticks() - begin;
        let is_slow = took > slow;
        let mut flags = if is_slow { kernel.since() } else { 0 };
        if took < interruption {
            flags &= !INTERRUPTED;
        }
        flags |= look.after(&set, allocations::count() != made, is_slow);
        records[i as usize] = (took, flags);
        sum += took;
        if i % every == every - 1 || i + 1 == load.elements {
            memories.push((i + 1, sum, memory().saturating_sub(before), look.memory()));
            kernel.since();
        }
    }
    let per_ns = rate.per_ns();
    write(&records, per_ns, to).map_err(|error| format!("{}: {error}", to.display()))?;
    let row = |(done, took, bytes, parts): &(u64, u64, u64, Option<[u64; 3]>)| {
        let mut row = vec![*done as f64, *took as f64 / per_ns * 1e-9, *bytes as f64];
        row.extend(parts.iter().flatten().map(|part| *part as f64));
        row
    };
    Ok(Report { left: set.len(), samples: memories.iter().map(row).collect() })
}

fn write(records: &[(u64, u32)], per_ns: f64, to: &Path) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(to)?);
    for (took, flags) in records {
        let ns = (*took as f64 / per_ns).round().min(f64::from(u32::MAX)) as u32;
        file.write_all(&ns.to_ne_bytes())?;
        file.write_all(&flags.to_ne_bytes())?;
    }
    file.flush()
}

/// Traces one structure; a slab list with this many frames, unless that is 0.
pub fn one(name: &str, load: Load, frames: u32, samples: u64, to: &Path) -> Result<Report, String> {
    match name {
        "slablist" => {
            let limit = Limit::Blocks(if frames > 0 { frames } else { 1 << 20 });
            let heap = Heap::new(Options::new().limit(limit)).map_err(|error| error.to_string())?;
            let session = heap.session().map_err(|error| error.to_string())?;
            let list = SlabList::new(&session);
            let look = InHeap { heap: &heap, list: list.stats(), blocks: heap.stats(), leave: frames > 0 };
            record(load, samples, list, look, to)
        }
        "btreeset" => record(load, samples, BTreeSet::<u64>::new(), Allocator, to),
        "indexset" => record(load, samples, indexset::BTreeSet::<u64>::new(), Allocator, to),
        "avl" => record(load, samples, avl::AvlTreeSet::<u64>::new(), Allocator, to),
        "skiplist" => record(load, samples, crossbeam_skiplist::SkipSet::<u64>::new(), Allocator, to),
        _ => Err(format!("no peer is called {name}")),
    }
}
