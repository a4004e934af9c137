//! State of making room: working memory, and the position of the search.

use crate::memory::works::Work;

/// What the thread that makes room needs; only one thread makes room at a time.
pub struct Making {
    pub(super) work: Work,
    /// The leaf at which the search continues.
    pub(super) next: u64,
    /// How many times room was made.
    pub(super) rounds: u64,
    /// The count of changes at which nothing was left to make smaller; the next field is the same for
    /// tightening.
    pub(super) exhausted: Option<u64>,
    pub(super) tight: Option<u64>,
}

impl Making {
    pub fn new(work: Work) -> Self {
        Making { work, next: 0, rounds: 0, exhausted: None, tight: None }
    }

    pub fn work(&mut self) -> &mut Work {
        &mut self.work
    }
}
