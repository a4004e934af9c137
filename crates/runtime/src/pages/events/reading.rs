//! Reading messages under the order lock, and in place of its holder: see `order.rs`.

use crate::faults::Faults;
use crate::kernel::addresses::BLOCK;
use crate::kernel::sched;
use crate::kernel::sys;
use crate::kernel::uffd::Message;
use crate::memory::lock::Guard;
use crate::pages::Pages;
use crate::pages::events::inbox::Inbox;
use crate::pages::events::journal::Record;
use crate::pages::events::order::{Fault, Order};
use crate::runtime::Runtime;
use core::sync::atomic::Ordering::*;

/// How many times a handler tries the order lock before it sleeps: a few microseconds.
const SPINS: usize = 100;

/// Maximum number of messages to read before the caller looks again: threads whose events are read go on, and
/// may send more at once.
const READ_AT_MOST: usize = 4096;
/// After this many looks at the target that found no pages, the witness is asked.
const LOOKS: usize = 16;

impl Faults {
    fn note_waiting(&self, inbox: &Guard<'_, Inbox>) {
        self.deferred.store(inbox.waiting() as u32, Release);
    }
}

impl Pages {
    fn count_change(&self, event: Message) {
        let here = !matches!(event, Message::Remap { to, .. } if self.standby.contains(to));
        if here && matches!(event, Message::Unmap { .. } | Message::Remap { .. }) {
            self.changes.fetch_add(1, Release);
        }
    }
}

impl Runtime {
    /// Takes the order lock, for a handler. While the lock's holder, the keeper, is inside `mremap`, this
    /// reads in its place, since no other thread would.
    pub fn lock_order(&self) -> Guard<'_, Order> {
        // Most holders keep it for a microsecond or two; the keeper, which keeps it longer, announces that.
        for _ in 0..SPINS {
            if let Some(order) = self.pages.order.try_lock() {
                return order;
            }
            if self.pages.moving_to.load(Acquire) != 0 {
                break;
            }
            core::hint::spin_loop();
        }
        let mut may_sleep = true;
        loop {
            // Once its message was read, the keeper needs a CPU to go on, and was perhaps woken on this one.
            // If that takes long, there was more than one message.
            if self.pages.moving_to.load(Acquire) != 0 && !(may_sleep && self.pages.move_seen.load(Acquire)) {
                self.read_in_place();
                may_sleep = true;
                continue;
            }
            may_sleep = false;
            if let Some(order) = self.pages.order.lock_for_a_moment(200_000) {
                return order;
            }
        }
    }

    fn read_in_place(&self) {
        let Some(mut inbox) = self.pages.proxy.try_lock() else {
            sched::yield_now();
            return;
        };
        // Nothing may be read before the keeper's pages have moved, nor if they moved without a message (then
        // they go back): a thread whose event is read goes on, and must find its pages where they belong.
        for looks in 1usize.. {
            let to = self.pages.moving_to.load(Acquire);
            if to == 0 {
                return;
            }
            let seems = sys::any_resident(to, BLOCK - to % BLOCK) || looks % LOOKS == 0;
            if seems && self.kernel.witness().is_taken(to) {
                break;
            }
            if looks % LOOKS == 0 { sched::yield_now() } else { core::hint::spin_loop() }
        }
        while self.pages.moving_to.load(Acquire) != 0 {
            inbox.let_keeper_run();
            match self.next_message() {
                Some(Message::Remap { to, .. }) if self.pages.standby.contains(to) => {
                    self.pages.move_seen.store(true, Release);
                    break;
                }
                Some(Message::Fault { page, touch, .. }) => inbox.keep(Fault { page, touch }),
                Some(Message::Other) => {}
                Some(event) => self.keep_event(&mut inbox, event),
                None => core::hint::spin_loop(),
            }
        }
        self.faults.note_waiting(&inbox);
    }

    /// Handles the messages that were read in place of the caller, which holds the order lock and has
    /// returned from `mremap`.
    pub fn apply_inbox(&self, order: &mut Guard<'_, Order>) {
        let next = self.pages.proxy.lock().next_event();
        if let Some(event) = next {
            self.apply(order, event);
        }
    }

    /// Reads the pending messages: applies events, keeps faults for later. It does not read without end: a
    /// caller that needs an event that has not arrived yet calls it again.
    pub fn drain(&self, order: &mut Guard<'_, Order>) {
        for _ in 0..READ_AT_MOST {
            if !order.may_read() {
                return;
            }
            self.settle_late(order);
            match self.next_message() {
                Some(Message::Fault { page, touch, tid }) => {
                    self.faults.follow.note(tid);
                    self.keep(order, Fault { page, touch });
                }
                Some(event) => self.apply(order, event),
                None => return,
            }
        }
    }

    /// Keeps a fault for later.
    pub fn keep(&self, _order: &mut Guard<'_, Order>, fault: Fault) {
        let mut inbox = self.pages.proxy.lock();
        inbox.keep(fault);
        self.faults.note_waiting(&inbox);
    }

    /// Keeps an event to be applied later.
    pub fn keep_event(&self, inbox: &mut Guard<'_, Inbox>, event: Message) {
        if !inbox.push_event(event) {
            self.fail("more threads change their memory at the same time than memfold can follow");
        }
    }

    /// The oldest kept fault. Once all are handed out, threads whose faults were forgotten are woken, to
    /// fault again.
    pub fn next_kept(&self, _order: &mut Guard<'_, Order>) -> Option<Fault> {
        let mut inbox = self.pages.proxy.lock();
        let next = inbox.next_fault();
        let forgotten = inbox.take_forgotten();
        self.faults.note_waiting(&inbox);
        drop(inbox);
        if forgotten {
            self.uffd().wake_all();
        }
        next
    }

    /// A kept fault that is `wanted`, if there is one among the next few.
    pub fn next_kept_that(
        &self,
        _order: &mut Guard<'_, Order>,
        wanted: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        let mut inbox = self.pages.proxy.lock();
        let next = inbox.next_fault_that(wanted);
        self.faults.note_waiting(&inbox);
        next
    }

    /// Applies an event to the page table, or records it during a fork, together with events that had to be
    /// read meanwhile.
    pub fn apply(&self, order: &mut Guard<'_, Order>, event: Message) {
        let mut next = Some(event);
        while let Some(event) = next {
            if let Message::Fork { child } = event {
                self.handle_child(order, child);
            } else if order.forking {
                self.write_down(order, event);
            } else {
                self.pages.count_change(event);
                self.apply_now(order, event);
            }
            next = self.pages.proxy.lock().next_event();
        }
    }

    /// Records an event during a fork.
    pub fn write_down(&self, order: &mut Guard<'_, Order>, event: Message) {
        self.pages.count_change(event);
        order.journal.add(Record::Event(event));
    }
}
