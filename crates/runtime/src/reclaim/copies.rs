//! Copies after a fork, delayed until there is room.
//!
//! When a process writes to a page that it shares with a forked process, the kernel copies the page without
//! reporting it. A parent and children that write to all shared pages would exceed the limit by their whole
//! size. So near the limit such pages are write-protected after the fork, in the parent, and in the child
//! before it goes on. A write to one becomes a message to the handlers, which let the thread wait for room,
//! as for fresh memory, and lift the protection.
//!
//! ```text
//!  fork ──> shared pages, protected ──(write: message, room)──> not protected ──(the kernel)──> a copy
//! ```
//!
//! This affects only when pages are copied, never their contents, which come from the kernel alone. If a page
//! loses its protection early, or never had it, its copy merely does not wait.

use core::sync::atomic::Ordering::*;

use crate::kernel::addresses::{BLOCK, PAGES, index_in_block};
use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{Errno, PAGE, Result};
use crate::runtime::Runtime;

impl Runtime {
    /// Registers a range. After a fork it is registered for write protection, too: all mappings alike, since
    /// the kernel merges only neighbours that are alike.
    pub fn register(&self, start: usize, bytes: usize) -> Result<()> {
        let end = start + bytes;
        // Never register the runtime's own memory: no thread could serve its faults. A piece of it may have
        // appeared since the mapping was listed.
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

    /// Protects the pages of a registered mapping that other processes share. Pages that cannot be protected
    /// are left as they are. Returns whether some must be tried again, because the kernel refused while an
    /// event is not read yet.
    pub fn protect_shared(&self, pagemap: &Pagemap, start: usize, end: usize) -> bool {
        let (mut at, mut again) = (start, false);
        while let Some(from) = pagemap.first_present(at, end).filter(|from| *from < end) {
            let mut to = end.min((from / BLOCK + 1) * BLOCK);
            // The kernel writes to a control block when its thread ends, and a fault cannot be served then.
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
