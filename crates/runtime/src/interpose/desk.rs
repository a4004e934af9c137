//! Requests to the keeper, by threads of the program. Only the keeper has the userfaultfd (in a descriptor
//! table of its own), and only it evicts.
//!
//! ```text
//!  idle ──(thread, holding the desk)──> asked ──(keeper)──> done ──(thread)──> idle
//!                                         └──(thread, out of patience)───────────^
//! ```
//!
//! A requesting thread waits on its own stack, which may be evicted meanwhile; no thread that restores pages
//! ever waits for the desk.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::maps;
use crate::kernel::sys::{self, Fd};
use crate::memory::lock::Lock;
use crate::memory::patience::Patience;
use crate::process::door;
use crate::runtime::{RUNTIME, Runtime};

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const SERVING: u32 = 2;
const DONE: u32 = 3;

/// Maximum wait for the keeper, in ns; time during which the process is stopped does not count. It answers
/// within microseconds, or much later on a busy machine. While a fork holds it up, no thread waits for it.
const PATIENCE: u64 = 30_000_000_000;

static DESK: Lock<()> = Lock::new(());
static STATE: AtomicU32 = AtomicU32::new(IDLE);
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Waits until all evictions that began before the call have ended: from then on, ranges that were kept out
/// before the call are not evicted. `false` if the keeper does not answer.
pub fn let_evictions_end() -> bool {
    ask(0, 0)
}

/// Has the keeper register all new mappings. `false` if the keeper does not answer.
pub fn watch_growth() -> bool {
    ask(usize::MAX, 0)
}

/// Has the keeper register all private anonymous mappings that overlap the range, so that mappings which
/// differ only in their registration become one. `false` if the keeper does not answer.
pub fn unsplit(start: usize, end: usize) -> bool {
    ask(start, end)
}

/// Has the keeper free reserved memory of the runtime that exceeds its allowance when the program's memory is
/// limited to `limit`. `false` if the keeper does not answer.
pub fn make_way(limit: usize) -> bool {
    if !door::has_keeper() {
        let mask = sys::block_signals();
        RUNTIME.make_way(limit);
        sys::restore_signals(mask);
        return true;
    }
    ask(usize::MAX - 1, limit)
}

fn ask(start: usize, end: usize) -> bool {
    if !door::has_keeper() {
        // Nothing was ever evicted.
        return false;
    }
    let mask = sys::block_signals();
    let answered = {
        let _desk = DESK.lock();
        START.store(start, Relaxed);
        END.store(end, Relaxed);
        STATE.store(ASKED, SeqCst);
        wait()
    };
    sys::restore_signals(mask);
    answered
}

fn wait() -> bool {
    let mut patience = Patience::new(PATIENCE);
    loop {
        RUNTIME.threads.keeper.ring();
        match STATE.load(Acquire) {
            DONE => {
                STATE.store(IDLE, Relaxed);
                return true;
            }
            state => {
                let _ = sys::futex_wait(&STATE, state, Some(1_000_000), false);
            }
        }
        // While a fork is under way the keeper evicts nothing, and the fork may wait for locks that the
        // requesting thread holds. A keeper that has ended evicts nothing either, and does not answer.
        let ended = RUNTIME.process.stopped.load(Acquire) || !door::has_keeper();
        let held_up = RUNTIME.threads.keeper_paused.load(SeqCst) || ended;
        if (held_up || patience.is_over()) && STATE.compare_exchange(ASKED, IDLE, AcqRel, Relaxed).is_ok() {
            return held_up;
        }
    }
}

/// Whether there is a request.
#[inline(always)]
pub fn is_asked() -> bool {
    STATE.load(SeqCst) == ASKED
}

/// The keeper calls this between two evictions; `maps` is its open `/proc/self/maps`, and `watch` registers
/// new mappings.
#[inline(always)]
pub fn serve(maps: Fd, watch: impl FnMut()) {
    if is_asked() {
        serve_now(maps, watch);
    }
}

#[cold]
fn serve_now(maps: Fd, mut watch: impl FnMut()) {
    if STATE.compare_exchange(ASKED, SERVING, SeqCst, Relaxed).is_err() {
        return;
    }
    let (start, end) = (START.load(Relaxed), END.load(Relaxed));
    if start == usize::MAX {
        watch();
    } else if start == usize::MAX - 1 {
        RUNTIME.make_way(end);
    } else if start < end && RUNTIME.kernel.has_uffd() {
        RUNTIME.unsplit(maps, start, end);
    }
    STATE.store(DONE, Release);
    sys::futex_wake(&STATE, sys::ALL, false);
}

/// Clears the desk in a forked child.
///
/// # Safety
/// No other thread may exist.
pub unsafe fn after_fork() {
    // SAFETY: the caller upholds the contract; the desk protects nothing but its own use.
    unsafe { DESK.reset_in_child() };
    STATE.store(IDLE, Relaxed);
}

impl Runtime {
    /// See [`unsplit`]; called by the keeper.
    pub fn unsplit(&self, maps: Fd, start: usize, end: usize) {
        let mut buffer = [0u8; 16 << 10];
        // Registering needs the order lock, so that no event is half applied.
        let _order = self.pages.order.lock();
        let _ = maps::for_each(maps, &mut buffer, |mapping| {
            let (from, to) = (mapping.start, mapping.end);
            let own = self.arena.overlaps(from, to) || self.pages.standby.overlaps(from, to);
            let managed = mapping.is_private_anonymous() && !own && to <= crate::kernel::addresses::END;
            if from < end && start < to && managed {
                // The kernel refuses this where the program has registered the mapping with its own
                // userfaultfd; the mapping then stays as it is.
                if self.register(from, to - from).is_ok() {
                    self.forks.keep_out_of_children(from, to);
                }
            }
        });
    }
}
