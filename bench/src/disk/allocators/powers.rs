//! Simple power-of-two free lists: U. Vahalia, *UNIX Internals*, 1996, chapter 12.
//!
//! A list of free buffers for each power of two. In front of each buffer that is in use stands one word that says which list it is from, so that a request for just a power of two takes twice
//! as much. Nothing is ever joined, or goes from one list to another, or back: nobody knows whether the rest of a chunk is free.

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
