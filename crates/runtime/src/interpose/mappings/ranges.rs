//! What the program has requested for address ranges.

use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::memory::range_set::RangeSet;
use crate::runtime::RUNTIME;

/// Ranges that the program itself has given to `MADV_DONTFORK`.
pub static PROGRAM_DONTFORK: RangeSet = RangeSet::new();
/// Ranges that the program has given to `MADV_WIPEONFORK`.
pub static PROGRAM_WIPED: RangeSet = RangeSet::new();
/// Ranges that the program has locked.
pub static PROGRAM_LOCKED: RangeSet = RangeSet::new();
/// Ranges that a thread of the program is about to move: see `remap.rs`.
pub static MOVING: RangeSet = RangeSet::new();

/// Ranges that must not be evicted.
static KEPT: [&RangeSet; 3] = [&PROGRAM_LOCKED, &PROGRAM_WIPED, &MOVING];

/// The first range that must not be evicted and that begins before `end` and ends after `start`.
pub fn first_kept(start: usize, end: usize) -> Option<(usize, usize)> {
    if !is_complete() {
        return Some((start, end));
    }
    KEPT.iter().filter_map(|set| set.first_in(start, end)).min()
}

/// Whether any of the range must not be evicted, or may not be for a moment. For threads that hold the order
/// lock: it waits for no thread of the program ([`RangeSet::first_in_now`]).
pub fn is_kept_now(start: usize, end: usize) -> bool {
    !is_complete() || KEPT.iter().any(|set| set.first_in_now(start, end).is_some())
}

/// Whether all of the program's requests are known.
fn is_complete() -> bool {
    if KEPT.iter().any(|set| set.has_overflowed()) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        if !TOLD.swap(true, Relaxed) {
            RUNTIME.say("it has locked or marked more ranges of its memory than memfold can track (16,384): nothing more is evicted");
        }
        return false;
    }
    true
}

/// Calls `visit` with the parts of a range that the program wants in a child. If the program has marked more
/// ranges than can be remembered, some count as unmarked: a child with memory that it does not expect is
/// better than one without memory that it needs.
pub fn for_each_inherited(start: usize, end: usize, mut visit: impl FnMut(usize, usize)) {
    let mut at = start;
    while let Some((from, to)) = PROGRAM_DONTFORK.first_in(at, end) {
        if at < from {
            visit(at, from);
        }
        at = to;
    }
    if at < end {
        visit(at, end);
    }
}

/// All of the program's requests, for ranges that it owns.
pub static ALL: [&RangeSet; 3] = [&PROGRAM_DONTFORK, &PROGRAM_WIPED, &PROGRAM_LOCKED];

/// Whether the program has requested anything. An unprepared child no longer uses the requests.
#[inline(always)]
pub fn is_any() -> bool {
    ALL.iter().any(|set| !set.is_empty()) && crate::process::here::is_own()
}

/// The range has been unmapped.
pub fn forget(start: usize, end: usize) {
    for set in ALL {
        set.remove(start, end);
    }
}

/// A mapping has moved, and its marks with it. Such marks apply to whole mappings: to all of the new place or
/// to none of it.
pub fn moved(from: (usize, usize), to: (usize, usize), source_stays: bool) {
    for set in ALL {
        let marked = set.overlaps(from.0, from.1);
        if !source_stays {
            set.remove(from.0, from.1);
        }
        if marked { set.add(to.0, to.1) } else { set.remove(to.0, to.1) }
    }
}
