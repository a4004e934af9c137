//! The keeper: one thread in a process that is large enough and whose limit is near (`begin.rs`). It watches
//! how much is resident, starts paging, and evicts blocks (`hand.rs`).
//!
//! `debt` is the number of bytes that the process must still free; it may be negative. Each tick sets it anew
//! from the resident size that the kernel reports. Between two ticks, a thread that restores a page raises
//! it, and a thread that frees memory lowers it. Compressors work while it is positive; faults wait while it
//! exceeds `margin`.

mod ahead;
mod hand;
mod paging;
mod proactive;
mod retire;
mod samples;
mod spare;
mod tick;

use core::sync::atomic::Ordering::*;

use ahead::Ahead;
use memfold_shared::page::state;
use proactive::Proactive;
#[cfg(feature = "preload")]
pub use retire::with_tasks_back;
use samples::Samples;
use spare::Spare;

use crate::interpose::desk;
use crate::interpose::rights::credentials;
use crate::kernel::mounts::Mounts;
use crate::kernel::pagemap::Pagemap;
use crate::kernel::procfs;
use crate::kernel::sched;
use crate::kernel::sys::{self, Fd, Result};
use crate::memory::patience::Patience;
use crate::process::door;
use crate::process::thread::{self};
use crate::runtime::{RUNTIME, Runtime};

/// Maximum number of mappings to look at.
pub const CANDIDATES: usize = 65_536;
/// New mappings are registered when less room than this is left, in bytes.
const WATCH_ROOM: u64 = 24 << 20;
/// With less room than this below a limit of `limit` bytes, new mappings are registered at once.
pub fn room(limit: u64) -> u64 {
    WATCH_ROOM.min(limit / 2)
}

/// The keeper thread's own data.
struct ReclaimThread {
    runtime: &'static Runtime,
    statm: Fd,
    maps: Fd,
    pagemap: Pagemap,
    cpus: u64,
    candidates: &'static mut [(usize, usize)],
    pub count: usize,
    /// The resident size when new mappings were last registered, in bytes.
    watched_resident: u64,
    /// After a fork: some shared pages are not protected yet. `protect_ns`: the earliest time to protect
    /// them.
    unprotected: bool,
    protect_ns: u64,
    /// The position of the clock hand: mapping and address.
    at: (usize, usize),
    ahead: Ahead,
    proactive: Proactive,
    samples: Samples,
    spare: Spare,
    listed_ns: u64,
    published_ns: u64,
    /// By how much looks have been late recently, in ns.
    late_ns: u64,
    /// When this thread looked last, and when it should be back.
    looked_ns: u64,
    back_ns: u64,
    /// When the supervisor was last looked for.
    server_seen_ns: u64,
    /// Bytes evicted in this round, and when it began.
    round_bytes: u64,
    round_ns: u64,
    /// Whether the hand skips most blocks, by chance (see `hand.rs`); and how many it skipped in this round.
    choosy: bool,
    round_passed: u32,
    random: u64,
    /// Number of blocks skipped in this round because they are in use.
    round_rested: u32,
    /// Number of consecutive rounds after which the limit was far exceeded.
    hopeless_rounds: u32,
    /// The hand also evicts ranges with very few present pages.
    few_too: bool,
    /// The hand also evicts pages that other processes share.
    shared_too: bool,
    /// Whether the last round evicted next to nothing; and when to begin another.
    fruitless: bool,
    next_round_ns: u64,
    /// The value of `takable` after that round, in bytes.
    fruitless_takable: u64,
    /// When descriptors were last looked at.
    pins_ns: u64,
    mounts: Mounts,
    told: bool,
    /// It was reported that the process has too many mappings.
    told_left_out: bool,
    /// Pages found on standby and in the store at the last decision on what room is worth.
    judged: (u64, u64),
    /// How much longer the limit's tolerance may be exceeded, if it is.
    full: Option<Patience>,
    /// The tree's resident memory at the last tick, bytes, and for how many ticks it has been the same.
    tree_before: u64,
    own_before: u64,
    quiet_ticks: u32,
    /// The number of the second compressor, 0 if there must be none; and the time before which it is not
    /// started.
    helper: usize,
    no_helper_ns: u64,
    /// Since when the process could do without threads.
    far_ns: u64,
}

/// Entry of the keeper thread.
pub extern "C" fn keeper(_: usize) -> ! {
    // The descriptor table was copied from the creator: no descriptor in it is ours. Nor is the working
    // directory, whose mount the program may want to unmount.
    sys::close_all();
    // The spare descriptor comes first, so that it gets the lowest number.
    RUNTIME.forks.gate.keep_spare();
    sys::leave_directory();
    // From now on this thread watches the process instead of the supervisor. It leaves `call` as it is until its
    // first look, so that threads that get memory meanwhile wait.
    RUNTIME.slot().keeper.store(1, Release);
    RUNTIME.reclaim.due_ns.store(0, Relaxed);
    if RUNTIME.prepare_keeper().is_err() {
        RUNTIME.fail("no memory is left for the thread that watches this process");
    }
    let place = RUNTIME.threads.keeper_memory.load(Relaxed) as *mut (usize, usize);
    // SAFETY: memory of the arena, made for the one keeper of this process; pairs of numbers may be zero.
    let candidates = unsafe { core::slice::from_raw_parts_mut(place, CANDIDATES) };
    match ReclaimThread::new(candidates) {
        Ok(mut keeper) => {
            RUNTIME.kernel.pagemap.store(keeper.pagemap.fd().0, Relaxed);
            // This comes before the forking thread goes on: it may fork again at once, and must wait for this
            // thread.
            RUNTIME.threads.stoppable.fetch_add(1, AcqRel);
            if RUNTIME.forks.inherits.swap(false, AcqRel) {
                keeper.take_up();
            }
            keeper.run()
        }
        Err(_) => {
            RUNTIME.process.set_state(state::STOPPED);
            RUNTIME.process.stopped.store(true, Release);
            RUNTIME.reclaim.room.ring();
            RUNTIME.say("can't read /proc: this process is not managed");
            RUNTIME.tell_child(2);
            door::let_go();
            thread::exit()
        }
    }
}

impl ReclaimThread {
    /// Opens the files in the view that `open_statm` chooses: the view of the process is empty once its first
    /// thread has ended.
    fn new(candidates: &'static mut [(usize, usize)]) -> Result<Self> {
        Ok(ReclaimThread {
            runtime: &RUNTIME,
            // This is opened before the other files: see `procfs.rs`.
            statm: procfs::open_statm()?,
            maps: procfs::open("maps")?,
            pagemap: Pagemap::open()?,
            cpus: sched::allowed_cpus().iter().map(|w| u64::from(w.count_ones())).sum(),
            candidates,
            count: 0,
            watched_resident: 0,
            unprotected: RUNTIME.forks.has_forked.load(Relaxed),
            protect_ns: 0,
            at: (0, 0),
            ahead: Ahead::new(),
            proactive: Proactive::new(),
            samples: Samples::new(),
            spare: Spare::default(),
            listed_ns: 0,
            published_ns: 0,
            late_ns: 0,
            looked_ns: 0,
            back_ns: 0,
            server_seen_ns: 0,
            round_bytes: 0,
            round_ns: sys::now_ns(),
            choosy: true,
            round_passed: 0,
            random: sys::now_ns() | 1,
            round_rested: 0,
            hopeless_rounds: 0,
            few_too: false,
            shared_too: false,
            fruitless: false,
            next_round_ns: 0,
            fruitless_takable: 0,
            pins_ns: 0,
            mounts: Mounts::open(),
            told: false,
            told_left_out: false,
            judged: (0, 0),
            full: None,
            tree_before: 0,
            own_before: 0,
            quiet_ticks: 0,
            helper: 0,
            no_helper_ns: 0,
            far_ns: sys::now_ns(),
        })
    }

    fn run(&mut self) -> ! {
        let runtime = self.runtime;
        let mut cpu = 0;
        loop {
            if runtime.pause_unmarked(self.maps) {
                self.unprotected = true;
            }
            if runtime.process.stop_wanted.load(Acquire) {
                // A child made meanwhile would inherit pages on their way back.
                if let Some(no_fork) = runtime.process.life.try_lock() {
                    runtime.threads.stoppable.fetch_sub(1, AcqRel);
                    runtime.stop_now(self.maps, runtime.is_paging());
                    drop(no_fork);
                    door::let_go();
                    thread::exit();
                }
            }
            let seen = runtime.threads.keeper.now();
            credentials::adopt();
            desk::serve(self.maps, || self.watch_growth());
            let wait = self.tick();
            self.be_back_in(wait);
            door::let_go();
            let gives_way = self.retire_if_far();
            let paging = runtime.is_paging();
            if runtime.faults.wake_wanted.swap(false, AcqRel) {
                runtime.faults.follow.call_all();
            }
            let more = paging && !gives_way && self.stage();
            if !more {
                let now = sys::thread_cpu_ns();
                runtime.slot().counters.runtime_cpu_ns.fetch_add(now - cpu, Relaxed);
                cpu = now;
                runtime.threads.keeper.wait(seen, wait);
            }
        }
    }
}
