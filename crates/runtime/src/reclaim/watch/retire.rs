//! Ending threads. The second compressor is started only when the first falls behind, and ends when it has
//! had no work for a while. The keeper itself ends, with all other threads, in a process that is far from its
//! limit and has next to nothing evicted (the rest is restored), or when a limit on tasks (`pids.max`,
//! `ulimit -u`) leaves no room for the program's own threads and processes. From then on the supervisor
//! watches the process again, as it did before there was a keeper.

use core::ops::ControlFlow;
use core::sync::atomic::Ordering::*;

use memfold_shared::near;
#[cfg(feature = "preload")]
use memfold_shared::near::TASK_LEVELS;
#[cfg(feature = "preload")]
use memfold_shared::page::Slot;
use memfold_shared::page::{flags, state};

use super::ReclaimThread;
use crate::interpose::mappings::ranges;
use crate::kernel::addresses::END;
use crate::kernel::maps;
use crate::kernel::sys::{self, Errno, Fd};
use crate::memory::lock::Guard;
#[cfg(feature = "preload")]
use crate::memory::patience::Patience;
use crate::pages::table::Block;
use crate::process::begin;
use crate::process::door;
use crate::process::limits;
use crate::process::thread::{self, Descriptors};
use crate::reclaim::compress::compressor;
#[cfg(feature = "preload")]
use crate::runtime::RUNTIME;
use crate::runtime::Runtime;

/// How long a process must have been far from its limit, in ns.
const FAR_NS: u64 = 2_000_000_000;
/// Far means this many times the room with which paging starts.
const FAR: u64 = 2;
/// At most this many bytes that are still evicted are restored then.
const REST: u64 = 8 << 20;
/// How long to wait before the next try while another thread is forking, in ns.
const AGAIN_NS: u64 = 10_000_000;
/// How long to wait before the second compressor is tried again after it could not be started, in ns.
const REFUSED_NS: u64 = 100_000_000;

impl ReclaimThread {
    /// Starts the second compressor if the first falls behind.
    pub(super) fn call_helper(&mut self, now: u64) {
        let runtime = self.runtime;
        let behind = runtime.reclaim.debt.load(Relaxed) > runtime.reclaim.margin.load(Relaxed) / 2;
        let wanted = runtime.shared().tasks_wanted.load(Relaxed) != 0;
        if !behind
            || wanted
            || self.helper == 0
            || runtime.threads.compressors.load(Acquire) != 1
            || now < self.no_helper_ns
        {
            return;
        }
        // The place may have belonged to an earlier compressor, which has announced its end.
        let place = &runtime.threads.worker_threads[self.helper];
        place.wait_until_left(runtime.process.pid.load(Relaxed));
        runtime.threads.compressors.fetch_add(1, AcqRel);
        let argument = 1 << 8 | self.helper;
        if thread::spawn(&runtime.arena, place, Descriptors::Shared, compressor, argument).is_err() {
            runtime.threads.compressors.fetch_sub(1, AcqRel);
            self.no_helper_ns = now + REFUSED_NS;
        }
    }

    /// Ends all threads of memfold in this process, and does not return, if the process can do without them
    /// or must. Returns whether it must and cannot yet.
    pub(super) fn retire_if_far(&mut self) -> bool {
        let (runtime, now) = (self.runtime, sys::now_ns());
        let shared = runtime.shared();
        let (own, tree) = (runtime.slot().resident.load(Relaxed), shared.tree_resident());
        let limit = shared.limit_bytes.load(Relaxed);
        let proactive = shared.stall_ppm.load(Relaxed) != 0 && own > near::SMALLEST_PROACTIVE;
        let far =
            tree.saturating_add(FAR * near::start_room(self.cpus)) < limit && !shared.copies_could_exceed();
        let evicted = runtime.slot().evicted.load(Relaxed);
        let gives_way = !runtime.process.is_worth_threads();
        let is_far = far && evicted <= REST && !proactive;
        if !runtime.may_do_without() || !(is_far || gives_way) {
            self.far_ns = now;
            return false;
        }
        let wait = if gives_way { 0 } else { FAR_NS };
        if now - self.far_ns < wait || !runtime.process.is_watched() {
            return false;
        }
        if !gives_way && self.could_exceed_at_once(limit.saturating_sub(tree), limit) {
            self.far_ns = now;
            return false;
        }
        self.far_ns = now.saturating_sub(wait) + AGAIN_NS;
        // A child made meanwhile would inherit a half-finished state.
        let Some(no_fork) = runtime.process.life.try_lock() else { return gives_way };
        if runtime.is_paging() {
            if gives_way && evicted > 0 && runtime.process.is_to_say(Errno::AGAIN) {
                runtime.say(limits::why_unmanaged(Errno::AGAIN));
            }
            runtime.restore_all_once();
            if !runtime.has_nothing_evicted() {
                return gives_way;
            }
            runtime.stop_paging(self.maps);
        }
        runtime.threads.stoppable.fetch_sub(1, AcqRel);
        self.leave(no_fork)
    }

    /// Whether memory that the program has requested and not touched yet exceeds the `room` left. A system call
    /// can fill it, and no thread that is in such a call could start the keeper.
    fn could_exceed_at_once(&self, room: u64, limit: u64) -> bool {
        let asked = &self.runtime.slot().asked;
        // Memory that was touched or freed no longer counts.
        let fillable = begin::untouched(self.statm).min(asked.load(Relaxed));
        asked.store(fillable, Relaxed);
        near::could_exceed_at_once(fillable, room, limit)
    }

    /// Ends the keeper, the last thread of memfold in a process in which nothing is evicted. From then on the
    /// supervisor watches the process.
    pub(super) fn leave(&self, no_fork: Guard<'_, ()>) -> ! {
        let slot = self.runtime.slot();
        slot.tasks.store(0, Relaxed);
        slot.keeper.store(0, Release);
        drop(no_fork);
        self.runtime.reclaim.room.ring();
        door::leave()
    }
}

impl Runtime {
    /// Whether no page is on standby, in the store, or on a tier.
    pub fn has_nothing_evicted(&self) -> bool {
        let none = |_, block: &Block| match block.evicted.load(Acquire) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        self.spill.area().is_none() && self.pages.table.visit_blocks(0, END, none).is_continue()
    }

    /// Whether the supervisor could watch this process, and give it a keeper again: then its threads may end.
    pub(super) fn may_do_without(&self) -> bool {
        let outside =
            self.shared().flags.load(Relaxed) & (flags::OUTSIDE | flags::PARANOID) == flags::OUTSIDE;
        outside && self.slot().door.load(Relaxed) != 0 && self.spill.area().is_none()
    }

    /// Called by the keeper of a process that has nothing evicted, with `life` held: resets the state as if
    /// paging had never begun.
    fn stop_paging(&'static self, maps: Fd) {
        self.reclaim.watches_growth.store(false, Relaxed);
        self.reclaim.counts_growth.store(false, Relaxed);
        self.process.paging_wanted.store(false, Relaxed);
        // From here on no thread waits for the keeper (`desk.rs`), or for room.
        self.reclaim.set_unpayable(i64::MAX);
        self.end_compressors();
        let mut buffer = [0u8; 8192];
        let _ = maps::for_each(maps, &mut buffer, |mapping| {
            let (start, end) = (mapping.start, mapping.end);
            if mapping.is_private_anonymous() && !self.arena.overlaps(start, end) {
                // Threads that wait for a page go on: the kernel gives it to them.
                let _ = self.uffd().unregister(start, end - start);
                ranges::for_each_inherited(start, end, |from, to| self.unmark(from, to));
            }
        });
        self.forks.gate.end();
        self.end_threads();
        {
            let _order = self.lock_order();
            self.forget_blobs(0, END);
            self.pages.proxy.lock().clear_faults();
            self.faults.deferred.store(0, Relaxed);
        }
        self.close_uffd();
        self.kernel.pagemap.store(-1, Relaxed);
        self.pages.changes.fetch_add(1, Relaxed);
        self.process.set_state(state::WATCHING);
        self.reclaim.debt.store(0, Relaxed);
        self.reclaim.set_unpayable(i64::MIN);
        self.reclaim.end_waits();
        self.slot().can_give.store(0, Relaxed);
    }
}

/// Retries what the kernel refused for lack of tasks, while threads of memfold end to make way: first those
/// of the smallest processes. For a thread of the program that starts a thread or a process.
///
/// The kernel returns the same error for other reasons, and a try may be expensive or have side effects. So
/// it is retried only after the kernel has granted a task that ends at once. It waits as long as threads end:
/// on a busy machine each of them may take long.
#[cfg(feature = "preload")]
pub fn with_tasks_back<T>(mut try_it: impl FnMut() -> T, is_refused: impl Fn(&T) -> bool) -> T {
    const LOOK_NS: u64 = 5_000_000;
    const LEVEL_NS: u64 = 20_000_000;
    /// How long to wait while no thread ends, and how long each end prolongs that.
    const LONGEST_NS: u64 = 2_000_000_000;
    const PROLONGED_NS: u64 = 10_000_000_000;
    /// How many times to look after the last thread has announced its end: the kernel counts it a little
    /// longer.
    const LAST_LOOKS: u32 = 4;
    let runtime = &RUNTIME;
    let mut result = try_it();
    // Where the runtime has stopped, the program may have a filter under which no system call may be made.
    if !is_refused(&result) || !crate::process::here::is_managed() || runtime.process.stopped.load(Acquire) {
        return result;
    }
    let (begin, shared, mut last) = (sys::now_ns(), runtime.shared(), 0);
    let (mut patience, mut tasks_then) = (Patience::new(LONGEST_NS), u64::MAX);
    loop {
        match thread::try_task() {
            Err(Errno::AGAIN) => {}
            Ok(()) if last < LAST_LOOKS => {
                // Another thread may have taken the free task.
                last += 1;
                result = try_it();
                if is_refused(&result) {
                    continue;
                }
                return result;
            }
            _ => return result,
        }
        // Without a door, a process could not get its threads back: it keeps them.
        let may_end = |slot: &&Slot| {
            slot.keeper.load(Acquire) != 0
                && slot.state.load(Relaxed) != state::STOPPED
                && slot.door.load(Relaxed) != 0
        };
        // A keeper that has just started has not counted itself yet.
        let tasks_of = |slot: &Slot| u64::from(slot.tasks.load(Relaxed).max(1));
        let tasks = shared.live_slots().filter(may_end).map(tasks_of).sum();
        let waited = sys::now_ns() - begin;
        if tasks < tasks_then && waited < PROLONGED_NS {
            (patience, tasks_then) = (Patience::new(LONGEST_NS), tasks);
        }
        let helps = runtime.may_do_without() && tasks > 0;
        last += u32::from(!helps);
        if last >= LAST_LOOKS || patience.is_over() {
            return result;
        }
        if helps {
            let level = (1 + waited / LEVEL_NS).min(TASK_LEVELS.into());
            shared.tasks_wanted.fetch_max(level as u32, Relaxed);
            runtime.threads.keeper.ring();
            runtime.reclaim.work.ring();
        }
        let seen = runtime.reclaim.room.now();
        runtime.reclaim.room.wait(seen, LOOK_NS);
    }
}
