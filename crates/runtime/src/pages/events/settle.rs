//! Telling late events from others: see `late.rs`.

use crate::kernel::addresses::index_in_block;
use crate::kernel::sched;
use crate::kernel::sys::PAGE;
use crate::kernel::uffd::{Message, Probe};
use crate::memory::lock::Guard;
use crate::memory::patience::Patience;
use crate::pages::events::late::DEPTH;
use crate::pages::events::order::{Fault, Order};
use crate::pages::table::State;
use crate::runtime::Runtime;

/// If entries are in the way of an arriving mapping, a message on its way always explains it; on a busy
/// machine it may take long until its thread gets a CPU. Nothing holds that thread up, so this time, in ns,
/// is never reached.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How long to look for such a message if there may be none and others keep coming, in ns.
const DOUBT_NS: u64 = 500_000_000;

impl Runtime {
    fn is_changing(&self, address: usize) -> bool {
        self.uffd().probe(address) == Probe::Changing
    }

    /// Forgets the remembered ranges if no message is on its way. Called before every message is read: a
    /// thread that goes on may soon unmap a mapping that has arrived.
    pub fn settle_late(&self, order: &mut Guard<'_, Order>) {
        if (order.late.count > 0 || order.late.doubtful.1 > 0) && !self.is_changing(order.late.arrived[0].0) {
            order.late.count = 0;
            order.late.doubtful = (0, 0);
        }
    }

    /// A mapping is about to arrive at the range: first applies the message that says where the previous
    /// mapping has gone.
    pub fn let_late_first(&self, order: &mut Guard<'_, Order>, start: usize, end: usize) {
        if !order.late.enabled || order.late.depth >= DEPTH {
            return;
        }
        let depth = order.late.depth;
        order.late.arriving[depth] = (start, end);
        order.late.depth += 1;
        let mut patience = Patience::new(PATIENCE_NS);
        while self.keeps_any(start, end)
            && (self.pages.proxy.lock().has_events() || self.is_changing(start))
            && !patience.is_over()
        {
            let kept = self.pages.proxy.lock().next_event();
            match kept.or_else(|| self.next_message()) {
                Some(Message::Fault { page, touch, .. }) => self.keep(order, Fault { page, touch }),
                Some(event) => self.apply_now(order, event),
                None => sched::yield_now(),
            }
        }
        order.late.depth -= 1;
    }

    /// Whether there are entries for a range.
    fn keeps_any(&self, start: usize, end: usize) -> bool {
        let mut any = false;
        self.pages.table.for_each_block(start, end, |base, block| {
            let (from, to) = (start.max(base), end.min(base + crate::kernel::addresses::BLOCK));
            any |= (from..to)
                .step_by(PAGE)
                .any(|page| block.entries[index_in_block(page)].load() != State::Empty);
        });
        any
    }

    /// Whether the message that a mapping has left the range refers to an earlier mapping than the one that
    /// has arrived there. That is so if one has arrived and no other is about to.
    pub fn speaks_of_another(&self, order: &mut Guard<'_, Order>, start: usize, end: usize) -> bool {
        let overlaps = |range: &(usize, usize)| range.0 < end && start < range.1;
        let late = &order.late;
        if !late.enabled || !late.arrived().iter().any(overlaps) || overlaps(&late.doubtful) {
            return false;
        }
        // Does one of them wait for this very message?
        if late.arriving[..late.depth].iter().any(overlaps) {
            return false;
        }
        let mut patience = Patience::new(DOUBT_NS);
        let mut looked = 0;
        loop {
            loop {
                let next = self.pages.proxy.lock().event(looked);
                let Some(event) = next else { break };
                looked += 1;
                if matches!(event, Message::Remap { to, bytes, .. } if overlaps(&(to, to + bytes))) {
                    return false;
                }
            }
            let has_many = self.pages.proxy.lock().has_many_events();
            if has_many || !self.is_changing(start) || patience.is_over() {
                return true;
            }
            match self.next_message() {
                Some(Message::Fault { page, touch, .. }) => self.keep(order, Fault { page, touch }),
                Some(event) => self.keep_event(&mut self.pages.proxy.lock(), event),
                None => sched::yield_now(),
            }
        }
    }

    /// Whether a managed mapping is there now, and the entry of the page belongs to it.
    pub fn is_there(&self, order: &Guard<'_, Order>, page: usize) -> bool {
        order.late.has_arrived(page) && self.kernel.witness().is_taken(page)
    }

    /// A range was unmapped: forgets its pages.
    pub fn drop_unmapped(&self, order: &mut Guard<'_, Order>, start: usize, end: usize) {
        if !self.speaks_of_another(order, start, end) {
            return self.drop_range(order, start, end);
        }
        self.forget_blobs(start, end);
        self.pages.table.for_each_block(start, end, |base, block| {
            for page in (start.max(base)..end.min(base + crate::kernel::addresses::BLOCK)).step_by(PAGE) {
                let kept = block.entries[index_in_block(page)].load() != State::Empty;
                if kept && !self.is_there(order, page) {
                    self.drop_page(block, page);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use core::panic::AssertUnwindSafe;
    use core::sync::atomic::Ordering::*;
    use std::panic::{catch_unwind, resume_unwind};
    use std::sync::{Mutex, MutexGuard};
    use std::{eprintln, thread};

    use super::*;
    use crate::kernel::addresses::BLOCK;
    use crate::kernel::sys;
    use crate::kernel::sys::prot;
    use crate::kernel::uffd::{Uffd, feature};
    use crate::runtime::RUNTIME;

    const BYTES: usize = 8 * PAGE;

    /// The one runtime, with userfaultfds of its own; `None` where they cannot be opened.
    fn runtime() -> Option<MutexGuard<'static, ()>> {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !RUNTIME.kernel.has_uffd() {
            let open = |features| Uffd::open(None, features).ok();
            let Some(both) = open(feature::NEEDED).zip(open(0)) else {
                eprintln!("skipped: userfaultfd may not be opened here");
                return None;
            };
            RUNTIME.kernel.set_uffd(Some(both));
        }
        Some(one)
    }

    /// Memory of 8 pages at the start of a block of its own.
    fn memory() -> usize {
        let start = sys::map_anonymous(2 * BLOCK, prot::READ | prot::WRITE).unwrap() as usize;
        start.next_multiple_of(BLOCK)
    }

    fn registered() -> usize {
        let start = memory();
        RUNTIME.uffd().register(start, BYTES).unwrap();
        start
    }

    /// Makes entries as if `number` pages, all zeros, had been evicted.
    fn keep(order: &mut Guard<'_, Order>, start: usize, number: usize) {
        let block = RUNTIME.pages.table.make_block(start, &RUNTIME.arena, &mut order.spare).unwrap();
        for entry in &block.entries[..number] {
            entry.store(State::Zero);
            block.evicted.fetch_add(1, Relaxed);
            RUNTIME.pages.zero_pages.fetch_add(1, Relaxed);
        }
    }

    fn kept(start: usize) -> usize {
        let state = |page: usize| RUNTIME.pages.table.entry(page).map_or(State::Empty, |entry| entry.load());
        (start..start + BYTES).step_by(PAGE).filter(|page| state(*page) != State::Empty).count()
    }

    /// Runs `work` while the message of a thread that unmaps is on its way.
    fn while_changing(work: impl FnOnce(&mut Guard<'_, Order>)) {
        let elsewhere = registered();
        // SAFETY: memory of this test.
        let thread = thread::spawn(move || unsafe { sys::munmap(elsewhere, BYTES) });
        let mut order = RUNTIME.pages.order.lock();
        while !RUNTIME.is_changing(elsewhere) {
            thread::yield_now();
        }
        // A failure must not leave the thread waiting for ever.
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut order)));
        RUNTIME.drain(&mut order);
        RUNTIME.apply_inbox(&mut order);
        drop(order);
        thread.join().unwrap().unwrap();
        worked.unwrap_or_else(|panic| resume_unwind(panic));
    }

    #[test]
    fn a_message_about_the_mapping_before_leaves_what_has_arrived() {
        let Some(_one) = runtime() else { return };
        let (from, to) = (memory(), registered());
        while_changing(|order| {
            keep(order, from, 5);
            RUNTIME.apply_now(order, Message::Remap { from, to, bytes: BYTES });
            assert_eq!((kept(from), kept(to)), (0, 5));
            RUNTIME.apply_now(order, Message::Unmap { start: to, end: to + BYTES });
            assert_eq!(kept(to), 5);
        });
        assert_eq!(kept(to), 5);
        // No message is on its way any more: the next one refers to this mapping.
        let order = &mut RUNTIME.pages.order.lock();
        RUNTIME.settle_late(order);
        RUNTIME.apply_now(order, Message::Unmap { start: to, end: to + BYTES });
        assert_eq!(kept(to), 0);
    }

    #[test]
    fn a_mapping_that_arrived_and_was_unmapped_is_forgotten() {
        let Some(_one) = runtime() else { return };
        let (from, to) = (memory(), registered());
        while_changing(|order| {
            keep(order, from, 3);
            RUNTIME.apply_now(order, Message::Remap { from, to, bytes: BYTES });
            // No managed mapping is there.
            RUNTIME.uffd().unregister(to, BYTES).unwrap();
            RUNTIME.apply_now(order, Message::Unmap { start: to, end: to + BYTES });
            assert_eq!(kept(to), 0);
        });
    }

    #[test]
    fn a_mapping_in_the_way_moves_first() {
        let Some(_one) = runtime() else { return };
        let (from, to, next) = (memory(), registered(), registered());
        while_changing(|order| {
            keep(order, from, 2);
            keep(order, to, 7);
            assert!(RUNTIME.pages.proxy.lock().push_event(Message::Remap {
                from: to,
                to: next,
                bytes: BYTES
            }));
            RUNTIME.apply_now(order, Message::Remap { from, to, bytes: BYTES });
            assert_eq!((kept(from), kept(to), kept(next)), (0, 2, 7));
        });
    }
}
