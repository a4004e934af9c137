//! Starting paging, and registering and protecting mappings from then on.

use core::sync::atomic::Ordering::*;

use memfold_shared::page::state;

use super::ReclaimThread;
use super::tick::Look;
use crate::faults::delivery::follow::HANDLERS;
use crate::faults::delivery::handlers::handler;
use crate::kernel::sched;
use crate::kernel::sys::{self, Result};
use crate::kernel::uffd::Probe;
use crate::process::door;
use crate::process::limits;
use crate::process::thread::{self, Descriptors};
use crate::reclaim::compress::compressor;
use crate::spill::direct::FETCHERS;
use crate::spill::fetcher;

/// Maximum number of compressors.
const COMPRESSORS: usize = 2;
/// Protecting shared pages may take this fraction of the time.
const PROTECT_SHARE: u64 = 32;
const PROTECT_LONGEST_NS: u64 = 1_000_000_000;

impl ReclaimThread {
    /// In a forked child: takes over the pages that the parent had evicted.
    pub fn take_up(&mut self) {
        let runtime = self.runtime;
        runtime.drop_uninherited(self.maps);
        // Registering comes last: from then on a touch waits for a handler.
        let ready = runtime
            .make_ready()
            .and_then(|()| self.start_threads())
            .and_then(|()| runtime.register_evicted(self.maps));
        if let Err(error) = ready {
            self.told = true;
            runtime.end_threads();
            runtime.close_uffd();
            // This thread restores, not the forking one, because its descriptor table has room.
            runtime.restore_in_place(runtime.process.is_to_say(error).then(|| limits::why_restored(error)));
        } else {
            runtime.mark_registered(self.maps);
            runtime.process.set_state(state::PAGING);
            // The first look protects shared pages, before the child goes on.
            let wait = self.tick();
            self.be_back_in(wait);
        }
        runtime.tell_child(1);
    }

    /// Opens the userfaultfd and starts the threads.
    pub(super) fn start_paging(&mut self, look: &mut Look) {
        let runtime = self.runtime;
        if self.told {
            return;
        }
        let Some(alive) = runtime.process.life.try_lock() else { return };
        if let Err(error) = runtime.make_ready().and_then(|()| self.start_threads()) {
            if runtime.process.is_to_say(error) {
                runtime.say(limits::why_unmanaged(error));
            }
            if error == sys::Errno::AGAIN && runtime.may_do_without() && runtime.process.is_watched() {
                // Later it may be possible to start the threads.
                runtime.close_uffd();
                runtime.process.paging_wanted.store(false, Relaxed);
                runtime.threads.stoppable.fetch_sub(1, AcqRel);
                door::let_go();
                self.leave(alive);
            }
            self.told = true;
            runtime.process.set_state(state::STOPPED);
            return;
        }
        self.owe(look);
        runtime.process.set_state(state::PAGING);
    }

    fn start_threads(&mut self) -> Result<()> {
        let runtime = self.runtime;
        // From here on a thread that opens a file checks its mount (`interpose/mappings/pins.rs`).
        self.mounts.refresh(&runtime.kernel.mounts);
        let cpus = sched::allowed_cpus();
        let numbers = (0..1024).filter(|cpu| cpus[cpu / 64] >> (cpu % 64) & 1 != 0);
        runtime.reclaim.two_cpus.store(self.cpus == 2, Relaxed);
        runtime.reclaim.may_keep_awake.store(self.cpus > 1, Relaxed);
        let fetchers = if runtime.spill.area().is_some() { FETCHERS } else { 0 };
        // The other half of the CPUs runs the threads that fault, and compressors: see `follow.rs`.
        let handlers = (self.cpus as usize / 2).clamp(1, HANDLERS);
        let compressors = COMPRESSORS.min(self.cpus as usize).max(1);
        runtime.provide(handlers + compressors + fetchers)?;
        let spawn = |number: usize, entry, argument| {
            let place = &runtime.threads.worker_threads[number];
            thread::spawn(&runtime.arena, place, Descriptors::Shared, entry, argument << 8 | number)
        };
        let start = || {
            let mut count = 0;
            for (number, cpu) in numbers.clone().take(handlers).enumerate() {
                spawn(number, handler, cpu)?;
                runtime.threads.handlers.fetch_add(1, AcqRel);
                count += 1;
            }
            // The second compressor is started when needed: see `retire.rs`.
            spawn(count, compressor, 0)?;
            runtime.threads.compressors.fetch_add(1, AcqRel);
            for (number, cpu) in numbers.clone().cycle().take(fetchers).enumerate() {
                spawn(count + compressors + number, fetcher, cpu)?;
                runtime.threads.handlers.fetch_add(1, AcqRel);
            }
            runtime.forks.gate.begin()
        };
        self.helper = if compressors > 1 { handlers + 1 } else { 0 };
        // Start all of them or none.
        start().inspect_err(|_| runtime.end_threads())
    }

    /// Registers mappings that are not registered yet: from now on their growth waits for room, like that of
    /// registered ones.
    pub fn watch_growth(&mut self) {
        if !self.runtime.is_paging() {
            return;
        }
        self.runtime.reclaim.unseen_growth.store(0, Relaxed);
        self.watched_resident = self.runtime.slot().resident.load(Relaxed);
        self.list();
        for index in 0..self.count {
            let (start, end) = self.candidates[index];
            if self.runtime.uffd().probe(start) == Probe::Unregistered {
                self.runtime.register_fresh(self.maps, start, end);
            }
        }
    }

    /// Protects pages that a fork has made shared: see `copies.rs`.
    pub fn protect_shared(&mut self) {
        self.unprotected = false;
        let runtime = self.runtime;
        if !runtime.protects() {
            return;
        }
        let begin = sys::now_ns();
        self.list();
        for index in 0..self.count {
            let (start, end) = self.candidates[index];
            runtime.register_fresh(self.maps, start, end);
            self.unprotected |= runtime.protect_shared(&self.pagemap, start, end);
        }
        // In a program that forks all the time this takes a small fraction of its time. If it seems to have
        // taken long, the process was stopped.
        let now = sys::now_ns();
        self.protect_ns = now + PROTECT_SHARE * (now - begin).min(PROTECT_LONGEST_NS);
    }
}
