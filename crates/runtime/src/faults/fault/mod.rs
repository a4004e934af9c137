//! Handlers: threads that bring pages back when the program touches them.
//!
//! There is one for two CPUs (at most four), bound to one, because waking a
//! thread on the faulting CPU costs a quarter of waking one elsewhere. Each
//! waits for messages, takes the order lock to read one, and serves it (`place.rs`):
//!
//! | entry | what is done |
//! | --- | --- |
//! | empty | never touched, or discarded: zeros |
//! | standby | copied back from the standby slot |
//! | zero | zeros |
//! | stored | decompressed outside of the lock, put in place under it |
//! | pinned | somebody else is at it, and wakes the thread when done |
//! | spilled | left to a thread that waits for the supervisor: see `spill/fetch.rs` |
//!
//! A write to a page that is protected (see `copies.rs`) only waits for room.
//!
//! While faults are sequential, a growing run of pages (1 to 32) is brought
//! back at once.

mod hurry;
mod place;
mod room;
mod streams;

use core::sync::atomic::Ordering::*;

use memfold::probe;

use crate::interpose::rights::credentials;
use crate::kernel::sched;
use crate::kernel::sys::{self, Errno, PAGE, PollFd};
use crate::kernel::uffd::{Message, Touch};
use crate::memory::lock::Guard;
use crate::pages::journal::Record;
use crate::pages::order::{Fault, Order};
use crate::pages::table::{State, page_number};
use crate::process::thread;
use crate::reclaim::worker::Worker;
use crate::runtime::{RUNTIME, Runtime};
use crate::spill::Spot;
use streams::Streams;

/// A touch takes so much longer than is seen of it, ns: until a handler has read of it, and until the thread runs again.
const UNSEEN_NS: u64 = 15_000;

/// What follows from trying to put pages in place.
#[derive(PartialEq, Eq)]
pub(crate) enum Placed {
    /// The thread goes on.
    Done,
    /// Events came in between: look again.
    Retry,
}

/// What a handler thread carries with it.
pub struct Handler {
    pub(crate) runtime: &'static Runtime,
    pub(crate) worker: Worker,
    pub(crate) streams: Streams,
    /// It works for the keeper, which restores everything: no faults of others wait for it, and it waits neither
    /// for a fetcher nor for room, since only the keeper makes room.
    pub(crate) is_keepers: bool,
    /// There is something in its memory that is still to be put in place.
    pub(crate) holds_page: bool,
    /// The CPU that is its own, and the one that it is bound to.
    pub(crate) cpu: usize,
    bound: usize,
}

/// Entry of a handler thread; the argument is its number and its CPU.
pub extern "C" fn handler(argument: usize) -> ! {
    let (number, cpu) = (argument & 0xff, argument >> 8);
    // SAFETY: this is the only thread of this number.
    let Some(mut handler) = (unsafe { Handler::new(&RUNTIME, number) }) else {
        RUNTIME.fail("no memory is left for a fault handler");
    };
    handler.cpu = cpu;
    handler.bind(cpu);
    sched::shorten_slice();
    handler.run()
}

impl Handler {
    /// A handler with memory to work in; `None` if there is none.
    ///
    /// # Safety
    /// As for [`Worker::new`].
    pub unsafe fn new(runtime: &'static Runtime, number: usize) -> Option<Self> {
        Some(Handler {
            runtime,
            // SAFETY: passed on to the caller.
            worker: unsafe { Worker::new(runtime, number) }?,
            streams: Streams::default(),
            is_keepers: false,
            holds_page: false,
            cpu: 0,
            bound: usize::MAX,
        })
    }

    fn run(&mut self) -> ! {
        let runtime = self.runtime;
        loop {
            if runtime.threads.quit_handlers.load(Acquire) {
                runtime.threads.handlers.fetch_sub(1, AcqRel);
                thread::exit();
            }
            credentials::adopt();
            let mut order = runtime.lock_order();
            let Some(fault) = self.next_fault(&mut order) else {
                drop(order);
                self.sleep();
                continue;
            };
            if order.forking {
                self.serve_during_fork(&mut order, fault);
                continue;
            }
            runtime.faults.serving.fetch_add(1, SeqCst);
            drop(order);
            self.serve(fault);
            runtime.faults.serving.fetch_sub(1, SeqCst);
            // With one thread that faults there is hardly ever another message at once.
            if !runtime.faults.follow.is_spread() && runtime.faults.deferred.load(Acquire) == 0 {
                self.sleep();
            }
        }
    }

    /// Reads messages until one is a fault that may be served now.
    fn next_fault(&self, order: &mut Guard<'_, Order>) -> Option<Fault> {
        let runtime = self.runtime;
        // Applying an event may read others, and keep faults for later.
        loop {
            if let Some(fault) = runtime.next_kept(order) {
                return Some(fault);
            }
            if !order.may_read() {
                return None;
            }
            runtime.settle_late(order);
            match runtime.uffd().next() {
                Some(Message::Fault { page, touch, tid }) => {
                    runtime.faults.follow.note(tid);
                    return Some(Fault { page, touch });
                }
                Some(event) => runtime.apply(order, event),
                None => {
                    runtime.forks.gate.let_through();
                    return None;
                }
            }
        }
    }

    /// Serves a fault while nothing may change but the journal.
    fn serve_during_fork(&mut self, order: &mut Guard<'_, Order>, fault: Fault) {
        let runtime = self.runtime;
        let page = fault.page;
        if fault.touch == Touch::Protected {
            if runtime.is_clean(page) {
                // Its blob is forgotten with the rest.
                match order.journal.has_room_for_page() {
                    true => order.journal.add(Record::Served(page)),
                    false => order.blobs_void = true,
                }
            }
            let _ = runtime.uffd().protect(page, PAGE, false);
            runtime.uffd().wake(page, PAGE);
            return;
        }
        let home = order.journal.find(page);
        let state =
            home.and_then(|home| runtime.pages.table.entry(home)).map_or(State::Empty, |entry| entry.load());
        if let (State::Spilled(_), Some(home)) = (state, home) {
            if home == page {
                // A fetcher puts it in place although the fork is under way: the C library may need it before it forks. Nobody else waits for it.
                self.leave(fault, sys::now_ns(), 1);
                return;
            }
            // It was moved since the fork began. Nobody changes the entry meanwhile.
            runtime.fetch_alone(&mut self.worker, home);
        }
        let into = &mut self.worker.pages[..PAGE];
        match (state, home) {
            (State::Standby(id), _) => {
                let from = runtime.pages.standby.page_address(id) as *const u8;
                // SAFETY: the page on standby is readable and stays: its compressor has stopped.
                into.copy_from_slice(unsafe { core::slice::from_raw_parts(from, PAGE) });
            }
            (State::Stored(name) | State::Pinned(name), Some(home)) => {
                let owner = page_number(home);
                // SAFETY: during a fork nothing is moved or freed.
                if unsafe { runtime.store().load(name, owner, into, &mut self.worker.decode) }.is_err() {
                    runtime.fail_corrupt();
                }
            }
            (State::Spilled(_), _) => {}
            _ => into.fill(0),
        }
        // SAFETY: that is what the program's page holds: see the journal.
        match unsafe { runtime.uffd().copy(page, into.as_ptr(), PAGE) } {
            Ok(_) => {
                // The C library's fork may wait for a thread that waits for this page: it comes back though it can't be noted.
                if order.journal.has_room_for_page() {
                    order.journal.add(Record::Served(page));
                }
                runtime.uffd().wake(page, PAGE);
            }
            Err(Errno::AGAIN | Errno::NOMEM) => {
                runtime.drain(order);
                runtime.keep(order, fault);
                sched::yield_now();
            }
            Err(_) => runtime.uffd().wake(page, PAGE),
        }
    }

    /// Puts a page in place that was fetched, while nothing may change but the journal: if it is still the page that was asked for, and where it was.
    /// `number`: of the batch that it comes from.
    pub(crate) fn place_during_fork(
        &mut self,
        order: &mut Guard<'_, Order>,
        page: usize,
        spot: Spot,
        number: u64,
    ) {
        let runtime = self.runtime;
        let entry = runtime.pages.table.entry(page).map_or(State::Empty, |entry| entry.load());
        let is_there =
            entry == State::Spilled(spot) && runtime.spill.batches.number(spot.batch) == Some(number);
        // Nothing has happened to it since the fork began: it was not served, given back or moved.
        if !is_there || order.journal.find(page) != Some(page) || !order.journal.has_room_for_page() {
            return;
        }
        // SAFETY: that is what the program's page holds: the entry and the journal say so, under the lock.
        if unsafe { runtime.uffd().copy(page, self.worker.pages.as_ptr(), PAGE) }.is_ok() {
            order.journal.add(Record::Served(page));
        }
    }

    /// Sleeps until there is a message or a call.
    fn sleep(&mut self) {
        let follow = &self.runtime.faults.follow;
        self.bind(follow.cpu_for(self.worker.number, self.cpu));
        let call = follow.call(self.worker.number);
        let mut fds = [
            PollFd { fd: call, events: 1, revents: 0 },
            PollFd { fd: self.runtime.uffd().0, events: 1, revents: 0 },
            PollFd { fd: self.runtime.forks.gate.fd(), events: 1, revents: 0 },
        ];
        let count = if follow.listens(self.worker.number) { 3 } else { 1 };
        let _ = sys::poll(&mut fds[..count], None);
        if fds[0].revents != 0 {
            let _ = sys::read(call, &mut [0; 8]);
        }
        credentials::adopt();
    }

    /// Binds the thread to a CPU.
    pub(crate) fn bind(&mut self, cpu: usize) {
        if cpu == self.bound {
            return;
        }
        let mut set = [0u64; 16];
        if let Some(word) = set.get_mut(cpu / 64) {
            *word = 1 << (cpu % 64);
            sched::bind_to(&set);
            self.bound = cpu;
        }
    }

    /// Serves a fault, for which somebody waits.
    pub fn serve(&mut self, fault: Fault) {
        let begin = sys::now_ns();
        self.runtime.faults.stall.enter(begin);
        let was_away = self.serve_from(fault, begin);
        if was_away && self.runtime.reclaim.is_in_a_hurry() {
            self.bring_back_around(fault.page);
        }
        let stalled = self.runtime.faults.stall.leave(sys::now_ns());
        self.runtime.slot().counters.stalled_ns.fetch_add(stalled, Relaxed);
        let unseen = if was_away { UNSEEN_NS } else { 0 };
        self.runtime.reclaim.patience_ns.fetch_sub((stalled + unseen) as i64, Relaxed);
    }

    /// Returns whether the page had been taken away.
    pub(crate) fn serve_from(&mut self, fault: Fault, begin: u64) -> bool {
        if fault.touch == Touch::Protected {
            self.let_copy(fault);
            return false;
        }
        let run = self.streams.run_length(fault.page);
        probe!(runtime_fault_begin, fault.page, fault.touch == Touch::Write);
        loop {
            let state = self.runtime.pages.table.entry(fault.page).map_or(State::Empty, |entry| entry.load());
            let placed = match state {
                State::Pinned(_) => return true,
                State::Spilled(_) if self.is_keepers => {
                    if let Some(fetched) = self.runtime.fetch(&mut self.worker, fault.page, run, None) {
                        self.place_fetched(fault, &fetched, begin);
                        return true;
                    }
                    Placed::Retry
                }
                State::Spilled(_) => {
                    self.leave(fault, begin, run);
                    return true;
                }
                State::Standby(_) => self.rescue(fault, run, true).0,
                State::Stored(_) | State::Zero => {
                    if !self.exchanges(fault) {
                        self.wait_for_room(false);
                    }
                    let placed = self.restore(fault, run, true).0;
                    if placed == Placed::Done {
                        self.runtime.keep_awake(begin);
                        self.note_served(fault, begin);
                    }
                    placed
                }
                State::Empty => {
                    self.wait_for_room(true);
                    self.give_zeros(fault, run)
                }
            };
            if placed == Placed::Done {
                probe!(runtime_fault, fault.page, fault.touch == Touch::Write);
                return state != State::Empty;
            }
            sched::yield_now();
        }
    }

    /// Whether what is restored is exchanged for other pages, and needs no room.
    fn exchanges(&self, fault: Fault) -> bool {
        let runtime = self.runtime;
        fault.touch == Touch::Read
            && runtime.keeps_clean()
            && runtime.can_exchange_clean(&runtime.lock_order())
    }

    /// A page was brought back that was compressed.
    pub(crate) fn note_served(&self, fault: Fault, begin: u64) {
        let now = sys::now_ns();
        let took = now.saturating_sub(begin);
        self.runtime.faults.served_ns.store(now, Relaxed);
        self.runtime.shared().note_fault(took);
        if let Some(trail) = self.runtime.shared().trail() {
            trail.fault(self.runtime.slot().pid.load(Relaxed), page_number(fault.page), took);
        }
        self.runtime.slot().counters.fault_ns.fetch_add(took, Relaxed);
    }
}
