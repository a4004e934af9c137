//! The order lock, and what the kernel's events do to the page table.
//!
//! The kernel lets the thread that unmaps, moves or discards memory go on as soon as its event has been
//! *read*. From then on, the thread's next touch must see the new state. So only the holder of one lock, the
//! order lock, reads messages, applies events, and places pages. While an event is on its way and not yet
//! read, the kernel refuses to place pages (EAGAIN). Together this ensures that no page that an event
//! concerns is placed after the event was read and before it was applied.
//!
//! The keeper holds the lock during the whole eviction of a block, so that no thread gets past an event
//! between the check of the block and its eviction. But the keeper's own `mremap` waits until the message
//! about it is read. So while the holder of the lock is inside that call, a handler reads in its place, as
//! soon as the move is done and its message is on the way: see [`Runtime::lock_order`]. That is the case when
//! the pages' new place is registered. A second userfaultfd, the witness, finds this out: it is refused
//! there.

use core::sync::atomic::Ordering::*;

use crate::kernel::sched;
use crate::kernel::sys;
use crate::kernel::uffd::{Message, Touch};
use crate::memory::lock::Guard;
use crate::pages::clean::recent::Recent;
use crate::pages::inbox::Inbox;
use crate::pages::journal::{Journal, Record};
use crate::pages::late::Late;
use crate::pages::table::{BLOCK, SpareBlocks};
use crate::runtime::Runtime;

/// Times of the last discards, by block number.
const REMOVED: usize = 4096;
/// A thread discards only after its discard event was read: for this long the block is not evicted.
pub const REMOVE_GRACE_MS: u32 = 500;

/// A fault to be served.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The page's address.
    pub page: usize,
    /// The kind of access.
    pub touch: Touch,
}

/// How often a handler tries the order lock before it sleeps: a few microseconds.
const SPINS: usize = 100;

/// What the order lock protects.
pub struct Order {
    /// Block structures for reuse.
    pub spare: SpareBlocks,
    /// Blocks taken out of the table whose contents must still be freed.
    pub condemned: SpareBlocks,
    pub condemned_count: usize,
    removed_ms: [u32; REMOVED],
    /// When it was last seen that no thread was discarding.
    quiet_ms: u32,
    /// See `late.rs`.
    pub late: Late,
    /// A fork is under way: changes are written to the journal.
    pub forking: bool,
    /// The message about that fork was read.
    pub fork_seen: bool,
    /// See `journal.rs`.
    pub journal: Journal,
    /// Clean pages may have been written during the fork without a record, because the journal was full.
    pub blobs_void: bool,
    /// Clean pages that were restored recently.
    pub recent: Recent,
}

impl Order {
    /// Nothing is under way.
    pub const fn new() -> Self {
        Order {
            spare: SpareBlocks::new(),
            condemned: SpareBlocks::new(),
            condemned_count: 0,
            removed_ms: [0; REMOVED],
            quiet_ms: 0,
            late: Late::new(),
            forking: false,
            fork_seen: false,
            journal: Journal::new(),
            blobs_void: false,
            recent: Recent::new(),
        }
    }

    /// Whether messages may be read: it must be possible to apply an event or to record it.
    pub fn may_read(&self) -> bool {
        !self.forking || self.journal.has_room()
    }

    /// Whether a thread may still be discarding contents of the block: its event has been read, but it
    /// discards only afterwards. Threads that called the C library's function are counted (`discarding` is
    /// their number); a thread that makes the system call itself is given time.
    pub fn was_removed_lately(&mut self, address: usize, discarding: u32) -> bool {
        let now = now_ms();
        if discarding == 0 {
            self.quiet_ms = now;
        }
        let at = self.removed_ms[address / BLOCK % REMOVED];
        let unknown = (self.quiet_ms.wrapping_sub(at) as i32) < 0;
        at != 0 && (now.wrapping_sub(at) < REMOVE_GRACE_MS || unknown)
    }

    pub fn note_removed(&mut self, start: usize, end: usize) {
        let now = now_ms();
        let (first, last) = (start / BLOCK, end.div_ceil(BLOCK));
        for number in first..last.min(first + REMOVED) {
            self.removed_ms[number % REMOVED] = now;
        }
    }
}

/// Never zero.
fn now_ms() -> u32 {
    ((sys::now_ns() / 1_000_000) as u32).max(1)
}

impl Default for Order {
    fn default() -> Self {
        Self::new()
    }
}

/// Maximum number of messages to read before the caller looks again: threads whose events are read go on, and
/// may send more at once.
const READ_AT_MOST: usize = 4096;
/// After how many looks for pages at the target the witness is asked although none were seen.
const LOOKS: usize = 16;

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
            match self.uffd().next() {
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
        self.note_waiting(&inbox);
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
            match self.uffd().next() {
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
        self.note_waiting(&inbox);
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
        self.note_waiting(&inbox);
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
        self.note_waiting(&inbox);
        next
    }

    fn note_waiting(&self, inbox: &Guard<'_, Inbox>) {
        self.faults.deferred.store(inbox.waiting() as u32, Release);
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
                self.count_change(event);
                self.apply_now(order, event);
            }
            next = self.pages.proxy.lock().next_event();
        }
    }

    /// Records an event during a fork.
    pub fn write_down(&self, order: &mut Guard<'_, Order>, event: Message) {
        self.count_change(event);
        order.journal.add(Record::Event(event));
    }

    fn count_change(&self, event: Message) {
        let here = !matches!(event, Message::Remap { to, .. } if self.pages.standby.contains(to));
        if here && matches!(event, Message::Unmap { .. } | Message::Remap { .. }) {
            self.pages.changes.fetch_add(1, Release);
        }
    }
}
