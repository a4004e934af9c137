//! Addresses that are never taken away: control blocks and thread-local
//! storage of threads, and what the program has locked.
//!
//! The kernel writes to a control block when its thread ends, and can't be
//! served then. That of a thread that has ended is kept too: the C library
//! keeps its stack for the next thread, in a list that goes through the
//! control blocks, and walks that list in a forked child before any handler.
//! What was taken away before its range was kept is brought back before a fork.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::runtime::Runtime;
use crate::sys::{self, advice};
use crate::table::BLOCK;

const RANGES: usize = 4096;

struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    /// The thread pointer that lies in it.
    thread: AtomicUsize,
    used: AtomicU32,
}

impl Range {
    const fn new() -> Self {
        Range {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            thread: AtomicUsize::new(0),
            used: AtomicU32::new(0),
        }
    }
}

/// See the module.
pub struct KeepOut {
    ranges: [Range; RANGES],
    high: AtomicUsize,
    /// More ranges were wanted than there is room for: nothing may be taken away.
    overflow: AtomicU32,
}

impl KeepOut {
    /// None.
    pub const fn new() -> Self {
        KeepOut {
            ranges: [const { Range::new() }; RANGES],
            high: AtomicUsize::new(0),
            overflow: AtomicU32::new(0),
        }
    }

    /// Adds the range of a thread, for ever.
    pub fn add(&self, start: usize, end: usize, thread: usize) {
        let (start, end) = (start & !(sys::PAGE - 1), end.next_multiple_of(sys::PAGE));
        let used = &self.ranges[..self.high.load(Acquire)];
        let known = |range: &&Range| {
            range.used.load(Acquire) == 2
                && range.start.load(Relaxed) == start
                && range.end.load(Relaxed) == end
                && range.thread.load(Relaxed) == thread
        };
        if used.iter().any(|range| known(&range)) {
            return;
        }
        for (number, range) in self.ranges.iter().enumerate() {
            if range.used.load(Relaxed) == 0 && range.used.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
                range.end.store(end, Relaxed);
                range.start.store(start, Relaxed);
                range.thread.store(thread, Relaxed);
                range.used.store(2, Release);
                self.high.fetch_max(number + 1, AcqRel);
                return;
            }
        }
        self.overflow.store(1, Release);
    }

    /// Calls `visit` with every kept range.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        for range in &self.ranges[..self.high.load(Acquire)] {
            if range.used.load(Acquire) == 2 {
                visit(range.start.load(Relaxed), range.end.load(Relaxed));
            }
        }
    }

    /// Calls `visit` with the thread pointer of every thread that was ever known.
    pub fn for_each_thread(&self, mut visit: impl FnMut(usize)) {
        for range in &self.ranges[..self.high.load(Acquire)] {
            if range.used.load(Acquire) == 2 {
                visit(range.thread.load(Relaxed));
            }
        }
    }

    /// Ranges that were ever kept at once.
    pub fn count(&self) -> usize {
        self.high.load(Acquire)
    }

    /// The first kept range that begins before `end` and ends after `start`.
    pub fn first_in(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        if self.overflow.load(Relaxed) != 0 {
            return Some((start, end));
        }
        let mut first: Option<(usize, usize)> = None;
        for range in &self.ranges[..self.high.load(Acquire)] {
            if range.used.load(Acquire) != 2 {
                continue;
            }
            let (from, to) = (range.start.load(Relaxed), range.end.load(Relaxed));
            if from < end && start < to && first.is_none_or(|(earliest, _)| from < earliest) {
                first = Some((from, to));
            }
        }
        first
    }
}

impl Runtime {
    /// Makes everything resident that is evicted of a range.
    pub fn bring_back(&self, start: usize, end: usize) {
        self.table.for_each_block(start, end, |base, block| {
            if block.evicted.load(Acquire) != 0 {
                let (from, to) = (start.max(base), end.min(base + BLOCK));
                // SAFETY: reading loses nothing. What can't be read at all stays evicted until it can.
                let _ = unsafe { sys::madvise(from, to - from, advice::POPULATE_READ) };
            }
        });
    }
}

impl Default for KeepOut {
    fn default() -> Self {
        Self::new()
    }
}
