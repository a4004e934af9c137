//! Messages of the kernel that were read and must still be handled.
//!
//! The kernel delivers all pending faults before it delivers an event. So a thread that needs an event
//! (because a page cannot be placed before it is read, or because the keeper's own `mremap` waits for its
//! message) must take faults first, and keeps them here:
//!
//! ```text
//!   userfaultfd ──read──> faults: a ring, first come, first served ──> handlers
//!                   └───> events: a ring, in the kernel's order ─────> the page table
//! ```
//!
//! There may be more faults than places. A fault that was read may be forgotten if its thread is woken later:
//! the thread faults again. It must not be woken while a thread still reads messages, since its new message
//! would come before the events, and with enough such threads no event would ever come. So the inbox only
//! records that a fault was forgotten. When all kept faults are handed out, all waiting threads are woken.
//!
//! Invariants:
//! - It is used under the order lock, or on behalf of the lock's holder while that thread is inside
//!   `mremap` (see `order.rs`).
//! - A fault in `seen` is among the kept ones.
//! - Events are never forgotten.

use crate::kernel::sched;
use crate::kernel::sys::PAGE;
use crate::kernel::uffd::{Message, Touch};
use crate::pages::events::order::Fault;

/// Maximum number of kept faults: one for each thread of all but the largest programs. Unused places cost
/// nothing.
const FAULTS: usize = 16_384;
/// The same for tests (`--paranoid`), so that faults are forgotten.
const FEW_FAULTS: usize = 16;
/// How many kept faults are searched for one that may be served first.
const AHEAD: usize = 256;
/// Size of the table that finds duplicates among the kept faults.
const SEEN: usize = 512;
/// Maximum number of kept events.
const EVENTS: usize = 16_384;
/// From this number of events on, a reader lets others run before it reads the next. Each thread has at most
/// one event on its way, and those of the keeper's own move come in order. So there can be more events than
/// threads only while the keeper gets no CPU to send its own.
const MANY_EVENTS: usize = EVENTS / 8;
const PACE_NS: u64 = 50_000;

/// See the module.
pub struct Inbox {
    faults: [u64; FAULTS],
    first: usize,
    count: usize,
    places: usize,
    seen: [u64; SEEN],
    forgotten: bool,
    events: [Message; EVENTS],
    events_first: usize,
    events_count: usize,
}

/// A fault as a number, never 0.
fn to_bits(fault: Fault) -> u64 {
    let touch = match fault.touch {
        Touch::Read => 1,
        Touch::Write => 2,
        Touch::Protected => 3,
    };
    fault.page as u64 | touch
}

fn from_bits(bits: u64) -> Fault {
    let touch = match bits & 3 {
        1 => Touch::Read,
        2 => Touch::Write,
        _ => Touch::Protected,
    };
    Fault { page: bits as usize & !(PAGE - 1), touch }
}

fn place_in_seen(bits: u64) -> usize {
    (bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SEEN
}

impl Inbox {
    /// An empty inbox.
    pub const fn new() -> Self {
        Inbox {
            faults: [0; FAULTS],
            first: 0,
            count: 0,
            places: FAULTS,
            seen: [0; SEEN],
            forgotten: false,
            events: [Message::Other; EVENTS],
            events_first: 0,
            events_count: 0,
        }
    }

    /// Reduces the number of places, so that faults are forgotten. Called before the first fault.
    pub fn keep_few(&mut self) {
        self.places = FEW_FAULTS;
    }

    /// Keeps a fault for later, or records that it was forgotten. A fault that is kept already is served
    /// once: if a signal interrupts a thread while the kernel waits for a page on its behalf, the thread
    /// faults again and again.
    pub fn keep(&mut self, fault: Fault) {
        let bits = to_bits(fault);
        let seen = &mut self.seen[place_in_seen(bits)];
        if *seen == bits {
            return;
        }
        if self.count == self.places {
            self.forgotten = true;
            return;
        }
        *seen = bits;
        self.faults[(self.first + self.count) % FAULTS] = bits;
        self.count += 1;
    }

    /// The oldest kept fault.
    pub fn next_fault(&mut self) -> Option<Fault> {
        self.count = self.count.checked_sub(1)?;
        let bits = self.faults[self.first];
        self.first = (self.first + 1) % FAULTS;
        let seen = &mut self.seen[place_in_seen(bits)];
        if *seen == bits {
            *seen = 0;
        }
        Some(from_bits(bits))
    }

    /// The first of the next few kept faults that is `wanted`. It overtakes faults that have to wait.
    pub fn next_fault_that(&mut self, wanted: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let at = (0..self.count.min(AHEAD))
            .find(|at| wanted(&from_bits(self.faults[(self.first + at) % FAULTS])))?;
        // It moves to the front, and those before it keep their order.
        for at in (1..=at).rev() {
            self.faults.swap((self.first + at) % FAULTS, (self.first + at - 1) % FAULTS);
        }
        self.next_fault()
    }

    /// Whether faults were forgotten and all kept ones are handed out: then the caller wakes all waiting
    /// threads.
    pub fn take_forgotten(&mut self) -> bool {
        self.count == 0 && core::mem::take(&mut self.forgotten)
    }

    /// Number of kept faults, and one more if some were forgotten.
    pub fn waiting(&self) -> usize {
        self.count + usize::from(self.forgotten)
    }

    /// In a forked child: the waiting threads do not exist there.
    pub fn clear_faults(&mut self) {
        (self.first, self.count, self.forgotten) = (0, 0, false);
        self.seen.fill(0);
    }

    /// Keeps an event, to be applied after those already kept; `false` if there is no room.
    #[must_use]
    pub fn push_event(&mut self, event: Message) -> bool {
        if self.events_count == EVENTS {
            return false;
        }
        self.events[(self.events_first + self.events_count) % EVENTS] = event;
        self.events_count += 1;
        true
    }

    /// Whether some events should be applied before more are read.
    pub fn has_many_events(&self) -> bool {
        self.events_count >= MANY_EVENTS
    }

    /// Called before an event is read in the keeper's place: see `MANY_EVENTS`.
    pub fn let_keeper_run(&self) {
        if self.has_many_events() {
            sched::sleep(PACE_NS);
        }
    }

    /// The event that is applied after `number` others.
    pub fn event(&self, number: usize) -> Option<Message> {
        (number < self.events_count).then(|| self.events[(self.events_first + number) % EVENTS])
    }

    /// Whether there are events.
    pub fn has_events(&self) -> bool {
        self.events_count > 0
    }

    /// The next event to apply.
    pub fn next_event(&mut self) -> Option<Message> {
        self.events_count = self.events_count.checked_sub(1)?;
        let first = self.events_first;
        self.events_first = (first + 1) % EVENTS;
        Some(self.events[first])
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    /// On the heap, because it is too large for a test's stack.
    fn inbox() -> Box<Inbox> {
        // SAFETY: an inbox consists of numbers, and of messages for which a discriminant of zero is valid.
        let mut inbox: Box<Inbox> = unsafe { Box::new_zeroed().assume_init() };
        inbox.places = FAULTS;
        inbox
    }

    fn fault(number: usize) -> Fault {
        Fault { page: (number + 16) * PAGE, touch: [Touch::Read, Touch::Write, Touch::Protected][number % 3] }
    }

    #[test]
    fn faults_are_served_in_their_order_and_each_once() {
        let mut inbox = inbox();
        for round in 0..3 {
            let all: Vec<Fault> = (0..FAULTS).map(|number| fault(number * (round + 1))).collect();
            for fault in &all {
                inbox.keep(*fault);
                inbox.keep(*fault);
            }
            assert!(inbox.waiting() == FAULTS && !inbox.take_forgotten());
            for fault in &all {
                let next = inbox.next_fault().unwrap();
                assert_eq!((next.page, next.touch), (fault.page, fault.touch));
            }
            assert!(inbox.next_fault().is_none() && !inbox.take_forgotten());
        }
        // The same page, touched in another way, is another fault; and a fault that was served may come
        // again.
        for touch in [Touch::Read, Touch::Write, Touch::Protected, Touch::Read] {
            inbox.keep(Fault { page: PAGE, touch });
        }
        assert_eq!(inbox.waiting(), 3);
        inbox.next_fault();
        inbox.keep(Fault { page: PAGE, touch: Touch::Read });
        assert_eq!(inbox.waiting(), 3);
    }

    #[test]
    fn one_may_go_before_others() {
        let mut inbox = inbox();
        (0..10).for_each(|number| inbox.keep(fault(number)));
        let mut next = |wanted: usize| {
            inbox.next_fault_that(|fault| fault.page == self::fault(wanted).page).map(|fault| fault.page)
        };
        assert_eq!(
            [next(7), next(0), next(11), next(7)],
            [Some(fault(7).page), Some(fault(0).page), None, None]
        );
        inbox.keep(fault(7));
        let rest: Vec<usize> = core::iter::from_fn(|| inbox.next_fault()).map(|fault| fault.page).collect();
        assert_eq!(rest, [1, 2, 3, 4, 5, 6, 8, 9, 7].map(|number| fault(number).page));
    }

    #[test]
    fn forgotten_faults_are_noted_until_all_kept_ones_are_handed_out() {
        let mut inbox = inbox();
        inbox.keep_few();
        (0..100).for_each(|number| inbox.keep(fault(number)));
        assert_eq!(inbox.waiting(), FEW_FAULTS + 1);
        for number in 0..FEW_FAULTS {
            assert!(!inbox.take_forgotten());
            assert_eq!(inbox.next_fault().unwrap().page, fault(number).page);
        }
        assert!(inbox.next_fault().is_none());
        assert!(inbox.take_forgotten() && !inbox.take_forgotten());
        (0..100).for_each(|number| inbox.keep(fault(number)));
        inbox.clear_faults();
        assert!(inbox.next_fault().is_none() && !inbox.take_forgotten());
        inbox.keep(fault(1));
        assert_eq!(inbox.waiting(), 1);
    }

    #[test]
    fn events_keep_their_order() {
        let mut inbox = inbox();
        let event = |number: usize| Message::Unmap { start: number, end: number + 1 };
        for round in 0..3 {
            assert!((0..EVENTS - round).all(|number| inbox.push_event(event(number))));
            assert!(inbox.has_many_events());
            assert_eq!(inbox.event(7), Some(event(7)));
            assert_eq!(inbox.event(EVENTS - round), None);
            assert!((0..EVENTS - round).all(|number| inbox.next_event() == Some(event(number))));
            assert!(!inbox.has_events() && inbox.next_event().is_none());
        }
        assert!((0..EVENTS).all(|number| inbox.push_event(event(number))));
        assert!(!inbox.push_event(event(0)));
    }
}
