//! The state of moving the needed blocks out of sparse batches: see `rewrite.rs`.

use core::sync::atomic::Ordering::*;

use memfold_shared::spill::{self as area, Area, POSTS, Word};

use super::batches::Held;

/// A batch that is being read.
pub struct Reading {
    pub(super) post: usize,
    pub(super) taken: Word,
    pub(super) batch: Held,
}

/// The state of moving sparse batches.
pub struct Sparse {
    /// One batch at a time.
    pub(super) reading: Option<Reading>,
    /// The position of the hand that looks for them.
    pub(super) hand: u32,
}

impl Sparse {
    /// No batch.
    pub const fn new() -> Self {
        Sparse { reading: None, hand: 0 }
    }

    /// Whether a batch is being read.
    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// In a forked child: the request is the parent's. Returns the batch that it was about.
    pub fn forget(&mut self) -> Option<u32> {
        self.reading.take().map(|reading| reading.batch.index)
    }

    /// Whether the batch was read, or will not be.
    pub fn is_answered(&self, area: &Area) -> bool {
        self.reading.as_ref().is_some_and(|reading| {
            let now = area.posts[reading.post % POSTS].load();
            let is_left_alone = area.server.load(Relaxed) == 0;
            is_left_alone
                || now != reading.taken.with(area::state::ASKED)
                    && now != reading.taken.with(area::state::BUSY)
        })
    }
}
