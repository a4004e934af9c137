//! The lazy buddy system of SVR4: R. E. Barkley and T. P. Lee, *A Lazy Buddy System Bounded by Two Coalescing Delays*, 1989; U. Vahalia, *UNIX Internals*, 1996, chapter 12.
//!
//! Code that frees a block often soon needs one of the same size, so merging is delayed. Of the blocks of a size,
//! some are in use, some hidden (free, but not to be merged) and some known to be free. The **slack** is the
//! number of blocks in use minus the hidden ones: while it is two or more, a freed block is hidden; at one it is
//! merged; at zero, a hidden one is merged as well.

use super::Model;
use super::blocks::{Blocks, Free, TOP, block, buddy, offset, order};

/// See the module.
#[derive(Default)]
pub struct LazyBuddy {
    blocks: Blocks,
    /// Of each order.
    used: [usize; TOP + 1],
    hidden: [usize; TOP + 1],
}

impl LazyBuddy {
    /// A block of that order that is in no list, and does not count as used.
    fn take(&mut self, order: usize) -> u32 {
        if let Some(block) = self.blocks.pop(Free::Hidden, order) {
            self.hidden[order] -= 1;
            return block;
        }
        if let Some(block) = self.blocks.pop(Free::Known, order) {
            return block;
        }
        if order == TOP {
            return self.blocks.grow();
        }
        let block = self.take(order + 1);
        self.blocks.push(Free::Known, order, buddy(block, order));
        block
    }

    fn join(&mut self, mut block: u32, mut order: usize) {
        while order < TOP && self.blocks.take_buddy(block, order) {
            block &= !(1 << order);
            order += 1;
        }
        if order == TOP { self.blocks.give_back(block) } else { self.blocks.push(Free::Known, order, block) }
    }
}

impl Model for LazyBuddy {
    fn allocate(&mut self, len: usize) -> u64 {
        let order = order(len);
        let block = self.take(order);
        self.used[order] += 1;
        offset(block)
    }

    fn free(&mut self, at: u64, len: usize) {
        let (block, order) = (block(at), order(len));
        let slack = self.used[order].saturating_sub(self.hidden[order]);
        self.used[order] -= 1;
        if slack >= 2 {
            self.blocks.push(Free::Hidden, order, block);
            self.hidden[order] += 1;
            return;
        }
        self.join(block, order);
        if slack == 0
            && let Some(block) = self.blocks.pop(Free::Hidden, order)
        {
            self.hidden[order] -= 1;
            self.join(block, order);
        }
    }

    fn bytes(&self) -> usize {
        self.blocks.bytes()
    }

    fn has(&self, at: u64) -> bool {
        self.blocks.chunks.has(at)
    }
}
