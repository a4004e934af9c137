//! Waiting for room: a handler waits before it makes more memory resident while the process exceeds its share
//! of the limit by too much.

use core::sync::atomic::Ordering::*;

use super::{Placed, Server};
use crate::faults::delivery::Delivery;
use crate::interpose::rights::credentials;
use crate::kernel::sys::{self, Errno, PAGE};
use crate::kernel::uffd::Touch;
use crate::pages::events::order::Fault;
use crate::pages::table::State;
use crate::reclaim::hope::Waiting;

/// A fault never waits longer than this for room ...
const WAIT_NS: u64 = 20_000_000;
/// ... nor longer than this while no memory is freed. For fresh memory, and for all memory when the limit is
/// far exceeded, the wait lasts as long as there is hope: `hope.rs`.
const IDLE_NS: u64 = 2_000_000;
/// How many pages the program may copy at once after one fault.
const COPIES: usize = 16;

impl Server {
    /// Waits while the process exceeds its share of the limit by too much. Faults on fresh memory wait
    /// longer, even if earlier waits were in vain.
    pub(crate) fn wait_for_room(&mut self, growth: bool) {
        let runtime = self.runtime;
        if self.is_keepers {
            return;
        }
        let room = || {
            runtime.reclaim.debt.load(Acquire) <= runtime.reclaim.margin.load(Relaxed)
                && !(growth && runtime.reclaim.growth_waits())
                && !runtime.reclaim.waits_its_turn.load(Relaxed)
        };
        // Far over the limit, no wait is abandoned as long as there is hope: a compressor may wait long for a
        // CPU on a busy machine, and a batch for a busy disk. There is no such wait once whole rounds have
        // shown that the limit cannot be held.
        let far = || {
            (growth || runtime.reclaim.is_far_over() || runtime.reclaim.waits_its_turn.load(Relaxed))
                && !runtime.reclaim.hopeless.load(Relaxed)
        };
        if room() || !far() && runtime.reclaim.vain.load(Relaxed) == runtime.reclaim.given_back.load(Relaxed)
        {
            return;
        }
        let begin = sys::now_ns();
        let (mut given, mut given_at) = (runtime.reclaim.given_back.load(Relaxed), begin);
        let mut waiting = Waiting::new(runtime);
        loop {
            let seen = runtime.reclaim.room.now();
            credentials::adopt();
            let now = sys::now_ns();
            let waited = now - begin;
            if runtime.reclaim.given_back.load(Relaxed) != given {
                (given, given_at) = (runtime.reclaim.given_back.load(Relaxed), now);
            }
            let is_far = far();
            let idle = !is_far && now - given_at > IDLE_NS;
            if room()
                || waiting.is_hopeless(runtime)
                || runtime.forks.is_under_way()
                || runtime.process.stop_wanted.load(Relaxed)
                || !is_far && waited > WAIT_NS
                || idle
            {
                if idle {
                    // No other fault needs to wait for room that does not come.
                    runtime.reclaim.vain.store(given, Relaxed);
                }
                runtime.slot().counters.throttled_ns.fetch_add(waited, Relaxed);
                return;
            }
            runtime.reclaim.work.ring();
            // Threads that unmap must not wait for room, nor threads whose page takes none.
            runtime.drain(&mut runtime.lock_order());
            if !self.holds_page {
                self.serve_who_need_not_wait();
            }
            runtime.reclaim.sleep_for_room(seen);
        }
    }

    /// Serves kept faults that would not wait. Pages on standby take little or no room. A thread that waits
    /// for a tier holds up no other. Compressed pages are restored one at a time, unless the limit is far
    /// exceeded. A thousand threads may depend on this one handler, which may wait for long.
    fn serve_who_need_not_wait(&mut self) {
        let runtime = self.runtime;
        let mut may_restore = !runtime.reclaim.is_far_over();
        loop {
            let state = |fault: &Fault| match fault.touch {
                Touch::Protected => State::Empty,
                _ => runtime.pages.table.entry(fault.page).map_or(State::Empty, |entry| entry.load()),
            };
            let mut order = runtime.lock_order();
            if order.forking || runtime.process.stop_wanted.load(Relaxed) {
                return;
            }
            let next = runtime.next_kept_that(&mut order, |fault| match state(fault) {
                State::Standby(_) | State::Spilled(_) | State::Pinned(_) => true,
                State::Stored(_) | State::Zero => may_restore,
                State::Empty => false,
            });
            drop(order);
            let Some(fault) = next else { return };
            let begin = sys::now_ns();
            let placed = match state(&fault) {
                State::Standby(_) => self.rescue(fault, 1, true).0,
                State::Stored(_) | State::Zero => {
                    may_restore = false;
                    let placed = self.restore(fault, 1, true).0;
                    if placed == Placed::Done {
                        self.note_served(fault, begin);
                    }
                    placed
                }
                State::Spilled(_) if !self.is_keepers => {
                    self.leave(fault, begin, 1);
                    Placed::Done
                }
                // The thread that has pinned it wakes the faulting thread.
                State::Pinned(_) => Placed::Done,
                State::Spilled(_) | State::Empty => Placed::Retry,
            };
            if placed == Placed::Retry {
                // Another process has its turn first.
                runtime.keep(&mut runtime.lock_order(), fault);
                return;
            }
        }
    }

    /// Lets a thread write to a page that is shared with a forked process, once there is room for the copy.
    pub(super) fn let_copy(&mut self, fault: Fault) {
        let runtime = self.runtime;
        // A write to a clean page makes no copy, unless the process has forked since.
        if runtime.is_clean(fault.page) && runtime.kernel.is_exclusive(fault.page) {
            return self.let_write(fault);
        }
        self.wait_for_room(true);
        // While there is room, its neighbours may be written, too.
        let roomy = runtime.reclaim.debt.load(Relaxed) <= 0;
        let around = (fault.page & !(COPIES * PAGE - 1), COPIES * PAGE);
        let ranges = [around, (fault.page, PAGE)];
        // Under the lock: a thread that evicts shared pages has protected them, and they must stay protected
        // until they are evicted (`evict/moved.rs`).
        let mut order = runtime.lock_order();
        if order.forking {
            drop(order);
            return runtime.delivery().resume_at(fault.page);
        }
        for (start, bytes) in ranges.into_iter().skip(usize::from(!roomy)) {
            runtime.forget_blobs(start, start + bytes);
            match runtime.delivery().allow_writes(start, bytes) {
                Ok(()) => {
                    drop(order);
                    runtime.reclaim.copied.fetch_add(bytes as u64, Relaxed);
                    runtime.shared().copied.fetch_add(bytes as u64, Relaxed);
                    runtime.reclaim.change_debt(bytes as i64);
                    return;
                }
                // An event has not been read yet: the thread faults again and gets here again.
                Err(Errno::AGAIN) => {
                    runtime.drain(&mut order);
                    break;
                }
                Err(_) => {}
            }
        }
        drop(order);
        runtime.delivery().resume_at(fault.page);
    }

    /// Lets a thread write to a clean page that only this process has.
    fn let_write(&mut self, fault: Fault) {
        let runtime = self.runtime;
        let mut order = runtime.lock_order();
        if !order.forking {
            runtime.forget_blob(fault.page);
            if runtime.delivery().allow_writes(fault.page, PAGE) == Err(Errno::AGAIN) {
                runtime.drain(&mut order);
            }
        }
        drop(order);
        // If the page is still protected, the thread faults again.
        runtime.delivery().resume_at(fault.page);
    }
}
