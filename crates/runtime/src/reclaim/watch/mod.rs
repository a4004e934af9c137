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

use core::sync::atomic::Ordering::*;

use ahead::Ahead;
use memfold_shared::near::{self, FASTEST_LOOK, QUIET, QUIET_LOOK, QUIET_LOOKS, SLOWEST_LOOK};
use memfold_shared::page::{self, state};
use proactive::Proactive;
#[cfg(feature = "preload")]
pub use retire::with_tasks_back;
use samples::Samples;
use spare::Spare;

use crate::interpose::desk;
use crate::interpose::rights::credentials;
use crate::kernel::maps;
use crate::kernel::mounts::Mounts;
use crate::kernel::pagemap::Pagemap;
use crate::kernel::procfs;
use crate::kernel::sched;
use crate::kernel::sys::{self, Fd, PAGE, Result};
use crate::memory::patience::Patience;
use crate::process::door;
use crate::process::thread::{self};
use crate::runtime::{RUNTIME, Runtime};
use crate::spill::{self};

/// Maximum number of mappings to look at.
pub const CANDIDATES: usize = 65_536;
/// How often to count what the store holds, which takes longer than a tick should, ns.
const PUBLISH_NS: u64 = 10_000_000;
/// New mappings are registered when less room than this is left, bytes.
const WATCH_ROOM: u64 = 24 << 20;
/// Maximum number of processes for which room to grow is reserved.
const GROWING: usize = 4;
/// After a round in vain, growth by this fraction of the incompressible pages is worth another: rounds go
/// over all of them.
const SEARCHED: u64 = 32;
/// A limit counts as held when it is exceeded by at most 5 % and this.
const TOLERANCE: u64 = 8 << 20;
/// How long it may be exceeded by more before the process is ended, if it is to be ended.
const FULL_NS: u64 = 500_000_000;
/// Number of touched pages between two decisions on what room is worth, and the fraction of them that must
/// have been on standby.
const JUDGED: u64 = 1024;
const PAYS: u64 = 32;

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
    /// The resident size when new mappings were last registered, bytes.
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
    /// When the supervisor was last looked for.
    server_seen_ns: u64,
    /// Bytes evicted in this round, and when it began.
    round_bytes: u64,
    round_ns: u64,
    /// The hand skips most blocks, by chance: see `hand.rs`. And how many it skipped in this round.
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
    /// The last round evicted next to nothing; when to begin another.
    fruitless: bool,
    next_round_ns: u64,
    /// The value of `takable` at that time, bytes.
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
    quiet_ticks: u32,
    /// The number of the second compressor, 0 if there is to be none; and the time before which it is not
    /// started.
    helper: usize,
    no_helper_ns: u64,
    /// Since when the process could do without threads.
    far_ns: u64,
}

/// Entry of the keeper thread.
pub extern "C" fn keeper(_: usize) -> ! {
    // The table was copied from the creator: no descriptor in it is ours. Neither is its directory, whose
    // mount may have to be unmounted.
    sys::close_all();
    // This one first, so that it gets the lowest number.
    RUNTIME.forks.gate.keep_spare();
    sys::leave_directory();
    // From here on the supervisor leaves the process to this thread.
    RUNTIME.slot().keeper.store(1, Release);
    RUNTIME.slot().call.store(page::call::FAR, Relaxed);
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
    /// All of these show the keeper's own view: the view of the process is empty once its first thread has
    /// ended.
    fn new(candidates: &'static mut [(usize, usize)]) -> Result<Self> {
        Ok(ReclaimThread {
            runtime: &RUNTIME,
            // This is opened before other files: see `procfs.rs`.
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

    /// Looks at how much is resident. Returns how long to sleep, ns.
    fn tick(&mut self) -> u64 {
        let runtime = self.runtime;
        let (shared, slot) = (runtime.shared(), runtime.slot());
        let Ok(mut pages) = maps::anonymous_pages(self.statm) else { return SLOWEST_LOOK };
        if pages == 0
            && let Ok(other) = procfs::open_statm()
        {
            sys::close(core::mem::replace(&mut self.statm, other));
            pages = maps::anonymous_pages(other).unwrap_or(0);
        }
        let own = pages * PAGE as u64;
        slot.resident.store(own, Relaxed);
        runtime.reclaim.much.store(0, Relaxed);
        slot.tasks.store(
            1 + runtime.threads.handlers.load(Relaxed) + runtime.threads.compressors.load(Relaxed),
            Relaxed,
        );
        let now = sys::now_ns();
        if now - self.published_ns > PUBLISH_NS {
            self.published_ns = now;
            if runtime.stored.has_store() {
                self.publish();
            }
            shared.note_peaks();
            runtime.check_limits();
        }
        if now - self.server_seen_ns > spill::LOOK_NS {
            self.server_seen_ns = now;
            runtime.look_for_server();
        }
        let limit = shared.limit_bytes.load(Relaxed).min(page::LARGEST_LIMIT);
        let margin = (limit / 64).clamp(1 << 20, 8 << 20);
        let tree = shared.tree_resident();
        let paranoid = shared.flags.load(Relaxed) & page::flags::PARANOID != 0;
        // Each growing process may exceed the goal by a margin before it waits.
        let sharers = shared.larger_than(limit / 16).max(1);
        let headroom = margin * sharers.min(GROWING) as u64;
        runtime.reclaim.alone.store(sharers == 1, Relaxed);
        let over = if paranoid { own as i64 / 2 } else { tree as i64 - (limit - headroom.min(limit)) as i64 };
        let paging = runtime.is_paging();
        let early = near::start_room(self.cpus) as i64;
        let proactive = proactive::is_wanted(shared) && own > near::SMALLEST_PROACTIVE;
        let wanted = proactive || runtime.process.paging_wanted.load(Relaxed);
        let could_copy = runtime.forks.has_forked.load(Relaxed) && shared.copies_could_exceed();
        if (over > -early || wanted || could_copy) && !paging {
            self.start_paging();
        }
        if paging {
            runtime.look_for_turns(tree, over, limit, if paranoid { 0 } else { self.cpus });
            self.look_ahead_of_need(now, own, tree);
            self.look_at_spare(own, limit);
            let spare = self.spare.at_most();
            let share = if over > 0 && tree > 0 && !paranoid {
                (over as i128 * i128::from(own) / i128::from(tree)) as i64
            } else if paranoid {
                over
            } else {
                // Room is for all processes: on a busy machine it may be long until this keeper looks again.
                over / sharers as i64
            };
            // There are new pages to evict.
            let more = (margin / 4).max(self.spare.kept() / SEARCHED);
            if self.fruitless && self.takable() > self.fruitless_takable + more {
                self.fruitless = false;
                self.next_round_ns = 0;
            }
            let full = share > spare || self.fruitless && runtime.pages.standby.is_empty();
            if self.fruitless {
                self.publish_if_nothing();
            }
            // A few pages of the fast tier are not worth waiting for: where little compresses there are
            // always some.
            let is_worth = slot.payload.load(Relaxed) > margin;
            let can_shrink = runtime.can_densify() && is_worth || runtime.can_spill();
            let squeeze = full && !paranoid && share > margin as i64 && can_shrink;
            if squeeze && !runtime.reclaim.squeeze.load(Relaxed) {
                runtime.reclaim.work.ring();
            }
            runtime.reclaim.squeeze.store(squeeze, Relaxed);
            // While there are pages to spill or to densify, waiting for room is not in vain. This must hold
            // between two looks, too, or a millisecond's growth slips through.
            let nothing_left = self.fruitless && runtime.pages.standby.is_empty();
            // It is not in vain, either, while no thread has to wait: a thread that grows afterwards would
            // take this for an answer.
            let waited_for = share > margin as i64 || runtime.reclaim.waits_its_turn.load(Relaxed);
            let in_vain = nothing_left && !can_shrink && waited_for;
            let exhausted = paranoid || runtime.stored.full.load(Relaxed) || in_vain;
            let passed = tree > limit + limit / 20 + TOLERANCE;
            if full && passed && !paranoid {
                slot.counters.full_looks.fetch_add(1, Relaxed);
            }
            self.end_if_full(full && passed && !squeeze && !paranoid);
            if runtime.reclaim.exhausted.swap(exhausted, Relaxed) != exhausted {
                runtime.reclaim.room.ring();
            }
            // A process that has its turn owes nothing.
            let turn =
                runtime.reclaim.keeps_all.load(Relaxed) && !runtime.reclaim.waits_its_turn.load(Relaxed);
            let share = self.spare.owed(if turn { share.min(0) } else { share }, can_shrink);
            runtime.reclaim.margin.store(margin as i64, Relaxed);
            let before = runtime.reclaim.debt.load(Acquire);
            runtime.reclaim.change_debt(share - before);
            if share <= margin as i64 {
                self.hopeless_rounds = 0;
                runtime.reclaim.hopeless.store(false, Relaxed);
            }
            self.call_helper(now);
            // Faults on registered memory are slower than faults on fresh memory, so it is registered only
            // when needed.
            let near = over > -(room(limit) as i64);
            runtime.reclaim.watches_growth.store(near, Relaxed);
            // Listing the mappings takes a while. With more room left it may wait for more growth.
            let grown = own > self.watched_resident + margin / 2 + (-over).max(0) as u64 / 8;
            if near && grown && !turn && now - self.listed_ns > FASTEST_LOOK {
                self.watch_growth();
            }
            // Writes to shared pages, which would not be reported, could exceed the limit.
            if could_copy && self.unprotected && now > self.protect_ns {
                self.protect_shared();
            }
        }
        let quiet = over <= 0 && tree.abs_diff(self.tree_before) < QUIET;
        self.tree_before = tree;
        self.quiet_ticks = if quiet { self.quiet_ticks.saturating_add(1) } else { 0 };
        let fastest = if self.quiet_ticks > QUIET_LOOKS { QUIET_LOOK } else { FASTEST_LOOK };
        near::next_look((-over).max(0) as u64, self.cpus, fastest)
    }

    /// A value that grows with the pages that can be evicted: pages of its own that the process has obtained,
    /// by whatever means, bytes.
    fn takable(&self) -> u64 {
        self.runtime.slot().resident.load(Relaxed) + self.runtime.reclaim.copied.load(Relaxed)
    }

    /// Ends the process if it is to be ended when its data do not compress enough. `full`: the limit is
    /// exceeded and the process cannot free its share.
    fn end_if_full(&mut self, full: bool) {
        let runtime = self.runtime;
        if !full || runtime.shared().on_full.load(Relaxed) != page::on_full::KILL {
            self.full = None;
        } else if self.full.get_or_insert_with(|| Patience::new(FULL_NS)).is_over() {
            runtime.fail(
                "the data do not compress enough for the limit: the process is terminated (--on-full kill). Give it a higher \
                 limit, or let it grow (--on-full grow).",
            );
        }
    }

    /// A gauge decides that nothing is compressed, and so nothing can be spilled: if it was written before
    /// the first block was compressed, it would let growth exceed the limit.
    fn publish_if_nothing(&mut self) {
        if self.runtime.slot().payload.load(Relaxed) == 0 && self.runtime.stored.has_store() {
            self.publish();
        }
    }

    /// Writes the gauges of this process.
    fn publish(&mut self) {
        let (runtime, slot) = (self.runtime, self.runtime.slot());
        let stats = runtime.store().store().stats();
        let zeros = runtime.pages.zero_pages.load(Relaxed).max(0) as u64;
        slot.evicted.store((stats.blobs + zeros) * PAGE as u64, Relaxed);
        slot.spilled.store(runtime.spill.pages.load(Relaxed).max(0) as u64 * PAGE as u64, Relaxed);
        slot.payload.store(stats.payload_bytes, Relaxed);
        slot.overhead.store(stats.overhead_bytes(), Relaxed);
        slot.standby.store(runtime.pages.standby.pages.load(Relaxed) * PAGE as u64, Relaxed);
        let (rescued, faulted) =
            (slot.counters.pages_rescued.load(Relaxed), slot.counters.pages_faulted.load(Relaxed));
        let new = (rescued.saturating_sub(self.judged.0), faulted.saturating_sub(self.judged.1));
        if new.0 + new.1 >= JUDGED {
            self.judged = (rescued, faulted);
            runtime.reclaim.room_pays.store(new.0 * PAYS >= new.0 + new.1, Relaxed);
        }
    }
}
