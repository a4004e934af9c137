//! The binary buddy system: J. L. Peterson and T. A. Norman, *Buddy Systems*, 1977; U. Vahalia, *UNIX Internals*, 1996, chapter 12.
//!
//! A block is halved until it just fits the request. A freed block merges with its buddy if that is free, and so
//! on up to the chunk, which is returned.

use super::Model;
use super::blocks::{Blocks, Free, TOP, block, buddy, offset, order};

/// See the module.
#[derive(Default)]
pub struct Buddy(Blocks);

impl Model for Buddy {
    fn allocate(&mut self, len: usize) -> u64 {
        let wanted = order(len);
        let found = (wanted..=TOP).find_map(|order| Some((self.0.pop(Free::Known, order)?, order)));
        let (block, from) = found.unwrap_or_else(|| (self.0.grow(), TOP));
        for order in (wanted..from).rev() {
            self.0.push(Free::Known, order, buddy(block, order));
        }
        offset(block)
    }

    fn free(&mut self, at: u64, len: usize) {
        let (mut block, mut order) = (block(at), order(len));
        while order < TOP && self.0.take_buddy(block, order) {
            block &= !(1 << order);
            order += 1;
        }
        if order == TOP { self.0.give_back(block) } else { self.0.push(Free::Known, order, block) }
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn has(&self, at: u64) -> bool {
        self.0.chunks.has(at)
    }
}
