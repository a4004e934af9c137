//! The McKusick-Karels allocator: M. K. McKusick and M. J. Karels, *Design of a General Purpose Memory Allocator for the 4.3BSD UNIX Kernel*, 1988; U. Vahalia, *UNIX Internals*, 1996, chapter 12.
//!
//! Power-of-two lists without headers: all buffers of a page have one size, which a table stores for each page. A
//! page never changes its size.

use super::Model;
use super::chunks::{CHUNK, Chunks};
use crate::PAGE;

const LEAST: usize = 16;
const LISTS: usize = PAGE.ilog2() as usize + 1;
/// Bytes of the table per page.
const ENTRY: usize = 4;

/// See the module.
#[derive(Default)]
pub struct McKusickKarels {
    chunks: Chunks,
    /// Pages that have no size yet.
    pages: Vec<u64>,
    lists: [Vec<u64>; LISTS],
    /// The logarithm of the size of each page's buffers.
    sizes: Vec<u8>,
}

impl Model for McKusickKarels {
    fn allocate(&mut self, len: usize) -> u64 {
        let size = len.next_power_of_two().max(LEAST);
        let list = &mut self.lists[size.ilog2() as usize];
        if list.is_empty() {
            if self.pages.is_empty() {
                let start = self.chunks.take() * CHUNK;
                self.pages.extend((start..start + CHUNK).step_by(PAGE).rev().map(|at| at as u64));
                self.sizes.resize((start + CHUNK) / PAGE, 0);
            }
            let page = self.pages.pop().unwrap_or_default();
            self.sizes[page as usize / PAGE] = size.ilog2() as u8;
            list.extend((0..PAGE).step_by(size).rev().map(|within| page + within as u64));
        }
        list.pop().unwrap_or_default()
    }

    fn free(&mut self, at: u64, _len: usize) {
        let size = self.sizes[at as usize / PAGE];
        self.lists[usize::from(size)].push(at);
    }

    fn bytes(&self) -> usize {
        self.chunks.bytes() + self.sizes.len() * ENTRY
    }

    fn has(&self, at: u64) -> bool {
        self.chunks.has(at)
    }
}
