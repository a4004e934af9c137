//! Serving faults while a fork is under way: nothing may change but the journal.

use super::Server;
use crate::faults::delivery::Delivery;
use crate::kernel::addresses::page_number;
use crate::kernel::sched;
use crate::kernel::sys::{self, Errno, PAGE};
use crate::kernel::uffd::Touch;
use crate::memory::lock::Guard;
use crate::pages::events::journal::Record;
use crate::pages::events::order::{Fault, Order};
use crate::pages::table::State;
use crate::spill::batches::SpillLocation;

impl Server {
    /// Serves a fault while nothing may change but the journal.
    pub(crate) fn serve_during_fork(&mut self, order: &mut Guard<'_, Order>, fault: Fault) {
        let runtime = self.runtime;
        let page = fault.page;
        if fault.touch == Touch::Protected {
            if runtime.is_clean(page) {
                // The blob of this page is forgotten when the journal is replayed. If the journal is full,
                // all kept blobs are.
                match order.journal.has_room_for_page() {
                    true => order.journal.add(Record::Served(page)),
                    false => order.blobs_void = true,
                }
            }
            let _ = runtime.delivery().allow_writes(page, PAGE);
            runtime.delivery().resume_at(page);
            return;
        }
        let home = order.journal.find(page);
        let state =
            home.and_then(|home| runtime.pages.table.entry(home)).map_or(State::Empty, |entry| entry.load());
        if let (State::Spilled(_), Some(home)) = (state, home) {
            if home == page {
                // A fetcher places it although the fork is under way, because the C library may need it
                // before it forks. No other thread waits for it.
                self.leave(fault, sys::now_ns(), 1);
                return;
            }
            // The page was moved after the fork began. Its entry does not change meanwhile.
            runtime.fetch_alone(&mut self.worker, home);
        }
        let into = &mut self.worker.pages[..PAGE];
        match (state, home) {
            (State::Standby(id), _) => {
                let from = runtime.pages.standby.page_address(id) as *const u8;
                // SAFETY: the page on standby is readable and stays: its compressor has stopped.
                into.copy_from_slice(unsafe { core::slice::from_raw_parts(from, PAGE) });
            }
            (State::Stored(name) | State::Pinned(name), Some(home)) => {
                let owner = page_number(home);
                // SAFETY: during a fork nothing is moved or freed.
                if unsafe { runtime.store().load(name, owner, into, &mut self.worker.decode) }.is_err() {
                    runtime.fail_corrupt();
                }
            }
            (State::Spilled(_), _) => {}
            _ => into.fill(0),
        }
        // SAFETY: these bytes are the contents of the program's page: see the journal.
        match unsafe { runtime.delivery().place(page, into.as_ptr(), PAGE, false) } {
            Ok(_) => {
                // The C library's fork may wait for a thread that waits for this page, so the page is
                // restored although it cannot be recorded.
                if order.journal.has_room_for_page() {
                    order.journal.add(Record::Served(page));
                }
                runtime.delivery().resume_at(page);
            }
            Err(Errno::AGAIN | Errno::NOMEM) => {
                runtime.drain(order);
                runtime.keep(order, fault);
                sched::yield_now();
            }
            Err(_) => runtime.delivery().resume_at(page),
        }
    }

    /// Places a fetched page while nothing may change but the journal, if it is still the page that was
    /// requested and still lies where it did. `number` is the number of the batch from which it comes.
    pub(crate) fn place_during_fork(
        &mut self,
        order: &mut Guard<'_, Order>,
        page: usize,
        spot: SpillLocation,
        number: u64,
    ) {
        let runtime = self.runtime;
        let entry = runtime.pages.table.entry(page).map_or(State::Empty, |entry| entry.load());
        let is_there =
            entry == State::Spilled(spot) && runtime.spill.batches.number(spot.batch) == Some(number);
        // The page is unchanged since the fork began: it was not served, discarded or moved.
        if !is_there || order.journal.find(page) != Some(page) || !order.journal.has_room_for_page() {
            return;
        }
        // SAFETY: these bytes are the contents of the program's page: the entry and the journal say so, under
        // the lock.
        if unsafe { runtime.delivery().place(page, self.worker.pages.as_ptr(), PAGE, false) }.is_ok() {
            order.journal.add(Record::Served(page));
        }
    }
}
