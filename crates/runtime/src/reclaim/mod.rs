//! Making room: when to act, which pages to evict, and what becomes of them.

pub mod compress;
pub mod copies;
pub mod dense;
pub mod evict;
pub mod hope;
pub mod incompressible;
pub mod others;
pub mod pins;
pub mod turns;
pub mod watch;
pub mod worker;

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::memory::bell::EventCount;

/// Decisions of the keeper, which compressors and threads that wait for room follow.
pub struct Reclaim {
    /// Bytes that this process must still free; see `watch`.
    pub debt: AtomicI64,
    /// How far the debt may grow before faults wait, in bytes.
    pub margin: AtomicI64,
    /// How many times memory was freed.
    pub given_back: AtomicU32,
    /// The value of `given_back` at which a wait was last in vain.
    pub vain: AtomicU32,
    /// The limit is near: a thread that gets much memory at once tells the keeper.
    pub watches_growth: AtomicBool,
    /// The limit might be exceeded before the keeper looks again: threads count the memory that they get in
    /// small pieces.
    pub counts_growth: AtomicBool,
    /// Memory obtained since the keeper's last look, in bytes.
    pub unseen_growth: AtomicUsize,
    /// When the keeper means to have looked again; 0 if it has not looked yet. While it is late, threads add
    /// the memory that they get to the debt themselves.
    pub due_ns: AtomicU64,
    /// Bytes of large requests since the keeper's last look.
    pub much: AtomicUsize,
    /// No more can be evicted, but stored pages can be made denser: growth waits for that.
    pub squeeze: AtomicBool,
    /// All that can be evicted was, again and again, and the limit is still far exceeded.
    pub hopeless: AtomicBool,
    /// While the debt is at most this, waiting for room is in vain: nothing was left to evict when the keeper
    /// looked. If the debt grows further, there is new memory to evict, and threads wait until the keeper has
    /// looked at it. `i64::MIN`: waiting is not in vain. `i64::MAX`: it is, whatever comes.
    pub unpayable: AtomicI64,
    /// A wait ended because no memory had been freed for long: what `given_back` was then. `u64::MAX`: none has.
    pub despaired: AtomicU64,
    /// Compressors sleep here.
    pub work: EventCount,
    /// Handlers that wait for room sleep here.
    pub room: EventCount,
    /// Number of slots that the keeper tries to have on standby.
    pub standby_goal: AtomicUsize,
    /// Pages that are on standby for this long are compressed although there is room, in ns; `u64::MAX`: they
    /// are not.
    pub idle_ns: AtomicU64,
    /// The program hardly runs, so stored pages may be made denser.
    pub leisure: AtomicBool,
    /// How long threads may still wait for pages that were evicted although there was room, in ns;
    /// `i64::MAX`: none were.
    pub patience_ns: AtomicI64,
    /// The address at which the dense tier looks next.
    pub dense_at: AtomicUsize,
    /// A little more room would avoid many faults: see `dense.rs`.
    pub room_pays: AtomicBool,
    /// There may be blocks with pages of the fast tier.
    pub fast_left: AtomicBool,
    /// Bytes of shared pages whose copies were allowed: see `copies.rs`.
    pub copied: AtomicU64,
    /// This process is not to be evicted: see `turns.rs`.
    pub keeps_all: AtomicBool,
    /// Threads that need memory wait until it is this process's turn: see `turns.rs`.
    pub waits_its_turn: AtomicBool,
    /// Fresh memory waits until others have given some back: see `others.rs`.
    pub waits_for_others: AtomicBool,
    /// No other process of the tree is large.
    pub alone: AtomicBool,
    /// Until this time the compressor leaves an idle CPU idle.
    pub sleep_until_ns: AtomicU64,
    /// A compressor is asleep that could be woken to stay awake: see `stay_awake`.
    pub sleeps: AtomicBool,
    /// The process may use exactly two CPUs.
    pub two_cpus: AtomicBool,
    /// The process may use several CPUs: one of them may be kept awake for a while.
    pub may_keep_awake: AtomicBool,
}

impl Reclaim {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Reclaim {
            debt: AtomicI64::new(0),
            margin: AtomicI64::new(0),
            given_back: AtomicU32::new(0),
            vain: AtomicU32::new(u32::MAX),
            watches_growth: AtomicBool::new(false),
            counts_growth: AtomicBool::new(false),
            unseen_growth: AtomicUsize::new(0),
            due_ns: AtomicU64::new(0),
            much: AtomicUsize::new(0),
            squeeze: AtomicBool::new(false),
            hopeless: AtomicBool::new(false),
            unpayable: AtomicI64::new(i64::MIN),
            despaired: AtomicU64::new(u64::MAX),
            work: EventCount::new(),
            room: EventCount::new(),
            standby_goal: AtomicUsize::new(0),
            idle_ns: AtomicU64::new(u64::MAX),
            leisure: AtomicBool::new(false),
            patience_ns: AtomicI64::new(i64::MAX),
            dense_at: AtomicUsize::new(0),
            room_pays: AtomicBool::new(false),
            fast_left: AtomicBool::new(false),
            copied: AtomicU64::new(0),
            keeps_all: AtomicBool::new(false),
            waits_its_turn: AtomicBool::new(false),
            waits_for_others: AtomicBool::new(false),
            alone: AtomicBool::new(false),
            sleep_until_ns: AtomicU64::new(0),
            sleeps: AtomicBool::new(false),
            two_cpus: AtomicBool::new(false),
            may_keep_awake: AtomicBool::new(false),
        }
    }

    /// Whether more may be restored than was touched: threads have waited too long, and there is enough room.
    pub fn is_in_a_hurry(&self) -> bool {
        self.patience_ns.load(Relaxed) < 0 && self.debt.load(Relaxed) < -self.margin.load(Relaxed)
    }

    /// Whether much more must be freed than the debt at which faults begin to wait.
    pub fn is_far_over(&self) -> bool {
        self.debt.load(Relaxed) > 2 * self.margin.load(Relaxed)
    }

    /// Whether waiting for room is in vain at the present debt.
    pub fn is_exhausted(&self) -> bool {
        self.debt.load(Relaxed) <= self.unpayable.load(Relaxed)
    }

    /// Sets `unpayable`, and wakes the threads that need not wait any more.
    pub fn set_unpayable(&self, bytes: i64) {
        let before = self.is_exhausted();
        self.unpayable.store(bytes, Relaxed);
        if !before && self.is_exhausted() {
            self.room.ring();
        }
    }

    /// Changes the debt and wakes the threads that wait for its change.
    pub fn change_debt(&self, bytes: i64) {
        let before = self.debt.fetch_add(bytes, AcqRel);
        let after = before + bytes;
        let margin = self.margin.load(Relaxed);
        // One compressor begins; the others help later.
        if before <= 0 && after > 0 || before <= margin / 2 && after > margin / 2 {
            self.work.ring();
        }
        if before > margin && after <= margin {
            self.room.ring();
        }
    }

    /// Whether fresh memory waits whatever the debt is.
    pub fn growth_waits(&self) -> bool {
        self.squeeze.load(Relaxed) || self.waits_for_others.load(Relaxed)
    }

    /// Sleeps until `room` is rung after `seen`, or for some milliseconds.
    pub fn sleep_for_room(&self, seen: u32) {
        // Many small processes may wait for a large one, which needs the CPU more than they do.
        self.room.wait(seen, if self.waits_for_others.load(Relaxed) { 5_000_000 } else { 1_000_000 });
    }

    /// Forgets all decisions about waits.
    pub fn end_waits(&self) {
        for said in
            [&self.hopeless, &self.squeeze, &self.keeps_all, &self.waits_its_turn, &self.waits_for_others]
        {
            said.store(false, Relaxed);
        }
    }

    /// In a forked child: it owes nothing, and it is not known yet what it can give back.
    pub fn after_fork(&self) {
        self.debt.store(0, Relaxed);
        self.due_ns.store(0, Relaxed);
        self.unpayable.store(i64::MIN, Relaxed);
        self.end_waits();
    }
}
