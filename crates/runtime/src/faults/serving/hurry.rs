//! When the program wants back much memory that was evicted although there was room, the neighbours of a
//! touched page are restored together with it. The thread that touched the page does not wait for them.

use super::{Placed, Server};
use crate::kernel::addresses::PAGES;
use crate::kernel::addresses::RUN;
use crate::kernel::sys::PAGE;
use crate::kernel::uffd::Touch;
use crate::pages::events::order::Fault;
use crate::pages::table::State;

impl Server {
    /// Restores the evicted ones among the `RUN` pages around the touched one.
    pub(super) fn restore_neighbours(&mut self, touched: usize) {
        let mut page = touched & !(RUN * PAGE - 1);
        let end = page + RUN * PAGE;
        while page < end && self.runtime.reclaim.is_in_a_hurry() {
            let left = (end - page) / PAGE;
            let Some(block) = self.runtime.pages.table.block(page) else { return };
            let away = |index: &usize| {
                !matches!(
                    block.entries[page / PAGE % PAGES + index].load(),
                    State::Empty | State::Pinned(_) | State::Spilled(_)
                )
            };
            let Some(skip) = (0..left).find(away) else { return };
            page += skip * PAGE;
            let fault = Fault { page, touch: Touch::Read };
            let (placed, pages) = match block.entries[page / PAGE % PAGES].load() {
                State::Standby(_) => self.rescue(fault, left - skip, false),
                _ => self.restore(fault, left - skip, false),
            };
            if placed == Placed::Retry {
                return;
            }
            page += pages.max(1) * PAGE;
        }
    }
}
