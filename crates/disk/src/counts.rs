//! Counters of events and of the current content, for statistics and for the background thread.

use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::index::leaf::Entry;

/// Counters of events, and of the current content.
#[derive(Debug, Default)]
pub struct Counts {
    /// Pages that are not holes; then those of them that are one repeated word, and those that are joined.
    pub used: AtomicU64,
    pub fills: AtomicU64,
    pub joined: AtomicU64,
    pub pages_read: AtomicU64,
    pub pages_written: AtomicU64,
    pub pages_trimmed: AtomicU64,
    /// Decompressions, and blocks that were made denser.
    pub faults: AtomicU64,
    pub merges: AtomicU64,
    /// Pages that went back from the dense tier to the fast tier.
    pub promotions: AtomicU64,
    /// Blobs that the store has moved.
    pub moved: AtomicU64,
    pub refused: AtomicU64,
    /// Advances with every read and change; tells the background thread whether there is something to do.
    pub activity: AtomicU64,
    /// Advances with every change; tells whether there may be room again after the device was full.
    pub changes: AtomicU64,
}

impl Counts {
    /// Records a change: there is something to examine, and perhaps room.
    pub fn changed_something(&self) {
        self.activity.fetch_add(1, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }

    /// Updates the counts for a changed page.
    pub fn changed(&self, before: Entry, after: Entry) {
        let count = |count: &AtomicU64, before: bool, after: bool| match (before, after) {
            (false, true) => drop(count.fetch_add(1, Relaxed)),
            (true, false) => drop(count.fetch_sub(1, Relaxed)),
            _ => {}
        };
        let fill = |entry| matches!(entry, Entry::Fill(_));
        count(&self.used, before != Entry::Hole, after != Entry::Hole);
        count(&self.fills, fill(before), fill(after));
        count(&self.joined, before == Entry::Joined, after == Entry::Joined);
    }
}
