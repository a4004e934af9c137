//! Making room: when something is done, which pages go, and what they become.

pub mod compress;
pub mod copies;
pub mod dense;
pub mod evict;
pub mod hope;
pub mod incompressible;
pub mod pins;
pub mod turns;
pub mod watch;
pub mod worker;

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::memory::bell::Bell;

/// What the keeper has decided, and what compressors and those that wait for room go by.
pub struct Reclaim {
    /// Bytes that this process must still make free; see `watch`.
    pub debt: AtomicI64,
    /// Bytes that the debt may grow to before faults wait.
    pub margin: AtomicI64,
    /// Times that memory was given back.
    pub given_back: AtomicU32,
    /// The last number of `given_back` after which a wait was in vain.
    pub vain: AtomicU32,
    /// The limit is near: who gets much memory at once tells the keeper.
    pub watches_growth: AtomicBool,
    /// What was got since the keeper has last looked, bytes.
    pub unseen_growth: AtomicUsize,
    /// Bytes of large requests since the keeper's last look.
    pub much: AtomicUsize,
    /// No more can be evicted, but what is compressed can be made denser:
    /// growth waits for that.
    pub squeeze: AtomicBool,
    /// All that can be evicted was, again and again, and the limit is passed by far all the same.
    pub hopeless: AtomicBool,
    /// Nothing is left that could be evicted.
    pub exhausted: AtomicBool,
    /// Compressors sleep here.
    pub work: Bell,
    /// Handlers that wait for room sleep here.
    pub room: Bell,
    /// Slots on standby that the keeper tries to hold.
    pub standby_goal: AtomicUsize,
    /// What is on standby for so long is compressed although there is room, ns; `u64::MAX`: it is not.
    pub idle_ns: AtomicU64,
    /// The program hardly runs, and what is compressed may be made denser.
    pub leisure: AtomicBool,
    /// So long threads may still wait for what was taken away although there was room, ns; `i64::MAX`: nothing was.
    pub patience_ns: AtomicI64,
    /// Where the dense tier looks next.
    pub dense_at: AtomicUsize,
    /// Some more room would spare many faults: see `dense.rs`.
    pub room_pays: AtomicBool,
    /// There may be blocks with pages of the fast tier.
    pub fast_left: AtomicBool,
    /// Copies of shared pages that were let be made, bytes: see `copies.rs`.
    pub copied: AtomicU64,
    /// This process is not to be evicted: see `turns.rs`.
    pub keeps_all: AtomicBool,
    /// Threads that need memory wait until it is this process's turn: see `turns.rs`.
    pub waits_its_turn: AtomicBool,
    /// No other process of the tree is large.
    pub alone: AtomicBool,
    /// Until then the compressor leaves an idle CPU idle.
    pub sleep_until_ns: AtomicU64,
    /// A compressor sleeps that could stay awake for that: see `stay_awake`.
    pub sleeps: AtomicBool,
    /// The process may use two CPUs, and no more.
    pub two_cpus: AtomicBool,
    /// The process may use several CPUs: one of them may be kept awake for a while.
    pub may_keep_awake: AtomicBool,
}

impl Reclaim {
    /// As it is when a process begins.
    pub const fn new() -> Self {
        Reclaim {
            debt: AtomicI64::new(0),
            margin: AtomicI64::new(0),
            given_back: AtomicU32::new(0),
            vain: AtomicU32::new(u32::MAX),
            watches_growth: AtomicBool::new(false),
            unseen_growth: AtomicUsize::new(0),
            much: AtomicUsize::new(0),
            squeeze: AtomicBool::new(false),
            hopeless: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
            work: Bell::new(),
            room: Bell::new(),
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
            alone: AtomicBool::new(false),
            sleep_until_ns: AtomicU64::new(0),
            sleeps: AtomicBool::new(false),
            two_cpus: AtomicBool::new(false),
            may_keep_awake: AtomicBool::new(false),
        }
    }

    /// Whether more may come back than was asked for: threads have waited too long, and room is not what is missing.
    pub fn is_in_a_hurry(&self) -> bool {
        self.patience_ns.load(Relaxed) < 0 && self.debt.load(Relaxed) < -self.margin.load(Relaxed)
    }

    /// Whether much more must be made free than what faults wait for.
    pub fn is_far_over(&self) -> bool {
        self.debt.load(Relaxed) > 2 * self.margin.load(Relaxed)
    }

    /// Moves the debt and wakes who waits for its change.
    pub fn change_debt(&self, bytes: i64) {
        let before = self.debt.fetch_add(bytes, AcqRel);
        let after = before + bytes;
        let margin = self.margin.load(Relaxed);
        // One compressor begins, the others help later.
        if before <= 0 && after > 0 || before <= margin / 2 && after > margin / 2 {
            self.work.ring();
        }
        if before > margin && after <= margin {
            self.room.ring();
        }
    }

    /// In a forked child: it owes nothing, and nothing is known of what it can give.
    pub fn after_fork(&self) {
        self.debt.store(0, Relaxed);
        for said in [&self.exhausted, &self.hopeless, &self.squeeze, &self.keeps_all, &self.waits_its_turn] {
            said.store(false, Relaxed);
        }
    }
}
