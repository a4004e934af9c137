//! The state of a session's peeks (`peek.rs`): memory for parts of nodes, and how often the block is faulted
//! in instead.

use std::cell::{Cell, RefCell};
use std::vec::Vec;

use crate::heap::core::Core;

/// One look in this many faults the block in. With 16, looking at the same parts until the block is faulted
/// in costs as much as faulting it in. But if all blocks are wanted, some more often than others, each block
/// that is faulted in evicts one that is wanted, too. Finds by Zipf's law, with the most wanted items
/// scattered, took 7 times as long as in a resident list with 16, 5 times with 64, and a little less with
/// 128.
const BRING: u32 = 128;
/// Once in this many times if there is a frame without a block.
const BRING_TO_FREE: u32 = 16;
/// Once in this many times if the previous look was at the same block, so that a block where a program stays
/// for a while soon becomes resident.
const BRING_AGAIN: u32 = 8;

/// See the module.
#[derive(Default)]
pub struct Peeks {
    /// As many words as a block has, one more, and space for a run.
    pub(super) words: RefCell<Vec<u64>>,
    pub(super) turn: Cell<u32>,
    /// The block that was looked at last.
    pub(super) last: Cell<u32>,
}

impl Peeks {
    /// Whether to fault the block in this time: at random, since a program's accesses have periods of their
    /// own.
    pub(super) fn brings(&self, core: &Core, block: u32) -> bool {
        // Knuth, The Art of Computer Programming, 3.3.4, table 1, line 16.
        let turn = self.turn.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.turn.set(turn);
        let random = turn >> 16;
        let is_again = self.last.replace(block) == block;
        random.is_multiple_of(if is_again { BRING_AGAIN } else { BRING })
            || random.is_multiple_of(BRING_TO_FREE) && core.has_free_frame()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.borrow().capacity() * size_of::<u64>()
    }
}
