//! Fetching: threads that wait for the supervisor in place of handlers.
//!
//! When a handler finds that a page is spilled, it requests the page's block; if touches come in sequence,
//! also the blocks that follow it both in memory and in the batch. It hands the fault on and goes on to the
//! next. A fetcher, woken while the tier works, waits for the answer, opens and decompresses the blocks, and
//! places the pages if they are unchanged. It holds nothing while it waits: the entry may change, and even
//! the batch may be gone by then.

use super::fetch::Fetched;
use super::queue::Left;
use crate::faults::delivery::Delivery;
use crate::faults::serving::Server;
use crate::interpose::rights::credentials;
use crate::kernel::addresses::RUN;
use crate::kernel::sched::{self, Binding};
use crate::kernel::sys::{self, PAGE};
use crate::pages::events::order::Fault;
use crate::pages::table::State;
use crate::process::thread;
use crate::runtime::RUNTIME;
use core::sync::atomic::Ordering::*;

/// Entry of a fetcher thread; the argument is its number among the workers.
pub extern "C" fn fetcher(argument: usize) -> ! {
    // SAFETY: this is the only thread with this number.
    let Some(mut server) = (unsafe { Server::new(&RUNTIME, argument & 0xff) }) else {
        RUNTIME.fail("no memory is left for a thread that fetches");
    };
    let mut binding = Binding::new(argument >> 8);
    sched::shorten_slice();
    loop {
        if RUNTIME.threads.quit_handlers.load(Acquire) {
            RUNTIME.threads.handlers.fetch_sub(1, AcqRel);
            thread::exit();
        }
        let seen = RUNTIME.spill.asked.now();
        credentials::adopt();
        binding.bind(RUNTIME.faults.follow.cpu_near(binding.own));
        let (next, forgotten) = {
            let mut queue = RUNTIME.spill.queue.lock();
            (queue.pop(), queue.take_forgotten())
        };
        if forgotten {
            RUNTIME.delivery().resume_all();
        }
        match next {
            Some(left) => {
                server.serve_spilled(left);
                RUNTIME.spill.fetching.fetch_sub(1, Relaxed);
                server.serve_deferred();
            }
            None => RUNTIME.spill.asked.wait(seen, 1_000_000_000),
        }
    }
}

impl Server {
    /// Leaves a fault on a spilled page to the fetchers. Only the handler recognises sequences.
    pub(crate) fn leave(&mut self, fault: Fault, begin: u64, run: usize) {
        match self.runtime.leave_to_fetchers(fault, begin, run) {
            Some(count) => {
                self.streams.expect_next(fault.page, count);
                self.runtime.keep_awake(begin);
            }
            None => {
                // The page is not spilled any more: the thread touches it again.
                self.runtime.delivery().resume_at(fault.page);
                sched::yield_now();
            }
        }
    }

    /// Serves a fault that was left to the fetchers.
    fn serve_spilled(&mut self, left: Left) {
        let Left { fault, begin, run, asked } = left;
        self.runtime.faults.stall.enter(begin);
        let fetched = self.runtime.fetch(&mut self.worker, fault.page, run, asked);
        let mut order = self.runtime.lock_order();
        if order.forking {
            if let Some((fetched, first)) = fetched.and_then(|fetched| Some((fetched, fetched.spots[0]?))) {
                self.place_during_fork(&mut order, fault.page, first, fetched.number);
            }
            drop(order);
            // If the page could not be placed, the thread touches it again.
            self.runtime.delivery().resume_at(fault.page);
            sched::yield_now();
        } else {
            self.runtime.faults.serving.fetch_add(1, SeqCst);
            drop(order);
            match fetched {
                Some(fetched) => {
                    // The wait for room comes here, and not during a fork, when nothing may change. It is as
                    // long as for fresh memory: fetched pages add to the memory in use, and spilling makes
                    // room.
                    self.holds_page = true;
                    self.wait_for_room(true);
                    self.holds_page = false;
                    self.place_fetched(fault, &fetched, begin);
                }
                // The page is served in its present state, like any other.
                None => {
                    self.serve_from(fault, begin);
                }
            }
            self.runtime.faults.serving.fetch_sub(1, SeqCst);
        }
        let stalled = self.runtime.faults.stall.leave(sys::now_ns());
        self.runtime.slot().counters.stalled_ns.fetch_add(stalled, Relaxed);
    }

    /// Serves the faults that were read meanwhile: the handlers may be asleep, and do not know of them.
    fn serve_deferred(&mut self) {
        while self.runtime.faults.deferred.load(Acquire) > 0 {
            let mut order = self.runtime.lock_order();
            // After a fork the handlers are woken.
            let next = if order.forking { None } else { self.runtime.next_kept(&mut order) };
            let Some(fault) = next else { return };
            self.runtime.faults.serving.fetch_add(1, SeqCst);
            drop(order);
            self.serve(fault);
            self.runtime.faults.serving.fetch_sub(1, SeqCst);
        }
    }

    /// Places fetched pages, and stored pages that lie between them.
    pub(crate) fn place_fetched(&mut self, fault: Fault, fetched: &Fetched, begin: u64) {
        let mut found = [State::Empty; RUN];
        let mut count = 0;
        self.runtime.stored.set_reading(self.worker.number, true);
        for (index, spot) in fetched.spots.iter().enumerate().take(fetched.count) {
            let state = match spot {
                Some(spot) => Some(State::Spilled(*spot)),
                None => self.load(fault.page + index * PAGE, index),
            };
            let Some(state) = state else { break };
            found[index] = state;
            count += 1;
        }
        self.runtime.stored.set_reading(self.worker.number, false);
        if self.place(fault, &found[..count], Some(fetched.number), true).0
            == crate::faults::serving::Placed::Done
        {
            self.note_served(fault, begin);
            if let Some(area) = self.runtime.spill.area() {
                area.note_fault(sys::now_ns().saturating_sub(begin));
            }
        } else {
            // The page has changed meanwhile: the thread touches it again.
            self.runtime.delivery().resume_at(fault.page);
        }
    }
}
