//! Taking pages away by `UFFDIO_MOVE` (Linux 6.8), which is how it is done wherever the kernel has it.
//!
//! Somebody outside may write to the program's memory by the physical page: a device after `O_DIRECT` or
//! `io_uring`, another process by `process_vm_writev`, a debugger. What arrives after the page was copied would
//! be lost. There are two ways in which the kernel gives such pages out, and both are covered here:
//!
//! | the writer holds the page | until | why nothing is lost |
//! | --- | --- | --- |
//! | by a pin (`FOLL_PIN`) | its I/O ends | the kernel refuses to move a pinned page: it stays where it is |
//! | by a plain reference, with the address space locked for reading (`/proc/PID/mem`, `PTRACE_POKEDATA`) | it lets go of the lock | `unregister` locks the address space for writing, so whoever had the page before the move is done when it returns, and only then may the page be copied |
//!
//! Plain references that outlive the lock are for `pins.rs`.
//!
//! The kernel also refuses the move as long as a message about a changed mapping has not been read, so what moves is what was registered; and it refuses
//! pages that are not this process's own since a fork. These are taken last, see [`Runtime::take_shared`].
//!
//! Each run of adjacent pages costs a flush of the other CPUs that run the program, where `mremap` costs
//! one for the whole block, and a message that a handler has to read in the keeper's place. Random touches
//! become 12 % slower by that with one thread and 22 % with two (docs/benchmarks.md). One call that moves
//! over the gaps between runs was tried: it saves calls, but no flushes and no time.

use core::sync::atomic::Ordering::*;

use super::{Range, Taken};
use crate::kernel::pagemap::{Pagemap, Present};
use crate::kernel::sched;
use crate::kernel::sys::{self, Errno, PAGE, prot};
use crate::kernel::uffd::Uffd;
use crate::memory::lock::Guard;
use crate::memory::patience::Patience;
use crate::pages::order::Order;
use crate::pages::table::{PAGES, index_in_block};
use crate::runtime::Runtime;

/// After refused pages in a row, so many bytes at most are passed over before the next try.
const LONGEST_STEP: usize = 32 * PAGE;
/// How long a page may stay pinned that was pinned while `mremap` took it, ns. Copying takes microseconds,
/// but on a busy machine whoever copies may wait long for a CPU.
const UNPIN_NS: u64 = 30_000_000_000;

/// What came of moving.
pub(super) enum Moved {
    /// So many pages are on standby.
    Pages(u32),
    /// The kernel does not move pages of this mapping: it is not writable, or has other rights than standby.
    NotThisMapping,
}

impl Runtime {
    /// Moves the pages of a range that are there and this process's own to its place on standby.
    pub(super) fn take_by_move(
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
        // What did not get smaller when it was last tried stays where it is.
        if let Some(marks) = self.pages.table.block(range.start).map(|block| &block.marks)
            && marks.any()
            && self.leaves_incompressible()
        {
            wanted = wanted.map(|present| present.only(&marks.bits().map(|word| !word)));
        }
        if let (true, Some(wanted)) = (self.open_place(self.uffd(), range), wanted) {
            answer = self.move_runs(pagemap, range, &wanted);
        }
        // This waits for all who hold the address space: see the module. Nothing that has moved may be read before.
        let _ = self.uffd().unregister(range.to, range.bytes);
        match (answer, pagemap.present(range.to, range.pages(), range.first())) {
            (Moved::NotThisMapping, _) => Moved::NotThisMapping,
            // Only pages move this way: what is swapped was swapped there.
            (_, Some(present)) => Moved::Pages(self.write_entries(order, range, &present.all())),
            (_, None) => self.fail("what was moved to standby can't be seen there"),
        }
    }

    /// Makes the place of a range on standby one that pages can be moved to.
    fn open_place(&self, by: Uffd, range: Range) -> bool {
        // SAFETY: in a free slot of ours.
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
            // SAFETY: touches of the source are faults that wait for the order
            // lock; the target is a free slot of ours.
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
                // Pinned, shared after a fork, or gone meanwhile: it stays. Its neighbours are probably the same.
                Err(_) => {
                    offset += step;
                    step = (2 * step).min(LONGEST_STEP);
                }
            }
        }
        Moved::Pages(0)
    }

    /// Pages that were shared with a forked process that is gone are refused by UFFDIO_MOVE until they are written.
    #[cold]
    fn make_own(&self, pagemap: &Pagemap, start: usize, bytes: usize) {
        let exclusive = pagemap.exclusive(start, bytes / PAGE, 0);
        for index in 0..bytes / PAGE {
            if exclusive.bits[index / 64] >> (index % 64) & 1 != 0 {
                // A refusal says that it stays shared: so it is not moved.
                // Protected it would make this thread wait for a handler, who may wait for this thread.
                let page = start + index * PAGE;
                self.forget_blob(page);
                let _ = self.uffd().protect(page, PAGE, false);
                let _ = sys::write_back_in_place(page);
            }
        }
    }

    /// Takes away what another process of the tree has too, by `mremap`, since the kernel does not move it.
    ///
    /// Nobody can hold a shared page to write to it: the kernel makes a page the process's own before it pins it, and copies what is pinned at a fork. So it
    /// is enough that all pages are shared when they are taken. First they are write-protected: whoever wants to write to one, from inside or
    /// outside, waits from then on until the order lock is free (`fault/room.rs`). Then it is looked again.
    pub(super) fn take_shared(&self, order: &mut Guard<'_, Order>, pagemap: &Pagemap, range: Range) -> Taken {
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

    /// Takes away pages of a mapping that the kernel does not move, for example because it is not writable:
    /// by `mremap` to `range.to`, and from there, where the rights are those of standby, by a move to
    /// `check.to`, another slot. If the move is refused, another process pinned the page while it was
    /// writable. The page may not be copied before the pin is gone, so this waits for it. Not for processes
    /// that pin pages for long.
    pub(super) fn take_unmovable(
        &self,
        order: &mut Guard<'_, Order>,
        pagemap: &Pagemap,
        range: Range,
        check: Range,
    ) -> Taken {
        // Messages about other memory must not hold this up: nobody can read them now. Those of the witness are never about anything.
        let registered = self.open_place(self.kernel.witness(), check);
        if !registered {
            return Taken::Nothing;
        }
        self.take(order, pagemap, range, |order, bits| {
            let from = Range { start: range.to, to: check.to, ..check };
            // A page that another process shares cannot be pinned for writing (`take_shared`), nor can a
            // swapped one.
            let own = pagemap.exclusive(range.to, range.pages(), range.first());
            let checked = self.move_all(from, core::array::from_fn(|word| bits[word] & own.bits[word]));
            let _ = self.kernel.witness().unregister(check.to, check.bytes);
            let left: [u64; PAGES / 64] = core::array::from_fn(|word| bits[word] & !checked[word]);
            let pages = self.write_entries(order, check, &checked);
            if left == [0; PAGES / 64] { pages } else { pages + self.write_entries(order, range, &left) }
        })
    }

    /// Moves pages from one slot to another, where both have the same rights. Returns which have moved: all, if the kernel can move them at all.
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
            // SAFETY: nobody but this thread uses the two slots.
            match unsafe { self.kernel.witness().move_pages(range.to + offset, range.start + offset, run, true) } {
                Ok(done) => {
                    for page in (offset..offset + done.max(PAGE)).step_by(PAGE) {
                        let index = index_in_block(range.start + page);
                        moved[index / 64] |= 1 << (index % 64);
                    }
                    offset += done.max(PAGE);
                }
                // Memory of a kind that is never moved: as before Linux 6.8.
                Err(Errno::INVAL) => offset += run,
                // Shared once, by a process that is gone: it is refused until it is written.
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

/// Bytes of the run of wanted pages that begins at this offset of a range.
fn run_at(wanted: &Present, range: Range, offset: usize) -> usize {
    let there = |offset: &usize| {
        let index = index_in_block(range.start + offset);
        wanted.bits[index / 64] >> (index % 64) & 1 != 0
    };
    (offset..range.bytes).step_by(PAGE).take_while(there).count() * PAGE
}
