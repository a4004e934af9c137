//! What a process knows of its spilled data.

use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use memfold_shared::spill::{self as area, Area};
use memfold_spill::Sealer;

use super::batches::Batches;
use super::direct::Direct;
use super::outgoing::{BATCHES, Outgoing};
use super::queue::Queue;
use crate::memory::bell::EventCount;
use crate::memory::lock::Lock;

/// The spilling state of a process.
pub struct Spill {
    pub(super) area: AtomicPtr<Area>,
    /// The number by which the supervisor knows this process.
    pub(super) pid: AtomicU32,
    pub(super) sealer: AtomicPtr<Sealer>,
    /// The batches in which this process has blocks.
    pub batches: Batches,
    /// The tier's file, if this process may read it.
    pub direct: Direct,
    /// Batches on their way to the tier.
    pub out: Lock<Outgoing>,
    /// How many such batches there are.
    pub in_flight: AtomicU32,
    /// How long the tier has taken nothing although data were to be spilled, in ns: see `hope.rs`.
    pub unheard_ns: AtomicU64,
    /// When the hand last found nothing to spill: what the store held then, in bytes. Blobs of clean pages are
    /// not spilled. 0 if it has found something since.
    pub unspillable: AtomicU64,
    /// Ranges of pages that contain those in the batches: the store does not move their blobs, whose
    /// references would change.
    pub still: [Still; BATCHES],
    /// Faults that wait for a fetcher; they sleep at the bell.
    pub queue: Lock<Queue>,
    /// See `queue`.
    pub asked: EventCount,
    /// Number of faults that were handed to fetchers and are not served yet.
    pub fetching: AtomicU32,
    /// Number of spilled pages.
    pub pages: AtomicI64,
    /// The position of the hand that chooses what to spill.
    pub at: AtomicUsize,
    /// The last fork's number; 0 if no batch was set aside for the child.
    pub fork: AtomicU64,
}

/// A range of page numbers, including the last.
pub struct Still {
    first: AtomicU64,
    last: AtomicU64,
}

impl Still {
    const fn none() -> Self {
        Still { first: AtomicU64::new(u64::MAX), last: AtomicU64::new(0) }
    }

    pub(super) fn set(&self, first: u64, last: u64) {
        self.first.store(first, Relaxed);
        self.last.store(last, Relaxed);
    }
}

impl Spill {
    /// Whether a page's blob should stay where it is; a hint.
    pub fn is_unmoved(&self, page: u64) -> bool {
        self.still.iter().any(|it| it.first.load(Relaxed) <= page && page <= it.last.load(Relaxed))
    }

    /// Without an area.
    pub const fn new() -> Self {
        Spill {
            area: AtomicPtr::new(core::ptr::null_mut()),
            pid: AtomicU32::new(0),
            sealer: AtomicPtr::new(core::ptr::null_mut()),
            batches: Batches::new(),
            direct: Direct::new(),
            out: Lock::new(Outgoing::new()),
            in_flight: AtomicU32::new(0),
            unheard_ns: AtomicU64::new(0),
            unspillable: AtomicU64::new(0),
            still: [const { Still::none() }; BATCHES],
            queue: Lock::new(Queue::new()),
            asked: EventCount::new(),
            fetching: AtomicU32::new(0),
            pages: AtomicI64::new(0),
            at: AtomicUsize::new(0),
            fork: AtomicU64::new(0),
        }
    }

    /// The number by which the supervisor knows this process.
    pub fn pid(&self) -> u32 {
        self.pid.load(Relaxed)
    }

    /// Whether that number is not a pid.
    pub(super) fn is_foreign(&self) -> bool {
        self.pid() >= area::FOREIGN
    }

    /// The area, if the user has configured a tier.
    pub fn area(&self) -> Option<&'static Area> {
        // SAFETY: set once at start, and never freed.
        unsafe { self.area.load(Acquire).as_ref() }
    }

    /// Sets the area. Called at start, before the runtime has any thread.
    pub fn set_area(&self, area: &'static Area, pid: u32) {
        self.pid.store(pid, Relaxed);
        self.area.store(area as *const Area as *mut Area, Release);
    }

    /// The sealer; only after `prepare`.
    pub(super) fn sealer(&self) -> Option<&'static Sealer> {
        // SAFETY: as for the area.
        unsafe { self.sealer.load(Acquire).as_ref() }
    }

    /// Whether batches are taken.
    pub fn is_open(&self) -> bool {
        self.area().is_some_and(|area| area.is_open.load(Relaxed) == area::open::YES)
    }

    /// In a forked child: it has no requests under way.
    ///
    /// # Safety
    /// No other thread of the runtime may be running in this process.
    pub unsafe fn after_fork(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            self.out.reset_in_child();
            self.queue.reset_in_child();
            self.batches.reset_in_child();
        }
        self.direct.after_fork();
        self.out.lock().forget(&self.batches);
        self.in_flight.store(0, Relaxed);
        self.unheard_ns.store(0, Relaxed);
        self.unspillable.store(0, Relaxed);
        self.still.iter().for_each(|still| still.set(u64::MAX, 0));
        self.queue.lock().clear();
        self.fetching.store(0, Relaxed);
    }
}

impl Default for Spill {
    fn default() -> Self {
        Self::new()
    }
}
