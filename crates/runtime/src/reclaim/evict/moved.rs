//! Evicting pages by `UFFDIO_MOVE` (Linux 6.8), used wherever the kernel has it.
//!
//! An external writer may write to the program's memory through the physical page: a device after `O_DIRECT`
//! or `io_uring`, another process by `process_vm_writev`, a debugger. Data that arrive after the page was
//! copied would be lost. The kernel hands out such pages in two ways, and both are covered here:
//!
//! - The writer pins the page (`FOLL_PIN`) until its I/O ends. The kernel refuses to move a pinned page, so it
//!   stays where it is.
//! - The writer takes a plain reference, with the address space locked for reading (`/proc/PID/mem`,
//!   `PTRACE_POKEDATA`), until it releases the lock. `unregister` locks the address space for writing, so a
//!   writer that had the page before the move is done when `unregister` returns, and only then may the page be
//!   copied.
//!
//! `pins.rs` handles plain references that outlive the lock.
//!
//! The kernel also refuses the move while a message about a changed mapping has not been read, so the pages
//! that move are those that were registered; and it refuses pages that this process shares since a fork.
//! These are evicted last, see [`Runtime::evict_shared`].
//!
//! Each run of adjacent pages costs a TLB flush on the other CPUs that run the program, where `mremap` costs
//! one for the whole block, and a message that a handler must read in the keeper's place. This makes random
//! touches 12 % slower with one thread and 22 % slower with two (docs/benchmarks.md). A single call that
//! moves over the gaps between runs was tried: it saves calls, but no flushes and no time.

use core::sync::atomic::Ordering::*;

use super::{Range, Taken};
use crate::kernel::addresses::{PAGES, index_in_block};
use crate::kernel::pagemap::{Pagemap, Present};
use crate::kernel::sched;
use crate::kernel::sys::{self, Errno, PAGE, prot};
use crate::kernel::uffd::Uffd;
use crate::memory::lock::Guard;
use crate::memory::patience::Patience;
use crate::pages::events::order::Order;
use crate::runtime::Runtime;

/// After consecutive refusals, at most this many bytes are skipped before the next try.
const LONGEST_STEP: usize = 32 * PAGE;
/// How long a page that was pinned while `mremap` moved it may stay pinned, in ns. Copying takes
/// microseconds, but on a busy machine the thread that copies may wait long for a CPU.
const UNPIN_NS: u64 = 30_000_000_000;

/// The result of moving.
pub(super) enum Moved {
    /// This many pages are on standby.
    Pages(u32),
    /// The kernel does not move pages of this mapping: it is not writable, or has different rights than
    /// standby.
    NotThisMapping,
}

impl Runtime {
    /// Moves the present pages of a range that belong to this process alone to their place on standby.
    pub(super) fn evict_private_by_move(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: &Pagemap,
        range: Range,
    ) -> Moved {
        let mut answer = Moved::Pages(0);
        let mut wanted = pagemap.present(range.start, range.pages(), range.first());
        if self.forks.has_forked.load(Relaxed) {
            let own = pagemap.exclusive(range.start, range.pages(), range.first());
            wanted = wanted.map(|present| present.only(&own.bits));
        }
        // Pages that did not get smaller when last tried stay where they are.
        if let Some(marks) = self.pages.table.block(range.start).map(|block| &block.marks)
            && marks.any()
            && self.spill.leaves_incompressible()
        {
            wanted = wanted.map(|present| present.only(&marks.bits().map(|word| !word)));
        }
        if let (true, Some(wanted)) = (self.open_place(self.uffd(), range), wanted) {
            answer = self.move_runs(pagemap, range, &wanted);
        }
        // This waits for all holders of the address space lock: see the module. Nothing that has moved may be
        // read before.
        let _ = self.uffd().unregister(range.to, range.bytes);
        match (answer, pagemap.present(range.to, range.pages(), range.first())) {
            (Moved::NotThisMapping, _) => Moved::NotThisMapping,
            // Only resident pages move this way: a page that is swapped out on standby was swapped out there.
            (_, Some(present)) => Moved::Pages(self.write_entries(order, range, &present.all())),
            (_, None) => self.fail("a page that was moved to standby can't be found there"),
        }
    }

    /// Prepares a range's place on standby so that pages can be moved to it.
    fn open_place(&self, by: Uffd, range: Range) -> bool {
        // SAFETY: the range lies in a free slot of ours.
        unsafe { sys::map_over(range.to, range.bytes, prot::READ | prot::WRITE) }
            .and_then(|()| by.register(range.to, range.bytes))
            .is_ok()
    }

    fn move_runs(&self, pagemap: &Pagemap, range: Range, wanted: &Present) -> Moved {
        let (mut offset, mut made_own, mut step, mut moved) = (0, 0, PAGE, false);
        while offset < range.bytes {
            let run = run_at(wanted, range, offset);
            if run == 0 {
                offset += PAGE;
                continue;
            }
            // SAFETY: a touch of the source is a fault that waits for the order lock; the target is a free
            // slot of ours.
            match unsafe { self.uffd().move_pages(range.to + offset, range.start + offset, run, true) } {
                Ok(done) => {
                    offset += done.max(PAGE);
                    (step, moved) = (PAGE, true);
                }
                Err(Errno::INVAL) if !moved => return Moved::NotThisMapping,
                Err(Errno::INVAL | Errno::SRCH | Errno::NOMEM | Errno::AGAIN) => break,
                Err(Errno::BUSY) if offset >= made_own && self.forks.has_forked.load(Relaxed) => {
                    made_own = offset + run;
                    self.make_own(pagemap, range.start + offset, run);
                }
                // Pinned, shared after a fork, or gone meanwhile: the page stays. The same probably goes for
                // its neighbours.
                Err(_) => {
                    offset += step;
                    step = (2 * step).min(LONGEST_STEP);
                }
            }
        }
        Moved::Pages(0)
    }

    /// Makes pages this process's own that were shared with a forked process that is gone: until they are
    /// written, UFFDIO_MOVE refuses them.
    #[cold]
    fn make_own(&self, pagemap: &Pagemap, start: usize, bytes: usize) {
        let exclusive = pagemap.exclusive(start, bytes / PAGE, 0);
        for index in 0..bytes / PAGE {
            if exclusive.bits[index / 64] >> (index % 64) & 1 != 0 {
                // A refusal means that the page stays shared, so it is not moved. If it were protected, this
                // thread would have to wait for a handler, which may wait for this thread.
                let page = start + index * PAGE;
                self.forget_blob(page);
                let _ = self.uffd().protect(page, PAGE, false);
                let _ = sys::write_back_in_place(page);
            }
        }
    }

    /// Evicts pages that another process of the tree shares, by `mremap`, since the kernel does not move
    /// them.
    ///
    /// No writer can hold a shared page in order to write to it: the kernel makes a page the process's own
    /// before it pins it, and copies pinned pages at a fork. So it is enough that all pages are shared when
    /// they are evicted. First they are write-protected: from then on any writer, from inside or outside,
    /// waits until the order lock is free (`faults/serving/room.rs`). Then it is checked again that they are
    /// shared.
    pub(super) fn evict_shared(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: &Pagemap,
        range: Range,
    ) -> Taken {
        if !self.protects() || self.uffd().protect(range.start, range.bytes, true).is_err() {
            return Taken::Nothing;
        }
        let own = pagemap.exclusive(range.start, range.pages(), range.first());
        match pagemap.present(range.start, range.pages(), range.first()) {
            Some(present) if present.count > 0 && present.only(&own.bits).count == 0 => {
                self.take(order, pagemap, range, |order, bits| self.write_entries(order, range, &bits))
            }
            _ => Taken::Nothing,
        }
    }

    /// Evicts pages of a mapping that the kernel does not move, for example because it is not writable: by
    /// `mremap` to `range.to`, and from there, where the rights are those of standby, by a move to
    /// `check.to`, another slot. If the move is refused, another process pinned the page while it was
    /// writable. The page may not be copied before the pin is gone, so this waits for it. It is therefore not
    /// for processes that pin pages for long.
    pub(super) fn evict_unmovable(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: &Pagemap,
        range: Range,
        check: Range,
    ) -> Taken {
        // Messages about other memory must not hold this up: no thread can read them now. The witness never
        // gets such messages.
        let registered = self.open_place(self.kernel.witness(), check);
        if !registered {
            return Taken::Nothing;
        }
        self.take(order, pagemap, range, |order, bits| {
            let from = Range { start: range.to, to: check.to, ..check };
            // A page that another process shares cannot be pinned for writing (`evict_shared`), nor can a
            // swapped-out page.
            let own = pagemap.exclusive(range.to, range.pages(), range.first());
            let checked = self.move_all(from, core::array::from_fn(|word| bits[word] & own.bits[word]));
            let _ = self.kernel.witness().unregister(check.to, check.bytes);
            let left: [u64; PAGES / 64] = core::array::from_fn(|word| bits[word] & !checked[word]);
            let pages = self.write_entries(order, check, &checked);
            if left == [0; PAGES / 64] { pages } else { pages + self.write_entries(order, range, &left) }
        })
    }

    /// Moves pages from one slot to another with the same rights. Returns which pages have moved: all, if the
    /// kernel can move them at all.
    fn move_all(&self, range: Range, bits: [u64; PAGES / 64]) -> [u64; PAGES / 64] {
        let wanted = Present { bits, ..Present::default() };
        let (mut moved, mut offset, mut written) = ([0; PAGES / 64], 0, 0);
        let mut patience = Patience::new(UNPIN_NS);
        while offset < range.bytes {
            let run = run_at(&wanted, range, offset);
            if run == 0 {
                offset += PAGE;
                continue;
            }
            // SAFETY: only this thread uses the two slots.
            match unsafe { self.kernel.witness().move_pages(range.to + offset, range.start + offset, run, true) } {
                Ok(done) => {
                    for page in (offset..offset + done.max(PAGE)).step_by(PAGE) {
                        let index = index_in_block(range.start + page);
                        moved[index / 64] |= 1 << (index % 64);
                    }
                    offset += done.max(PAGE);
                }
                // Memory of a kind that is never moved: treat it as before Linux 6.8.
                Err(Errno::INVAL) => offset += run,
                // The page was shared with a process that is gone: the move is refused until the page is
                // written.
                Err(Errno::BUSY) if offset >= written => {
                    let _ = sys::write_back_in_place(range.start + offset);
                    written = offset + PAGE;
                }
                Err(_) if patience.is_over() => self.fail(
                    "another process or a device has held a page of memory that is not writable for 30 seconds: \
                     the process is terminated, because going on could lose what is written to that page",
                ),
                Err(_) => sched::yield_now(),
            }
        }
        moved
    }
}

/// Length in bytes of the run of wanted pages that begins at this offset of a range.
fn run_at(wanted: &Present, range: Range, offset: usize) -> usize {
    let there = |offset: &usize| {
        let index = index_in_block(range.start + offset);
        wanted.bits[index / 64] >> (index % 64) & 1 != 0
    };
    (offset..range.bytes).step_by(PAGE).take_while(there).count() * PAGE
}
