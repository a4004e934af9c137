//! Faults on spilled pages that wait for a fetcher.

use memfold_shared::spill::Word;

use super::batches::SpillLocation;
use super::direct::Reading;
use crate::pages::events::order::Fault;

/// Interval between checks whether a read can begin, in ns.
pub const AGAIN_NS: u64 = 1_000_000;
/// Maximum number of faults that wait for a fetcher; and the same for tests (`--paranoid`), so that faults
/// are forgotten.
pub const QUEUE: usize = 256;
pub const SHORT_QUEUE: usize = 8;

/// A request, and the place where its answer will be.
#[derive(Clone, Copy)]
pub struct Asked {
    pub(super) way: Way,
    /// The batch's number.
    pub(super) number: u64,
    /// The first block, and the number of consecutive ones.
    pub(super) first: SpillLocation,
    pub count: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Way {
    /// This process reads the blocks itself.
    Read(Reading),
    /// The supervisor was asked, with this request slot.
    Post(usize, Word),
}

/// A fault that waits for a fetcher: since when, and how many pages to restore.
#[derive(Clone, Copy)]
pub struct Left {
    pub fault: Fault,
    pub begin: u64,
    pub run: usize,
    /// The request, if one was made already.
    pub asked: Option<Asked>,
}

/// Faults on spilled pages.
pub struct Queue {
    faults: [Option<Left>; QUEUE],
    first: usize,
    pub count: usize,
    places: usize,
    /// Some faults found no place: their threads are woken when there is room again, and not before, or they
    /// would fault again and again.
    pub forgotten: bool,
}

impl Queue {
    /// No faults.
    pub const fn new() -> Self {
        Queue { faults: [const { None }; QUEUE], first: 0, count: 0, places: QUEUE, forgotten: false }
    }

    /// Reduces the number of places. Called before the first fault.
    pub fn shorten(&mut self) {
        self.places = SHORT_QUEUE;
    }

    /// Whether a fault on this page waits: a thread that a signal has interrupted touches the page again.
    pub fn has(&self, page: usize) -> bool {
        let mut waiting = (0..self.count).filter_map(|at| self.faults[(self.first + at) % QUEUE]);
        waiting.any(|left| left.fault.page == page)
    }

    pub fn is_full(&self) -> bool {
        self.count == self.places
    }

    /// Whether faults were forgotten and there is room for them again: then the caller wakes all waiting
    /// threads.
    pub fn take_forgotten(&mut self) -> bool {
        self.count <= self.places / 2 && core::mem::take(&mut self.forgotten)
    }

    pub fn push(&mut self, left: Left) {
        debug_assert!(!self.is_full());
        self.faults[(self.first + self.count) % QUEUE] = Some(left);
        self.count += 1;
    }

    pub fn pop(&mut self) -> Option<Left> {
        self.count = self.count.checked_sub(1)?;
        let first = self.first;
        self.first = (first + 1) % QUEUE;
        self.faults[first].take()
    }

    /// Forgets all of them, in place: the queue is large, and the program's stack may be small.
    pub fn clear(&mut self) {
        (self.count, self.forgotten) = (0, false);
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}
