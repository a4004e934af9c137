//! Memory that threads are about to take.
//!
//! A thread checks whether memory is left, and takes it later: a new block needs a frame, and an evicted block
//! grows the store. If several threads checked at the same time, each would find room for itself alone. So a
//! thread first pledges what it may take, and then checks, with all pledges counted as taken. A pledge ends when
//! what was taken is counted itself.

use std::sync::atomic::Ordering::*;

use crate::heap::core::Core;

/// Bytes that a thread may take; it gives up what it has not taken when this is dropped.
pub struct Pledge<'c> {
    core: &'c Core,
    bytes: u64,
}

impl Core {
    /// Counts `blocks` more blocks as taken.
    pub fn pledge(&self, blocks: u64) -> Pledge<'_> {
        let bytes = blocks * self.frames.most_bytes() as u64;
        self.counts.pledged.fetch_add(bytes, AcqRel);
        Pledge { core: self, bytes }
    }
}

impl Drop for Pledge<'_> {
    fn drop(&mut self) {
        self.core.counts.pledged.fetch_sub(self.bytes, AcqRel);
    }
}
