//! When the keeper comes into being. A process that is far from its limit has no thread of memfold, nor has
//! one that is too small to matter (`near.rs`): the supervisor watches it from outside, and says in its slot
//! how near the limit is.
//!
//! | who starts it | when |
//! | --- | --- |
//! | a thread of the program that gets memory | the slot says `NEAR`, and what the thread gets makes the process large enough to matter; or that alone could exceed the limit; or the slot says `NOW` |
//! | a thread that the supervisor sends through a door (`door.rs`) | the process grows by touching alone |
//! | a thread that forks | the child could fill what is left of the limit by writing to what both share |
//! | a forked child | its parent had evicted pages |
//! | the start of a program, and any of these | nobody watches from outside: the supervisor may not, or has ended |

use core::sync::atomic::{Ordering::*, fence};

use memfold_shared::near;
use memfold_shared::page::{call, flags, state};

use crate::kernel::sys;
use crate::kernel::{maps, sched};
use crate::process::door;
use crate::runtime::Runtime;

/// The supervisor looks more often than this, ns, unless it has ended; or, on however busy a machine, was
/// stopped.
const LOOKS_NS: u64 = 500_000_000;
const LOOKS_BUSY_NS: u64 = 10 * LOOKS_NS;
/// A request of this size or more could exceed the limit before anybody looks, bytes.
pub const MUCH: usize = 1 << 20;
/// A program waits no longer than this for paging to begin, ns.
const START_NS: u64 = 1_000_000_000;

fn cpus() -> u64 {
    sched::allowed_cpus().iter().map(|word| u64::from(word.count_ones())).sum()
}

impl Runtime {
    /// Whether the supervisor watches this process as long as it has no keeper.
    pub fn is_watched(&self) -> bool {
        let shared = self.shared();
        // Its slot says that it watches before it asks who watches it: the supervisor ends the other way round.
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

    /// How scarce tasks are in the tree: a level of `near::worth_threads`. 0 if nobody lives who would lower it.
    pub fn task_level(&self) -> u32 {
        let level = self.shared().tasks_wanted.load(Relaxed);
        if level == 0 || !self.is_watched() { 0 } else { level }
    }

    /// Whether this process is large enough to have threads of memfold, given how scarce tasks are.
    pub fn is_worth_threads(&self) -> bool {
        let all = self.slot().resident.load(Relaxed).saturating_add(self.slot().evicted.load(Relaxed));
        all >= near::worth_threads(self.shared().limit_bytes.load(Relaxed), self.task_level())
    }

    /// Bytes that this process must have to get threads of memfold.
    fn least_managed(&self) -> u64 {
        near::least_managed(self.shared().limit_bytes.load(Relaxed), self.task_level())
    }

    /// Makes ready what a door needs, and lets the supervisor use it. By the only thread of a process that
    /// begins.
    pub fn open_door(&self) -> sys::Result<()> {
        self.threads.keeper_place.prepare(&self.arena)?;
        let (stack, control_block) = self.threads.keeper_place.furnish();
        let slot = self.slot();
        let sanitized = self.process.sanitized.load(Relaxed);
        slot.door.store(
            if sanitized { memfold_shared::door::SANITIZER } else { door::open(stack, control_block) },
            Release,
        );
        self.process.call.store((&raw const slot.call).cast_mut(), Release);
        if self.shared().near.load(Relaxed) != 0 {
            // Until the supervisor has looked.
            let _ = slot.call.compare_exchange(call::FAR, call::NEAR, Relaxed, Relaxed);
        }
        Ok(())
    }

    /// At the start of a program that is watched: its zero-initialised data may be all that it ever touches.
    pub fn begin_if_it_may_grow(&'static self) {
        let shared = self.shared();
        if shared.near.load(Relaxed) == 0 || self.process.sanitized.load(Relaxed) {
            return;
        }
        let Ok(statm) = sys::open_own(c"/proc/self/statm", sys::o::RDONLY) else { return };
        let untouched = maps::untouched_bytes(statm).unwrap_or(0).saturating_sub(near::OWN_UNTOUCHED);
        sys::close(statm);
        let limit = shared.limit_bytes.load(Relaxed);
        if untouched >= self.least_managed()
            && near::must_start(untouched, shared.room.load(Relaxed), cpus(), limit)
        {
            self.process.paging_wanted.store(true, Relaxed);
            self.begin();
        }
    }

    /// What the supervisor says: one of [`call`].
    #[inline(always)]
    pub fn call(&self) -> u32 {
        // SAFETY: the slot's, or one that says nothing: both live as long as the process.
        unsafe { &*self.process.call.load(Relaxed) }.load(Relaxed)
    }

    /// Whether a thread that gets so many bytes, in a process that has no keeper, is to start it.
    pub fn is_to_begin(&self, bytes: usize) -> bool {
        let shared = self.shared();
        if self.process.state() != state::WATCHING || door::has_keeper() {
            return false;
        }
        let limit = shared.limit_bytes.load(Relaxed);
        let (unseen, must_start) = match self.call() {
            call::NOW => return true,
            // Growth by many requests is seen in time.
            call::FAR => {
                let room = shared.room.load(Relaxed);
                (bytes as u64, bytes >= MUCH && near::could_pass_at_once(bytes as u64, room, limit))
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
        let is_large = || self.slot().resident.load(Relaxed) + unseen >= self.least_managed();
        // A child of vfork must leave its parent's memory as it is.
        let is_own = || self.process.pid.load(Relaxed) == sys::getpid();
        if must_start && is_large() && is_own() {
            self.process.paging_wanted.store(true, Relaxed);
            return true;
        }
        !self.is_watched()
    }

    /// Starts the keeper if there is none, by a thread of the program, and waits until paging has begun if it
    /// is to begin at once. Returns whether it has.
    #[cold]
    pub fn begin(&'static self) -> bool {
        // A child of vfork, or of a clone that nobody knows of, is another process.
        if self.process.pid.load(Relaxed) != sys::getpid() || self.process.state() == state::STOPPED {
            return false;
        }
        if let Err(error) = self.ensure_keeper() {
            if self.is_to_say(error) && !self.process.told_no_keeper.swap(true, Relaxed) {
                self.say(crate::process::limits::why_unmanaged(error));
            }
            return false;
        }
        self.wait_for_start();
        self.is_paging()
    }

    /// Before a fork: its child could fill what is left of the limit by writing to the pages that both share,
    /// which nobody sees from outside. Both page then; a small process forks as it is.
    pub fn begin_before_fork(&'static self) {
        let shared = self.shared();
        if shared.near.load(Relaxed) == 0 || self.process.state() != state::WATCHING {
            return;
        }
        let Ok(statm) = sys::open_own(c"/proc/self/statm", sys::o::RDONLY) else { return };
        let own = maps::anonymous_pages(statm).unwrap_or(0) * sys::PAGE as u64;
        sys::close(statm);
        let limit = shared.limit_bytes.load(Relaxed);
        if own >= self.least_managed() && near::must_start(own, shared.room.load(Relaxed), cpus(), limit) {
            self.process.paging_wanted.store(true, Relaxed);
            self.begin();
        }
    }

    /// Starts the keeper if there is none.
    pub fn ensure_keeper(&'static self) -> sys::Result<()> {
        if self.process.sanitized.load(Relaxed) {
            // A thread of memfold would call functions of the sanitizer's, which know nothing of it.
            door::forbid();
            // The supervisor may have said so.
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

    /// Waits until paging has begun if it is to begin at once, because the limit is small or near.
    fn wait_for_start(&self) {
        let (shared, begin) = (self.shared(), sys::now_ns());
        let far = shared.tree_resident() + near::start_room(cpus()) <= shared.limit_bytes.load(Relaxed);
        if far && !self.process.paging_wanted.load(Relaxed) {
            return;
        }
        while self.process.state() < state::PAGING && door::has_keeper() && sys::now_ns() - begin < START_NS {
            let seen = self.reclaim.room.now();
            self.reclaim.room.wait(seen, 100_000);
        }
    }
}
