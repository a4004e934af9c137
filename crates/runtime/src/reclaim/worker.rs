//! What a thread of the runtime that touches the store carries with it.

use core::slice;
use core::sync::atomic::Ordering::*;

use memfold::store::Workspace;
use memfold_codec::Scratch;

use crate::kernel::sys::PAGE;
use crate::runtime::Runtime;

/// Pages brought back by one fault at most.
pub const RUN: usize = 32;

/// Room for a sealed block of a page.
const SEALED: usize = 2 * PAGE;

/// A reader and writer of the store: a handler or a compressor.
pub struct Worker {
    /// Its number among the readers.
    pub number: usize,
    /// Where pages are decompressed to.
    pub pages: &'static mut [u8],
    /// Where a sealed block is opened.
    pub sealed: &'static mut [u8],
    /// To compress in.
    pub space: Workspace<'static>,
    /// To decompress in.
    pub decode: Scratch<'static>,
}

impl Worker {
    /// A worker in the memory of its number, which is taken if there is none
    /// yet; `None` if none is left.
    ///
    /// # Safety
    /// There must be no other worker of this number in this process: what it
    /// leaves behind in a forked child is used again.
    pub unsafe fn new(runtime: &'static Runtime, number: usize) -> Option<Self> {
        let store = runtime.store();
        let mut next = Self::prepare(runtime, number)?;
        let mut take = |bytes: usize| {
            let at = next;
            next += bytes.next_multiple_of(PAGE);
            // SAFETY: within the memory of this number (see `prepare`), which nobody else uses, and which is
            // never unmapped.
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

    /// Takes the memory for the worker of this number; once. Returns its place.
    pub fn prepare(runtime: &'static Runtime, number: usize) -> Option<usize> {
        let place = &runtime.threads.worker_memory[number];
        if place.load(Relaxed) == 0 {
            place.store(runtime.arena.reserve(Self::bytes(runtime), PAGE)? as usize, Relaxed);
        }
        Some(place.load(Relaxed))
    }

    /// What a worker takes.
    fn bytes(runtime: &Runtime) -> usize {
        let store = runtime.store();
        let parts = [RUN * PAGE, SEALED, store.workspace_bytes(PAGE), store.decode_scratch(PAGE)];
        parts.iter().map(|bytes| bytes.next_multiple_of(PAGE)).sum()
    }

    /// What the worker of this number still has to take.
    pub fn missing(runtime: &Runtime, number: usize) -> usize {
        if runtime.threads.worker_memory[number].load(Relaxed) == 0 { Self::bytes(runtime) } else { 0 }
    }
}
