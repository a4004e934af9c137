//! One process of the tree, as described by itself and the supervisor.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::Counters;

/// The supervisor's signals to a process that it watches from outside: [`Slot::call`].
pub mod call {
    /// The tree is far from its limit, or the process is too small to matter.
    pub const FAR: u32 = 0;
    /// The tree is near its limit: a thread that gets memory that would make the process large enough to
    /// matter starts its keeper.
    pub const NEAR: u32 = 1;
    /// A thread that calls any function of the library starts the keeper.
    pub const NOW: u32 = 2;
}

/// State of a slot's process.
pub mod state {
    /// Nothing is evicted; nothing is registered.
    pub const WATCHING: u32 = 1;
    /// Handlers run; blocks are evicted.
    pub const PAGING: u32 = 2;
    /// The runtime has stopped for good in this process; everything is resident.
    pub const STOPPED: u32 = 3;
}

/// One process.
#[repr(C, align(64))]
pub struct Slot {
    /// Process id; 0 is a free slot.
    pub pid: AtomicU32,
    /// One of [`state`]; 0 while starting.
    pub state: AtomicU32,
    /// The program image that took the slot: the address of `argc` on the first stack, which is `argv - 8`
    /// and field 28 of `/proc/PID/stat`. An exec changes it, so the supervisor sees when a process continues
    /// as a program that does not load the library. 0 is unknown.
    pub image: AtomicU64,
    /// Number of the process's seccomp filters that are harmless to the runtime: see `filters.rs`. It stays
    /// valid when the process becomes another program.
    pub filters: AtomicU32,
    /// Private anonymous memory, including memfold's own in the process, in bytes.
    pub resident: AtomicU64,
    /// Uncompressed size of the store's contents, in bytes.
    pub evicted: AtomicU64,
    /// Compressed bytes in the store.
    pub payload: AtomicU64,
    /// Memory that the store has committed in addition, in bytes: headers, rounding, holes, its reserve and
    /// its tables.
    pub overhead: AtomicU64,
    /// The part of `resident` that is on standby, in bytes.
    pub standby: AtomicU64,
    /// Uncompressed size of spilled data, in bytes.
    pub spilled: AtomicU64,
    /// How much it could give back at its keeper's last look, in bytes.
    pub can_give: AtomicU64,
    /// When that was, ns of the monotonic clock.
    pub looked_ns: AtomicU64,
    /// 1 if it shares memory with other processes since a fork, as far as is known (supervisor writes).
    pub shares: AtomicU32,
    /// Memory that the process has requested in larger pieces, and did not only reserve (`MAP_NORESERVE`), in
    /// bytes: one system call may fill as much of that as is untouched. Memory that was touched or freed is
    /// subtracted now and then.
    pub asked: AtomicU64,
    /// One of [`call`] (supervisor writes).
    pub call: AtomicU32,
    /// 1 once the process has a keeper, which watches it from inside.
    pub keeper: AtomicU32,
    /// The door through which the supervisor can make a thread start the keeper: see `door.rs`. 0: none.
    pub door: AtomicU64,
    /// Number of memfold's threads in it, as last reported by the keeper.
    pub tasks: AtomicU32,
    /// When the process took the slot, ns of the monotonic clock.
    pub since_ns: AtomicU64,
    /// Its parent's resident size when it was forked: at most this much of its own memory may be shared with
    /// the parent, in bytes.
    pub inherited: AtomicU64,
    /// Counters that only grow.
    pub counters: Counters,
}

impl Slot {
    pub(super) fn reset_gauges(&self) {
        self.state.store(0, Relaxed);
        self.image.store(0, Relaxed);
        self.door.store(0, Relaxed);
        self.keeper.store(0, Relaxed);
        self.tasks.store(0, Relaxed);
        self.call.store(call::FAR, Relaxed);
        self.inherited.store(0, Relaxed);
        self.shares.store(0, Relaxed);
        self.can_give.store(0, Relaxed);
        self.looked_ns.store(0, Relaxed);
        self.asked.store(0, Relaxed);
        for gauge in
            [&self.resident, &self.evicted, &self.payload, &self.overhead, &self.standby, &self.spilled]
        {
            gauge.store(0, Relaxed);
        }
    }
}
