//! Limits of the program (`setrlimit`) of which the runtime uses a part:
//!
//! | limit | what counts | what is done |
//! | --- | --- | --- |
//! | address space (`ulimit -v`) | reserved memory | little is reserved ahead; unused memory is unmapped |
//! | data (`ulimit -d`) | private writable memory | if the limit is too low, the process is not managed |
//! | descriptors (`ulimit -n`) | the highest number in any table | raised while a forked child opens its own |
//! | threads (`ulimit -u`, `pids.max`) | all threads | a forked child without them restores everything |
//!
//! The limits themselves stay as the program has set them, since programs that it executes inherit them.

use core::sync::atomic::Ordering::*;

use memfold_shared::page::flags;

use crate::kernel::rlimit::{self, ADDRESS_SPACE, DATA, DESCRIPTORS, soft};
use crate::kernel::sys::{self, Errno};
use crate::process::Process;
use crate::runtime::Runtime;

/// Maximum number of descriptors that a process's runtime has open at the same time: the keeper's files in
/// `/proc`, the userfaultfd and its witness, one for each handler, and some temporary ones.
pub const OWN_DESCRIPTORS: u64 = 16;
/// The runtime's initial needs must not exceed this fraction of the data limit.
const OWN_DATA: usize = 8;

/// Whether a forked process could open its own descriptors.
pub fn child_may_open() -> bool {
    sys::resource_limit(DESCRIPTORS).is_ok_and(|[_, hard]| hard >= OWN_DESCRIPTORS)
}

/// Why paging cannot begin in this process.
pub fn why_unmanaged(error: Errno) -> &'static str {
    match error {
        Errno::NOMEM if soft(DATA).is_some_and(|data| soft(ADDRESS_SPACE).is_none_or(|all| data < all)) => {
            "too little memory can be allocated (ulimit -d): this process is not managed; raise that limit, memfold's own bounds the memory that is used"
        }
        Errno::NOMEM => {
            "too little address space is left (ulimit -v): this process is not managed; raise that limit, memfold's own bounds the memory that is used"
        }
        Errno::AGAIN => {
            "this process may not have more threads (ulimit -u, pids.max): while tasks are scarce, not all processes are managed"
        }
        Errno::MFILE => {
            "too few files may be open (ulimit -n): this process is not managed; raise that limit by 16"
        }
        _ => {
            "userfaultfd can't be opened in this process: it is not managed; 'memfold doctor' says what helps, if the user that it runs as starts it"
        }
    }
}

/// Why a forked process is not managed.
pub fn why_restored(error: Errno) -> &'static str {
    match error {
        Errno::NOMEM => {
            "too little memory is left in a forked process (ulimit -v, ulimit -d): all its memory was restored"
        }
        Errno::AGAIN => {
            "a forked process may not have more threads (ulimit -u, pids.max): all memory of such processes is restored"
        }
        _ => "a forked process may not open a userfaultfd of its own: all its memory was restored",
    }
}

impl Process {
    /// Whether this process is to report why it is not managed. Only one process of the tree reports that
    /// tasks are scarce.
    pub fn is_to_say(&self, error: Errno) -> bool {
        error != Errno::AGAIN
            || self.shared().flags.fetch_or(flags::TOLD_TASKS, Relaxed) & flags::TOLD_TASKS == 0
    }
}

impl Runtime {
    /// Called by the keeper: the program's memory is limited to `limit`, or will be. Frees memory that is
    /// reserved and not needed.
    pub fn make_way(&self, limit: usize) {
        self.pages.standby.shrink(limit);
        self.arena.shrink(limit);
    }

    /// Called by the keeper: checks for a limit that was set without the runtime's knowledge.
    pub fn check_limits(&self) {
        let limit = rlimit::memory().unwrap_or(usize::MAX);
        if self.process.heeded_limit.swap(limit, Relaxed) > limit {
            self.make_way(limit);
        }
    }

    /// Whether the runtime's present and imminent needs, and `more` bytes, leave the program nearly all of
    /// its data limit.
    pub fn leaves_data(&self, more: usize) -> bool {
        let own = || self.arena.bytes_made_usable() + self.pages.standby.bytes() + more;
        soft(DATA).is_none_or(|data| own() <= data / OWN_DATA)
    }
}
