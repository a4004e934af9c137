//! The ranges that were registered for a request lately. Allocators often hand out the same addresses again,
//! and a range that is still registered needs no request to the keeper.
//!
//! Invariant: a range counts as registered only while `pages.changes` is what it was before the registration.

use core::sync::atomic::{AtomicU64, Ordering::*};

use crate::kernel::sys::PAGE;
use crate::runtime::RUNTIME;

/// Ranges that were registered for a request. The low bits of each are its length in pages, the bits above
/// are its `mark_of`.
static WATCHED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
const LENGTH_BITS: u32 = 24;
/// Ranges of at least this many bytes are not remembered but registered anew for each request: a false match
/// (see `mark_of`) must not leave that much memory unregistered.
const REMEMBERED: usize = 4 << 20;

fn pages_of(at: usize, bytes: usize) -> u64 {
    ((at % PAGE + bytes).div_ceil(PAGE)) as u64
}

/// Two ranges have the same mark with probability 2^-40; then one of them is registered a millisecond late.
fn mark_of(at: usize, changes: u64) -> u64 {
    let place = (at / PAGE) as u64 ^ changes.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    place.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> LENGTH_BITS
}

/// Whether a range was registered for an earlier request, and nothing has changed since.
pub fn was_watched(at: usize, bytes: usize) -> bool {
    let known = WATCHED[at / PAGE % WATCHED.len()].load(Relaxed);
    bytes < REMEMBERED
        && known >> LENGTH_BITS == mark_of(at, RUNTIME.pages.changes.load(Acquire))
        && pages_of(at, bytes) <= known & ((1 << LENGTH_BITS) - 1)
}

/// Remembers a range; `changes` is the value before it was registered.
pub fn note_watched(at: usize, bytes: usize, changes: u64) {
    if bytes < REMEMBERED {
        let word = mark_of(at, changes) << LENGTH_BITS | pages_of(at, bytes);
        WATCHED[at / PAGE % WATCHED.len()].store(word, Relaxed);
    }
}
