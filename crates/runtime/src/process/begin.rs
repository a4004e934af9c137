//! When the keeper starts. A process that is far from a fixed limit, or too small to matter (`near.rs`), has
//! no thread of memfold: the supervisor watches it from outside, and records in its slot how near the limit
//! is. With `auto` or `--proactive` it asks for a keeper as soon as the process is larger than 32 MiB.
//!
//! The keeper is started by:
//! - a thread of the program that gets memory: if the slot says `NEAR`, and the memory makes the process large
//!   enough to matter; or if the memory alone could exceed the limit; or if the slot says `NOW`.
//! - a thread that the supervisor sends through a door (`door.rs`): if the process grows just by touching memory.
//! - a thread that forks: if the child could fill the rest of the limit by writing to shared pages.
//! - a forked child: if its parent had evicted pages.
//! - a program at its start, and any of these: if the supervisor does not watch from outside, because it cannot
//!   or has ended.

use core::sync::atomic::{Ordering::*, fence};

use memfold_shared::near;
use memfold_shared::page::{call, flags, state};

use crate::kernel::sys::{self, Fd};
use crate::kernel::{maps, sched};
use crate::memory::patience::Patience;
use crate::process::Process;
use crate::process::door;
use crate::runtime::Runtime;

/// If the supervisor's last look is longer ago than this (in ns), the supervisor may have ended. If it has
/// not, a busy machine may delay it for up to `LOOKS_BUSY_NS`, unless it was stopped.
const LOOKS_NS: u64 = 500_000_000;
const LOOKS_BUSY_NS: u64 = 10 * LOOKS_NS;
/// A request of at least this many bytes could exceed the limit before the next look.
pub const MUCH: usize = 1 << 20;
/// Maximum time that a program waits for paging to begin, in ns; time during which it is stopped does not
/// count. On a busy machine, a keeper with a low priority may need seconds to start.
const START_NS: u64 = 10_000_000_000;

fn cpus() -> u64 {
    sched::allowed_cpus().iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The writable memory that the program has not touched yet, without the stacks of its threads, in bytes.
/// `statm` is the open `/proc/self/statm`.
pub fn untouched(statm: Fd) -> u64 {
    const STACK: usize = 3;
    /// The largest stack that threads usually get.
    const USUAL_STACK: u64 = 8 << 20;
    let threads = sys::open_own(c"/proc/self/task", sys::o::RDONLY | sys::o::DIRECTORY).map_or(1, |tasks| {
        let links = sys::links(tasks);
        sys::close(tasks);
        links.saturating_sub(2)
    });
    let stack = sys::resource_limit(STACK).map_or(USUAL_STACK, |[soft, _]| soft.min(USUAL_STACK));
    let stacks = threads.saturating_sub(1).saturating_mul(stack);
    maps::untouched_bytes(statm).unwrap_or(0).saturating_sub(near::OWN_UNTOUCHED.saturating_add(stacks))
}

impl Process {
    /// Whether the supervisor watches this process until it has a keeper.
    pub fn is_watched(&self) -> bool {
        let shared = self.shared();
        // The process records its state in the slot before it checks whether the supervisor watches; a
        // supervisor that ends does both in the opposite order.
        fence(SeqCst);
        let since = sys::now_ns().abs_diff(shared.looked_ns.load(Relaxed));
        let looks =
            since < LOOKS_NS || since < LOOKS_BUSY_NS && !sys::is_gone(shared.supervisor.load(Relaxed));
        shared.flags.load(Relaxed) & flags::OUTSIDE != 0 && looks
    }

    /// Whether this process is too small to matter.
    pub fn is_small(&self) -> bool {
        let paranoid = self.shared().flags.load(Relaxed) & flags::PARANOID != 0;
        self.slot().resident.load(Relaxed) < self.least_managed() && !paranoid
    }

    /// How scarce tasks are in the tree: a level of `near::worth_threads`. 0 if there is no supervisor that
    /// would lower it.
    pub fn task_level(&self) -> u32 {
        let level = self.shared().tasks_wanted.load(Relaxed);
        if level == 0 || !self.is_watched() { 0 } else { level }
    }

    /// Whether this process is large enough to have threads of memfold, given how scarce tasks are.
    pub fn is_worth_threads(&self) -> bool {
        let all = self.slot().resident.load(Relaxed).saturating_add(self.slot().evicted.load(Relaxed));
        all >= near::worth_threads(self.shared().limit_bytes.load(Relaxed), self.task_level())
    }

    /// Number of bytes that this process must have to get threads of memfold.
    fn least_managed(&self) -> u64 {
        self.shared().least_managed(self.task_level())
    }

    /// The supervisor's signal: one of [`call`].
    #[inline(always)]
    pub fn call(&self) -> u32 {
        // SAFETY: this is the slot's word, or one that always says nothing: both exist as long as the
        // process.
        unsafe { &*self.call.load(Relaxed) }.load(Relaxed)
    }
}

impl Runtime {
    /// Prepares a door, and lets the supervisor use it. Called by the only thread of a process that begins.
    pub fn open_door(&self) -> sys::Result<()> {
        self.threads.keeper_thread.prepare(&self.arena)?;
        let (stack, control_block) = self.threads.keeper_thread.prepare_stack();
        let slot = self.slot();
        let sanitized = self.process.sanitized.load(Relaxed);
        slot.door.store(
            if sanitized { memfold_shared::door::SANITIZER } else { door::code::open(stack, control_block) },
            Release,
        );
        self.process.call.store((&raw const slot.call).cast_mut(), Release);
        if self.shared().near.load(Relaxed) != 0 {
            // Until the supervisor has looked, the limit counts as near.
            let _ = slot.call.compare_exchange(call::FAR, call::NEAR, Relaxed, Relaxed);
        }
        Ok(())
    }

    /// Called at the start of a program that is watched: its zero-initialised data may be all that it ever
    /// touches.
    pub fn begin_if_it_may_grow(&'static self) {
        let shared = self.shared();
        if shared.near.load(Relaxed) == 0 || self.process.sanitized.load(Relaxed) {
            return;
        }
        let Ok(statm) = sys::open_own(c"/proc/self/statm", sys::o::RDONLY) else { return };
        let untouched = maps::untouched_bytes(statm).unwrap_or(0).saturating_sub(near::OWN_UNTOUCHED);
        sys::close(statm);
        let limit = shared.limit_bytes.load(Relaxed);
        if untouched >= self.process.least_managed()
            && near::must_start(untouched, shared.room.load(Relaxed), cpus(), limit)
        {
            self.process.paging_wanted.store(true, Relaxed);
            self.begin();
        }
    }

    /// If one system call could exceed the limit by filling what this process has requested and not touched yet,
    /// returns how many bytes that is. How much is untouched is looked up only if all requests together are too
    /// much. For a process that does not page.
    pub fn could_fill_too_much(&self) -> Option<usize> {
        let (shared, asked) = (self.shared(), &self.slot().asked);
        let (limit, room) = (shared.limit_bytes.load(Relaxed), shared.room.load(Relaxed));
        let exceeds = |bytes: u64| near::could_exceed_at_once(bytes, room, limit);
        let all = asked.load(Acquire);
        // Where the runtime has stopped, the program may have a filter under which no system call may be made.
        let may_look = || self.process.state() == state::WATCHING && !self.process.sanitized.load(Relaxed);
        if !exceeds(all) || !may_look() {
            return None;
        }
        let statm = sys::open_own(c"/proc/self/statm", sys::o::RDONLY).ok()?;
        let fillable = untouched(statm).min(all);
        sys::close(statm);
        // Memory that was touched or freed no longer counts.
        asked.store(fillable, Release);
        exceeds(fillable).then_some(fillable as usize)
    }

    /// Whether a thread that gets this many bytes, in a process that does not page yet, must call
    /// [`begin`](Self::begin).
    pub fn must_begin(&self, bytes: usize) -> bool {
        let shared = self.shared();
        if self.process.state() != state::WATCHING {
            return false;
        }
        let limit = shared.limit_bytes.load(Relaxed);
        let has_keeper = door::has_keeper();
        let (unseen, must_start) = match self.process.call() {
            call::NOW => return true,
            // Another thread has asked for paging. On a busy machine the keeper may take long to start, and no
            // thread gets memory until it has.
            _ if has_keeper && self.process.paging_wanted.load(Relaxed) => return true,
            // The keeper's next look may be late for the same reason, so memory counts until then.
            _ if has_keeper => {
                let unseen = self.reclaim.much.fetch_add(bytes, AcqRel).saturating_add(bytes) as u64;
                let room = limit.saturating_sub(shared.tree_resident());
                (unseen, near::must_start(unseen, room, cpus(), limit))
            }
            // The supervisor sees growth by many small requests in time.
            call::FAR => {
                let room = shared.room.load(Relaxed);
                (bytes as u64, bytes >= MUCH && near::could_exceed_at_once(bytes as u64, room, limit))
            }
            _ => {
                let looks = shared.looks.load(Relaxed);
                if self.process.looks_seen.swap(looks, Relaxed) != looks {
                    self.reclaim.much.store(0, Relaxed);
                }
                let unseen = self.reclaim.much.fetch_add(bytes, AcqRel).saturating_add(bytes) as u64;
                let got = shared.got.fetch_add(bytes as u64, AcqRel).saturating_add(bytes as u64);
                let room = shared.room.load(Relaxed).saturating_sub(got.saturating_sub(unseen));
                (unseen, near::must_start(unseen, room, cpus(), limit))
            }
        };
        let is_large = || self.slot().resident.load(Relaxed) + unseen >= self.process.least_managed();
        // A child of vfork must leave its parent's memory unchanged.
        let is_own = || self.process.pid.load(Relaxed) == sys::getpid();
        if must_start && is_large() && is_own() {
            self.process.paging_wanted.store(true, Relaxed);
            return true;
        }
        !has_keeper && !self.process.is_watched()
    }

    /// Called by a thread of the program: starts the keeper if there is none. If paging must begin at once,
    /// this waits until it has. Returns whether it has.
    #[cold]
    pub fn begin(&'static self) -> bool {
        // A child of vfork, or of a clone that the runtime does not know of, is another process.
        if self.process.pid.load(Relaxed) != sys::getpid() || self.process.state() == state::STOPPED {
            return false;
        }
        if let Err(error) = self.ensure_keeper() {
            if self.process.is_to_say(error) && !self.process.told_no_keeper.swap(true, Relaxed) {
                self.say(crate::process::limits::why_unmanaged(error));
            }
            return false;
        }
        self.wait_for_start();
        self.is_paging()
    }

    /// Called before a fork: the child could fill the rest of the limit by writing to the pages that both
    /// share, which cannot be seen from outside. Then both processes page; a small process forks without
    /// paging.
    pub fn begin_before_fork(&'static self) {
        let shared = self.shared();
        if shared.near.load(Relaxed) == 0 || self.process.state() != state::WATCHING {
            return;
        }
        let Ok(statm) = sys::open_own(c"/proc/self/statm", sys::o::RDONLY) else { return };
        let own = maps::anonymous_pages(statm).unwrap_or(0) * sys::PAGE as u64;
        sys::close(statm);
        let limit = shared.limit_bytes.load(Relaxed);
        if own >= self.process.least_managed()
            && near::must_start(own, shared.room.load(Relaxed), cpus(), limit)
        {
            self.process.paging_wanted.store(true, Relaxed);
            self.begin();
        }
    }

    /// Starts the keeper if there is none.
    pub fn ensure_keeper(&'static self) -> sys::Result<()> {
        if self.process.sanitized.load(Relaxed) {
            // A thread of memfold would call functions of the sanitizer, which does not know the thread.
            door::forbid();
            // The supervisor may have reported this already.
            let is_new = self.slot().state.swap(state::STOPPED, Relaxed) != state::STOPPED;
            self.process.set_state(state::STOPPED);
            self.process.stopped.store(true, Release);
            if is_new {
                self.say(memfold_shared::door::SANITIZED);
            }
            return Ok(());
        }
        if !door::claim() {
            return Ok(());
        }
        self.start_keeper().inspect_err(|_| door::release())
    }

    /// Waits until paging has begun if it must begin at once, because the limit is small or near.
    fn wait_for_start(&self) {
        let shared = self.shared();
        let far = shared.tree_resident() + near::start_room(cpus()) <= shared.limit_bytes.load(Relaxed);
        if far && !self.process.paging_wanted.load(Relaxed) {
            return;
        }
        self.threads.keeper.ring();
        // A fork holds the keeper up, and may itself wait for a lock that this thread holds.
        let may_begin =
            || self.process.state() < state::PAGING && door::has_keeper() && !self.forks.is_under_way();
        let mut patience = Patience::new(START_NS);
        while may_begin() && !patience.is_over() {
            let seen = self.reclaim.room.now();
            self.reclaim.room.wait(seen, 100_000);
        }
    }
}
