//! Copies after a fork, made to wait for room.
//!
//! Who writes to a page that a forked process has too gets a copy of it from
//! the kernel, which tells nobody: parent and children that write to all they
//! share would pass the limit by as much as that. So near the limit such pages
//! are write-protected after the fork, in the parent and in the child before
//! it goes on. A write to one is a message to the handlers, who let the thread
//! wait for room, as for fresh memory, and lift the protection.
//!
//! ```text
//!  fork ──> shared pages, protected ──(write: message, room)──> not protected ──(the kernel)──> a copy
//! ```
//!
//! It is about when, never about what: contents come from the kernel alone. A
//! page that loses its protection early, or never had it, is only a copy that
//! did not wait.

use core::sync::atomic::Ordering::*;

use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{Errno, PAGE, Result};
use crate::pages::table::{BLOCK, PAGES, index_in_block};
use crate::runtime::Runtime;

impl Runtime {
    /// Registers a range. After a fork for write-protected pages too: all
    /// mappings alike, since the kernel joins only neighbours that are alike.
    pub fn register(&self, start: usize, bytes: usize) -> Result<()> {
        let end = start + bytes;
        // Never the runtime's own: nobody could serve it. A piece of it may have come since the mapping was listed.
        self.arena.wait_while_growing();
        if self.arena.overlaps(start, end) || self.pages.statics.overlaps(start, end) {
            return Err(Errno::BUSY);
        }
        if self.protects() {
            self.uffd().register_protectable(start, bytes)?;
        } else {
            self.uffd().register(start, bytes)?;
        }
        self.arena.wait_while_growing();
        let mut own = false;
        self.arena.for_each_part_in(start, end, |from, to| {
            own = true;
            let _ = self.uffd().unregister(from, to - from);
        });
        if own { Err(Errno::BUSY) } else { Ok(()) }
    }

    /// Whether pages are write-protected in this process.
    pub fn protects(&self) -> bool {
        self.kernel.can_protect.load(Relaxed) && self.forks.has_forked.load(Relaxed)
    }

    /// Protects the pages of a registered mapping that other processes have too. What can't be is left as it is.
    /// Returns whether some is to be tried again: it was refused while an event is not read yet.
    pub fn protect_shared(&self, pagemap: &Pagemap, start: usize, end: usize) -> bool {
        let (mut at, mut again) = (start, false);
        while let Some(from) = pagemap.first_present(at, end).filter(|from| *from < end) {
            let mut to = end.min((from / BLOCK + 1) * BLOCK);
            // The kernel writes to a control block when its thread ends, and can't be served then.
            if let Some((kept, kept_end)) = self.pages.keep_out.first_in(from, to) {
                if kept <= from {
                    at = kept_end.min(end);
                    continue;
                }
                to = kept;
            }
            at = to;
            let (pages, first) = ((to - from) / PAGE, index_in_block(from));
            let Some(present) = pagemap.present(from, pages, first) else { continue };
            {
                let _order = self.pages.order.lock();
                self.keep_protected_only(pagemap, from, to);
            }
            let exclusive = pagemap.exclusive(from, pages, first);
            let shared = |index: usize| {
                let (word, bit) = (index / 64, index % 64);
                index < PAGES && (present.bits[word] & !exclusive.bits[word]) >> bit & 1 != 0
            };
            let mut index = first;
            while index < first + pages {
                let run = (index..first + pages).take_while(|i| shared(*i)).count();
                if run > 0 {
                    let done = self.uffd().protect(from + (index - first) * PAGE, run * PAGE, true);
                    again |= done == Err(Errno::AGAIN);
                }
                index += run.max(1);
            }
        }
        again
    }
}
