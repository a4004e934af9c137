//! fork: the child must find every page that was evicted.
//!
//! ```text
//! parent, before   the keeper and compressors pause; what the C library touches
//!                  in the child is touched now; from here on handlers change
//!                  nothing but the journal
//! fork             the child inherits table and store whole
//! parent, after    the journal is replayed
//! child            a keeper of its own opens a userfaultfd of its own, registers
//!                  mappings with evicted pages, and starts handlers; the child
//!                  waits for that. If it cannot open one, or not start
//!                  threads, everything is decompressed in place.
//! ```
//!
//! Handlers cannot stop, because after the prepare handlers the C library still takes the locks of its
//! arenas, whose holders may wait for pages.
//!
//! What becomes of a page (the entries stay as they are; see the table in `pages/entry.rs`):
//!
//! | at the fork | in the parent | in the child that pages | in a child that cannot page |
//! | --- | --- | --- | --- |
//! | resident | shared with the child until either writes | the same | the same |
//! | on standby | copied back at a touch | the same, from the inherited slot | copied back (`inherit.rs`) |
//! | zeros | placed at a touch | the same | zeros |
//! | in the store | decompressed at a touch | the same, from the inherited store | decompressed in place |
//! | on a tier | fetched at a touch | the same (`prepare_spill` has reserved its batch) | fetched |
//! | restored since prepare | entry emptied when the journal is replayed | the same | the same |
//!
//! Near the limit, a write to a page that both still share waits for room (`reclaim/copies.rs`). A stored page
//! that is restored for a read keeps its blob while relatives live (`pages/clean`).

pub mod children;
pub mod forker;
pub mod gate;
pub mod inherit;
mod messages;
pub mod state;

use core::sync::atomic::Ordering::*;

use memfold_shared::page::{self, Slot};

use crate::kernel::procfs;
use crate::kernel::rlimit::MoreDescriptors;
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE};
use crate::pages::table::State;
use crate::process::door;
use crate::process::fork::state::Forks;
use crate::process::here;
use crate::process::limits;
use crate::process::reach;
use crate::runtime::{RUNTIME, Runtime};

/// Called before the fork, in the forking thread.
pub fn prepare(touch: impl Fn()) {
    let runtime = &RUNTIME;
    runtime.begin_before_fork();
    if runtime.is_paging() && !limits::child_may_open() {
        // Without descriptors the child could not even restore its pages.
        runtime.stop("it forks, and its children may open too few files (ulimit -n) to be managed");
    }
    if runtime.is_paging() && !procfs::is_there() {
        runtime
            .stop("it forks where there is no /proc (chroot), without which its children can't be managed");
    }
    // `touch` may need pages that were spilled to a tier that does not answer, so it is too early to stop
    // other threads. But from here on no thread waits for room: such a wait could last as long as there is
    // hope of the tier.
    runtime.forks.about_to_fork.fetch_add(1, SeqCst);
    if runtime.is_paging() {
        touch();
        runtime.restore_kept();
    }
    // If a signal handler forked while this fork is under way, it would wait for this fork for ever.
    let mask = sys::block_signals();
    core::mem::forget(runtime.process.life.lock());
    here::set_prepared(true);
    runtime.forks.fork_mask.store(mask, Relaxed);
    runtime.forks.has_forked.store(true, Relaxed);
    runtime.spill.fork.store(0, Relaxed);
    if !runtime.is_paging() {
        // Until the fork is over, paging cannot begin: no thread waits for that.
        runtime.forks.is_plain.store(true, Relaxed);
        hold_common_locks();
        return;
    }
    runtime.forks.pause.store(1, SeqCst);
    runtime.forks.no_longer_about_to();
    runtime.threads.keeper.ring();
    runtime.reclaim.work.ring();
    loop {
        let paused = runtime.threads.paused.load(Acquire);
        if paused >= runtime.threads.stoppable.load(Acquire) {
            break;
        }
        let _ = sys::futex_wait(&runtime.threads.paused, paused, Some(1_000_000), false);
        runtime.threads.keeper.ring();
        runtime.reclaim.work.ring();
    }
    // From here on no batch is sent, and the child also holds batches that are released from here on.
    runtime.spill.tell_spill_of_fork();
    // See `pause_unmarked`.
    while runtime.pages.moving.load(SeqCst) != 0 {
        sched::yield_now();
    }
    // Some of it may have been evicted meanwhile, or is new.
    touch();
    runtime.restore_kept();
    sys::touch_stack_for_fork();
    {
        let order = &mut runtime.pages.order.lock();
        order.journal.enlarge(&runtime.arena);
        runtime.forks.forker.store(sys::gettid(), Relaxed);
        (order.forking, order.fork_seen) = (true, false);
    }
    hold_common_locks();
    while runtime.faults.serving.load(SeqCst) != 0 {
        sched::yield_now();
    }
}

/// Locks that any thread of the program may hold at any time.
fn hold_common_locks() {
    core::mem::forget(RUNTIME.threads.starts.lock());
    RUNTIME.arena.hold();
}

/// Called after the fork, in the parent.
pub fn parent() {
    let runtime = &RUNTIME;
    // SAFETY: taken in `prepare` by this very thread.
    unsafe {
        runtime.threads.starts.release_forgotten();
        runtime.arena.let_go();
    }
    if runtime.is_paging() {
        let mut order = runtime.pages.order.lock();
        runtime.forks.generation.fetch_add(1, Relaxed);
        runtime.replay(&mut order);
        drop(order);
        runtime.pages.standby.all_shared();
        runtime.wake_handlers();
        runtime.forks.end_pause();
    }
    if runtime.forks.is_plain.swap(false, Relaxed) {
        runtime.forks.no_longer_about_to();
    }
    let mask = runtime.forks.fork_mask.load(Relaxed);
    here::set_prepared(false);
    // SAFETY: taken in `prepare` by this very thread.
    unsafe { runtime.process.life.release_forgotten() };
    sys::restore_signals(mask);
}

/// Called after the fork, in the child.
pub fn child() {
    let runtime = &RUNTIME;
    here::adopt_child();
    runtime.reset_in_child();
    // A small process that has nothing evicted begins like one whose parent never began to page.
    let paging = runtime.is_paging() && !(runtime.process.is_small() && runtime.has_nothing_evicted());
    let parent = runtime.begin_own_life(paging);
    // The parent's slot may belong to another process by now: the value read is only a bound, and nothing
    // depends on it.
    let inherited = runtime.slot().resident.load(Relaxed);
    runtime.claim_spilled(parent);
    // More descriptors for the keeper, or for this thread to restore everything: no other thread is running
    // that could notice.
    let more = if paging { MoreDescriptors::allow(limits::OWN_DESCRIPTORS) } else { None };
    let known = reach::outer_pid(sys::getpid());
    match known.map(|pid| runtime.take_slot(runtime.shared(), pid)) {
        Some(Some(slot)) => runtime.go_on_managed(slot, inherited, paging),
        Some(None) => runtime.go_on_without_slot("too many processes: one more was forked, and all its memory was restored"),
        None => runtime.go_on_without_slot("a process was forked in namespaces from which it cannot ask memfold for its process id: all its memory was restored, and it is not managed"),
    }
    drop(more);
    end_in_child();
}

fn end_in_child() {
    here::set_prepared(false);
    // SAFETY: taken in `prepare` by the thread of which this one is the copy.
    unsafe { RUNTIME.process.life.reset_in_child() };
    sys::restore_signals(RUNTIME.forks.fork_mask.load(Relaxed));
}

impl Forks {
    /// Resumes the threads that were paused for a fork.
    fn end_pause(&self) {
        self.pause.store(0, SeqCst);
        sys::futex_wake(&self.pause, sys::ALL, false);
    }
}

impl Runtime {
    /// Makes the child's copy of the runtime's state its own: locks, counters, and what the journal holds.
    fn reset_in_child(&self) {
        // SAFETY: the parent's threads do not exist here, and `prepare` ensured that none of them was
        // changing anything.
        unsafe {
            self.arena.reset_in_child();
            self.pages.reset_in_child();
            self.threads.after_fork();
            crate::interpose::after_fork();
            self.spill.after_fork();
        }
        let mut order = self.pages.order.lock();
        self.pages.proxy.lock().clear_faults();
        self.forks.generation.fetch_add(1, Relaxed);
        self.forks.births.fetch_add(1, Relaxed);
        order.recent.forget();
        self.replay(&mut order);
    }

    /// In the child: nothing of the parent's is under way. Returns the parent's pid.
    fn begin_own_life(&self, paging: bool) -> u32 {
        if !paging {
            self.reclaim.watches_growth.store(false, Relaxed);
            self.reclaim.counts_growth.store(false, Relaxed);
            self.process.paging_wanted.store(false, Relaxed);
        }
        self.pages.after_fork();
        self.stored.forget_readers();
        self.faults.after_fork();
        self.forks.after_fork();
        self.reclaim.after_fork();
        self.kernel.after_fork();
        let parent = self.process.pid.swap(sys::getpid(), Relaxed);
        self.forks.child_ready.store(0, Relaxed);
        self.forks.inherits.store(paging, Relaxed);
        // From here on a keeper may come through the door.
        if !self.process.stopped.load(Relaxed) {
            door::release();
        }
        parent
    }

    /// This process continues without the runtime, and without its parent's slot. It says why, unless its parent
    /// did so already.
    #[inline(never)]
    fn go_on_without_slot(&'static self, why: &str) {
        // SAFETY: a slot consists of atomic numbers.
        static NOBODY: Slot = unsafe { core::mem::zeroed() };
        self.process.set_shared(self.shared(), &NOBODY);
        self.leave_spill();
        let is_news = !self.process.stopped.load(Relaxed);
        self.restore_in_place(is_news.then_some(why));
        self.process.set_state(page::state::STOPPED);
        self.process.stopped.store(true, Relaxed);
        self.threads.compressors.store(0, Relaxed);
        self.threads.handlers.store(0, Relaxed);
        self.reclaim.watches_growth.store(false, Relaxed);
        self.reclaim.counts_growth.store(false, Relaxed);
    }

    /// The child has its slot: ensures that a keeper serves what the parent had evicted, or restores it.
    #[inline(never)]
    fn go_on_managed(&'static self, slot: &'static Slot, inherited: u64, paging: bool) {
        slot.image.store(self.process.image.load(Relaxed), Relaxed);
        slot.inherited.store(inherited, Relaxed);
        slot.asked.store(self.slot().asked.load(Relaxed), Relaxed);
        self.process.set_shared(self.shared(), slot);
        self.process.set_state(page::state::WATCHING);
        self.leave_spill();
        self.threads.compressors.store(0, Relaxed);
        self.threads.handlers.store(0, Relaxed);
        if self.process.stopped.load(Relaxed) {
            self.process.set_state(page::state::STOPPED);
        } else if self.open_door().is_ok() && !paging && self.process.is_watched() {
            // The supervisor watches this process.
        } else if let Err(error) = self.ensure_keeper()
            && door::forbid()
        {
            self.restore_in_place(self.process.is_to_say(error).then(|| limits::why_restored(error)));
            self.process.set_state(page::state::STOPPED);
            // No thread could stop it later.
            self.process.stopped.store(true, Release);
        } else if paging {
            // The keeper serves the child, whether this thread started it or it came through the door.
            while self.forks.child_ready.load(Acquire) == 0 {
                let _ = sys::futex_wait(&self.forks.child_ready, 0, None, false);
            }
            if self.forks.child_ready.load(Acquire) == 2 {
                self.restore_in_place(Some(limits::why_restored(sys::Errno::MFILE)));
            }
        }
    }

    /// Restores control blocks that were evicted just before they were kept: in the child, the C library
    /// follows its lists through them before any handler runs.
    fn restore_kept(&self) {
        let evicted = |page| self.pages.table.entry(page).is_some_and(|entry| entry.load() != State::Empty);
        self.pages.keep_out.for_each(|start, end| {
            if (start..end).step_by(PAGE).any(evicted) {
                self.restore_range(start, end);
            }
        });
    }

    /// The keeper's part: while it is paused for a fork, no mapping is marked as not inherited. Returns
    /// whether there was a fork.
    pub fn pause_unmarked(&self, maps: sys::Fd) -> bool {
        if self.forks.pause.load(Acquire) == 0 {
            return false;
        }
        let mut buffer = [0u8; 8192];
        // While mappings are listed, one may move from a place that the list has not reached to one that it
        // has passed. A thread that moves a mapping through the C library's function removes the mark itself;
        // `realloc` moves without that function, hence the second look.
        let looks = match (self.forks.gate.is_there(), self.is_threaded()) {
            // No mapping is marked.
            (true, _) => 0,
            (false, threaded) => 1 + usize::from(threaded),
        };
        for _ in 0..looks {
            self.for_each_marked(maps, &mut buffer, |start, end| {
                crate::interpose::mappings::ranges::for_each_inherited(start, end, |from, to| {
                    self.unmark(from, to)
                });
            });
        }
        self.threads.keeper_paused.store(true, SeqCst);
        self.pause_here();
        self.threads.keeper_paused.store(false, SeqCst);
        self.mark_registered(maps);
        true
    }

    /// Marks mappings that may have evicted pages, if that is needed: see `mark`.
    pub fn mark_registered(&self, maps: sys::Fd) {
        if self.forks.gate.is_there() {
            return;
        }
        self.for_each_marked(maps, &mut [0; 8192], |start, end| {
            if self.uffd().probe(start) == crate::kernel::uffd::Probe::Registered {
                self.forks.keep_out_of_children(start, end);
            }
        });
    }

    fn for_each_marked(&self, maps: sys::Fd, buffer: &mut [u8], mut visit: impl FnMut(usize, usize)) {
        let read = crate::kernel::maps::for_each(maps, buffer, |mapping| {
            let own = self.arena.overlaps(mapping.start, mapping.end);
            if mapping.is_private_anonymous()
                && !own
                && !self.pages.standby.overlaps(mapping.start, mapping.end)
            {
                visit(mapping.start, mapping.end);
            }
        });
        if read.is_err() {
            self.fail("a fork needs /proc/self/maps, which can't be read");
        }
    }

    /// Wakes the handlers from poll.
    pub fn wake_handlers(&self) {
        // The descriptor is in the table of the runtime's threads, so the keeper writes to it.
        self.faults.wake_wanted.store(true, Release);
        self.threads.keeper.ring();
    }
}
