//! The common part of both buddy systems: blocks of powers of two within chunks, in lists by size.
//!
//! In reality, the links of a list would be in the free blocks themselves; beside it, one bit per unit says
//! whether it is free.

use super::chunks::{CHUNK, Chunks};

/// The smallest block.
const UNIT: usize = 32;
const UNITS: usize = CHUNK / UNIT;
/// The order of a whole chunk.
pub const TOP: usize = UNITS.ilog2() as usize;

const NONE: u32 = u32::MAX;

/// How a block is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// Its buddy may merge with it.
    Known = 0,
    /// Only its list knows that it is free.
    Hidden = 1,
}

/// The first unit of a free block: the next and the previous unit in its list, and its state.
#[derive(Clone, Copy)]
struct Unit {
    next: u32,
    last: u32,
    is: Option<(Free, u8)>,
}

/// See the module.
pub struct Blocks {
    pub chunks: Chunks,
    units: Vec<Unit>,
    heads: [[u32; TOP + 1]; 2],
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks { chunks: Chunks::default(), units: Vec::new(), heads: [[NONE; TOP + 1]; 2] }
    }
}

/// The order of the blocks for that length.
pub fn order(len: usize) -> usize {
    len.div_ceil(UNIT).next_power_of_two().ilog2() as usize
}

/// The offset of a block.
pub fn offset(block: u32) -> u64 {
    u64::from(block) * UNIT as u64
}

/// The block at an offset.
pub fn block(at: u64) -> u32 {
    (at / UNIT as u64) as u32
}

/// The block of the same order that it was split from.
pub fn buddy(block: u32, order: usize) -> u32 {
    block ^ (1 << order)
}

impl Blocks {
    /// Adds a chunk as one block.
    pub fn grow(&mut self) -> u32 {
        let first = self.chunks.take() * UNITS;
        let none = Unit { next: NONE, last: NONE, is: None };
        self.units.resize(self.units.len().max(first + UNITS), none);
        first as u32
    }

    /// Returns a chunk that is completely free.
    pub fn give_back(&mut self, block: u32) {
        self.chunks.give_back(block as usize / UNITS);
    }

    /// Puts a block at the front of its list.
    pub fn push(&mut self, free: Free, order: usize, block: u32) {
        let head = &mut self.heads[free as usize][order];
        let next = std::mem::replace(head, block);
        if next != NONE {
            self.units[next as usize].last = block;
        }
        self.units[block as usize] = Unit { next, last: NONE, is: Some((free, order as u8)) };
    }

    /// Takes the first block of a list.
    pub fn pop(&mut self, free: Free, order: usize) -> Option<u32> {
        let block = self.heads[free as usize][order];
        (block != NONE).then(|| {
            self.unlink(free, order, block);
            block
        })
    }

    /// Takes the block's buddy out of its list, if it is free and known to be.
    pub fn take_buddy(&mut self, block: u32, order: usize) -> bool {
        let buddy = buddy(block, order);
        let is_free = self.units[buddy as usize].is == Some((Free::Known, order as u8));
        if is_free {
            self.unlink(Free::Known, order, buddy);
        }
        is_free
    }

    fn unlink(&mut self, free: Free, order: usize, block: u32) {
        let Unit { next, last, .. } = self.units[block as usize];
        self.units[block as usize].is = None;
        match last {
            NONE => self.heads[free as usize][order] = next,
            last => self.units[last as usize].next = next,
        }
        if next != NONE {
            self.units[next as usize].last = last;
        }
    }

    /// Bytes of the chunks and of their units' bits.
    pub fn bytes(&self) -> usize {
        self.chunks.count() * (CHUNK + UNITS / 8)
    }
}
