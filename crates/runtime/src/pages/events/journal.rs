//! The journal: what happens to pages while a fork is under way.
//!
//! From before the fork until after it, the page table and the store do not change, so that the child
//! inherits them whole. Handlers keep running, because the C library's fork waits for locks that other
//! threads hold, and those threads may wait for pages. Handlers record here the changes that they would have
//! made; these are made after the fork.
//!
//! ```text
//! | 1 served page | 2 event | 3 event | 4 served page | 0 (end) ...
//! ```
//!
//! A record is written before its number, and both lie in one page of memory. The child's copy of memory is
//! not taken at a single moment; still, the child sees each record whole or not at all.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use crate::kernel::rlimit;
use crate::kernel::sys::PAGE;
use crate::kernel::uffd::Message;
use crate::memory::arena::Arena;

/// Maximum number of records; and the number at first, which is final where the program's memory is limited.
const RECORDS: usize = 1 << 20;
const FEWER_RECORDS: usize = 1 << 15;
/// One in this many records is reserved for events.
const FOR_EVENTS: usize = 8;
const SERVED: u64 = 1;
const REMOVE: u64 = 2;
const UNMAP: u64 = 3;
const REMAP: u64 = 4;

/// 64 bytes, so that no record crosses a page boundary.
#[repr(C, align(64))]
struct Raw {
    number: AtomicU64,
    kind: AtomicU64,
    arguments: [AtomicU64; 3],
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A page was restored; its entry must still be emptied.
    Served(usize),
    /// An event that must still be applied.
    Event(Message),
}

/// The journal; see the module. Used under the order lock.
pub struct Journal {
    records: AtomicUsize,
    room: AtomicUsize,
    count: AtomicUsize,
    /// Number of records up to the last event.
    events: AtomicUsize,
}

impl Journal {
    /// A journal without memory.
    pub const fn new() -> Self {
        Journal {
            records: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
        }
    }

    /// Reserves, once, memory for the first records.
    pub fn init(&self, arena: &Arena) -> Option<()> {
        if self.room.load(Relaxed) == 0 { self.take(arena, FEWER_RECORDS) } else { Some(()) }
    }

    /// Reserves memory for the maximum number of records, if the process may have that much. Called before a
    /// fork, while the journal is empty.
    pub fn enlarge(&self, arena: &Arena) {
        if self.room.load(Relaxed) < RECORDS && rlimit::memory().is_none() {
            let _ = self.take(arena, RECORDS);
        }
    }

    fn take(&self, arena: &Arena, room: usize) -> Option<()> {
        let records = arena.reserve_for_pages(room * size_of::<Raw>(), PAGE)? as usize;
        self.room.store(room, Relaxed);
        self.records.store(records, Relaxed);
        Some(())
    }

    /// Whether there is room for another record, an event. Without room no message may be read.
    pub fn has_room(&self) -> bool {
        self.count.load(Relaxed) < self.room.load(Relaxed)
    }

    /// Whether there is room to record that a page was restored. The last part of the journal is for events.
    /// A missing record does no harm and only costs memory: the resident page is right, as it is in a forked
    /// child (`reclaim/evict`, `faults`), and the outdated entry goes when the page is next evicted or unmapped.
    pub fn has_room_for_page(&self) -> bool {
        let room = self.room.load(Relaxed);
        self.count.load(Relaxed) < room - room / FOR_EVENTS
    }

    fn raw(&self, index: usize) -> &Raw {
        assert!(index < self.room.load(Relaxed));
        // SAFETY: the index is inside the array, which consists of zeroed memory and is never freed.
        unsafe { &*(self.records.load(Relaxed) as *const Raw).add(index) }
    }

    /// Adds a record.
    pub fn add(&self, record: Record) {
        let index = self.count.load(Relaxed);
        let raw = self.raw(index);
        let (kind, arguments) = match record {
            Record::Served(page) => (SERVED, [page, 0, 0]),
            Record::Event(Message::Remove { start, end }) => (REMOVE, [start, end, 0]),
            Record::Event(Message::Unmap { start, end }) => (UNMAP, [start, end, 0]),
            Record::Event(Message::Remap { from, to, bytes }) => (REMAP, [from, to, bytes]),
            Record::Event(_) => return,
        };
        raw.kind.store(kind, Relaxed);
        for (cell, value) in raw.arguments.iter().zip(arguments) {
            cell.store(value as u64, Relaxed);
        }
        raw.number.store(index as u64 + 1, Release);
        if kind != SERVED {
            self.events.store(index + 1, Relaxed);
        }
        self.count.store(index + 1, Release);
    }

    fn get(&self, index: usize) -> Option<Record> {
        let raw = self.raw(index);
        if raw.number.load(Acquire) != index as u64 + 1 {
            return None;
        }
        let [a, b, c] = [0, 1, 2].map(|i| raw.arguments[i].load(Relaxed) as usize);
        match raw.kind.load(Relaxed) {
            SERVED => Some(Record::Served(a)),
            REMOVE => Some(Record::Event(Message::Remove { start: a, end: b })),
            UNMAP => Some(Record::Event(Message::Unmap { start: a, end: b })),
            REMAP => Some(Record::Event(Message::Remap { from: a, to: b, bytes: c })),
            _ => None,
        }
    }

    /// Calls `visit` with every record, oldest first, and empties the journal. A child may see fewer or more
    /// records than the count says.
    pub fn replay(&self, mut visit: impl FnMut(Record)) {
        for index in 0..self.room.load(Relaxed) {
            let Some(record) = self.get(index) else { break };
            visit(record);
            self.raw(index).number.store(0, Relaxed);
        }
        self.count.store(0, Release);
        self.events.store(0, Relaxed);
    }

    /// The address at which the page table has the entry of the page that is now at `page`; `None` if the
    /// entry is out of date and nothing is kept of the page.
    pub fn find(&self, mut page: usize) -> Option<usize> {
        for index in (0..self.count.load(Relaxed)).rev() {
            match self.get(index)? {
                Record::Served(served) if served == page => return None,
                Record::Event(Message::Remove { start, end } | Message::Unmap { start, end })
                    if (start..end).contains(&page) =>
                {
                    return None;
                }
                Record::Event(Message::Remap { from, to, bytes }) => {
                    if (to..to + bytes).contains(&page) {
                        page = page - to + from;
                    } else if (from..from + bytes).contains(&page) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(page)
    }

    /// The present address of the page whose entry is at `page`; `None` if its contents are void.
    pub fn place_of(&self, mut page: usize) -> Option<usize> {
        // This is called for each page of a child. Most records are of served pages, which do not move.
        for index in 0..self.events.load(Relaxed) {
            match self.get(index)? {
                Record::Event(Message::Remove { start, end } | Message::Unmap { start, end })
                    if (start..end).contains(&page) =>
                {
                    return None;
                }
                Record::Event(Message::Remap { from, to, bytes }) => {
                    if (from..from + bytes).contains(&page) {
                        page = page - from + to;
                    } else if (to..to + bytes).contains(&page) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(page)
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn pages_are_found_through_what_happened() {
        let (arena, journal) = (Arena::new(), Journal::new());
        journal.init(&arena).unwrap();
        journal.add(Record::Event(Message::Remap { from: 0x10000, to: 0x50000, bytes: 0x4000 }));
        journal.add(Record::Served(0x51000));
        journal.add(Record::Event(Message::Remove { start: 0x52000, end: 0x53000 }));
        assert_eq!(journal.find(0x50000), Some(0x10000));
        assert_eq!(journal.find(0x51000), None);
        assert_eq!(journal.find(0x52000), None);
        assert_eq!(journal.find(0x11000), None);
        assert_eq!(journal.find(0x53000), Some(0x13000));
        assert_eq!(journal.find(0x90000), Some(0x90000));
        // The other direction: served pages are still where they were.
        let places =
            [0x10000, 0x11000, 0x12000, 0x13000, 0x50000, 0x90000].map(|page| journal.place_of(page));
        assert_eq!(places, [Some(0x50000), Some(0x51000), None, Some(0x53000), None, Some(0x90000)]);
        let mut seen = Vec::new();
        journal.replay(|record| seen.push(record));
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[1], Record::Served(0x51000));
        assert_eq!(journal.find(0x51000), Some(0x51000));
        journal.replay(|_| panic!("it is empty"));
    }

    #[test]
    fn a_full_journal_is_replayed() {
        let (arena, journal) = (Arena::new(), Journal::new());
        journal.init(&arena).unwrap();
        let mut noted = 0;
        while journal.has_room() {
            journal.add(Record::Served(noted * PAGE));
            noted += 1;
        }
        assert_eq!(noted, FEWER_RECORDS);
        assert!(!journal.has_room_for_page());
        let mut seen = 0;
        journal.replay(|record| {
            assert_eq!(record, Record::Served(seen * PAGE));
            seen += 1;
        });
        assert_eq!(seen, noted);
        assert!(journal.has_room() && journal.has_room_for_page());
        for page in 0..FEWER_RECORDS {
            if journal.has_room_for_page() {
                journal.add(Record::Served(page * PAGE));
            }
        }
        let mut events = 0;
        while journal.has_room() {
            journal.add(Record::Event(Message::Remove { start: 0, end: PAGE }));
            events += 1;
        }
        assert_eq!(events, FEWER_RECORDS / FOR_EVENTS);
    }
}
