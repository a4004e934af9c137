//! A size class: a dense array of equal slots that never moves.
//!
//! Slots come in groups of 64. A group begins with a word that has a bit for each live slot, and with the
//! slots' headers. Groups come in segments, each twice as long as the one before. So a few instructions turn
//! an index into an address, and growing never copies:
//!
//! ```text
//!   segment 0       │ g │ g │
//!   segment 1       │ g │ g │ g │ g │
//!   segment 2       │ g │ g │ g │ g │ g │ g │·······│      (reserved, not committed)
//!                                     top ^   ^ committed
//!   group           ├ bits: u64 ┼ unused: u64 ┼ 64 headers ┼ slot 0 ┬ slot 1 ┬ ── ┬ slot 63 ┤
//! ```
//!
//! Everything below `committed` takes memory; everything above takes only addresses. `top` is the first index
//! that has not been used since the array last shrank to it; below it are live slots and holes.
//!
//! Invariants, all under the class's lock (see `check.rs`):
//! - a slot's bit is set from the moment it is taken until it is freed; the slot holds an intact blob except
//!   while its writer is still writing,
//! - no bit at or above `top` is set, no group below `low` has a hole,
//! - `live` is the number of bits set, `payload` the sum of their payloads,
//! - everything below `top` is committed.

pub(super) mod size;
pub(super) mod table;
mod tail;

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::Tuning;
use super::blob::{HEADER, Header, INDEX_BITS, Words};
use super::lock::Lock;
use super::memory::Memory;
use tail::Grown;

pub(super) const GROUP_SLOTS: u64 = 64;
/// The bits, and the headers.
pub(super) const GROUP_HEADER: usize = 16 + GROUP_SLOTS as usize * HEADER;
pub(super) const SEGMENTS: usize = 26;

/// The first segment has about this many bytes; tests make it small, to get many segments.
const FIRST_SEGMENT: usize = if cfg!(test) { 4096 } else { 65536 };
/// How many groups a put searches for a hole before it appends: few, so that every put is short, but enough
/// that less than one hole in 256 slots stays unused for long.
const GROUPS_LOOKED_AT: usize = 4;

/// A fresh zeroed page holds classes in their initial state, except for `slot` and `first_shift`.
#[repr(C, align(64))]
pub(super) struct Class {
    lock: Lock,
    /// Held while pages above `committed` are returned, which happens without `lock`. Nothing may be
    /// committed again until that is done.
    pub(super) tail: Lock,
    /// Bytes of a slot.
    pub(super) slot: u32,
    /// Segment 0 has `1 << first_shift` groups.
    first_shift: u32,
    state: UnsafeCell<State>,
    /// Slots that lie entirely in committed memory; readers access no others.
    pub(super) ready: AtomicU64,
    /// How many times generations have wrapped around.
    pub(super) wraps: AtomicU64,
    pub(super) segments: [AtomicPtr<u8>; SEGMENTS],
}

// SAFETY: `state` is only reached through a `Locked`, of which there is one
// at a time; all other fields are atomics or never change after `init`.
unsafe impl Sync for Class {}

/// The fields that the lock protects.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    /// Slots in use.
    pub(super) live: u64,
    /// Bytes of payload in them.
    pub(super) payload: u64,
    /// One above the highest slot that may be in use.
    pub(super) top: u64,
    /// The group where the next put begins its search for a hole.
    fill: u64,
    /// No group below this one has a hole.
    pub(super) low: u64,
    /// The segment in which the committed part ends.
    pub(super) segment: u32,
    generation: u16,
    /// Bytes committed in that segment.
    pub(super) offset: usize,
    /// Bytes committed in all segments.
    pub(super) committed: usize,
    /// A put that raises `top` above this requests the next unit.
    pub(super) soft: u64,
}

/// A class whose lock is held.
pub(super) struct Locked<'a, M: Memory> {
    pub(super) class: &'a Class,
    pub(super) memory: &'a M,
}

impl Class {
    /// Initialises a class in zeroed memory.
    ///
    /// # Safety
    ///
    /// `at` is aligned, zeroed memory of a `Class`'s size that nobody else uses yet.
    pub(super) unsafe fn init(at: NonNull<Class>, class: usize) {
        let slot = size::slot_bytes(class);
        let group = slot * GROUP_SLOTS as usize + GROUP_HEADER;
        let groups = FIRST_SEGMENT.div_ceil(group).next_power_of_two();
        // SAFETY: the fields lie within the caller's memory.
        unsafe {
            (&raw mut (*at.as_ptr()).slot).write(slot as u32);
            (&raw mut (*at.as_ptr()).first_shift).write(groups.ilog2());
        }
    }

    pub(super) fn lock<'a, M: Memory>(&'a self, memory: &'a M) -> Locked<'a, M> {
        self.lock.acquire(memory);
        Locked { class: self, memory }
    }

    /// Whether another thread waits for the class's lock.
    pub(super) fn is_wanted(&self) -> bool {
        self.lock.is_wanted()
    }

    /// Gives other threads a chance between two short uses of the class.
    pub(super) fn yield_to_waiters(&self) {
        self.lock.yield_to_waiters();
    }

    /// Releases the held lock while `wait` runs.
    pub(super) fn unlock_for<M: Memory>(&self, memory: &M, wait: impl FnOnce()) {
        self.lock.release(memory);
        wait();
        self.lock.acquire(memory);
    }

    pub(super) fn group_bytes(&self) -> usize {
        self.slot as usize * GROUP_SLOTS as usize + GROUP_HEADER
    }

    /// The segment of a group, and the group's offset in it.
    fn locate(&self, group: u64) -> (usize, usize) {
        let segment = ((group >> self.first_shift) + 1).ilog2();
        let before = ((1 << segment) - 1) << self.first_shift;
        (segment as usize, (group - before) as usize * self.group_bytes())
    }

    /// The address of a group, which must be in a reserved segment.
    pub(super) fn group(&self, group: u64) -> *mut u8 {
        let (segment, offset) = self.locate(group);
        let start = self.segments[segment].load(Ordering::Acquire);
        debug_assert!(!start.is_null());
        start.wrapping_add(offset)
    }

    /// The address of a slot, which must be in a reserved segment.
    pub(super) fn slot(&self, index: u64) -> *mut u8 {
        let in_group = GROUP_HEADER + (index % GROUP_SLOTS) as usize * self.slot as usize;
        self.group(index / GROUP_SLOTS).wrapping_add(in_group)
    }

    /// The address of a slot's header; the slot must be in a reserved segment.
    pub(super) fn header(&self, index: u64) -> *const Words {
        self.group(index / GROUP_SLOTS).wrapping_add(16 + (index % GROUP_SLOTS) as usize * HEADER).cast()
    }

    /// The length of a blob with that header; `None` if no blob of this class has such a header.
    pub(super) fn payload_len(&self, header: Header) -> Option<usize> {
        (self.slot as usize).checked_sub(header.pad as usize)
    }

    /// Whether the slot lies in committed memory.
    pub(super) fn is_ready(&self, index: u64) -> bool {
        index < self.ready.load(Ordering::Acquire)
    }

    /// Slots that lie entirely before `offset` in `segment`, or in the segments before it.
    pub(super) fn slots_before(&self, segment: usize, offset: usize) -> u64 {
        let before = ((1u64 << segment) - 1) << self.first_shift;
        let groups = (1usize << self.first_shift << segment).min(offset / self.group_bytes());
        let rest = offset - groups * self.group_bytes();
        // The last group is followed only by the rounding to a page.
        let slots = rest.saturating_sub(GROUP_HEADER) / self.slot as usize;
        let slots = if groups == 1 << self.first_shift << segment { 0 } else { slots };
        (before + groups as u64) * GROUP_SLOTS + slots as u64
    }

    /// Bytes of address space of a segment.
    pub(super) fn segment_bytes<M: Memory>(&self, segment: usize, memory: &M) -> usize {
        (self.group_bytes() << self.first_shift << segment).next_multiple_of(memory.page_size())
    }

    /// Returns every segment.
    ///
    /// # Safety
    ///
    /// Nobody uses the class any more.
    pub(super) unsafe fn unreserve<M: Memory>(&self, memory: &M) {
        for (i, segment) in self.segments.iter().enumerate() {
            if let Some(start) = NonNull::new(segment.swap(ptr::null_mut(), Ordering::Relaxed)) {
                // SAFETY: this is a whole reservation, and unused, as the caller guarantees.
                unsafe { memory.unreserve(start, self.segment_bytes(i, memory)) };
            }
        }
    }
}

impl<M: Memory> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        self.class.lock.release(self.memory);
    }
}

impl<M: Memory> core::ops::Deref for Locked<'_, M> {
    type Target = State;

    fn deref(&self) -> &State {
        // SAFETY: the lock is held for as long as `self` lives.
        unsafe { &*self.class.state.get() }
    }
}

impl<M: Memory> core::ops::DerefMut for Locked<'_, M> {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: the lock is held for as long as `self` lives.
        unsafe { &mut *self.class.state.get() }
    }
}

impl<M: Memory> Locked<'_, M> {
    /// The bits of the live slots in a group below `top`.
    pub(super) fn bits(&self, group: u64) -> u64 {
        debug_assert!(group * GROUP_SLOTS < self.top);
        // SAFETY: the group's header is committed, since it lies below the
        // top, and is only accessed with the lock held.
        unsafe { self.class.group(group).cast::<u64>().read() }
    }

    pub(super) fn set_bits(&mut self, group: u64, bits: u64) {
        debug_assert!(group * GROUP_SLOTS < self.top);
        // SAFETY: as in `bits`.
        unsafe { self.class.group(group).cast::<u64>().write(bits) }
    }

    pub(super) fn is_live(&self, index: u64) -> bool {
        index < self.top && self.bits(index / GROUP_SLOTS) >> (index % GROUP_SLOTS) & 1 != 0
    }

    /// The bits of the slots below the top in a group.
    pub(super) fn used_mask(&self, group: u64) -> u64 {
        let left = self.top - group * GROUP_SLOTS;
        if left >= GROUP_SLOTS { !0 } else { (1 << left) - 1 }
    }

    pub(super) fn groups(&self) -> u64 {
        self.top.div_ceil(GROUP_SLOTS)
    }

    pub(super) fn holes(&self) -> u64 {
        self.top - self.live
    }

    /// Bytes from the start of the array to the end of the last slot below `top`, including the rounding of
    /// full segments.
    pub(super) fn used_bytes(&self) -> usize {
        let Some(last) = self.top.checked_sub(1) else { return 0 };
        let (segment, offset) = self.class.locate(last / GROUP_SLOTS);
        let before: usize = (0..segment).map(|s| self.class.segment_bytes(s, self.memory)).sum();
        before + offset + GROUP_HEADER + (last % GROUP_SLOTS + 1) as usize * self.class.slot as usize
    }

    /// Committed bytes above the last slot.
    pub(super) fn slack(&self) -> usize {
        self.committed - self.used_bytes()
    }

    /// A generation for a new blob: never zero, and not repeated soon.
    pub(super) fn next_generation(&mut self) -> u16 {
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            self.class.wraps.fetch_add(1, Ordering::Relaxed);
            1
        });
        self.generation
    }

    /// Takes a slot for a blob of `payload` bytes: a hole if one is near, otherwise the one at the top.
    pub(super) fn take(&mut self, payload: usize, tuning: Tuning) -> Option<u64> {
        let index = loop {
            if let Some(hole) = self.take_hole() {
                break hole;
            }
            match self.append(tuning) {
                Grown::Done(index) => break index,
                Grown::Full => return None,
                Grown::Busy => self.wait_for_tail(),
            }
        };
        self.live += 1;
        self.payload += payload as u64;
        Some(index)
    }

    fn take_hole(&mut self) -> Option<u64> {
        if self.holes() == 0 {
            return None;
        }
        for _ in 0..GROUPS_LOOKED_AT {
            if self.fill >= self.groups() {
                self.fill = 0;
            }
            let group = self.fill;
            let bits = self.bits(group);
            let free = !bits & self.used_mask(group);
            if free != 0 {
                self.set_bits(group, bits | (free & free.wrapping_neg()));
                return Some(group * GROUP_SLOTS + u64::from(free.trailing_zeros()));
            }
            self.fill += 1;
        }
        None
    }

    fn append(&mut self, tuning: Tuning) -> Grown<u64> {
        let index = self.top;
        if index >= 1 << INDEX_BITS {
            return Grown::Full;
        }
        while !self.class.is_ready(index) {
            match self.grow(tuning) {
                Grown::Done(()) => {}
                Grown::Full => return Grown::Full,
                Grown::Busy => return Grown::Busy,
            }
        }
        self.top += 1;
        let group = index / GROUP_SLOTS;
        let bits = if index.is_multiple_of(GROUP_SLOTS) { 0 } else { self.bits(group) };
        self.set_bits(group, bits | 1 << (index % GROUP_SLOTS));
        // The next unit is requested before this one is full. If there is no memory for it now, later puts
        // try again.
        while self.top > self.soft && matches!(self.grow(tuning), Grown::Done(())) {}
        Grown::Done(index)
    }

    /// Frees a slot whose blob had `payload` bytes.
    pub(super) fn give_back(&mut self, index: u64, payload: usize) {
        self.clear(index);
        self.live -= 1;
        self.payload -= payload as u64;
        if index + 1 == self.top {
            self.lower_top(GROUPS_LOOKED_AT);
        }
    }

    pub(super) fn clear(&mut self, index: u64) {
        let group = index / GROUP_SLOTS;
        let bits = self.bits(group);
        self.set_bits(group, bits & !(1 << (index % GROUP_SLOTS)));
        self.low = self.low.min(group);
    }

    /// Lowers `top` past free slots, looking at no more than `groups` groups. Returns true if the slot below
    /// `top` is live, or there is none.
    pub(super) fn lower_top(&mut self, groups: usize) -> bool {
        for _ in 0..groups {
            if self.top == 0 {
                return true;
            }
            let group = (self.top - 1) / GROUP_SLOTS;
            let bits = self.bits(group);
            self.top = group * GROUP_SLOTS + u64::from(64 - bits.leading_zeros());
            self.low = self.low.min(self.groups());
            if bits != 0 {
                return true;
            }
        }
        self.top == 0
    }

    /// The lowest hole below the top, if there is one in the first `groups` groups from `low` on.
    pub(super) fn lowest_hole(&mut self, groups: usize) -> Option<u64> {
        for _ in 0..groups {
            let group = self.low;
            if group >= self.groups() {
                return None;
            }
            let free = !self.bits(group) & self.used_mask(group);
            if free != 0 {
                return Some(group * GROUP_SLOTS + u64::from(free.trailing_zeros()));
            }
            self.low += 1;
        }
        None
    }
}
