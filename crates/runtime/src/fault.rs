//! Handlers: threads that bring pages back when the program touches them.
//!
//! There is one for two CPUs (at most four), bound to one, because waking a
//! thread on the faulting CPU costs a quarter of waking one elsewhere. Each
//! waits for messages, takes the order lock to read one, and serves it:
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
mod room;
mod streams;

use core::sync::atomic::Ordering::*;

use memfold::probe;
use memfold::store::Ref;

use crate::interpose::{credentials, ranges};
use crate::journal::Record;
use crate::lock::Guard;
use crate::order::{Fault, Order};
use crate::pagemap::Pagemap;
use crate::runtime::{RUNTIME, Runtime};
use crate::sched;
use crate::spill::Spot;
use crate::sys::{self, Errno, Fd, PAGE, PollFd};
use crate::table::{PAGES, State, index_in_block, page_number};
use crate::thread;
use crate::uffd::{Message, Touch};
use crate::worker::{RUN, Worker};
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

/// Pages from this one to the end of its block.
fn left_in_block(page: usize) -> usize {
    PAGES - page / PAGE % PAGES
}

/// What a handler thread carries with it.
pub struct Handler {
    pub(crate) runtime: &'static Runtime,
    pub(crate) worker: Worker,
    pub(crate) streams: Streams,
    /// It fetches what is spilled itself: nobody else's faults wait for it.
    pub(crate) fetches: bool,
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
            fetches: false,
            holds_page: false,
            cpu: 0,
            bound: usize::MAX,
        })
    }

    fn run(&mut self) -> ! {
        let runtime = self.runtime;
        loop {
            if runtime.quit_handlers.load(Acquire) {
                runtime.handlers.fetch_sub(1, AcqRel);
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
            runtime.serving.fetch_add(1, SeqCst);
            drop(order);
            self.serve(fault);
            runtime.serving.fetch_sub(1, SeqCst);
            // With one thread that faults there is hardly ever another message at once.
            if !runtime.follow.is_spread() && runtime.deferred.load(Acquire) == 0 {
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
                    runtime.follow.note(tid);
                    return Some(Fault { page, touch });
                }
                Some(event) => runtime.apply(order, event),
                None => {
                    runtime.gate.let_through();
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
            home.and_then(|home| runtime.table.entry(home)).map_or(State::Empty, |entry| entry.load());
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
                let from = runtime.standby.page_address(id) as *const u8;
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
        let entry = runtime.table.entry(page).map_or(State::Empty, |entry| entry.load());
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
        let follow = &self.runtime.follow;
        self.bind(follow.cpu_for(self.worker.number, self.cpu));
        let call = follow.call(self.worker.number);
        let mut fds = [
            PollFd { fd: call, events: 1, revents: 0 },
            PollFd { fd: self.runtime.uffd().0, events: 1, revents: 0 },
            PollFd { fd: self.runtime.gate.fd(), events: 1, revents: 0 },
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
        self.runtime.stall.enter(begin);
        let was_away = self.serve_from(fault, begin);
        if was_away && self.runtime.is_in_a_hurry() {
            self.bring_back_around(fault.page);
        }
        let stalled = self.runtime.stall.leave(sys::now_ns());
        self.runtime.slot().counters.stalled_ns.fetch_add(stalled, Relaxed);
        let unseen = if was_away { UNSEEN_NS } else { 0 };
        self.runtime.patience_ns.fetch_sub((stalled + unseen) as i64, Relaxed);
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
            let state = self.runtime.table.entry(fault.page).map_or(State::Empty, |entry| entry.load());
            let placed = match state {
                State::Pinned(_) => return true,
                State::Spilled(_) if self.fetches => {
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

    /// Whether what comes back is exchanged for other pages, and takes no room.
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
        self.runtime.served_ns.store(now, Relaxed);
        self.runtime.shared().note_fault(took);
        if let Some(trail) = self.runtime.shared().trail() {
            trail.fault(self.runtime.slot().pid.load(Relaxed), page_number(fault.page), took);
        }
        self.runtime.slot().counters.fault_ns.fetch_add(took, Relaxed);
    }

    /// How many of `count` pages may be given contents: up to the first guard page. The kernel would copy over a
    /// guard (and before 6.13 there are none). Under the order lock: nobody moves pages meanwhile.
    fn before_guard(&self, page: usize, count: usize) -> usize {
        let fd = self.runtime.pagemap.load(Relaxed);
        if fd < 0 || !self.runtime.knows_guards.load(Relaxed) {
            return count;
        }
        let first = Pagemap::of(Fd(fd)).first_swapped(page, page + count * PAGE);
        first.map_or(count, |(guard, _)| (guard - page) / PAGE)
    }

    /// Copies pages back from standby. Returns how many, too. `asked`: a thread waits for the first.
    fn rescue(&mut self, fault: Fault, run: usize, asked: bool) -> (Placed, usize) {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        if order.forking {
            return (self.fault_again(fault), 0);
        }
        let mut done = 0;
        let mut run = run.min(RUN).min(left_in_block(fault.page));
        if run > 1 {
            run = self.before_guard(fault.page, run).max(1);
        }
        let Some(block) = runtime.table.block(fault.page) else { return (Placed::Retry, 0) };
        while done < run {
            let page = fault.page + done * PAGE;
            let entry = &block.entries[page / PAGE % PAGES];
            let State::Standby(id) = entry.load() else { break };
            let from = runtime.standby.page_address(id) as *const u8;
            let mut is_clean = fault.touch == Touch::Read && runtime.has_blob_on_standby(page);
            // SAFETY: the entry says that the program's page is the one on standby.
            match unsafe { runtime.uffd().copy_as(page, from, PAGE, is_clean) } {
                Ok(_) => {}
                Err(Errno::EXIST) => is_clean = false,
                // This mapping is not registered for that.
                Err(Errno::INVAL) if is_clean => {
                    runtime.forget_blob(page);
                    continue;
                }
                Err(error) if done == 0 => return (self.refused(&mut order, page, error), 0),
                Err(_) => break,
            }
            if is_clean {
                runtime.blob_from_standby(page);
            } else {
                runtime.forget_blob(page);
            }
            entry.store(State::Empty);
            block.evicted.fetch_sub(1, Relaxed);
            runtime.standby.forget(id);
            runtime.standby.slot(id >> 9).rescued.fetch_add(1, Relaxed);
            done += 1;
        }
        drop(order);
        if done == 0 {
            return (Placed::Retry, 0);
        }
        runtime.slot().counters.pages_rescued.fetch_add(done as u64, Relaxed);
        probe!(runtime_rescue, fault.page, done);
        runtime.change_debt((done * PAGE) as i64);
        runtime.uffd().wake(fault.page, done * PAGE);
        if asked {
            self.streams.expect_next(fault.page, done);
        }
        (Placed::Done, done)
    }

    /// Decompresses pages and puts them in place. Returns how many, too. `asked`: a thread waits for the first.
    fn restore(&mut self, fault: Fault, run: usize, asked: bool) -> (Placed, usize) {
        let runtime = self.runtime;
        let mut found = [State::Empty; RUN];
        let wanted = run.min(RUN).min(left_in_block(fault.page));
        runtime.set_reading(self.worker.number, true);
        let mut count = 0;
        while count < wanted {
            let Some(state) = self.load(fault.page + count * PAGE, count) else { break };
            found[count] = state;
            count += 1;
        }
        runtime.set_reading(self.worker.number, false);
        if count == 0 {
            return (Placed::Retry, 0);
        }
        self.place(fault, &found[..count], None, asked)
    }

    /// Decompresses a page to place `index` among the worker's, and pins it: `place` takes the pin back. `None` if it is not in the store.
    /// The worker must have said that it reads.
    pub(crate) fn load(&mut self, page: usize, index: usize) -> Option<State> {
        let runtime = self.runtime;
        let entry = runtime.table.entry(page)?;
        let state = entry.load();
        let into = &mut self.worker.pages[index * PAGE..(index + 1) * PAGE];
        match state {
            State::Zero => into.fill(0),
            State::Stored(name) if entry.replace(state, State::Pinned(name)) => {
                // SAFETY: pinned, and this worker says that it reads.
                let loaded =
                    unsafe { runtime.store().load(name, page_number(page), into, &mut self.worker.decode) };
                if loaded.is_err() {
                    runtime.fail_corrupt();
                }
            }
            _ => return None,
        }
        Some(state)
    }

    /// Puts decompressed pages in place if nothing has happened to them. `batch`: what they were spilled with.
    pub(crate) fn place(
        &mut self,
        fault: Fault,
        found: &[State],
        batch: Option<u64>,
        asked: bool,
    ) -> (Placed, usize) {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        // The pages whose entries still say what they said, from the first on.
        let block = runtime.table.block(fault.page);
        let still = |index: usize| {
            let page = fault.page + index * PAGE;
            let now = block.map_or(State::Empty, |b| b.entries[page / PAGE % PAGES].load());
            match (found[index], now) {
                (State::Stored(name), State::Pinned(other)) => name == other,
                (State::Zero, State::Zero) => true,
                // The same place of another batch would be another block.
                (State::Spilled(spot), State::Spilled(other)) => {
                    spot == other && batch.is_some() && batch == runtime.spill.batches.number(spot.batch)
                }
                _ => false,
            }
        };
        let mut intact = (0..found.len()).take_while(|i| still(*i)).count();
        if intact > 1 {
            intact = self.before_guard(fault.page, intact).max(1);
        }
        let mut done = 0;
        let mut answer = Placed::Retry;
        if order.forking {
            (intact, answer) = (0, self.fault_again(fault));
        }
        // Pages whose blobs others have too stay clean (`clean.rs`).
        let forks = runtime.forks.load(Relaxed);
        let is_inherited = |index: usize| {
            let at = index_in_block(fault.page) + index;
            matches!(found[index], State::Stored(_)) && block.is_some_and(|b| b.is_inherited(at, forks))
        };
        let mut keeps =
            asked && intact > 0 && fault.touch == Touch::Read && runtime.keeps_clean() && is_inherited(0);
        if keeps {
            // Of what is protected every page has a blob.
            intact = (0..intact).take_while(|index| is_inherited(*index)).count();
            let end = fault.page + intact * PAGE;
            keeps = runtime.keep_out.first_in(fault.page, end).is_none()
                && ranges::first_kept(fault.page, end).is_none();
        }
        while done < intact {
            let (page, bytes) = (fault.page + done * PAGE, (intact - done) * PAGE);
            let from = self.worker.pages[done * PAGE..].as_ptr();
            // SAFETY: the entries say that these are the program's pages, decompressed.
            match unsafe { runtime.uffd().copy_as(page, from, bytes, keeps) } {
                Ok(copied) => {
                    done += copied / PAGE;
                    answer = Placed::Done;
                }
                // This mapping was registered before the process forked.
                Err(Errno::INVAL) if keeps && done == 0 => keeps = false,
                Err(Errno::NOENT) if bytes > PAGE && done == 0 => {
                    // The run leaves the mapping: only the page that was asked for.
                    // SAFETY: as above.
                    match unsafe { runtime.uffd().copy_as(page, from, PAGE, keeps) } {
                        Ok(_) => (done, answer) = (1, Placed::Done),
                        Err(error) => answer = self.refused(&mut order, page, error),
                    }
                    break;
                }
                Err(Errno::EXIST) if done == 0 => {
                    // In a forked child a page may be present although its entry
                    // says otherwise (see `journal.rs`): the page is the truth.
                    (done, answer, keeps) = (1, Placed::Done, false);
                    break;
                }
                Err(error) => {
                    if done == 0 {
                        answer = self.refused(&mut order, page, error);
                    }
                    break;
                }
            }
        }
        let mut freed: [Option<(Ref, u64)>; RUN] = [None; RUN];
        let (mut zeros, mut fetched) = (0, 0);
        if let Some(block) = block {
            for (index, state) in found.iter().enumerate() {
                let entry = &block.entries[(fault.page / PAGE + index) % PAGES];
                match *state {
                    State::Stored(name)
                        if index < done && entry.replace(State::Pinned(name), State::Empty) =>
                    {
                        block.evicted.fetch_sub(1, Relaxed);
                        let page = fault.page + index * PAGE;
                        if !(keeps && is_inherited(index) && runtime.keep_blob(page, block, name)) {
                            freed[index] = Some((name, page_number(page)));
                        }
                    }
                    State::Zero if index < done && entry.replace(State::Zero, State::Empty) => {
                        block.evicted.fetch_sub(1, Relaxed);
                        zeros += 1;
                    }
                    State::Spilled(spot)
                        if index < done && entry.replace(State::Spilled(spot), State::Empty) =>
                    {
                        block.evicted.fetch_sub(1, Relaxed);
                        runtime.release_spot(spot);
                        fetched += 1;
                    }
                    State::Stored(name) if index >= done => {
                        entry.replace(State::Pinned(name), State::Stored(name));
                    }
                    _ => {}
                }
            }
        }
        if keeps && done > 0 {
            runtime.exchange_clean(&mut order, fault.page, done);
        }
        drop(order);
        runtime.zero_pages.fetch_sub(zeros, Relaxed);
        freed.iter().flatten().for_each(|(name, owner)| runtime.free(*name, *owner));
        // All of them: threads that saw one of our pins wait too.
        runtime.uffd().wake(fault.page, found.len() * PAGE);
        if done > 0 {
            let counters = &runtime.slot().counters;
            let faulted = u64::from(asked);
            counters.pages_fetched.fetch_add(fetched, Relaxed);
            counters.pages_faulted.fetch_add(faulted, Relaxed);
            counters.pages_prefetched.fetch_add(done as u64 - faulted, Relaxed);
            probe!(runtime_restore, fault.page, done);
            if fetched > 0 {
                probe!(runtime_fetch, fault.page, fetched);
            }
            runtime.change_debt((done * PAGE) as i64);
            // Of what was spilled the handler has noted it.
            if asked && batch.is_none() {
                self.streams.expect_next(fault.page, done);
            }
        }
        (answer, done)
    }

    /// Gives fresh pages, a run of them to a stream of touches. To who reads,
    /// the kernel's page of zeros. To who writes, pages of their own: to replace
    /// the page of zeros later, the kernel would stop all CPUs for each.
    fn give_zeros(&mut self, fault: Fault, run: usize) -> Placed {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        if order.forking {
            return self.fault_again(fault);
        }
        let empty = |page: usize| runtime.table.entry(page).is_none_or(|entry| entry.load() == State::Empty);
        let run = if fault.touch == Touch::Write { run.min(RUN) } else { run };
        let count =
            (0..run.min(left_in_block(fault.page))).take_while(|i| empty(fault.page + i * PAGE)).count();
        if count == 0 {
            return Placed::Retry;
        }
        let count = self.before_guard(fault.page, count);
        if count == 0 {
            // Made a guard page meanwhile: the thread sees for itself.
            runtime.uffd().wake(fault.page, PAGE);
            return Placed::Done;
        }
        if fault.touch == Touch::Write {
            self.worker.pages[..count * PAGE].fill(0);
        }
        // The kernel may have dropped a page that was marked as not needed (`MADV_FREE`).
        (0..count).for_each(|index| runtime.forget_blob(fault.page + index * PAGE));
        let mut done = 0;
        for pages in [count, 1] {
            // SAFETY: nothing is kept of these pages, under the lock: they are fresh or discarded.
            let given = unsafe {
                if fault.touch == Touch::Write {
                    runtime.uffd().copy(fault.page, self.worker.pages.as_ptr(), pages * PAGE)
                } else {
                    runtime.uffd().zero(fault.page, pages * PAGE)
                }
            };
            match given {
                Ok(bytes) => {
                    done = bytes / PAGE;
                    break;
                }
                Err(Errno::NOENT | Errno::EXIST) if pages > 1 => {}
                Err(error) => return self.refused(&mut order, fault.page, error),
            }
        }
        drop(order);
        probe!(runtime_zero, fault.page, done);
        if fault.touch == Touch::Write {
            runtime.change_debt((done * PAGE) as i64);
        }
        runtime.uffd().wake(fault.page, done * PAGE);
        self.streams.expect_next(fault.page, done);
        Placed::Done
    }

    /// A fork began after the fault was read: the table may be out of date now, and only the journal knows.
    #[cold]
    fn fault_again(&self, fault: Fault) -> Placed {
        self.runtime.uffd().wake(fault.page, PAGE);
        Placed::Done
    }

    /// The kernel refused to put a page in place.
    fn refused(&self, order: &mut Guard<'_, Order>, page: usize, error: Errno) -> Placed {
        let runtime = self.runtime;
        match error {
            Errno::AGAIN => {
                runtime.drain(order);
                Placed::Retry
            }
            // Out of memory in the hard group of this process: eviction makes room.
            Errno::NOMEM => {
                runtime.change_debt(PAGE as i64 * 16);
                Placed::Retry
            }
            // There is a page already, or no mapping any more: the thread sees for itself.
            _ => {
                runtime.uffd().wake(page, PAGE);
                Placed::Done
            }
        }
    }
}
