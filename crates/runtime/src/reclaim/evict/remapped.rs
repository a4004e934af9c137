//! Evicting pages by `mremap`: it moves all pages of a range to a standby slot and leaves the mapping behind,
//! empty and registered. It is used before Linux 6.8, and since then for pages that the kernel does not move
//! otherwise (`moved.rs`).
//!
//! The kernel reports the move; that message proves that the source was registered. If the range was no
//! longer one registered mapping when it was moved, `sort_out` puts back the pages that do not belong on
//! standby.
//!
//! One gap remains between the check of the mapping and the move: a thread unmaps the range, the kernel gives
//! the same addresses to another thread, which writes to them, and only then does the move happen and take
//! pages that are not registered. Until they are put back, the writer would see zeros. This takes two threads
//! of the program, one of which unmaps: see [`Runtime::may_lose_addresses`].
//!
//! Pages that are pinned for I/O are moved like any other; so this is not for processes that may have such
//! pages (`pins.rs`), unless the caller takes care of them.

use core::sync::atomic::Ordering::*;

use super::{Range, Taken};
use crate::kernel::addresses::{PAGES, index_in_block};
use crate::kernel::pagemap::{Pagemap, Present};
use crate::kernel::sys::{self, Errno, PAGE, advice, prot};
use crate::memory::lock::Guard;
use crate::pages::events::order::Order;
use crate::runtime::Runtime;

/// After managed memory was unmapped, more unmapping is expected for this long, in ns.
const UNMAPPED_NS: u64 = 10_000_000_000;

impl Runtime {
    /// Moves a range to its free slot. `keep` gets the pages that are there afterwards, one bit each, and
    /// puts them on standby.
    pub(super) fn take(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: &Pagemap,
        range: Range,
        keep: impl FnOnce(&mut Guard<'_, Order>, [u64; PAGES / 64]) -> u32,
    ) -> Taken {
        // Where the data size is limited (`ulimit -d`), this decides now whether the move is allowed: later
        // its target would be lost.
        // SAFETY: the range is a free slot of ours.
        if unsafe { sys::mprotect(range.to, range.bytes, prot::READ | prot::WRITE) }.is_err() {
            return Taken::Nothing;
        }
        self.pages.move_seen.store(false, Relaxed);
        self.pages.moving_to.store(range.to, SeqCst);
        // Handlers that wait for the lock are needed as readers.
        self.pages.order.stir();
        // SAFETY: the target is a free slot of ours; touches of the source are faults now, and handlers serve
        // them according to the entries.
        let result = unsafe { sys::mremap_to(range.start, range.bytes, range.to, true) };
        self.pages.moving_to.store(0, SeqCst);
        if result == Err(Errno::NOMEM) {
            // Nothing has moved, and the target may be unmapped: do not access it.
            self.pages.standby.recover(range.slot, range.to, range.bytes);
            drop(self.pages.proxy.lock());
            self.apply_inbox(order);
            return Taken::Nothing;
        }
        let _ = self.uffd().unregister(range.to, range.bytes);
        // The slot got all properties of the source, but a forked child must inherit it.
        self.unmark(range.to, range.to + range.bytes);
        // SAFETY: no other thread uses the slot yet.
        let readable = unsafe { self.make_readable(range.to, range.bytes) };
        let mut present = pagemap.present(range.to, range.pages(), range.first());
        // A handler that read in our place is done once its lock is free; only then is `move_seen` final.
        drop(self.pages.proxy.lock());
        let seen = self.pages.move_seen.load(Acquire);
        let taken = match present {
            Some(ref mut present) if result.is_ok() && seen && readable => {
                if present.swapped_count > 0 {
                    self.sort_out_guards(range, present);
                }
                Taken::Pages(keep(order, present.all()))
            }
            _ if result.is_err() && present.is_none_or(|present| present.all() == [0; PAGES / 64]) => {
                if result == Err(Errno::FAULT) {
                    Taken::Stale
                } else {
                    Taken::Nothing
                }
            }
            _ => {
                let bits = self.sort_out(pagemap, range);
                if bits == [0; PAGES / 64] { Taken::Stale } else { Taken::Pages(keep(order, bits)) }
            }
        };
        self.apply_inbox(order);
        taken
    }

    /// Called if the range was no longer one registered mapping when it was moved (since Linux 6.17 several
    /// mappings may move at once). Puts pages from a mapping that is not registered, or from a file, back at
    /// once. Returns the remaining pages, one bit each.
    #[cold]
    fn sort_out(&self, pagemap: &Pagemap, range: Range) -> [u64; PAGES / 64] {
        let mut bits = [0u64; PAGES / 64];
        for offset in (0..range.bytes).step_by(PAGE) {
            let (source, target) = (range.start + offset, range.to + offset);
            let (file, there) = match pagemap.present(target, 1, 0) {
                None => (true, true),
                Some(present) => (false, present.count + present.swapped_count == 1),
            };
            if !there {
                continue;
            }
            let _ = self.uffd().unregister(target, PAGE);
            self.unmark(target, target + PAGE);
            // SAFETY: the page lies in a slot that no other thread uses yet.
            let readable = !file && unsafe { self.make_readable(target, PAGE) };
            if readable && self.kernel.witness().is_taken(source) {
                let index = index_in_block(source);
                if is_guard(target) {
                    guard_again(self, source);
                } else {
                    bits[index / 64] |= 1 << (index % 64);
                }
                continue;
            }
            self.put_back(target, source);
        }
        bits
    }

    /// Removes from `present` the guard pages that the program made after the range was examined, and
    /// recreates them at their places. A thread that touches one meanwhile waits for the order lock. All
    /// other swapped-out entries are pages.
    #[cold]
    fn sort_out_guards(&self, range: Range, present: &mut Present) {
        for offset in (0..range.bytes).step_by(PAGE) {
            let (index, target) = (index_in_block(range.start + offset), range.to + offset);
            let bit = 1 << (index % 64);
            if present.swapped[index / 64] & bit != 0 && is_guard(target) {
                present.swapped[index / 64] &= !bit;
                guard_again(self, range.start + offset);
            }
        }
    }

    /// Puts back a page that is not on standby yet; it was at `source` a moment ago.
    fn put_back(&self, target: usize, source: usize) {
        // The mapping left behind stays: the kernel must not give a place on standby to the program.
        // SAFETY: the page returns to where it came from.
        if unsafe { sys::mremap_to(target, PAGE, source, true) }.is_err() {
            self.fail("a page that was evicted from a mapping that changed meanwhile could not be put back");
        }
    }

    /// Whether two threads of the program may cause the gap described at the top: memory has been unmapped
    /// lately, and there are several threads.
    pub(super) fn may_lose_addresses(&self) -> bool {
        let last = self.pages.unmapped_ns.load(Relaxed);
        self.is_threaded() && last != 0 && sys::now_ns().saturating_sub(last) < UNMAPPED_NS
    }

    /// # Safety
    /// The range must lie in a slot that no other thread uses.
    unsafe fn make_readable(&self, at: usize, bytes: usize) -> bool {
        // Overrides whatever rights the program had set. Our threads may use protection key 0.
        let args = [at, bytes, prot::READ | prot::WRITE, 0, 0, 0];
        // SAFETY: the caller upholds the contract.
        unsafe {
            sys::syscall(sys::nr::PKEY_MPROTECT, args).is_ok() || sys::mprotect(at, bytes, args[2]).is_ok()
        }
    }
}

/// Whether a swapped-out page that this process may read is a guard page: only guard pages cannot be made
/// present. (Kernels that do not know the advice do not know guards.)
fn is_guard(page: usize) -> bool {
    // SAFETY: reading loses nothing.
    let answer = unsafe { sys::madvise(page, PAGE, advice::POPULATE_READ) };
    answer == Err(Errno::FAULT)
}

fn guard_again(runtime: &Runtime, page: usize) {
    // SAFETY: the page is empty: a guard was there.
    if unsafe { sys::madvise(page, PAGE, advice::GUARD_INSTALL) }.is_err() {
        runtime.fail("a guard page that was removed could not be installed again");
    }
}
