//! How the runtime begins in a process: its slot in the shared page, its keeper, and the resources for
//! paging. The last two are made only when the limit comes near (`begin.rs`).

use core::ops::ControlFlow;
use core::sync::atomic::Ordering::*;

use memfold::store::{Tiered, Tuning};
use memfold_codec::cpu::{self, Path};
use memfold_shared::page::{self, Shared, Slot};

use crate::kernel::addresses::END;
use crate::kernel::mounts::Notices;
use crate::kernel::sys::{self, PAGE, Result};
use crate::kernel::uffd::{Uffd, feature, kernel_features};
use crate::pages::stored::StoreMemory;
use crate::process::fork::children;
use crate::process::thread::{self, Descriptors};
use crate::process::threads::WORKERS;
use crate::reclaim::incompressible::THRESHOLD;
use crate::reclaim::watch::{CANDIDATES, keeper};
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;

impl Runtime {
    /// Takes a slot for this process. Once the supervisor has ended, slots of ended processes count as free.
    pub fn take_slot(&self, shared: &'static Shared, pid: u32) -> Option<&'static Slot> {
        let slot = shared.take_slot(pid).or_else(|| {
            if !sys::is_gone(shared.supervisor.load(Relaxed)) {
                return None;
            }
            shared
                .live_slots()
                .filter(|slot| sys::is_gone(slot.pid.load(Relaxed)))
                .for_each(|slot| _ = shared.free_slot(slot));
            shared.take_slot(pid)
        });
        slot.inspect(|slot| {
            slot.since_ns.store(sys::now_ns(), Relaxed);
            crate::kernel::filters::note_in(slot)
        })
    }

    /// Reserves, once, the memory in which the keeper lists mappings.
    pub fn prepare_keeper(&self) -> Result<()> {
        if self.threads.keeper_memory.load(Relaxed) == 0 {
            let place = self.arena.reserve(CANDIDATES * 16, PAGE).ok_or(sys::Errno::NOMEM)?;
            self.threads.keeper_memory.store(place as usize, Relaxed);
        }
        Ok(())
    }

    /// Starts the keeper thread. Called by the thread that has claimed it (`door.rs`).
    pub fn start_keeper(&'static self) -> Result<()> {
        self.prepare_keeper()?;
        thread::spawn(&self.arena, &self.threads.keeper_thread, Descriptors::Own, keeper, 0).map(drop)
    }

    /// Tells the forking thread, in the child, whether its pages are served.
    pub fn tell_child(&self, ready: u32) {
        self.forks.child_ready.store(ready, Release);
        sys::futex_wake(&self.forks.child_ready, 1, false);
    }

    /// Prepares, once, everything that paging needs.
    pub fn make_ready(&'static self) -> Result<()> {
        if !self.kernel.has_uffd() {
            let offered = kernel_features(None).unwrap_or(0);
            // Only processes with a certain privilege get this event; others mark mappings with evicted
            // pages: see `evict`.
            let tells_of_forks = offered & feature::EVENT_FORK != 0 && self.forks.gate.open().is_ok();
            let forks = if tells_of_forks { feature::EVENT_FORK } else { 0 };
            let wanted = feature::NEEDED | forks | offered & (feature::MOVE | feature::WRITE_PROTECT);
            self.kernel.set_uffd(Some((Uffd::open(None, wanted)?, Uffd::open(None, 0)?)));
            let moves = wanted & feature::MOVE != 0;
            self.kernel.mounts.set_notices(Notices::of(moves));
            self.kernel.can_move.store(moves, Relaxed);
            if let Some(page) = self.arena.reserve(PAGE, PAGE) {
                // SAFETY: advice about memory that will not be used.
                let known = unsafe { sys::madvise(page as usize, PAGE, sys::advice::GUARD_INSTALL) }.is_ok();
                self.kernel.knows_guards.store(known, Relaxed);
            }
            self.kernel.can_protect.store(wanted & feature::WRITE_PROTECT != 0, Relaxed);
            self.faults.follow.open()?;
        }
        if !self.stored.has_store() {
            let shared = self.shared();
            use_path(shared.cpu_path.load(Relaxed));
            let mut text = [0u8; page::CODEC_NAME_BYTES];
            let fast = memfold_codec::codec(page::load_text(&shared.codec_fast, &mut text)).ok();
            let mut text = [0u8; page::CODEC_NAME_BYTES];
            let dense = memfold_codec::codec(page::load_text(&shared.codec_dense, &mut text)).ok();
            let Some(fast) = fast.or_else(|| memfold_codec::codec("lz4").ok()) else {
                return Err(sys::Errno::INVAL);
            };
            let place = self.arena.reserve(size_of::<Tiered<StoreMemory>>(), 64).ok_or(sys::Errno::NOMEM)?;
            let place = place as *mut Tiered<StoreMemory>;
            // SAFETY: fresh exclusive memory of the right size and alignment.
            unsafe { place.write(Tiered::new(StoreMemory(&self.arena), fast, dense)) };
            // SAFETY: initialised above, and never freed.
            self.stored.set_store(unsafe { &*place });
            let no_reserve = shared.flags.load(Relaxed) & page::flags::NO_RESERVE != 0;
            let fill_ratio = if no_reserve { 64 } else { shared.fill_ratio.load(Relaxed).clamp(1, 64) as u8 };
            self.store().store().set_tuning(Tuning { fill_ratio, ..Tuning::DEFAULT });
            self.store().set_threshold(THRESHOLD);
        }
        if self.shared().flags.load(Relaxed) & page::flags::PARANOID != 0 {
            self.pages.proxy.lock().keep_few();
            self.spill.queue.lock().shorten();
        }
        self.prepare_spill()?;
        self.pages.standby.init()
    }

    /// Reserves the memory for this many handlers and compressors, for stopping and for forks: none of it may
    /// be missing once something is evicted.
    pub fn provide(&'static self, threads: usize) -> Result<()> {
        // The memory that a forked child has inherited is there already.
        let first = self.pages.table.visit_blocks(0, END, |_, _| ControlFlow::Break(())).is_continue();
        let fills = if self.forks.gate.is_there() { Some(children::WORKER) } else { None };
        let numbers = || (0..threads).chain(fills).chain([WORKERS - 1]);
        let missing = numbers().map(|number| Worker::missing(self, number)).sum();
        // Checked before it is taken, since the program has that much less afterwards.
        if first && !self.leaves_data(missing) {
            return Err(sys::Errno::NOMEM);
        }
        self.arena.settle();
        for number in numbers() {
            Worker::prepare(self, number).ok_or(sys::Errno::NOMEM)?;
            if Some(number) != fills {
                self.threads.worker_threads[number].prepare(&self.arena)?;
            }
        }
        self.pages.order.lock().journal.init(&self.arena).ok_or(sys::Errno::NOMEM)?;
        if first && !self.leaves_data(0) { Err(sys::Errno::NOMEM) } else { Ok(()) }
    }

    /// Closes the userfaultfd; no evicted page is registered with it. Called by the keeper.
    pub fn close_uffd(&self) {
        if self.kernel.has_uffd() {
            sys::close(self.uffd().0);
            sys::close(self.kernel.witness().0);
            self.kernel.set_uffd(None);
        }
        self.forks.gate.close();
        self.faults.follow.close();
        self.spill.direct.close();
    }
}

/// Makes codecs use the instructions that the shared page requests. A number that stands for none, or for
/// instructions that this processor lacks, leaves the fastest in use: the resulting bytes are the same.
fn use_path(number: u64) {
    let _ = cpu::force(Path::ALL.into_iter().find(|path| *path as u64 == number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_shared_page_is_used() {
        for path in Path::ALL {
            use_path(path as u64);
            assert_eq!(cpu::path(), if path <= cpu::best() { path } else { cpu::best() });
            use_path(0);
            assert_eq!(cpu::path(), cpu::best());
        }
        use_path(Path::Scalar as u64);
        use_path(u64::MAX);
        assert_eq!(cpu::path(), cpu::best());
    }
}
