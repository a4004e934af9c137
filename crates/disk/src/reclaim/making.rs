//! What the thread that makes room has: memory to work in, and where it stopped.

use crate::memory::works::Work;

/// What the thread that makes room needs.
pub struct Making {
    pub(super) work: Work,
    /// The leaf at which the search continues.
    pub(super) next: u64,
    /// How often room was made.
    pub(super) rounds: u64,
    /// The count of changes when nothing was left to make smaller; then the same for tightening.
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
