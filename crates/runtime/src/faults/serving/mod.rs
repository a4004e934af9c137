//! Serving faults: restoring the page that was touched.
//!
//! This module does not know how the touch was noticed, nor how the thread goes on afterwards: that is
//! [`Delivery`] (`../delivery`). A [`Server`] finds the page's entry and acts on it:
//!
//! | entry | what is done |
//! | --- | --- |
//! | empty | never touched, or discarded: zeros |
//! | standby | copied back from the standby slot |
//! | zero | zeros |
//! | stored | decompressed outside the lock, placed under it |
//! | pinned | another thread reads the blob (it restores, densifies, spills or copies the page), and resumes the faulting thread when done |
//! | spilled | left to a fetcher, which waits for the supervisor: see `spill/fetch.rs` |
//!
//! A write to a protected page (see `copies.rs`) only waits for room.
//!
//! While faults are sequential, each restores a growing run of pages (1 to 32).

mod during_fork;
mod hurry;
mod place;
mod room;
mod run;
mod streams;

use core::sync::atomic::Ordering::*;

use memfold::probe;

use crate::kernel::addresses::page_number;
use crate::kernel::sched;
use crate::kernel::sys::{self};
use crate::kernel::uffd::Touch;
use crate::pages::events::order::Fault;
use crate::pages::table::State;
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;
use streams::Streams;

/// The part of a fault that cannot be measured, in ns: the time until a handler has read its message, and the
/// time until the thread runs again.
const UNSEEN_NS: u64 = 15_000;

/// The result of trying to place pages.
#[derive(PartialEq, Eq)]
pub(crate) enum Placed {
    /// The thread goes on.
    Done,
    /// Events arrived meanwhile: look again.
    Retry,
}

/// What a thread needs to serve faults.
pub struct Server {
    pub(crate) runtime: &'static Runtime,
    pub(crate) worker: Worker,
    pub(crate) streams: Streams,
    /// Whether this server belongs to the keeper, which uses it to restore everything. No other faults wait
    /// for it, and it waits neither for a fetcher nor for room, since only the keeper makes room.
    pub(crate) is_keepers: bool,
    /// Whether its memory holds a page that is still to be placed.
    pub(crate) holds_page: bool,
}

impl Server {
    /// A server with its working memory; `None` if no memory is left.
    ///
    /// # Safety
    /// The same as for [`Worker::new`].
    pub unsafe fn new(runtime: &'static Runtime, number: usize) -> Option<Self> {
        Some(Server {
            runtime,
            // SAFETY: the caller upholds the contract.
            worker: unsafe { Worker::new(runtime, number) }?,
            streams: Streams::default(),
            is_keepers: false,
            holds_page: false,
        })
    }

    /// Serves a fault for which a thread waits.
    pub fn serve(&mut self, fault: Fault) {
        let begin = sys::now_ns();
        self.runtime.faults.stall.enter(begin);
        let was_evicted = self.serve_from(fault, begin);
        if was_evicted && self.runtime.reclaim.is_in_a_hurry() {
            self.restore_neighbours(fault.page);
        }
        let stalled = self.runtime.faults.stall.leave(sys::now_ns());
        self.runtime.slot().counters.stalled_ns.fetch_add(stalled, Relaxed);
        let unseen = if was_evicted { UNSEEN_NS } else { 0 };
        self.runtime.reclaim.patience_ns.fetch_sub((stalled + unseen) as i64, Relaxed);
    }

    /// Returns whether the page had been evicted.
    pub(crate) fn serve_from(&mut self, fault: Fault, begin: u64) -> bool {
        if fault.touch == Touch::Protected {
            self.let_copy(fault);
            return false;
        }
        let run = self.streams.run_length(fault.page);
        probe!(runtime_fault_begin, fault.page, fault.touch == Touch::Write);
        loop {
            let state = self.runtime.pages.table.entry(fault.page).map_or(State::Empty, |entry| entry.load());
            let placed = match state {
                State::Pinned(_) => return true,
                State::Spilled(_) if self.is_keepers => {
                    if let Some(fetched) = self.runtime.fetch(&mut self.worker, fault.page, run, None) {
                        self.place_fetched(fault, &fetched, begin);
                        return true;
                    }
                    Placed::Retry
                }
                State::Spilled(_) => {
                    self.leave(fault, begin, run);
                    return true;
                }
                State::Standby(_) => self.rescue(fault, run, true).0,
                State::Stored(_) | State::Zero => {
                    if !self.exchanges(fault) {
                        self.wait_for_room(false);
                    }
                    let placed = self.restore(fault, run, true).0;
                    if placed == Placed::Done {
                        self.runtime.keep_awake(begin);
                        self.note_served(fault, begin);
                    }
                    placed
                }
                State::Empty => {
                    self.wait_for_room(true);
                    self.give_zeros(fault, run)
                }
            };
            if placed == Placed::Done {
                probe!(runtime_fault, fault.page, fault.touch == Touch::Write);
                return state != State::Empty;
            }
            sched::yield_now();
        }
    }

    /// Whether restoring the page evicts clean pages in exchange, and so needs no room.
    fn exchanges(&self, fault: Fault) -> bool {
        let runtime = self.runtime;
        fault.touch == Touch::Read
            && runtime.keeps_clean()
            && runtime.can_exchange_clean(&runtime.lock_order())
    }

    /// Counts a compressed page that was restored.
    pub(crate) fn note_served(&self, fault: Fault, begin: u64) {
        let now = sys::now_ns();
        let took = now.saturating_sub(begin);
        self.runtime.faults.served_ns.store(now, Relaxed);
        self.runtime.shared().note_fault(took);
        if let Some(trail) = self.runtime.shared().trail() {
            trail.fault(self.runtime.slot().pid.load(Relaxed), page_number(fault.page), took);
        }
        self.runtime.slot().counters.fault_ns.fetch_add(took, Relaxed);
    }
}
