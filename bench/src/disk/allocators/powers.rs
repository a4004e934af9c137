//! Simple power-of-two free lists: U. Vahalia, *UNIX Internals*, 1996, chapter 12.
//!
//! There is a list of free buffers for each power of two. A word in front of each buffer in use says which list
//! it is from, so a request for exactly a power of two takes twice as much. Buffers are never merged, moved to
//! another list, or returned: nobody knows whether the rest of a chunk is free.

use super::Model;
use super::chunks::{CHUNK, Chunks};

const HEADER: usize = 8;
const LEAST: usize = 32;
const LISTS: usize = CHUNK.ilog2() as usize + 1;

/// See the module.
#[derive(Default)]
pub struct PowersOfTwo {
    chunks: Chunks,
    lists: [Vec<u64>; LISTS],
}

fn buffer(len: usize) -> usize {
    (len + HEADER).next_power_of_two().max(LEAST)
}

impl Model for PowersOfTwo {
    fn allocate(&mut self, len: usize) -> u64 {
        let size = buffer(len);
        let list = &mut self.lists[size.ilog2() as usize];
        if list.is_empty() {
            let start = self.chunks.take() * CHUNK;
            list.extend((start..start + CHUNK).step_by(size).rev().map(|at| at as u64));
        }
        list.pop().map_or(0, |at| at + HEADER as u64)
    }

    fn free(&mut self, at: u64, len: usize) {
        self.lists[buffer(len).ilog2() as usize].push(at - HEADER as u64);
    }

    fn bytes(&self) -> usize {
        self.chunks.bytes()
    }

    fn has(&self, at: u64) -> bool {
        self.chunks.has(at)
    }
}
