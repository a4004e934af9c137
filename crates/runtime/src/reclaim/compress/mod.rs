//! Compressors: threads that move pages from standby to the store, oldest slot first, while the process owes
//! memory.
//!
//! A slot is processed in groups of pages: compress each page, write the entries of the group under the order
//! lock, free the group's pages. A block may have been nearly empty, so a group is a number of present pages,
//! wherever they lie in the slot.

mod pages;

use core::sync::atomic::Ordering::*;

use pages::Pages;

use crate::kernel::addresses::{BLOCK, PAGES};
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE};
use crate::pages::relocate::Entries;
use crate::process::thread;
use crate::reclaim::Reclaim;
use crate::reclaim::worker::Worker;
use crate::runtime::{RUNTIME, Runtime};

/// Number of pages after which memory is freed.
const GROUP: usize = 32;
/// How many times putting back a page is tried.
const TRIES: u32 = 8;
/// Interval between looks for the answer to a batch that was sent, in ns.
const ANSWER_NS: u64 = 1_000_000;
/// Maximum number of bytes of blobs to move, to close holes, before the next slot is processed.
const MAINTAIN: usize = 1 << 20;
/// A compressor without work stays awake until no fault has come for this long, in ns.
const AWAKE_NS: u64 = 100_000;
/// The same while a page is being fetched from a tier, in ns: near tiers answer within it.
const FETCH_NS: u64 = 300_000;
/// The second compressor ends when it has had no work for this long, in ns.
const IDLE_NS: u64 = 2_000_000_000;
/// Number of looks for work between two readings of the clock: a few microseconds.
const SPINS: usize = 200;
/// If these looks take this long (in ns), another thread wants the CPU, and gets it for `LEFT_NS`.
const WANTED_NS: u64 = 300_000;
const LEFT_NS: u64 = 20_000_000;

/// Entry of a compressor thread. The low byte of the argument is its number among the workers, the bits above
/// are its number among the compressors. All but the first work only when the first falls behind: the program
/// needs the CPUs, too.
pub extern "C" fn compressor(argument: usize) -> ! {
    let (number, helps) = (argument & 0xff, argument >> 8 != 0);
    // SAFETY: this is the only thread with this number.
    let Some(mut worker) = (unsafe { Worker::new(&RUNTIME, number) }) else {
        RUNTIME.fail("no memory is left for a compressor");
    };
    RUNTIME.threads.stoppable.fetch_add(1, AcqRel);
    let mut cpu = sys::thread_cpu_ns();
    let (allowed, mut kept_off) = (sched::allowed_cpus(), None);
    let (mut worked_ns, mut leaves) = (sys::now_ns(), false);
    loop {
        RUNTIME.pause_here();
        if RUNTIME.threads.quit_compressors.load(Acquire) || leaves {
            RUNTIME.threads.stoppable.fetch_sub(1, AcqRel);
            RUNTIME.threads.compressors.fetch_sub(1, AcqRel);
            thread::exit();
        }
        let seen = RUNTIME.reclaim.work.now();
        crate::interpose::rights::credentials::adopt();
        if RUNTIME.free_condemned() {
            continue;
        }
        let maintained = RUNTIME.store().store().maintain(&Entries, MAINTAIN);
        // Blobs that are made denser go to other classes, and leave holes in their former ones.
        if RUNTIME.reclaim.squeeze.load(Relaxed) && (maintained.more || RUNTIME.densify_some(&mut worker)) {
            continue;
        }
        let least = if helps { RUNTIME.reclaim.margin.load(Relaxed) / 2 } else { 0 };
        let worked = RUNTIME.spill_some(&mut worker)
            || RUNTIME.reclaim.debt.load(Acquire) > least
                && !RUNTIME.reclaim.keeps_all.load(Relaxed)
                && RUNTIME.compress_oldest(&mut worker, u64::MAX)
            || !helps && RUNTIME.compress_idle(&mut worker)
            || !helps && RUNTIME.densify_some(&mut worker);
        if helps {
            // This compressor ends when it is no longer needed: see `watch/retire.rs`.
            let now = sys::now_ns();
            worked_ns = if worked { now } else { worked_ns };
            let is_wanted = RUNTIME.shared().tasks_wanted.load(Relaxed) != 0;
            leaves = !worked && (is_wanted || now - worked_ns > IDLE_NS);
            if leaves {
                continue;
            }
        }
        if !worked {
            let now = sys::thread_cpu_ns();
            RUNTIME.slot().counters.runtime_cpu_ns.fetch_add(now - cpu, Relaxed);
            cpu = now;
            if !helps {
                let off = RUNTIME.faults.follow.cpu().filter(|_| RUNTIME.may_stay_awake(sys::now_ns()));
                if off != kept_off {
                    keep_off(&allowed, off);
                    kept_off = off;
                }
                if RUNTIME.stay_awake(seen) {
                    continue;
                }
            }
            if !helps {
                RUNTIME.reclaim.sleeps.store(true, Relaxed);
            }
            // The supervisor's answers ring no bell in this process.
            let is_awaited = RUNTIME.spill.in_flight.load(Relaxed) > 0;
            RUNTIME.reclaim.work.wait(seen, if is_awaited { ANSWER_NS } else { 200_000_000 });
            if !helps {
                RUNTIME.reclaim.sleeps.store(false, Relaxed);
            }
        }
    }
}

/// Binds the calling thread to its CPUs except `cpu`, the CPU of the thread whose faults it follows.
fn keep_off(allowed: &sched::CpuSet, cpu: Option<usize>) {
    let mut set = *allowed;
    if let Some(cpu) = cpu.filter(|cpu| cpu / 64 < set.len()) {
        set[cpu / 64] &= !(1 << (cpu % 64));
    }
    sched::bind_to(&set);
}

impl Reclaim {
    /// Called between two pages, while there is time: a thread that was woken on this CPU goes first. It may
    /// have slept for so short a time that the kernel would let it wait for the next tick, a hundred times as
    /// long as a page takes.
    pub fn let_others_run(&self) {
        if self.debt.load(Relaxed) < self.margin.load(Relaxed) / 4 {
            sched::yield_now();
        }
    }
}

impl Runtime {
    /// Whether there are two CPUs, one thread's faults need one of them, and no other thread wants the other.
    fn may_stay_awake(&self, now: u64) -> bool {
        self.reclaim.two_cpus.load(Relaxed)
            && self.reclaim.alone.load(Relaxed)
            && !self.faults.follow.is_spread()
            && now >= self.reclaim.sleep_until_ns.load(Relaxed)
    }

    /// While one thread faults again and again, this waits for work without sleeping (and is woken for that:
    /// `keep_awake`). If a CPU is idle, a thread that is woken moves to it; then each of its faults goes from
    /// one CPU to another and back, which takes four times as long. With two CPUs, the thread stays where its
    /// handler is as long as the other CPU is not idle. Returns whether there is work.
    fn stay_awake(&self, seen: u32) -> bool {
        let begin = sys::now_ns();
        if !self.may_stay_awake(begin) {
            return false;
        }
        let faults = &self.slot().counters.pages_faulted;
        let (mut known, mut since, mut looked) = (faults.load(Relaxed), begin, begin);
        loop {
            for _ in 0..SPINS {
                if self.reclaim.work.now() != seen || self.forks.pause.load(Relaxed) != 0 {
                    return true;
                }
                core::hint::spin_loop();
            }
            let (now, count) = (sys::now_ns(), faults.load(Relaxed));
            if now - looked > WANTED_NS {
                // Another thread has run here meanwhile: the CPU is not idle anyway.
                self.reclaim.sleep_until_ns.store(now + LEFT_NS, Relaxed);
                return false;
            }
            looked = now;
            let patience = if self.spill.fetching.load(Relaxed) > 0 { FETCH_NS } else { AWAKE_NS };
            if count != known {
                (known, since) = (count, now);
            } else if now - since > patience {
                return false;
            }
        }
    }

    /// Called when a fault that began at `begin` is served: keeps a compressor awake if faults follow each
    /// other closely.
    pub fn keep_awake(&self, begin: u64) {
        if begin.saturating_sub(self.faults.served_ns.load(Relaxed)) < AWAKE_NS
            && self.reclaim.sleeps.load(Relaxed)
            && self.may_stay_awake(begin)
        {
            self.reclaim.sleeps.store(false, Relaxed);
            self.reclaim.work.ring();
        }
    }

    /// Compresses the oldest slot although there is room, if its pages have been idle for long enough.
    /// `false` if there is none.
    fn compress_idle(&self, worker: &mut Worker) -> bool {
        let idle = self.reclaim.idle_ns.load(Relaxed);
        idle != u64::MAX && self.compress_oldest(worker, sys::now_ns().saturating_sub(idle))
    }

    /// Compresses the oldest slot, if it was queued before `before_ns`. `false` if there is none.
    fn compress_oldest(&self, worker: &mut Worker, before_ns: u64) -> bool {
        let Some(slot) = self.pages.standby.take_oldest(before_ns) else { return false };
        if self.pages.standby.queued() < self.reclaim.standby_goal.load(Relaxed) {
            self.threads.keeper.ring();
        }
        let held = self.pages.standby.slot(slot);
        let mut pages = Pages::new();
        for word in 0..PAGES / 64 {
            let mut bits = held.present[word].load(Relaxed);
            while bits != 0 {
                pages.add(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                if pages.count < GROUP {
                    continue;
                }
                let done = self.compress_group(worker, slot, &mut pages);
                if self.forks.pause.load(Relaxed) != 0 || !done {
                    // The rest stays on standby; the slot is taken up again later.
                    self.pages.standby.enqueue(slot);
                    return done;
                }
            }
        }
        if pages.count > 0 && !self.compress_group(worker, slot, &mut pages) {
            self.pages.standby.enqueue(slot);
            return false;
        }
        if let Some(block) = self.pages.table.block(held.home.load(Relaxed)) {
            block.judge(held.taken.load(Relaxed), held.rescued.load(Relaxed));
        }
        self.pages.standby.give_back(slot);
        true
    }

    /// Pauses while a fork is prepared.
    pub fn pause_here(&self) {
        while self.forks.pause.load(Acquire) != 0 {
            self.threads.paused.fetch_add(1, AcqRel);
            sys::futex_wake(&self.threads.paused, sys::ALL, false);
            while self.forks.pause.load(Acquire) != 0 {
                let _ = sys::futex_wait(&self.forks.pause, 1, None, false);
            }
            self.threads.paused.fetch_sub(1, AcqRel);
        }
    }
}

const _: () = assert!(GROUP <= 64 && PAGES <= u16::MAX as usize && BLOCK == PAGES * PAGE);
