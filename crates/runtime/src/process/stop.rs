//! Stopping for good: everything is restored and unregistered, and the runtime's threads end. This is for
//! programs that are about to do something that the runtime cannot coexist with: forbid system calls, lock
//! all memory, enter a namespace.

use core::fmt::Write;
use core::sync::atomic::Ordering::*;

use memfold_shared::page::state;

use crate::faults::serving::Server;
use crate::kernel::addresses::{END, PAGES};
use crate::kernel::maps;
use crate::kernel::sched;
use crate::kernel::sys::{self, Fd, PAGE, advice};
use crate::kernel::uffd::Touch;
use crate::memory::patience::Patience;
use crate::pages::events::order::Fault;
use crate::pages::table::State;
use crate::process::Process;
use crate::process::door;
use crate::process::threads::WORKERS;
use crate::runtime::Runtime;

/// How long to go on restoring pages before the runtime stops, in ns.
const PATIENCE_NS: u64 = 30_000_000_000;

impl Process {
    /// Without a keeper nothing is evicted, so it is enough to ensure that there never is one.
    fn stop_without_keeper(&self) -> bool {
        let alone = door::forbid();
        if alone {
            self.set_state(state::STOPPED);
            self.stopped.store(true, Release);
        }
        alone
    }
}

impl Runtime {
    /// Restores what is evicted now, except pages that move meanwhile. Called by the keeper; the runtime goes
    /// on.
    pub(crate) fn restore_all_once(&'static self) {
        // SAFETY: only the keeper uses the last number, here and in `restore_all`, after which it ends.
        let Some(mut handler) = (unsafe { Server::new(self, WORKERS - 1) }) else { return };
        handler.is_keepers = true;
        self.pages.table.for_each_block(0, END, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            for index in (0..PAGES).filter(|index| block.entries[*index].load() != State::Empty) {
                handler.serve(Fault { page: base + index * PAGE, touch: Touch::Read });
            }
        });
    }

    /// Restores everything and ends the runtime in this process. Returns when that is done. Called by a
    /// thread of the program.
    pub fn stop(&'static self, why: &str) {
        if self.process.pid.load(Relaxed) == 0 || self.process.stopped.load(Acquire) {
            return;
        }
        // A signal handler that forks would need the same lock.
        let mask = sys::block_signals();
        let paging = {
            let _still = self.process.life.lock();
            let paging = self.is_paging();
            self.process.stop_wanted.store(true, Release);
            paging
        };
        sys::restore_signals(mask);
        if self.process.stop_without_keeper() {
            return;
        }
        if paging {
            let mut text = sys::Text::new();
            let _ = write!(text, "{why}: all its memory is restored, and it is no longer managed");
            self.say(text.as_str());
        }
        while !self.process.stopped.load(Acquire) {
            let seen = self.reclaim.room.now();
            self.threads.keeper.ring();
            self.reclaim.room.wait(seen, 10_000_000);
            // Another thread was about to start the keeper, and could not.
            self.process.stop_without_keeper();
        }
    }

    /// The keeper's part of [`Runtime::stop`].
    pub fn stop_now(&'static self, maps: Fd, paging: bool) {
        if paging {
            let slot = self.slot();
            self.end_compressors();
            // The gauges are no longer updated, and pages on their way back must not count twice.
            slot.evicted.store(0, Relaxed);
            slot.spilled.store(0, Relaxed);
            self.restore_all();
            self.unregister_all(maps);
            self.end_handlers();
            self.spill.tell_spill_begins();
            for gauge in [&slot.payload, &slot.overhead, &slot.standby] {
                gauge.store(0, Relaxed);
            }
        }
        self.pages.standby.close();
        self.process.set_state(state::STOPPED);
        self.process.stopped.store(true, Release);
        self.reclaim.room.ring();
    }

    pub(crate) fn end_compressors(&self) {
        self.threads.quit_compressors.store(true, Release);
        while self.threads.compressors.load(Acquire) > 0 {
            self.reclaim.work.ring();
            sched::yield_now();
        }
    }

    fn end_handlers(&self) {
        self.forks.gate.end();
        self.threads.quit_handlers.store(true, Release);
        while self.threads.handlers.load(Acquire) > 0 {
            self.faults.follow.call_all();
            self.spill.asked.ring();
            sched::yield_now();
        }
    }

    /// Ends the threads of a process in which nothing is evicted, and waits until their places are free for
    /// new threads.
    pub fn end_threads(&self) {
        self.end_compressors();
        self.end_handlers();
        let pid = self.process.pid.load(Relaxed);
        self.threads.worker_threads.iter().for_each(|place| place.wait_until_left(pid));
        self.threads.quit_compressors.store(false, Release);
        self.threads.quit_handlers.store(false, Release);
    }

    fn restore_all(&'static self) {
        // SAFETY: no other thread uses the last number, and a process stops only once.
        let Some(mut handler) = (unsafe { Server::new(self, WORKERS - 1) }) else {
            self.fail("no memory is left to restore evicted pages");
        };
        handler.is_keepers = true;
        // Mappings may move meanwhile, and another thread that holds a page may have to wait for a CPU, so
        // this repeats until a round finds nothing.
        let mut left = (0, State::Empty);
        let mut patience = Patience::new(PATIENCE_NS);
        while !patience.is_over() {
            let mut found = false;
            self.pages.table.for_each_block(0, END, |base, block| {
                if block.evicted.load(Relaxed) == 0 {
                    return;
                }
                for index in 0..PAGES {
                    let state = block.entries[index].load();
                    if state != State::Empty {
                        (found, left) = (true, (base + index * PAGE, state));
                        handler.serve(Fault { page: base + index * PAGE, touch: Touch::Read });
                    }
                }
            });
            if !found {
                return;
            }
            sched::sleep(20_000);
        }
        self.fail_at("an evicted page could not be restored before the runtime had to stop", left.0, left.1);
    }

    fn unregister_all(&self, maps: Fd) {
        {
            let _order = self.lock_order();
            self.forget_blobs(0, crate::kernel::addresses::END);
        }
        let mut buffer = [0u8; 8192];
        let _ = maps::for_each(maps, &mut buffer, |mapping| {
            let (start, bytes) = (mapping.start, mapping.end - mapping.start);
            if mapping.is_private_anonymous() && !self.arena.overlaps(start, mapping.end) {
                let _ = self.uffd().unregister(start, bytes);
                self.unmark(start, mapping.end);
            }
        });
    }

    /// Lets forks inherit a mapping again.
    pub fn unmark(&self, start: usize, end: usize) {
        // SAFETY: this advice loses no data.
        let _ = unsafe { sys::madvise(start, end - start, advice::DOFORK) };
    }
}
