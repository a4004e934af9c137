//! The identity of the runtime's own threads.
//!
//! To the kernel, each thread has an identity of its own. The C library's `setuid` changes all threads that
//! it knows, but it does not know the runtime's. So after such a call the caller's ids, groups and
//! capabilities are recorded here, and each thread of the runtime adopts them when it wakes. The caller waits
//! for that: when `setuid` returns, no thread has the old identity. (This is not only for tidiness: the
//! kernel makes a process undumpable whenever any thread changes its ids. A late thread would undo a
//! `prctl(PR_SET_DUMPABLE)` of the program.)
//!
//! Invariants:
//! - A thread of the runtime is listed before the function that started it returns, with the generation of
//!   its creator: it has its creator's identity.
//! - `LATE` is the number of listed threads whose generation is not the
//!   newest. It changes under the lock.
//! - Fault handlers never wait for the lock: its holder may be a thread of the program that waits for its own
//!   stack.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use crate::kernel::sys::{self, PAGE, Result, nr};
use crate::memory::lock::{Guard, Lock};
use crate::memory::patience::Patience;
use crate::runtime::RUNTIME;

/// Maximum number of runtime threads.
const THREADS: usize = 64;
/// Linux's maximum number of groups of a process.
const GROUPS: usize = 65_536;
/// How long a call that changes the identity waits for the threads, in ns.
const PATIENCE: u64 = 10_000_000_000;
/// After this time the threads are woken again, in ns.
const CALL_AGAIN: u64 = 2_000_000;

/// An identity.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    /// Real, effective and saved ids.
    uids: [u32; 3],
    gids: [u32; 3],
    capabilities: [Capabilities; 2],
}

/// Half of the capabilities, as `capget` returns them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[derive(Clone, Copy)]
struct Thread {
    /// 0: no thread.
    tid: u32,
    generation: u32,
}

struct State {
    identity: Identity,
    /// Address of the groups, in the runtime's own memory.
    groups: usize,
    group_count: usize,
    /// Number of changes so far.
    generation: u32,
    threads: [Thread; THREADS],
}

const NOBODY: Thread = Thread { tid: 0, generation: 0 };
const NO_CAPABILITIES: Capabilities = Capabilities { effective: 0, permitted: 0, inheritable: 0 };
const UNKNOWN: Identity = Identity { uids: [0; 3], gids: [0; 3], capabilities: [NO_CAPABILITIES; 2] };

static STATE: Lock<State> = Lock::new(State {
    identity: UNKNOWN,
    groups: 0,
    group_count: 0,
    generation: 0,
    threads: [NOBODY; THREADS],
});

/// Whether it was reported that a thread could not follow.
static TOLD: AtomicBool = AtomicBool::new(false);
/// See the module.
static LATE: AtomicU32 = AtomicU32::new(0);

impl State {
    fn find(&mut self, tid: u32) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.tid == tid)
    }

    fn is_late(&mut self, tid: u32) -> bool {
        let newest = self.generation;
        self.find(tid).is_some_and(|thread| thread.generation != newest)
    }

    /// Counts the late threads, and publishes their number.
    fn count_late(&self) {
        let late = self.threads.iter().filter(|t| t.tid != 0 && t.generation != self.generation).count();
        LATE.store(late as u32, Release);
        if late == 0 {
            sys::futex_wake(&LATE, sys::ALL, false);
        }
    }
}

/// Lists a thread of the runtime. Its creator calls this at once, with signals blocked.
pub fn join(tid: u32) {
    sys::touch_stack();
    let mut state = STATE.lock();
    let newest = state.generation;
    let generation = state.find(sys::gettid()).map_or(newest, |creator| creator.generation);
    if let Some(thread) = state.find(0) {
        *thread = Thread { tid, generation };
    }
    state.count_late();
}

/// Number of runtime threads.
pub fn count() -> u64 {
    let mask = sys::block_signals();
    sys::touch_stack();
    forget_dead();
    let count = STATE.lock().threads.iter().filter(|thread| thread.tid != 0).count();
    sys::restore_signals(mask);
    count as u64
}

/// Lists the calling thread, which was not listed when it was made. If the identity has ever changed, the
/// thread adopts it now, since it may have been made just before the change.
pub fn join_late() {
    {
        let mut state = STATE.lock();
        let generation = state.generation.wrapping_sub(u32::from(state.generation != 0));
        if let Some(thread) = state.find(0) {
            *thread = Thread { tid: sys::gettid(), generation };
        }
        state.count_late();
    }
    while is_pending() && STATE.lock().is_late(sys::gettid()) {
        adopt_now();
    }
}

/// Empties the list in a forked child.
///
/// # Safety
/// No other thread may exist.
pub unsafe fn after_fork() {
    // SAFETY: the caller upholds the contract. Data that a thread of the parent was writing are rewritten
    // before they are used.
    unsafe { STATE.reset_in_child() };
    STATE.lock().threads = [NOBODY; THREADS];
    LATE.store(0, Relaxed);
}

/// Whether any thread of the runtime has yet to adopt the new identity.
#[inline(always)]
pub fn is_pending() -> bool {
    LATE.load(Acquire) != 0
}

/// Adopts the program's identity if it has changed. Threads of the runtime call this whenever they wake.
#[inline(always)]
pub fn adopt() {
    if is_pending() {
        adopt_now();
    }
}

#[cold]
fn adopt_now() {
    // The holder of the lock wakes the threads again.
    let Some(mut state) = STATE.try_lock() else { return };
    let tid = sys::gettid();
    let newest = state.generation;
    if state.find(tid).is_none_or(|thread| thread.generation == newest) {
        return;
    }
    take_on(&state);
    if let Some(thread) = state.find(tid) {
        thread.generation = newest;
    }
    state.count_late();
}

/// Gives the calling thread the program's present identity.
fn take_on(state: &Guard<'_, State>) {
    let wanted = &state.identity;
    let mine = identity();
    if mine.uids[1] != 0 && (mine.uids[0] == 0 || mine.uids[2] == 0) {
        // A thread that was root may become root again, which the following calls need.
        let _ = call(nr::SETRESUID, [usize::MAX, 0, usize::MAX]);
    }
    // The program may itself have made kept capabilities effective again (PR_SET_KEEPCAPS).
    set_capabilities(&identity().capabilities.map(|half| Capabilities { effective: half.permitted, ..half }));
    // The kernel refuses this to threads without the right to it; then the program cannot have changed its
    // groups either.
    if state.groups != 0 {
        let _ = call(nr::SETGROUPS, [state.group_count, state.groups, 0]);
    }
    if identity().gids != wanted.gids {
        let _ = call(nr::SETRESGID, wanted.gids.map(|id| id as usize));
    }
    let keep = wanted.capabilities.iter().any(|c| c.permitted != 0);
    if identity().uids != wanted.uids {
        set_keep_capabilities(keep);
        let _ = call(nr::SETRESUID, wanted.uids.map(|id| id as usize));
        set_keep_capabilities(false);
    }
    set_capabilities(&wanted.capabilities);
    let now = identity();
    if (now.uids, now.gids) == (wanted.uids, wanted.gids) {
        return;
    }
    let kept_root = now.uids.contains(&0) && !wanted.uids.contains(&0);
    if kept_root {
        RUNTIME.fail("a thread of memfold could not give up root together with the program");
    }
    if !TOLD.swap(true, Relaxed) {
        RUNTIME.say("it has changed its user or groups, and a thread of memfold could not follow and keeps the old ones; memfold continues");
    }
}

/// Records the present identity of the calling thread, a thread of the program, and waits until all threads
/// of the runtime have it.
pub fn publish() {
    let mask = sys::block_signals();
    // Handlers may wait for the list.
    sys::touch_stack();
    forget_dead();
    {
        let state = &mut STATE.lock();
        state.identity = identity();
        if state.groups == 0 {
            state.groups = RUNTIME.arena.reserve(GROUPS * 4, PAGE).map_or(0, |place| place as usize);
        }
        if state.groups != 0 {
            state.group_count = call(nr::GETGROUPS, [GROUPS, state.groups, 0]).unwrap_or(0);
        }
        state.generation = state.generation.wrapping_add(1);
        state.count_late();
    }
    wait_for_all();
    sys::restore_signals(mask);
}

fn wait_for_all() {
    let mut patience = Patience::new(PATIENCE);
    loop {
        let late = LATE.load(Acquire);
        if late == 0 {
            return;
        }
        RUNTIME.reclaim.work.ring();
        RUNTIME.reclaim.room.ring();
        RUNTIME.spill.asked.ring();
        RUNTIME.wake_handlers();
        let _ = sys::futex_wait(&LATE, late, Some(CALL_AGAIN), false);
        let is_over = patience.is_over();
        if patience.waited() > 5 * CALL_AGAIN {
            forget_dead();
        }
        if is_over {
            RUNTIME.say("a thread of memfold is late to take on the program's new identity");
            return;
        }
    }
}

/// Removes threads that have ended from the list.
fn forget_dead() {
    let mut state = STATE.lock();
    let pid = RUNTIME.process.pid.load(Relaxed);
    for thread in &mut state.threads {
        if thread.tid != 0 && !sys::thread_exists(pid, thread.tid) {
            *thread = NOBODY;
        }
    }
    state.count_late();
}

fn call(number: usize, a: [usize; 3]) -> Result<usize> {
    // SAFETY: these calls change the calling thread's identity, or write to the live places they are given.
    unsafe { sys::syscall(number, [a[0], a[1], a[2], 0, 0, 0]) }
}

/// The calling thread's identity.
fn identity() -> Identity {
    let mut found = UNKNOWN;
    let places = |ids: &mut [u32; 3]| {
        let [real, effective, saved] = ids;
        [real, effective, saved].map(|id| &raw mut *id as usize)
    };
    let _ = call(nr::GETRESUID, places(&mut found.uids));
    let _ = call(nr::GETRESGID, places(&mut found.gids));
    let mut header = CAPABILITY_HEADER;
    let _ = call(nr::CAPGET, [&raw mut header as usize, found.capabilities.as_mut_ptr() as usize, 0]);
    found
}

fn set_capabilities(wanted: &[Capabilities; 2]) {
    let mut header = CAPABILITY_HEADER;
    // This is refused only if it asks for more than this thread may have: giving up capabilities is always
    // allowed.
    let _ = call(nr::CAPSET, [&raw mut header as usize, wanted.as_ptr() as usize, 0]);
}

fn set_keep_capabilities(keep: bool) {
    const PR_SET_KEEPCAPS: usize = 8;
    let _ = call(nr::PRCTL, [PR_SET_KEEPCAPS, usize::from(keep), 0]);
}

/// Version 3 of the interface, and the calling thread.
const CAPABILITY_HEADER: [u32; 2] = [0x2008_0522, 0];
