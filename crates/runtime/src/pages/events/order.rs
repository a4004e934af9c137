//! The order lock, and what the kernel's events do to the page table.
//!
//! The kernel lets the thread that unmaps, moves or discards memory go on as soon as its event has been
//! *read*. The thread's next touch must already see the new state. So only the holder of one lock, the order
//! lock, reads messages, applies events, and places pages. While an event is on its way and not yet read, the
//! kernel refuses to place pages (EAGAIN). Together, these rules ensure that no page is placed between the
//! reading and the application of an event that concerns it.
//!
//! The keeper holds the lock during the whole eviction of a block, so that no event is read, and no thread
//! that sent one continues, between the check of the block and its eviction. But the keeper's own `mremap`
//! waits until the message about it is read. So while the keeper is inside that call, a handler reads in its
//! place, once the pages have moved and the message is on its way: see [`Runtime::lock_order`]. Both have
//! happened once the destination range is registered with our userfaultfd. To find out, the handler tries to
//! register the range's first page with a second userfaultfd, the witness: the kernel refuses if the first
//! one has it.

use crate::kernel::addresses::BLOCK;
use crate::kernel::sys;
use crate::kernel::uffd::Touch;
use crate::pages::clean::recent::Recent;
use crate::pages::events::journal::Journal;
use crate::pages::events::late::Late;
use crate::pages::table::SpareBlocks;

/// Number of remembered discard times; a block's time is at its number modulo this.
const REMOVED: usize = 4096;
/// For this long after a discard event was read, its block is not evicted, because the thread discards the
/// pages only after the event is read.
const REMOVE_GRACE_MS: u32 = 500;

/// A fault to be served.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The page's address.
    pub page: usize,
    /// The kind of access.
    pub touch: Touch,
}

/// What the order lock protects.
pub struct Order {
    /// Block structures for reuse.
    pub spare: SpareBlocks,
    /// Blocks that were removed from the table; their contents must still be freed.
    pub condemned: SpareBlocks,
    pub condemned_count: usize,
    removed_ms: [u32; REMOVED],
    /// The last time at which the number of discarding threads was seen to be zero.
    quiet_ms: u32,
    /// See `late.rs`.
    pub late: Late,
    /// A fork is under way: changes are written to the journal.
    pub forking: bool,
    /// The message about that fork was read.
    pub fork_seen: bool,
    /// See `journal.rs`.
    pub journal: Journal,
    /// Clean pages may have been written during the fork without a record, because the journal was full.
    pub blobs_void: bool,
    /// Clean pages that were restored recently.
    pub recent: Recent,
}

impl Order {
    /// The initial state: nothing is under way.
    pub const fn new() -> Self {
        Order {
            spare: SpareBlocks::new(),
            condemned: SpareBlocks::new(),
            condemned_count: 0,
            removed_ms: [0; REMOVED],
            quiet_ms: 0,
            late: Late::new(),
            forking: false,
            fork_seen: false,
            journal: Journal::new(),
            blobs_void: false,
            recent: Recent::new(),
        }
    }

    /// Whether messages may be read: it must be possible to apply an event or to record it.
    pub fn may_read(&self) -> bool {
        !self.forking || self.journal.has_room()
    }

    /// Whether a thread may still be discarding contents of the block: it discards only after its event has
    /// been read. Threads that called the C library's function are counted (`discarding` is their number); a
    /// thread that makes the system call directly is not, so it is given some time.
    pub fn was_removed_lately(&mut self, address: usize, discarding: u32) -> bool {
        let now = now_ms();
        if discarding == 0 {
            self.quiet_ms = now;
        }
        let at = self.removed_ms[address / BLOCK % REMOVED];
        let unknown = (self.quiet_ms.wrapping_sub(at) as i32) < 0;
        at != 0 && (now.wrapping_sub(at) < REMOVE_GRACE_MS || unknown)
    }

    pub fn note_removed(&mut self, start: usize, end: usize) {
        let now = now_ms();
        let (first, last) = (start / BLOCK, end.div_ceil(BLOCK));
        for number in first..last.min(first + REMOVED) {
            self.removed_ms[number % REMOVED] = now;
        }
    }
}

/// Never zero.
fn now_ms() -> u32 {
    ((sys::now_ns() / 1_000_000) as u32).max(1)
}

impl Default for Order {
    fn default() -> Self {
        Self::new()
    }
}
