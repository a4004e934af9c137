//! What both buddy systems have: blocks of powers of two within chunks, in lists by size.
//!
//! The links of a list stand in the free blocks themselves where there is memory; beside it, a bit for each unit says whether it is free.

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
    /// Its buddy may join it.
    Known = 0,
    /// Nobody but its list knows.
    Hidden = 1,
}

/// The first unit of a free block: the units behind and before in its list, and what it is.
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

/// Where a block is.
pub fn offset(block: u32) -> u64 {
    u64::from(block) * UNIT as u64
}

/// The block that is there.
pub fn block(at: u64) -> u32 {
    (at / UNIT as u64) as u32
}

/// The block of the same order that it was split from.
pub fn buddy(block: u32, order: usize) -> u32 {
    block ^ (1 << order)
}

impl Blocks {
    /// A new chunk, as one block.
    pub fn grow(&mut self) -> u32 {
        let first = self.chunks.take() * UNITS;
        let none = Unit { next: NONE, last: NONE, is: None };
        self.units.resize(self.units.len().max(first + UNITS), none);
        first as u32
    }

    /// A chunk's block is free.
    pub fn give_back(&mut self, block: u32) {
        self.chunks.give_back(block as usize / UNITS);
    }

    /// Into its list, at the front.
    pub fn push(&mut self, free: Free, order: usize, block: u32) {
        let head = &mut self.heads[free as usize][order];
        let next = std::mem::replace(head, block);
        if next != NONE {
            self.units[next as usize].last = block;
        }
        self.units[block as usize] = Unit { next, last: NONE, is: Some((free, order as u8)) };
    }

    /// The first of a list.
    pub fn pop(&mut self, free: Free, order: usize) -> Option<u32> {
        let block = self.heads[free as usize][order];
        (block != NONE).then(|| {
            self.unlink(free, order, block);
            block
        })
    }

    /// The block's buddy out of its list, if that is free and known to be.
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

    /// Chunks, and the bits of their units.
    pub fn bytes(&self) -> usize {
        self.chunks.count() * (CHUNK + UNITS / 8)
    }
}
