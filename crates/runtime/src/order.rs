//! The order lock, and what the kernel's events do to the page table.
//!
//! The kernel lets the thread that unmaps, moves or discards memory go on as
//! soon as its event has been *read*. From then on its next touch must see
//! the new state. So messages are read, events are applied, and pages are put
//! in place only by the holder of one lock, the order lock. While an event is
//! on its way and not yet read, the kernel refuses to put pages in place
//! (EAGAIN). Together: no page that an event concerns is ever put in place
//! after the event was read and before it was applied.
//!
//! The keeper holds the lock all the while it takes a block away, so that no
//! thread gets past an event between the moment when the keeper has made sure
//! that the block is what it believes and the moment when it is taken. But its
//! own `mremap` waits until the message about it is read. So while the lock is
//! held by somebody inside that call, a handler reads in its place, as soon as
//! the move is done and its message on the way: see [`Runtime::lock_order`].
//! That is so when the pages' new place is registered, which a second
//! userfaultfd, the witness, finds out: it is refused there.

use core::sync::atomic::Ordering::*;

use memfold::store::Ref;

use crate::journal::{Journal, Record};
use crate::late::Late;
use crate::lock::Guard;
use crate::runtime::Runtime;
use crate::sched;
use crate::standby;
use crate::sys::{self, PAGE};
use crate::table::{BLOCK, Block, Entry, PAGES, SpareBlocks, State, index_in_block, page_number};
use crate::uffd::{Message, Touch};

/// Faults that were read while looking for events.
const DEFERRED: usize = 64;
/// Times of the last discards, by block number.
const REMOVED: usize = 4096;
/// After a discard event its thread has still to discard: for this long the
/// block is not evicted.
pub const REMOVE_GRACE_MS: u32 = 500;

/// A fault to be served.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The page's address.
    pub page: usize,
    /// What the thread wants.
    pub touch: Touch,
}

/// Looks at the order lock before a handler sleeps: a few microseconds.
const SPINS: usize = 100;

/// What the order lock protects.
pub struct Order {
    /// Block structures for reuse.
    pub spare: SpareBlocks,
    /// Blocks taken out of the table whose contents have to be freed.
    condemned: SpareBlocks,
    condemned_count: usize,
    /// A ring: who came first is served first.
    deferred: [Option<Fault>; DEFERRED],
    deferred_first: usize,
    deferred_count: usize,
    removed_ms: [u32; REMOVED],
    /// When nobody was discarding.
    quiet_ms: u32,
    /// Events that were read in the keeper's place, to be applied next: a ring.
    events: [Message; PROXY],
    events_first: usize,
    events_count: usize,
    /// See `late.rs`.
    pub late: Late,
    /// A fork is under way: what changes is written to the journal.
    pub forking: bool,
    /// See `journal.rs`.
    pub journal: Journal,
}

impl Order {
    /// Nothing under way.
    pub const fn new() -> Self {
        Order {
            spare: SpareBlocks::new(),
            condemned: SpareBlocks::new(),
            condemned_count: 0,
            deferred: [None; DEFERRED],
            deferred_first: 0,
            deferred_count: 0,
            removed_ms: [0; REMOVED],
            quiet_ms: 0,
            events: [Message::Other; PROXY],
            events_first: 0,
            events_count: 0,
            late: Late::new(),
            forking: false,
            journal: Journal::new(),
        }
    }

    /// Keeps a fault for later. `false` if there is no room: then its thread
    /// must be woken, to fault again.
    pub fn defer(&mut self, fault: Fault) -> bool {
        if self.deferred_count == DEFERRED {
            return false;
        }
        self.deferred[(self.deferred_first + self.deferred_count) % DEFERRED] = Some(fault);
        self.deferred_count += 1;
        true
    }

    /// Faults that were kept.
    pub fn deferred_count(&self) -> usize {
        self.deferred_count
    }

    /// Takes the fault that was kept first.
    pub fn next_deferred(&mut self) -> Option<Fault> {
        self.deferred_count = self.deferred_count.checked_sub(1)?;
        let first = self.deferred_first;
        self.deferred_first = (first + 1) % DEFERRED;
        self.deferred[first].take()
    }

    /// Adds an event to be applied later; `false` if there is no room.
    pub fn push_event(&mut self, event: Message) -> bool {
        if self.events_count == PROXY {
            return false;
        }
        let at = (self.events_first + self.events_count) % PROXY;
        self.events[at] = event;
        self.events_count += 1;
        true
    }

    /// The event to be applied after `number` others.
    pub fn event(&self, number: usize) -> Option<Message> {
        (number < self.events_count).then(|| self.events[(self.events_first + number) % PROXY])
    }

    /// Whether there are such.
    pub fn has_events(&self) -> bool {
        self.events_count > 0
    }

    /// The event to be applied next, of those that were read in the keeper's place.
    pub fn next_event(&mut self) -> Option<Message> {
        self.events_count = self.events_count.checked_sub(1)?;
        let first = self.events_first;
        self.events_first = (first + 1) % PROXY;
        Some(self.events[first])
    }

    /// Whether messages may be read: what an event does must be done or noted.
    pub fn may_read(&self) -> bool {
        !self.forking || self.journal.has_room()
    }

    /// Forgets faults of threads that do not exist in a forked child.
    pub fn clear_deferred(&mut self) {
        self.deferred = [None; DEFERRED];
        self.deferred_count = 0;
    }

    /// Whether a thread may still be discarding contents of the block: its
    /// event has been read, but it does so only afterwards. One that called the
    /// C library's function is known (`discarding` is the number of those);
    /// one that makes the system call itself is given time.
    pub fn was_removed_lately(&mut self, address: usize, discarding: u32) -> bool {
        let now = now_ms();
        if discarding == 0 {
            self.quiet_ms = now;
        }
        let at = self.removed_ms[address / BLOCK % REMOVED];
        let unknown = (self.quiet_ms.wrapping_sub(at) as i32) < 0;
        at != 0 && (now.wrapping_sub(at) < REMOVE_GRACE_MS || unknown)
    }

    fn note_removed(&mut self, start: usize, end: usize) {
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

/// Messages read in place of the keeper while it is inside `mremap`.
pub struct Proxy {
    messages: [Message; PROXY],
    count: usize,
}

/// More than can come: each thread waits until its message is read.
const PROXY: usize = 512;
/// Faults among them at most; who finds no room faults again.
const PROXY_FAULTS: usize = 256;
/// Looks for pages that should appear, before it is thought that there were none.
const LOOKS: usize = 16;

impl Proxy {
    /// Nothing read.
    pub const fn new() -> Self {
        Proxy { messages: [Message::Other; PROXY], count: 0 }
    }

    fn holds(&self, message: Message) -> bool {
        self.messages[..self.count].contains(&message)
    }

    fn add(&mut self, message: Message) {
        self.messages[self.count] = message;
        self.count += 1;
    }
}

impl Default for Proxy {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime {
    /// Takes the order lock, for a handler: reads in place of the keeper
    /// while that is inside `mremap`, since nobody else would.
    pub fn lock_order(&self) -> Guard<'_, Order> {
        // Most holders have it for a microsecond or two; the keeper, who has it longer, says so.
        for _ in 0..SPINS {
            if let Some(order) = self.order.try_lock() {
                return order;
            }
            if self.moving_to.load(Acquire) != 0 {
                break;
            }
            core::hint::spin_loop();
        }
        let mut may_sleep = true;
        loop {
            // Once its message was read, the keeper needs a CPU to go on, and was perhaps woken on this one. If that takes long, there was more
            // than one message.
            if self.moving_to.load(Acquire) != 0 && !(may_sleep && self.move_seen.load(Acquire)) {
                self.read_in_place();
                may_sleep = true;
                continue;
            }
            may_sleep = false;
            if let Some(order) = self.order.lock_for_a_moment(200_000) {
                return order;
            }
        }
    }

    fn read_in_place(&self) {
        let Some(mut proxy) = self.proxy.try_lock() else {
            sched::yield_now();
            return;
        };
        // Nothing may be read before the keeper's pages have moved, nor if they moved without a message
        // (then they go back): a thread whose event is read goes on, and must find them where they belong.
        for looks in 1usize.. {
            let to = self.moving_to.load(Acquire);
            if to == 0 {
                return;
            }
            let seems = sys::any_resident(to, BLOCK - to % BLOCK) || looks % LOOKS == 0;
            if seems && self.witness().is_taken(to) {
                break;
            }
            if looks % LOOKS == 0 { sched::yield_now() } else { core::hint::spin_loop() }
        }
        while self.moving_to.load(Acquire) != 0 && proxy.count < PROXY {
            match self.uffd().next() {
                Some(Message::Remap { to, .. }) if self.standby.contains(to) => {
                    self.move_seen.store(true, Release);
                    return;
                }
                // A thread with a signal pending faults again and again while it waits.
                Some(message @ Message::Fault { .. }) if proxy.holds(message) => {}
                Some(Message::Fault { page, .. }) if proxy.count >= PROXY_FAULTS => {
                    self.uffd().wake(page, PAGE)
                }
                Some(message) => proxy.add(message),
                None => core::hint::spin_loop(),
            }
        }
    }

    /// Handles what was read in place of the caller, who holds the order lock
    /// and has returned from `mremap`.
    pub fn take_proxy_messages(&self, order: &mut Guard<'_, Order>) {
        let mut proxy = self.proxy.lock();
        for index in 0..core::mem::take(&mut proxy.count) {
            match proxy.messages[index] {
                Message::Fault { page, touch, .. } => self.keep(order, Fault { page, touch }),
                event if order.push_event(event) => {}
                _ => self.fail("more messages came than there is room for"),
            }
        }
        drop(proxy);
        if let Some(event) = order.next_event() {
            self.apply(order, event);
        }
    }

    /// Reads all messages there are: applies events, keeps faults for later.
    /// Returns the number of events.
    pub fn drain(&self, order: &mut Guard<'_, Order>) -> usize {
        let mut events = 0;
        while order.may_read() {
            self.settle_late(order);
            let Some(message) = self.uffd().next() else { break };
            match message {
                Message::Fault { page, touch, tid } => {
                    self.follow.note(tid);
                    self.keep(order, Fault { page, touch });
                }
                event => {
                    self.apply(order, event);
                    events += 1;
                }
            }
        }
        events
    }

    /// Keeps a fault for later, or lets its thread fault again.
    pub fn keep(&self, order: &mut Guard<'_, Order>, fault: Fault) {
        if order.defer(fault) {
            self.deferred.fetch_add(1, Release);
        } else {
            self.uffd().wake(fault.page, PAGE);
        }
    }

    /// Applies an event to the page table, or notes it during a fork; and with
    /// it those that had to be read meanwhile.
    pub fn apply(&self, order: &mut Guard<'_, Order>, event: Message) {
        let mut next = Some(event);
        while let Some(event) = next {
            let here = !matches!(event, Message::Remap { to, .. } if self.standby.contains(to));
            if here && matches!(event, Message::Unmap { .. } | Message::Remap { .. }) {
                self.changes.fetch_add(1, Release);
            }
            if order.forking {
                order.journal.add(Record::Event(event));
            } else {
                self.apply_now(order, event);
            }
            next = order.next_event();
        }
    }

    /// After a fork: does what was noted.
    pub fn replay(&self, order: &mut Guard<'_, Order>) {
        order.forking = false;
        order.late.enabled = false;
        let journal = core::mem::take(&mut order.journal);
        journal.replay(|record| match record {
            Record::Event(event) => self.apply_now(order, event),
            Record::Served(page) => {
                if let Some(block) = self.table.block(page) {
                    self.drop_page(block, page);
                }
            }
        });
        order.late.enabled = true;
        order.journal = journal;
    }

    /// Applies an event to the page table. It may read others, and leave them to the caller.
    pub fn apply_now(&self, order: &mut Guard<'_, Order>, event: Message) {
        match event {
            Message::Remove { start, end } => {
                order.note_removed(start, end);
                self.drop_range(order, start, end);
            }
            Message::Unmap { start, end } => {
                self.unmapped_ns.store(sys::now_ns(), Relaxed);
                self.drop_unmapped(order, start, end);
                self.table.for_each_block(start, end, |_, block| block.stale.store(true, Relaxed));
                self.settle_late(order);
            }
            Message::Remap { from, to, bytes } => {
                if self.standby.contains(to) {
                    return;
                }
                self.unmapped_ns.store(sys::now_ns(), Relaxed);
                self.let_late_first(order, to, to + bytes);
                self.drop_range(order, to, to + bytes);
                self.move_range(order, from, to, bytes);
                order.late.note_arrived(to, to + bytes);
                self.settle_late(order);
            }
            Message::Fault { .. } | Message::Other => {}
        }
    }

    /// Forgets what was kept of a range: its contents are void.
    pub fn drop_range(&self, order: &mut Guard<'_, Order>, start: usize, end: usize) {
        self.table.for_each_block(start, end, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            if start <= base && base + BLOCK <= end {
                // The whole block: out of the table at once, freed later.
                if let Some(block) = self.table.detach(base) {
                    block.base.store(base, Relaxed);
                    order.condemned.put_full(block);
                    order.condemned_count += 1;
                }
                return;
            }
            for page in (start.max(base)..end.min(base + BLOCK)).step_by(PAGE) {
                self.drop_page(block, page);
            }
        });
        if order.condemned_count > 0 {
            self.work.ring();
        }
    }

    /// Forgets what is kept of a page: its contents are void, or it is present.
    pub fn drop_page(&self, block: &Block, page: usize) {
        let entry = &block.entries[index_in_block(page)];
        let state = self.take_over(entry);
        match state {
            State::Empty => return,
            State::Standby(id) => self.standby.forget(id),
            State::Zero => {
                self.zero_pages.fetch_sub(1, Relaxed);
            }
            State::Stored(found) => self.free(found, page_number(page)),
            State::Spilled(spot) => self.release_spot(spot),
            State::Pinned(found) => {
                self.settle_readers();
                self.free(found, page_number(page));
            }
        }
        block.evicted.fetch_sub(1, Relaxed);
    }

    /// Empties an entry. A thread that has pinned its blob may still read it:
    /// whoever wants to free the blob settles the readers first.
    fn take_over(&self, entry: &Entry) -> State {
        loop {
            let state = entry.load();
            if state == State::Empty || entry.replace(state, State::Empty) {
                return state;
            }
        }
    }

    /// Gives entries of a moved range to the new addresses.
    fn move_range(&self, order: &mut Guard<'_, Order>, from: usize, to: usize, bytes: usize) {
        let another =
            !crate::interpose::leaves_behind(from) && self.speaks_of_another(order, from, from + bytes);
        self.table.for_each_block(from, from + bytes, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            for page in (from.max(base)..(from + bytes).min(base + BLOCK)).step_by(PAGE) {
                if another && self.is_there(order, page) {
                    continue;
                }
                let entry = &block.entries[index_in_block(page)];
                let state = self.take_over(entry);
                match state {
                    State::Empty => continue,
                    State::Pinned(_) => self.settle_readers(),
                    _ => {}
                }
                block.evicted.fetch_sub(1, Relaxed);
                let new_page = page - from + to;
                let Some(new_block) = self.table.make_block(new_page, &self.arena, &mut order.spare) else {
                    self.fail("no memory is left for the page table while the program moves a mapping");
                };
                let new_state = match state {
                    State::Standby(id) => {
                        let slot = self.standby.slot(id >> 9);
                        let owner = page_number(new_page);
                        slot.owners[id as usize % PAGES].store(owner, Relaxed);
                        state
                    }
                    State::Stored(found) | State::Pinned(found) => {
                        State::Stored(self.reown(found, page_number(page), page_number(new_page)))
                    }
                    other => other,
                };
                new_block.entries[index_in_block(new_page)].store(new_state);
                new_block.evicted.fetch_add(1, Relaxed);
            }
        });
    }

    fn reown(&self, found: Ref, old: u64, new: u64) -> Ref {
        match self.store().store().reown(found, old, new) {
            Ok(()) => found,
            Err(_) => self.fail_corrupt(),
        }
    }

    /// Frees what condemned blocks hold, a few at a time. Returns whether
    /// there is more.
    pub fn free_condemned(&self) -> bool {
        let Some(block) = ({
            let mut order = self.order.lock();
            let block = order.condemned.pop();
            order.condemned_count -= usize::from(block.is_some());
            block
        }) else {
            return false;
        };
        // Who has read an entry of it before it was taken out may still read the blob.
        self.settle_readers();
        let base = block.base.load(Relaxed);
        for index in 0..PAGES {
            if let State::Standby(id) = block.entries[index].load() {
                let _order = self.order.lock();
                if block.entries[index].replace(State::Standby(id), State::Empty) {
                    self.standby.forget(id);
                }
            } else {
                self.drop_page(block, base + index * PAGE);
            }
        }
        self.order.lock().spare.put(block);
        true
    }
}

const _: () = assert!(standby::SLOTS * PAGES <= u32::MAX as usize);
