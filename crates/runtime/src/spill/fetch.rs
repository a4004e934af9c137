//! Back in: threads that wait for the supervisor in place of handlers.
//!
//! A handler that finds a page spilled hands the fault on and goes on to the next. The fetcher asks for the block, and for those that follow it
//! both in memory and in the batch if touches come in a sequence; opens, decompresses and puts them in place if nothing has happened to
//! them meanwhile. It holds nothing while it waits: the entry may change, the batch may even be gone then.

use core::sync::atomic::Ordering::*;

use memfold::store::Tiered;

use super::area::{self, Area, POSTS, answer, kind};
use super::out::codec_of;
use super::{Spot, fill, free_post};
use crate::fault::Handler;
use crate::interpose::credentials;
use crate::order::Fault;
use crate::runtime::{RUNTIME, Runtime, StoreMemory};
use crate::sys::{self, PAGE};
use crate::table::{Block, PAGES, State};
use crate::thread;
use crate::worker::{RUN, Worker};

/// Faults that may wait for a fetcher.
const QUEUE: usize = 256;

/// A fault that waits for a fetcher: since when, and how many pages are to be brought back.
#[derive(Clone, Copy)]
struct Left {
    fault: Fault,
    begin: u64,
    run: usize,
}

/// Faults on spilled pages.
pub struct Queue {
    faults: [Option<Left>; QUEUE],
    first: usize,
    count: usize,
}

impl Queue {
    /// None.
    pub const fn new() -> Self {
        Queue { faults: [const { None }; QUEUE], first: 0, count: 0 }
    }

    fn push(&mut self, left: Left) -> bool {
        // A thread that a signal has interrupted touches it again.
        let mut waiting = (0..self.count).filter_map(|at| self.faults[(self.first + at) % QUEUE]);
        if waiting.any(|other| other.fault.page == left.fault.page) {
            return true;
        }
        if self.count == QUEUE {
            return false;
        }
        self.faults[(self.first + self.count) % QUEUE] = Some(left);
        self.count += 1;
        true
    }

    fn pop(&mut self) -> Option<Left> {
        self.count = self.count.checked_sub(1)?;
        let first = self.first;
        self.first = (first + 1) % QUEUE;
        self.faults[first].take()
    }

    /// Forgets all of them. In place: it is large, and the program's stack may be small.
    pub fn clear(&mut self) {
        self.count = 0;
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

/// Blocks that follow each other in a batch.
#[derive(Clone, Copy)]
pub struct Fetched {
    /// Where they are, from the first page on.
    pub spots: [Option<Spot>; RUN],
    /// How many.
    pub count: usize,
    /// The batch's number when it was asked for.
    pub number: u64,
}

/// Entry of a fetcher thread; the argument is its number among the workers.
pub extern "C" fn fetcher(argument: usize) -> ! {
    // SAFETY: this is the only thread of this number.
    let Some(mut handler) = (unsafe { Handler::new(&RUNTIME, argument & 0xff) }) else {
        RUNTIME.fail("no memory is left for a thread that fetches");
    };
    loop {
        if RUNTIME.quit_handlers.load(Acquire) {
            RUNTIME.handlers.fetch_sub(1, AcqRel);
            thread::exit();
        }
        let seen = RUNTIME.spill.asked.now();
        credentials::adopt();
        let next = RUNTIME.spill.queue.lock().pop();
        match next {
            Some(left) => {
                handler.serve_spilled(left);
                handler.serve_deferred();
            }
            None => RUNTIME.spill.asked.wait(seen, 1_000_000_000),
        }
    }
}

impl Runtime {
    /// Hands a fault to the fetchers, who are to bring back up to `run` pages. Returns how many it will be, as it looks; `None` if too many wait.
    fn leave_to_fetchers(&self, fault: Fault, begin: u64, run: usize) -> Option<usize> {
        let most = run.min(RUN).min(PAGES - fault.page / PAGE % PAGES);
        let block = self.table.block(fault.page)?;
        let count = self.spots_from(block, fault.page, most).map_or(1, |found| found.count);
        let is_left = self.spill.queue.lock().push(Left { fault, begin, run });
        if is_left {
            self.spill.asked.ring();
        }
        is_left.then_some(count)
    }

    /// The spilled blocks from one on that can be asked for at once, at most so many.
    fn spots_from(&self, block: &Block, page: usize, most: usize) -> Option<Fetched> {
        let mut fetched = Fetched { spots: [None; RUN], count: 0, number: 0 };
        let mut before: Option<Spot> = None;
        while fetched.count < most {
            let State::Spilled(spot) = block.entries[page / PAGE % PAGES + fetched.count].load() else {
                break;
            };
            if before.is_some_and(|before| before.batch != spot.batch || before.end() != spot.offset) {
                break;
            }
            fetched.spots[fetched.count] = Some(spot);
            fetched.count += 1;
            before = Some(spot);
        }
        fetched.number = self.spill.batches.number(fetched.spots[0]?.batch)?;
        Some(fetched)
    }

    /// Brings the pages of up to so many blocks from `page` on into the worker's pages. `None` if the first is not spilled
    /// any more. Waits for as long as the supervisor does.
    pub fn fetch(&self, worker: &mut Worker, page: usize, most: usize) -> Option<Fetched> {
        let block = self.table.block(page)?;
        let fetched = self.spots_from(block, page, most.min(RUN).min(PAGES - page / PAGE % PAGES))?;
        let (first, last) = (fetched.spots[0]?, fetched.spots[fetched.count - 1]?);
        let area = self.spill.area()?;
        let bytes = (last.end() - first.offset) as usize;
        let mut answer = None;
        let mut opened = 0;
        if let Some((post, taken)) = self.take_post(area) {
            fill(&area.posts[post % POSTS], kind::GET, fetched.number, first.offset, bytes.min(area::BUFFER));
            if let Some((what, answered)) = self.ask(area, post, taken) {
                answer = Some(what);
                if what == answer::DONE {
                    opened = self.open_all(area, post, worker, &fetched, first.offset);
                }
                free_post(area, post, answered);
            }
        }
        if opened > 0 {
            // The rest may have gone meanwhile, or is asked for again.
            return Some(Fetched { count: opened, ..fetched });
        }
        // The page may have gone meanwhile, and its batch with it; then something else may stand in its place.
        let is_wanted = block.entries[page / PAGE % PAGES].load() == State::Spilled(first)
            && self.spill.batches.number(first.batch) == Some(fetched.number);
        if is_wanted {
            self.fail(match answer {
                Some(answer::DONE) => {
                    "a page was spilled, and what the tier gave back is not what it was given: the process is ended, so that it can't go on with wrong data"
                }
                Some(answer::AWAY) => {
                    "a page was spilled to a tier that does not answer, and it was waited for as long as --spill-patience says: the process is ended"
                }
                None => "a page was spilled, and the supervisor (memfold run) is gone that could fetch it: the process is ended",
                _ => {
                    "a page was spilled, and the tier does not have it any more: the process is ended, so that it can't go on with wrong data"
                }
            });
        }
        None
    }

    /// Opens the blocks that stand in a post's buffer, up to the first that does not open. Returns how many.
    fn open_all(
        &self,
        area: &Area,
        post: usize,
        worker: &mut Worker,
        fetched: &Fetched,
        offset: u32,
    ) -> usize {
        for (index, spot) in fetched.spots.iter().take(fetched.count).flatten().enumerate() {
            let len = spot.len as usize;
            // Out of the memory that others can write to: what was opened must not change any more.
            let sealed = &mut worker.sealed[..len];
            // SAFETY: within the buffer, since a batch is no larger; the worker's memory is its own.
            unsafe {
                let from = area.buffer(post).add((spot.offset - offset) as usize);
                core::ptr::copy_nonoverlapping(from, sealed.as_mut_ptr(), len);
            }
            let sealer = self.spill.sealer();
            let opened =
                sealer.and_then(|sealer| sealer.open_first(fetched.number, spot.offset, sealed).ok());
            let page = &mut worker.pages[index * PAGE..(index + 1) * PAGE];
            let done = opened.is_some_and(|(block, _)| {
                let codec = codec_of(block.tag);
                Tiered::<StoreMemory>::open(block.owner, codec, block.payload, page, &mut worker.decode)
                    .is_ok()
            });
            if !done {
                return index;
            }
        }
        fetched.count
    }

    /// In a process where nothing else runs: the page that was spilled there.
    pub fn fetch_alone(&self, worker: &mut Worker, page: usize) {
        if self.fetch(worker, page, 1).is_none() {
            self.fail("a spilled page could not be brought back");
        }
    }
}

impl Handler {
    /// Leaves a fault on a spilled page to the fetchers. What is a sequence only the handler sees. `false` if too many wait there.
    pub(crate) fn leave(&mut self, fault: Fault, begin: u64, run: usize) -> bool {
        let Some(count) = self.runtime.leave_to_fetchers(fault, begin, run) else { return false };
        self.expect_next(fault.page, count);
        true
    }

    /// Serves a fault that was left to the fetchers.
    fn serve_spilled(&mut self, left: Left) {
        let Left { fault, begin, run } = left;
        self.runtime.stall.enter(begin);
        let fetched = self.runtime.fetch(&mut self.worker, fault.page, run);
        let order = self.runtime.lock_order();
        if order.forking {
            drop(order);
            // The thread touches it again, and finds the fork over some time.
            self.runtime.uffd().wake(fault.page, PAGE);
            sys::sched_yield();
        } else {
            self.runtime.serving.fetch_add(1, SeqCst);
            drop(order);
            match fetched {
                Some(fetched) => {
                    // Here, and not while nothing may change because of a fork.
                    self.wait_for_room(false);
                    self.place_fetched(fault, &fetched, begin);
                }
                // What it is now is served as any other.
                None => {
                    self.serve_from(fault, begin);
                }
            }
            self.runtime.serving.fetch_sub(1, SeqCst);
        }
        let stalled = self.runtime.stall.leave(sys::now_ns());
        self.runtime.slot().counters.stalled_ns.fetch_add(stalled, Relaxed);
    }

    /// Serves the faults that were read meanwhile: the handlers may sleep, and know nothing of them.
    fn serve_deferred(&mut self) {
        while self.runtime.deferred.load(Acquire) > 0 {
            let mut order = self.runtime.lock_order();
            // After a fork the handlers are called.
            let next = if order.forking { None } else { order.next_deferred() };
            let Some(fault) = next else { return };
            self.runtime.deferred.fetch_sub(1, Relaxed);
            self.runtime.serving.fetch_add(1, SeqCst);
            drop(order);
            self.serve(fault);
            self.runtime.serving.fetch_sub(1, SeqCst);
        }
    }

    /// Puts what was fetched in place.
    pub(crate) fn place_fetched(&mut self, fault: Fault, fetched: &Fetched, begin: u64) {
        let mut found = [State::Empty; RUN];
        for (found, spot) in found.iter_mut().zip(fetched.spots.iter().take(fetched.count).flatten()) {
            *found = State::Spilled(*spot);
        }
        if self.place(fault, &found[..fetched.count], Some(fetched.number), true).0
            == crate::fault::Placed::Done
        {
            self.note_served(fault, begin);
        } else {
            // Something has come in between: the thread touches it again.
            self.runtime.uffd().wake(fault.page, PAGE);
        }
    }
}
