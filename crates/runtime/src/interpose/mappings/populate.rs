//! Memory that the kernel fills in one system call at the program's request: `MAP_POPULATE`, and `madvise` with
//! `MADV_POPULATE_READ` or `MADV_POPULATE_WRITE`. A thread in such a call cannot be stopped, and nothing can be
//! registered meanwhile. So what could exceed the limit is filled piece by piece, and the thread waits for room
//! after each.

use core::sync::atomic::Ordering::*;

use memfold_shared::page::state;

use crate::interpose::desk;
use crate::interpose::mappings::growth::{LARGE, wait_for_room};
use crate::interpose::next::{is_managed, is_paging, keeping_errno};
use crate::kernel::maps;
use crate::kernel::sys;
use crate::runtime::RUNTIME;

/// Size of the pieces, in bytes.
const PIECE: usize = 1 << 20;

/// Whether the limit could be exceeded if the kernel filled this much memory at once.
#[inline(always)]
pub fn could_exceed_limit(bytes: usize) -> bool {
    bytes >= LARGE && is_managed() && exceeds_limit(bytes)
}

#[cold]
fn exceeds_limit(bytes: usize) -> bool {
    let shared = RUNTIME.shared();
    RUNTIME.process.state() != state::STOPPED
        && shared.tree_resident().saturating_add(bytes as u64) > shared.limit_bytes.load(Relaxed)
}

/// Whether the mapping at an address takes memory of the process when it is filled: neither a file's nor a
/// shared one does.
pub fn takes_memory(at: usize) -> bool {
    keeping_errno(|| {
        let Ok(maps) = sys::open_own(c"/proc/self/maps", sys::o::RDONLY) else { return false };
        let found = maps::private_anonymous_at(maps, at).is_some();
        sys::close(maps);
        found
    })
}

/// Fills a range piece by piece with `fill`, until that fails. Returns whether it never did. `errno` is that of
/// `fill`.
pub fn in_pieces(at: usize, bytes: usize, mut fill: impl FnMut(usize, usize) -> bool) -> bool {
    keeping_errno(|| {
        if !is_paging() {
            // However far the limit seems to be.
            RUNTIME.process.paging_wanted.store(true, Relaxed);
            RUNTIME.begin();
        }
    });
    for start in (at..at + bytes).step_by(PIECE) {
        if !fill(start, PIECE.min(at + bytes - start)) {
            return false;
        }
        keeping_errno(|| {
            // Asks the keeper, and waits for its answer, so that the keeper keeps up with the filling on a busy
            // machine.
            if RUNTIME.is_paging() {
                desk::watch_growth();
            }
            wait_for_room();
        });
    }
    true
}
