//! The buffers of a runtime thread that touches the store.

use core::slice;
use core::sync::atomic::Ordering::*;

use memfold::store::Workspace;
use memfold_codec::Scratch;

use crate::kernel::addresses::RUN;
use crate::kernel::sys::PAGE;
use crate::runtime::Runtime;

/// Space for a sealed block of one page.
const SEALED: usize = 2 * PAGE;

/// A reader and writer of the store: a handler, a compressor or a fetcher; also the keeper, when it restores
/// everything, and the thread that fills unprepared children.
pub struct Worker {
    /// Its number among the readers.
    pub number: usize,
    /// Where pages are decompressed.
    pub pages: &'static mut [u8],
    /// Where a sealed block is opened.
    pub sealed: &'static mut [u8],
    /// Workspace for compression.
    pub space: Workspace<'static>,
    /// Workspace for decompression.
    pub decode: Scratch<'static>,
}

impl Worker {
    /// A worker that uses the memory of its number, which is reserved if there is none yet; `None` if no
    /// memory is left.
    ///
    /// # Safety
    /// There must be no other worker of this number in this process: a forked child reuses the memory it
    /// leaves behind.
    pub unsafe fn new(runtime: &'static Runtime, number: usize) -> Option<Self> {
        let store = runtime.store();
        let mut next = Self::prepare(runtime, number)?;
        let mut take = |bytes: usize| {
            let at = next;
            next += bytes.next_multiple_of(PAGE);
            // SAFETY: within the memory of this number (see `prepare`), which no other thread uses, and which
            // is never unmapped.
            unsafe { slice::from_raw_parts_mut(at as *mut u8, bytes) }
        };
        Some(Worker {
            number,
            pages: take(RUN * PAGE),
            sealed: take(SEALED),
            space: store.workspace(PAGE, take(store.workspace_bytes(PAGE))),
            decode: Scratch::new(take(store.decode_scratch(PAGE))),
        })
    }

    /// Reserves, once, the memory for the worker with this number. Returns its address.
    pub fn prepare(runtime: &'static Runtime, number: usize) -> Option<usize> {
        let place = &runtime.threads.worker_memory[number];
        if place.load(Relaxed) == 0 {
            place.store(runtime.arena.reserve(Self::bytes(runtime), PAGE)? as usize, Relaxed);
        }
        Some(place.load(Relaxed))
    }

    /// Number of bytes that a worker needs.
    fn bytes(runtime: &Runtime) -> usize {
        let store = runtime.store();
        let parts = [RUN * PAGE, SEALED, store.workspace_bytes(PAGE), store.decode_scratch(PAGE)];
        parts.iter().map(|bytes| bytes.next_multiple_of(PAGE)).sum()
    }

    /// Number of bytes that the worker of this number has yet to reserve.
    pub fn missing(runtime: &Runtime, number: usize) -> usize {
        if runtime.threads.worker_memory[number].load(Relaxed) == 0 { Self::bytes(runtime) } else { 0 }
    }
}
