//! How the blocks of each kind are grouped, as `grouping.rs` found by trying.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use crate::heap::block::layout::fields::Plan;

/// The best plan found so far for blocks of one kind, and the number of blocks stored.
#[derive(Debug, Default)]
pub struct Plans {
    pub best: Mutex<Best>,
    pub blocks: AtomicU32,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Best {
    /// Without columns, blocks are not grouped.
    pub plan: Plan,
    /// Blocks are packed as ascending numbers, if they can be.
    pub is_ascending: bool,
}
