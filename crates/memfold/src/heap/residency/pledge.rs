//! Memory that threads are about to take.
//!
//! A thread checks whether memory is left, and takes it later: a new block needs a frame, and an evicted block
//! grows the store. If several threads checked at the same time, each would find room for itself alone. So a
//! thread first pledges what it may take, and then checks, with all pledges counted as taken. A pledge ends when
//! what was taken is counted itself.

use std::sync::atomic::Ordering::*;

use crate::heap::core::Core;

/// What is pledged for a new block, in blocks: its frame, and its copy in the store.
const PER_BLOCK: u64 = 2;

/// Bytes that a thread may take; it gives up what it has not taken when this is dropped.
pub struct Pledge<'c> {
    core: &'c Core,
    bytes: u64,
}

impl Core {
    /// Counts what a new block takes as taken.
    pub fn pledge_block(&self) -> Pledge<'_> {
        self.pledge(self.bytes_per_block())
    }

    /// Counts the growth of the store as taken when this many blocks are evicted.
    pub fn pledge_copies(&self, blocks: usize) -> Pledge<'_> {
        self.pledge((blocks * self.frames.most_bytes()) as u64)
    }

    fn pledge(&self, bytes: u64) -> Pledge<'_> {
        self.counts.pledged.fetch_add(bytes, AcqRel);
        Pledge { core: self, bytes }
    }

    /// Bytes that are pledged for a new block.
    pub fn bytes_per_block(&self) -> u64 {
        PER_BLOCK * self.frames.most_bytes() as u64
    }

    /// Bytes that all threads have pledged.
    pub fn pledged(&self) -> u64 {
        self.counts.pledged.load(Acquire)
    }
}

impl Drop for Pledge<'_> {
    fn drop(&mut self) {
        self.core.counts.pledged.fetch_sub(self.bytes, AcqRel);
    }
}
