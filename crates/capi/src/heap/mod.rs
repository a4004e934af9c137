//! Heaps by their numbers.

pub mod callbacks;
mod file;
pub mod options;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memfold::heap::{Heap, Options, TierHealth};

use crate::bound::{Seat, Shared};
use crate::entry::{Out, entry};
use crate::error::{Code, Failure};
use crate::heap::callbacks::Callbacks;
use crate::heap::options::{limit, memfold_options, read};

/// C's view of a heap: a number, see [`number`].
#[repr(C)]
pub struct memfold_heap {
    _nothing: [u8; 0],
}

/// As in `memfold.h`. New fields are added at the end.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct memfold_stats {
    pub nodes: u64,
    pub node_bytes: u64,
    pub blocks: u64,
    pub frame_bytes: u64,
    pub payload_bytes: u64,
    pub table_bytes: u64,
    pub faults: u64,
    pub evictions: u64,
    pub compressions: u64,
    pub sessions: u64,
    pub callback_faults: u64,
    pub spilled_bytes: u64,
    pub spill_health: u64,
}

/// The prefix of the numbers: "mf". Addresses on 64-bit processors begin with sixteen equal bits, so no memory
/// has such an address.
const TAG: u64 = 0x6d66 << 48;

/// A number for C, for the `serial`th object of its kind. Heaps and sessions have different kinds, so neither is
/// mistaken for the other.
pub fn number(serial: u64, kind: u64) -> usize {
    const { assert!(size_of::<usize>() == 8, "numbers have 64 bits") };
    (TAG | serial << 2 & ((1 << 48) - 1) | kind) as usize
}

/// The kind of heaps.
const HEAP: u64 = 1;

/// All heaps.
struct Heaps {
    /// How many were ever made.
    made: u64,
    live: BTreeMap<usize, Arc<Shared>>,
}

static HEAPS: Mutex<Heaps> = Mutex::new(Heaps { made: 0, live: BTreeMap::new() });

fn heaps() -> MutexGuard<'static, Heaps> {
    HEAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The heap with that number.
pub fn find(heap: *mut memfold_heap) -> Result<Arc<Shared>, Failure> {
    if heap.is_null() {
        return Err(Code::Null.into());
    }
    heaps().live.get(&heap.addr()).cloned().ok_or_else(|| Code::NoHeap.into())
}

/// A seat for a session of the heap with that number.
pub fn take_seat(heap: *mut memfold_heap) -> Result<Arc<Seat>, Failure> {
    if heap.is_null() {
        return Err(Code::Null.into());
    }
    let heaps = heaps();
    let shared = heaps.live.get(&heap.addr()).ok_or(Code::NoHeap)?;
    Ok(Seat::take(shared.clone()))
}

/// Registers a heap and returns what C gets for it.
pub fn add(heap: Heap, callbacks: Option<Arc<Callbacks>>) -> *mut memfold_heap {
    let shared = Shared::new(heap, callbacks);
    let mut heaps = heaps();
    heaps.made += 1;
    let number = number(heaps.made, HEAP);
    heaps.live.insert(number, shared);
    ptr::without_provenance_mut(number)
}

/// Makes an empty heap.
///
/// # Safety
/// `options` is null or has as many bytes as its first field says; names in it are null-terminated, and callbacks
/// behave as the header says. `heap` is null, or a pointer can be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_heap_new(
    options: *const memfold_options,
    heap: *mut *mut memfold_heap,
) -> c_int {
    entry(|| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(heap) }?;
        let (options, callbacks) = if options.is_null() {
            (Options::new(), None)
        } else {
            // SAFETY: as promised.
            unsafe { read(options, "memfold_options")?.settle() }?
        };
        out.set(add(Heap::new(options)?, callbacks));
        Ok(())
    })
}

/// Frees all memory of a heap.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_heap_destroy(heap: *mut memfold_heap) -> c_int {
    entry(|| {
        if heap.is_null() {
            return Err(Code::Null.into());
        }
        let mut heaps = heaps();
        let shared = heaps.live.get(&heap.addr()).ok_or(Code::NoHeap)?;
        if shared.sessions.load(Acquire) != 0 {
            return Err(Code::Open.into());
        }
        let last = heaps.live.remove(&heap.addr());
        drop(heaps);
        // If another thread is using it at the moment, that thread frees it.
        drop(last);
        Ok(())
    })
}

/// Changes the limit of a heap.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_heap_set_limit(
    heap: *mut memfold_heap,
    limit_bytes: u64,
    limit_blocks: u32,
) -> c_int {
    entry(|| {
        let shared = find(heap)?;
        let limit = limit(limit_bytes, limit_blocks)?;
        shared.guarded(|| Ok(shared.read().set_limit(limit)?))
    })
}

/// Checks every invariant of the heap.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_heap_check(heap: *mut memfold_heap) -> c_int {
    entry(|| {
        let shared = find(heap)?;
        shared.guarded(|| {
            let checked = shared.alone()?.check();
            checked.map_err(|violation| Failure::new(Code::Violation, violation.to_string()))
        })
    })
}

/// Collects the statistics.
///
/// # Safety
/// `stats` is null, or `size` bytes can be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_heap_stats(
    heap: *mut memfold_heap,
    stats: *mut memfold_stats,
    size: usize,
) -> c_int {
    entry(|| {
        let shared = find(heap)?;
        if stats.is_null() {
            return Err(Code::Null.into());
        }
        let size = crate::entry::length(size)?;
        let found = shared.guarded(|| Ok(shared.read().stats()))?;
        let counted = memfold_stats {
            nodes: found.nodes,
            node_bytes: found.node_bytes,
            blocks: found.blocks,
            frame_bytes: found.frame_bytes,
            payload_bytes: found.payload_bytes,
            table_bytes: found.table_bytes,
            faults: found.faults,
            evictions: found.evictions,
            compressions: found.compressions,
            sessions: shared.sessions.load(Relaxed) as u64,
            callback_faults: shared.callbacks.as_ref().map_or(0, |callbacks| callbacks.faults()),
            spilled_bytes: found.spilled_bytes,
            spill_health: match found.tier {
                TierHealth::None => 0,
                TierHealth::Open => 1,
                TierHealth::Full => 2,
                TierHealth::Away => 3,
                TierHealth::Unfit => 4,
            },
        };
        let known = size.min(size_of::<memfold_stats>());
        let to = stats.cast::<u8>();
        // SAFETY: the caller promises `size` bytes; the copied fields are plain numbers without padding.
        unsafe {
            ptr::copy_nonoverlapping((&raw const counted).cast(), to, known);
            to.add(known).write_bytes(0, size - known);
        }
        Ok(())
    })
}
