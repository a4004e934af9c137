//! Unprepared children: made by an instruction of the program's own that bypasses the C library. Before such
//! a child begins (see `gate.rs`), all evicted pages are put into its memory; the runtime does nothing in it
//! (see `here.rs`).
//!
//! All of this happens under the order lock, when the message about the fork is read. Since the memory was
//! copied, the kernel has refused to place pages in this process, so no page has been restored that the child
//! lacks. Pages evicted since then are present in the child: the kernel says so (EEXIST), and the child's
//! page is right. Memory that another thread discards or unmaps at the same moment may have been discarded
//! before or after, as without memfold.
//!
//! A prepared fork (`fork`) causes the same message. Its child has a runtime of its own, which registers
//! everything anew, so the child's inherited registration is merely dropped. `forker.rs` finds out which
//! child that is. During such a fork the page table is out of date and must not change: other children get
//! their pages as the journal says.

use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::kernel::addresses::RUN;
use crate::kernel::addresses::{BLOCK, page_number};
use crate::kernel::sched;
use crate::kernel::sys::{self, Errno, Fd, PAGE};
use crate::kernel::uffd::Uffd;
use crate::memory::lock::Guard;
use crate::pages::events::order::Order;
use crate::pages::table::{Entry, State};
use crate::process::fork::forker::Unborn;
use crate::process::threads::WORKERS;
use crate::reclaim::worker::Worker;
use crate::runtime::{RUNTIME, Runtime};

/// Number of the worker that fills children: there is one at a time.
pub const WORKER: usize = WORKERS - 2;
/// How many times to try a page that the kernel cannot take at the moment.
const AGAIN: usize = 10_000;

static TOLD: AtomicBool = AtomicBool::new(false);

impl Runtime {
    /// The message about a fork was read; `child` is a userfaultfd for the child's memory.
    pub fn handle_child(&self, order: &mut Guard<'_, Order>, child: Fd) {
        let mut unborn = Unborn::of(child);
        let mut is_prepared = false;
        if order.forking && !order.fork_seen {
            let found = self.is_prepared_among(order, &mut unborn);
            // If it is unknown, the prepared child may be one of these, and no later child must be taken for
            // it.
            order.fork_seen = found != Some(false);
            is_prepared = found == Some(true) && unborn.all().len() == 1;
        }
        for child in unborn.all() {
            if !is_prepared {
                self.fill(order, Uffd(*child));
            }
            sys::close(*child);
        }
        if !order.forking {
            self.forks.has_forked.store(true, Relaxed);
            self.forks.generation.fetch_add(1, Relaxed);
            self.pages.standby.all_shared();
        }
        self.forks.gate.keep_spare();
    }

    fn fill(&self, order: &Order, child: Uffd) {
        // SAFETY: no other worker has this number, and the caller holds the order lock.
        let Some(mut worker) = (unsafe { Worker::new(&RUNTIME, WORKER) }) else {
            self.fail("no memory is left to restore evicted pages in a child");
        };
        let mut run = Run { child, first: 0, count: 0, given: 0 };
        self.stored.set_reading(WORKER, true);
        self.pages.table.for_each_block(0, crate::kernel::addresses::END, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            for (index, entry) in block.entries.iter().enumerate() {
                let page = base + index * PAGE;
                if entry.load() == State::Empty {
                    continue;
                }
                let place = if order.forking { order.journal.place_of(page) } else { Some(page) };
                let Some(place) = place else { continue };
                run.make_room(&worker, place);
                if self.read_evicted(&mut worker, page, entry, run.count, order.forking) {
                    run.add(place);
                }
            }
            run.give(&worker);
            if !order.forking {
                // Threads that found a pin of ours wait to be woken.
                self.uffd().wake(base, BLOCK);
            }
        });
        let given = run.given;
        self.stored.set_reading(WORKER, false);
        if given > 0 && !TOLD.swap(true, Relaxed) {
            self.say(
                "it creates a child by a system call that bypasses the C library: all evicted memory is \
                 restored in the child, which is not managed",
            );
        }
    }

    /// Reads the contents that an entry stands for into page `index` of the worker. `false` if the page is
    /// not evicted. With `is_still`, nothing is freed meanwhile and no entry may change.
    fn read_evicted(
        &self,
        worker: &mut Worker,
        page: usize,
        entry: &Entry,
        index: usize,
        is_still: bool,
    ) -> bool {
        loop {
            let state = entry.load();
            let into = &mut worker.pages[index * PAGE..(index + 1) * PAGE];
            match state {
                State::Empty => return false,
                State::Zero => into.fill(0),
                State::Standby(id) => {
                    let from = self.pages.standby.page_address(id) as *const u8;
                    // SAFETY: the entry says that the page is on standby, and under the order lock it stays
                    // there.
                    into.copy_from_slice(unsafe { core::slice::from_raw_parts(from, PAGE) });
                }
                State::Stored(name) if !is_still && !entry.pin(name) => continue,
                State::Stored(name) | State::Pinned(name) => {
                    let owner = page_number(page);
                    // SAFETY: the blob is pinned, by this thread or by another one that does not free it
                    // without the order lock; or nothing is freed during a fork.
                    if unsafe { self.store().load(name, owner, into, &mut worker.decode) }.is_err() {
                        self.fail_corrupt();
                    }
                    if state == State::Stored(name) && !is_still {
                        entry.unpin(name);
                    }
                }
                State::Spilled(_) => {
                    // The page arrives in the worker's first page.
                    let mut first = [0u8; PAGE];
                    first.copy_from_slice(&worker.pages[..PAGE]);
                    self.fetch_alone(worker, page);
                    worker.pages.copy_within(..PAGE, index * PAGE);
                    if index > 0 {
                        worker.pages[..PAGE].copy_from_slice(&first);
                    }
                }
            }
            return true;
        }
    }
}

/// Adjacent pages of a child that were read.
struct Run {
    child: Uffd,
    first: usize,
    count: usize,
    given: usize,
}

impl Run {
    /// Called before the page that belongs at `place` is read.
    fn make_room(&mut self, worker: &Worker, place: usize) {
        if self.count == RUN || place != self.first + self.count * PAGE {
            self.give(worker);
        }
    }

    fn add(&mut self, place: usize) {
        if self.count == 0 {
            self.first = place;
        }
        self.count += 1;
    }

    fn give(&mut self, worker: &Worker) {
        give(self.child, self.first, &worker.pages[..self.count * PAGE]);
        self.given += self.count;
        self.count = 0;
    }
}

/// Puts pages into a child that lacks them.
fn give(child: Uffd, to: usize, contents: &[u8]) {
    let (mut done, mut tries) = (0, 0);
    let mut step = contents.len();
    while done < contents.len() {
        let bytes = step.min(contents.len() - done);
        // SAFETY: these are the contents of the child's pages; the child has not begun.
        match unsafe { child.copy(to + done, contents[done..].as_ptr(), bytes) } {
            Ok(copied) => done += copied,
            Err(Errno::EXIST) => done += PAGE,
            // The run extends beyond a mapping: continue page by page. A page that is not mapped there was
            // not inherited.
            Err(Errno::NOENT) if bytes > PAGE => step = PAGE,
            Err(Errno::NOENT) => done += PAGE,
            Err(Errno::AGAIN) if tries < AGAIN => {
                tries += 1;
                sched::yield_now();
            }
            // There is no child: its parent is being killed.
            Err(Errno::SRCH) => return,
            Err(_) if child.poison(to + done, PAGE).is_ok() => {
                RUNTIME.say("no memory is left for a child that was created without the C library: it crashes when it touches a page that is missing");
                done += PAGE;
            }
            Err(_) => RUNTIME.fail(
                "evicted pages could not be restored in a child that was created without the C library",
            ),
        }
    }
}
