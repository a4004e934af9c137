//! Moves that leave a mapping behind (MREMAP_DONTUNMAP), under way or recently finished: see `late.rs`.
//!
//! The thread goes on as soon as its message has been read, which may be before it is applied. So a move is
//! remembered for a while after its end.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use crate::kernel::sys;

/// Maximum number of moves to remember; beyond that, the oldest are taken for ordinary moves.
const MOVES: usize = 2048;
/// A message is applied within this time after its move, in ns.
const APPLIED_NS: u64 = 2_000_000_000;

struct Move {
    start: AtomicUsize,
    end: AtomicUsize,
    noted_ns: AtomicU64,
}

static RING: [Move; MOVES] =
    [const { Move { start: AtomicUsize::new(0), end: AtomicUsize::new(0), noted_ns: AtomicU64::new(0) } };
        MOVES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Notes a move that is about to be made.
pub fn note(start: usize, end: usize) {
    let place = &RING[NEXT.fetch_add(1, Relaxed) % MOVES];
    place.end.store(0, Release);
    place.start.store(start, Release);
    place.noted_ns.store(sys::now_ns(), Release);
    place.end.store(end, Release);
}

/// Whether the move from `address` leaves a mapping behind.
pub fn leaves_behind(address: usize) -> bool {
    let now = sys::now_ns();
    RING.iter().any(|place| {
        address < place.end.load(Acquire)
            && place.start.load(Acquire) <= address
            && now.saturating_sub(place.noted_ns.load(Acquire)) < APPLIED_NS
    })
}
