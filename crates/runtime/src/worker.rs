//! What a thread of the runtime that touches the store carries with it.

use core::slice;

use memfold::store::Workspace;
use memfold_codec::Scratch;

use crate::runtime::{RUNTIME, Runtime};
use crate::sys::PAGE;

/// Pages brought back by one fault at most.
pub const RUN: usize = 32;

/// A reader and writer of the store: a handler or a compressor.
pub struct Worker {
    /// Its number among the readers.
    pub number: usize,
    /// Where pages are decompressed to.
    pub pages: &'static mut [u8],
    /// To compress in.
    pub space: Workspace<'static>,
    /// To decompress in.
    pub decode: Scratch<'static>,
}

impl Worker {
    /// Takes memory for a worker; `None` if there is none.
    pub fn new(runtime: &'static Runtime, number: usize) -> Option<Self> {
        let store = runtime.store();
        Some(Worker {
            number,
            pages: take(RUN * PAGE)?,
            space: store.workspace(PAGE, take(store.workspace_bytes(PAGE))?),
            decode: Scratch::new(take(store.decode_scratch(PAGE))?),
        })
    }
}

fn take(bytes: usize) -> Option<&'static mut [u8]> {
    let place = RUNTIME.arena.reserve(bytes, PAGE)?;
    // SAFETY: fresh zeroed memory of the arena, handed out once, never unmapped.
    Some(unsafe { slice::from_raw_parts_mut(place, bytes) })
}
