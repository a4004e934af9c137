//! The program's pages: where each of them is, and what the program does to its mappings.

pub mod clean;
pub mod entry;
pub mod events;
pub mod keep;
pub mod marks;
pub mod relocate;
pub mod standby;
pub mod statics;
pub mod stored;
pub mod table;

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use events::inbox::Inbox;
use events::order::Order;
use keep::KeepOut;
use standby::Standby;
use statics::Statics;
use table::Table;

use crate::memory::lock::Lock;

/// Where each page is, and which changes of mappings are under way.
pub struct Pages {
    /// The state of each page.
    pub table: Table,
    /// See `order.rs`.
    pub order: Lock<Order>,
    /// Messages that were read ahead, some of them in the keeper's place: see `inbox.rs`.
    pub proxy: Lock<Inbox>,
    /// Blocks that are evicted and not yet compressed.
    pub standby: Standby,
    /// Addresses that are never evicted.
    pub keep_out: KeepOut,
    /// Data that are neither evicted nor served.
    pub statics: Statics,
    /// Number of pages whose entry is `Zero`.
    pub zero_pages: AtomicI64,
    /// Number of marked pages in all blocks: see `incompressible.rs`.
    pub incompressible: AtomicI64,
    /// How many times memory was unmapped or moved or the process forked: ranges registered before may no
    /// longer be registered.
    pub changes: AtomicU64,
    /// Number of threads that are discarding memory now, through the C library.
    pub discarding: AtomicU32,
    /// Number of threads that are moving memory now, through the C library.
    pub moving: AtomicU32,
    /// When the program last unmapped managed memory.
    pub unmapped_ns: AtomicU64,
    /// While the keeper is inside `mremap`: the target of the move.
    pub moving_to: AtomicUsize,
    /// The kernel has reported that move: proof that the source was registered.
    pub move_seen: AtomicBool,
    /// Pages may be pinned, which matters where eviction does not notice pins: see `pins.rs`.
    pub pins_seen: AtomicBool,
    /// A writer that is never noticed may write to pages: see `pins.rs`.
    pub holds_seen: AtomicBool,
}

impl Pages {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Pages {
            table: Table::new(),
            order: Lock::new(Order::new()),
            proxy: Lock::new(Inbox::new()),
            standby: Standby::new(),
            keep_out: KeepOut::new(),
            statics: Statics::new(),
            zero_pages: AtomicI64::new(0),
            incompressible: AtomicI64::new(0),
            changes: AtomicU64::new(1),
            discarding: AtomicU32::new(0),
            moving: AtomicU32::new(0),
            unmapped_ns: AtomicU64::new(0),
            moving_to: AtomicUsize::new(0),
            move_seen: AtomicBool::new(false),
            pins_seen: AtomicBool::new(false),
            holds_seen: AtomicBool::new(false),
        }
    }

    /// In a forked child, before anything else.
    ///
    /// # Safety
    ///
    /// No other thread lives in this process, and in the parent no thread was changing anything.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            self.order.reset_in_child();
            self.proxy.reset_in_child();
            self.standby.reset_in_child();
        }
    }

    /// In a forked child, after the journal was applied.
    pub fn after_fork(&self) {
        self.standby.all_shared();
        self.discarding.store(0, Relaxed);
        self.changes.fetch_add(1, Relaxed);
        self.moving.store(0, Relaxed);
    }
}
