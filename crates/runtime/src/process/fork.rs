//! fork: the child must find every page that was evicted.
//!
//! ```text
//! parent, before   the keeper and compressors stop; what the C library touches
//!                  in the child is touched now; from here on handlers change
//!                  nothing but the journal
//! fork             the child inherits table and store whole
//! parent, after    the journal is replayed
//! child            a keeper of its own opens a userfaultfd of its own, registers
//!                  again what has evicted pages, and starts handlers; the child
//!                  waits for that. If it may not open one, or not start
//!                  threads, everything is decompressed in place.
//! ```
//!
//! Handlers can't stop, because after the prepare handlers the C library
//! still takes the locks of its arenas, whose holders may wait for pages.

use core::ops::ControlFlow;
use core::sync::atomic::Ordering::*;

use memfold_shared::page::{Slot, state};

use crate::kernel::procfs;
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE};
use crate::pages::table::{BLOCK, State, index_in_block};
use crate::process::door;
use crate::process::here;
use crate::process::limits::{self, MoreDescriptors};
use crate::runtime::{RUNTIME, Runtime};

/// Before the fork, in the forking thread.
pub fn prepare(touch: impl Fn()) {
    let runtime = &RUNTIME;
    runtime.begin_before_fork();
    if runtime.is_paging() && !limits::child_may_open() {
        // Without descriptors the child could not even bring its pages back.
        runtime.stop("it forks, and its children may open too few files (ulimit -n) to be managed");
    }
    if runtime.is_paging() && !procfs::is_there() {
        runtime
            .stop("it forks where there is no /proc (chroot), without which its children can't be managed");
    }
    // What it needs now may have been spilled, to a tier that does not answer: this is no time yet to keep others from their work. But nobody waits for room any more: that
    // could take as long as a tier is hoped for.
    runtime.about_to_fork.fetch_add(1, SeqCst);
    if runtime.is_paging() {
        touch();
        runtime.bring_kept_back();
    }
    // A handler that forks while this one is under way would wait for it for ever.
    let mask = sys::block_signals();
    core::mem::forget(runtime.life.lock());
    here::set_prepared(true);
    runtime.fork_mask.store(mask, Relaxed);
    runtime.has_forked.store(true, Relaxed);
    runtime.spill.fork.store(0, Relaxed);
    if !runtime.is_paging() {
        runtime.about_to_fork.fetch_sub(1, SeqCst);
        hold_common_locks();
        return;
    }
    runtime.pause.store(1, SeqCst);
    runtime.about_to_fork.fetch_sub(1, SeqCst);
    runtime.keeper.ring();
    runtime.work.ring();
    loop {
        let paused = runtime.paused.load(Acquire);
        if paused >= runtime.stoppable.load(Acquire) {
            break;
        }
        let _ = sys::futex_wait(&runtime.paused, paused, Some(1_000_000), false);
        runtime.keeper.ring();
        runtime.work.ring();
    }
    // Nothing is put any more, and what is released from here on the child holds all the same.
    runtime.tell_spill_of_fork();
    // See `pause_unmarked`.
    while runtime.moving.load(SeqCst) != 0 {
        sched::yield_now();
    }
    // Some of it may have been taken away meanwhile, or is new.
    touch();
    runtime.bring_kept_back();
    sys::touch_stack();
    {
        let order = &mut runtime.order.lock();
        order.journal.enlarge(&runtime.arena);
        runtime.forker.store(sys::gettid(), Relaxed);
        (order.forking, order.fork_seen) = (true, false);
    }
    hold_common_locks();
    while runtime.serving.load(SeqCst) != 0 {
        sched::yield_now();
    }
}

/// Locks that any thread of the program may hold at any time.
fn hold_common_locks() {
    core::mem::forget(RUNTIME.starts.lock());
    RUNTIME.arena.hold();
}

/// After the fork, in the parent.
pub fn parent() {
    let runtime = &RUNTIME;
    // SAFETY: taken in `prepare` by this very thread.
    unsafe {
        runtime.starts.release_forgotten();
        runtime.arena.let_go();
    }
    if runtime.is_paging() {
        let mut order = runtime.order.lock();
        runtime.forks.fetch_add(1, Relaxed);
        runtime.replay(&mut order);
        drop(order);
        runtime.standby.all_shared();
        runtime.call_handlers();
        runtime.resume();
    }
    let mask = runtime.fork_mask.load(Relaxed);
    here::set_prepared(false);
    // SAFETY: taken in `prepare` by this very thread.
    unsafe { runtime.life.release_forgotten() };
    sys::restore_signals(mask);
}

/// After the fork, in the child.
pub fn child() {
    let runtime = &RUNTIME;
    here::adopt_child();
    {
        // SAFETY: the parent's threads do not exist here, and `prepare` made
        // sure that none of them was changing anything.
        unsafe {
            runtime.order.reset_in_child();
            runtime.proxy.reset_in_child();
            runtime.standby.reset_in_child();
            runtime.arena.reset_in_child();
            runtime.starts.reset_in_child();
            crate::interpose::after_fork();
            runtime.spill.after_fork();
        }
        let mut order = runtime.order.lock();
        runtime.proxy.lock().clear_faults();
        runtime.deferred.store(0, Relaxed);
        runtime.forks.fetch_add(1, Relaxed);
        runtime.births.fetch_add(1, Relaxed);
        order.recent.forget();
        runtime.replay(&mut order);
    }
    // A small process that has nothing evicted begins as one whose parent never began to page.
    let paging = runtime.is_paging() && !(runtime.is_small() && runtime.has_nothing_away());
    if !paging {
        runtime.watches_growth.store(false, Relaxed);
        runtime.paging_wanted.store(false, Relaxed);
    }
    runtime.standby.all_shared();
    runtime.forget_readers();
    runtime.discarding.store(0, Relaxed);
    runtime.changes.fetch_add(1, Relaxed);
    runtime.moving.store(0, Relaxed);
    runtime.serving.store(0, Relaxed);
    runtime.stall.reset();
    runtime.stoppable.store(0, Relaxed);
    runtime.paused.store(0, Relaxed);
    runtime.keeper_paused.store(false, Relaxed);
    runtime.pause.store(0, Relaxed);
    runtime.about_to_fork.store(0, Relaxed);
    runtime.debt.store(0, Relaxed);
    runtime.exhausted.store(false, Relaxed);
    runtime.hopeless.store(false, Relaxed);
    runtime.squeeze.store(false, Relaxed);
    runtime.keeps_all.store(false, Relaxed);
    runtime.waits_its_turn.store(false, Relaxed);
    runtime.set_uffd(None);
    runtime.pagemap.store(-1, Relaxed);
    runtime.follow.after_fork();
    runtime.gate.after_fork();
    runtime.worker_places.iter().for_each(|place| place.after_fork());
    let pid = sys::getpid();
    let parent = runtime.pid.swap(pid, Relaxed);
    runtime.child_ready.store(0, Relaxed);
    runtime.inherits.store(paging, Relaxed);
    // From here on a keeper may come through the door.
    if !runtime.stopped.load(Relaxed) {
        door::release();
    }
    // It may be another's by now: what is read there is a bound, and nothing depends on it.
    let inherited = runtime.slot().resident.load(Relaxed);
    runtime.claim_spilled(parent);
    // Some for the keeper, or for this thread to bring everything back: no other thread lives that could notice.
    let more = if paging { MoreDescriptors::allow() } else { None };
    let Some(slot) = runtime.take_slot(runtime.shared(), crate::process::reach::outer_pid(pid)) else {
        // More processes than can be managed: this one goes on without the runtime, and without its parent's slot.
        // SAFETY: a slot is made of atomic numbers.
        static NOBODY: Slot = unsafe { core::mem::zeroed() };
        runtime.set_shared(runtime.shared(), &NOBODY);
        runtime.leave_spill();
        runtime.restore_in_place(Some(
            "too many processes: one more was forked, and all its memory was brought back",
        ));
        runtime.set_state(state::STOPPED);
        runtime.stopped.store(true, Relaxed);
        runtime.compressors.store(0, Relaxed);
        runtime.handlers.store(0, Relaxed);
        runtime.watches_growth.store(false, Relaxed);
        drop(more);
        end_in_child();
        return;
    };
    slot.image.store(runtime.image.load(Relaxed), Relaxed);
    slot.inherited.store(inherited, Relaxed);
    runtime.set_shared(runtime.shared(), slot);
    runtime.set_state(state::WATCHING);
    runtime.leave_spill();
    runtime.compressors.store(0, Relaxed);
    runtime.handlers.store(0, Relaxed);
    if runtime.stopped.load(Relaxed) {
        runtime.set_state(state::STOPPED);
    } else if runtime.open_door().is_ok() && !paging && runtime.is_watched() {
        // The supervisor watches it.
    } else if let Err(error) = runtime.ensure_keeper()
        && door::forbid()
    {
        runtime.restore_in_place(runtime.is_to_say(error).then(|| limits::why_restored(error)));
        runtime.set_state(state::STOPPED);
        // Nobody is there who could stop it later.
        runtime.stopped.store(true, Release);
    } else if paging {
        // The keeper serves the child, whether this thread started it or it came through the door.
        while runtime.child_ready.load(Acquire) == 0 {
            let _ = sys::futex_wait(&runtime.child_ready, 0, None, false);
        }
        if runtime.child_ready.load(Acquire) == 2 {
            runtime.restore_in_place(Some(limits::why_restored(sys::Errno::MFILE)));
        }
    }
    drop(more);
    end_in_child();
}

fn end_in_child() {
    here::set_prepared(false);
    // SAFETY: taken in `prepare` by the thread that is this one's origin.
    unsafe { RUNTIME.life.reset_in_child() };
    sys::restore_signals(RUNTIME.fork_mask.load(Relaxed));
}

impl Runtime {
    /// Control blocks that were taken away just before they were kept: the C
    /// library follows its lists through them in the child, before any handler.
    fn bring_kept_back(&self) {
        let evicted = |page| self.table.entry(page).is_some_and(|entry| entry.load() != State::Empty);
        self.keep_out.for_each(|start, end| {
            if (start..end).step_by(PAGE).any(evicted) {
                self.bring_back(start, end);
            }
        });
    }

    /// The keeper's part: while it stops for a fork, no mapping carries the
    /// mark that it is not to be inherited. Returns whether there was one.
    pub fn pause_unmarked(&self, maps: sys::Fd) -> bool {
        if self.pause.load(Acquire) == 0 {
            return false;
        }
        let mut buffer = [0u8; 8192];
        // While mappings are listed one may move from where the list has not come to where it has been. Who moves
        // by the C library's function takes its mark away; `realloc` moves without: for that a second look.
        let looks = match (self.gate.is_there(), self.is_threaded()) {
            // No mapping is marked.
            (true, _) => 0,
            (false, threaded) => 1 + usize::from(threaded),
        };
        for _ in 0..looks {
            self.for_each_marked(maps, &mut buffer, |start, end| {
                crate::interpose::ranges::for_each_inherited(start, end, |from, to| self.unmark(from, to));
            });
        }
        self.keeper_paused.store(true, SeqCst);
        self.pause_here();
        self.keeper_paused.store(false, SeqCst);
        self.mark_registered(maps);
        true
    }

    /// Marks what may have evicted pages, if that is needed: see `mark`.
    pub fn mark_registered(&self, maps: sys::Fd) {
        if self.gate.is_there() {
            return;
        }
        self.for_each_marked(maps, &mut [0; 8192], |start, end| {
            if self.uffd().probe(start) == crate::kernel::uffd::Probe::Registered {
                self.mark(start, end);
            }
        });
    }

    fn for_each_marked(&self, maps: sys::Fd, buffer: &mut [u8], mut visit: impl FnMut(usize, usize)) {
        let read = crate::kernel::maps::for_each(maps, buffer, |mapping| {
            let own = self.arena.overlaps(mapping.start, mapping.end);
            if mapping.is_private_anonymous() && !own && !self.standby.overlaps(mapping.start, mapping.end) {
                visit(mapping.start, mapping.end);
            }
        });
        if read.is_err() {
            self.fail("a fork needs /proc/self/maps, which can't be read");
        }
    }

    /// Lets the threads that stopped for a fork go on.
    fn resume(&self) {
        self.pause.store(0, SeqCst);
        sys::futex_wake(&self.pause, sys::ALL, false);
    }

    /// Wakes the handlers from poll.
    pub fn call_handlers(&self) {
        // The descriptor lives in the table of the runtime's threads: the keeper writes to it.
        self.call_wanted.store(true, Release);
        self.keeper.ring();
    }

    /// In the child: forgets what is kept of memory that it has not inherited.
    /// Other memory may be mapped there later, and must begin empty.
    pub fn drop_uninherited(&self, maps: sys::Fd) {
        let mut order = self.order.lock();
        let (mut buffer, mut end) = ([0u8; 8192], 0);
        let read = crate::kernel::maps::for_each(maps, &mut buffer, |mapping| {
            if mapping.is_private_anonymous() {
                self.drop_range(&mut order, end, mapping.start);
                end = mapping.end;
            }
        });
        if read.is_err() {
            self.fail("a forked process can't read /proc/self/maps: it does not know what it has inherited");
        }
        self.drop_range(&mut order, end, crate::pages::table::END);
    }

    /// In the child, by its keeper: registers the mappings that have evicted pages.
    ///
    /// It registers each of them as a whole, so that none is split, and nothing else: the same blocks of the table
    /// may hold shared memory, memfold's own too, and nobody could serve a fault there.
    pub fn register_evicted(&self, maps: sys::Fd) -> sys::Result<()> {
        let (mut buffer, mut failed) = ([0u8; 8192], false);
        crate::kernel::maps::for_each(maps, &mut buffer, |mapping| {
            let (start, end) = (mapping.start, mapping.end.min(crate::pages::table::END));
            if mapping.is_private_anonymous() && self.has_evicted(start, end) {
                let whole = !self.standby.overlaps(start, end) && self.register(start, end - start).is_ok();
                failed |= !whole && !self.register_runs(start, end);
            }
        })?;
        if failed { Err(sys::Errno::INVAL) } else { Ok(()) }
    }

    /// Whether a page of a range is evicted.
    fn has_evicted(&self, start: usize, end: usize) -> bool {
        let found = self.table.visit_blocks(start, end, |base, block| {
            let (from, to) = (start.max(base), end.min(base + BLOCK));
            let any = block.evicted.load(Relaxed) > 0
                && (from..to)
                    .step_by(PAGE)
                    .any(|page| block.entries[index_in_block(page)].load() != State::Empty);
            if any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found.is_break()
    }

    /// Registers the runs of evicted pages in a mapping that can't be registered as a whole, because memory of
    /// memfold's own has been merged with it.
    fn register_runs(&self, start: usize, end: usize) -> bool {
        let (mut from, mut to, mut ok) = (0, 0, true);
        self.table.for_each_block(start, end, |base, block| {
            for page in (start.max(base)..end.min(base + BLOCK)).step_by(PAGE) {
                if block.entries[index_in_block(page)].load() == State::Empty {
                    continue;
                }
                if page != to {
                    ok &= self.register_run(from, to);
                    from = page;
                }
                to = page + PAGE;
            }
        });
        ok & self.register_run(from, to)
    }

    fn register_run(&self, from: usize, to: usize) -> bool {
        if from == to || self.register(from, to - from).is_ok() {
            return true;
        }
        let mut ok = true;
        let mut order = self.order.lock();
        for page in (from..to).step_by(PAGE) {
            match self.register(page, PAGE) {
                Ok(()) => {}
                Err(sys::Errno::NOMEM) => self.fail(
                    "a forked process can't have so many mappings (vm.max_map_count) as its evicted pages need",
                ),
                // memfold has mapped memory of its own here since: the program no longer has this page.
                Err(_) if self.arena.overlaps(page, page + PAGE) => {
                    self.drop_range(&mut order, page, page + PAGE);
                }
                Err(_) => ok = false,
            }
        }
        ok
    }

    /// Restores every evicted page for good: no userfaultfd serves this process. Says why, if given.
    pub fn restore_in_place(&'static self, why: Option<&str>) {
        if !self.has_store() {
            return;
        }
        self.bring_back_in_place(|state| state != State::Empty);
        self.tell_spill_begins();
        self.set_state(state::STOPPED);
        if let Some(why) = why {
            self.say(why);
        }
    }

    /// Brings evicted pages back that are `wanted`. Only the calling thread, and perhaps the keeper or who waits for it, may live in this process.
    pub fn bring_back_in_place(&'static self, wanted: impl Fn(State) -> bool) {
        // SAFETY: in this process no handler has begun, or all have ended.
        let worker = unsafe { crate::reclaim::worker::Worker::new(self, 0) };
        let (Ok(memory), Some(mut worker)) = (sys::open_own(c"/proc/thread-self/mem", sys::o::RDWR), worker)
        else {
            self.fail("a forked process can't get its evicted pages back");
        };
        let Ok(maps) = sys::open_own(c"/proc/thread-self/maps", sys::o::RDONLY) else {
            self.fail("a forked process can't see what it has inherited");
        };
        self.drop_uninherited(maps);
        sys::close(maps);
        let Ok(pagemap) = crate::kernel::pagemap::Pagemap::open() else {
            self.fail("a forked process can't see which of its pages are there");
        };
        self.table.for_each_block(0, crate::pages::table::END, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            for (index, entry) in block.entries.iter().enumerate().filter(|(_, entry)| wanted(entry.load())) {
                let there = |now: crate::kernel::pagemap::Present| now.count + now.swapped_count == 1;
                if pagemap.present(base + index * PAGE, 1, 0).is_some_and(there) {
                    // Brought back just before the fork: the page is the truth.
                    self.drop_page(block, base + index * PAGE);
                } else {
                    self.restore_page(memory, &mut worker, base + index * PAGE, entry);
                    block.evicted.fetch_sub(1, Relaxed);
                }
            }
        });
        sys::close(memory);
        pagemap.close();
    }

    fn restore_page(
        &self,
        memory: sys::Fd,
        worker: &mut crate::reclaim::worker::Worker,
        page: usize,
        entry: &crate::pages::table::Entry,
    ) {
        let state = entry.load();
        if let State::Spilled(_) = state {
            self.fetch_alone(worker, page);
        }
        let contents = &mut worker.pages[..PAGE];
        match state {
            State::Empty => return,
            State::Spilled(_) => {}
            State::Zero => contents.fill(0),
            State::Standby(id) => {
                // SAFETY: the page on standby is readable and nobody else uses it: no other thread lives.
                contents.copy_from_slice(unsafe {
                    core::slice::from_raw_parts(self.standby.page_address(id) as *const u8, PAGE)
                });
            }
            State::Stored(name) | State::Pinned(name) => {
                let owner = crate::pages::table::page_number(page);
                // SAFETY: no other thread of ours lives in this child.
                if unsafe { self.store().load(name, owner, contents, &mut worker.decode) }.is_err() {
                    self.fail_corrupt();
                }
            }
        }
        // Writes through /proc/self/mem reach pages that are read-only or without access too.
        if sys::pwrite(memory, contents, page as u64) != Ok(PAGE) {
            self.fail("a forked process can't write an evicted page back");
        }
        entry.store(State::Empty);
        match state {
            State::Stored(name) | State::Pinned(name) => {
                self.free(name, crate::pages::table::page_number(page))
            }
            State::Standby(id) => {
                self.standby.forget(id);
                let at = self.standby.page_address(id);
                // SAFETY: nobody needs the page on standby any more.
                let _ = unsafe { sys::madvise(at, PAGE, sys::advice::DONTNEED) };
            }
            State::Spilled(spot) => self.release_spot(spot),
            _ => {}
        }
    }
}
