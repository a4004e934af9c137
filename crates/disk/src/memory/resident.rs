//! Uncompressed copies of pages that are read again and again.
//!
//! A page is admitted when it is read for the second time within a while, so that a scan of everything evicts
//! nothing. There are sets of eight frames each, with second-chance replacement within a set. Written data go
//! to the store in any case, so a frame can be dropped at any time.
//!
//! Locks: a thread that holds the lock of the page's leaf may take a set's lock, never the other way round. A
//! thread that changes a page also calls [`Resident::update`] with the leaf's lock held; a thread that admits
//! a page holds that lock, too, and has checked that its copy is still the page's content.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::index::leaf::PAGE;
use crate::locked;
use crate::memory::budget::Budget;

/// Frames of a set.
const WAYS: usize = 8;
/// Bytes of a set's frames.
const SET: usize = WAYS * PAGE;

#[derive(Default)]
struct Set {
    /// The page in each frame, plus one; zero where there is none.
    pages: [u64; WAYS],
    /// Used since the clock hand passed: a bit for each frame.
    used: u8,
    hand: u8,
    frames: Vec<u8>,
}

/// The uncompressed copies; see the module.
pub struct Resident {
    sets: Box<[Mutex<Set>]>,
    bytes: AtomicU64,
    pub hits: AtomicU64,
    /// Where the next sweep begins.
    sweep: AtomicU64,
}

impl Resident {
    /// Room for at most `most` bytes of pages; none is allocated yet.
    pub fn new(most: u64) -> Self {
        let sets = (most / SET as u64).min(1 << 24) as usize;
        Resident {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            bytes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            sweep: AtomicU64::new(0),
        }
    }

    /// Bytes of frames.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes of tables.
    pub fn table_bytes(&self) -> u64 {
        size_of_val::<[Mutex<Set>]>(&self.sets) as u64
    }

    fn set(&self, page: u64) -> Option<&Mutex<Set>> {
        // Neighbours are in different sets.
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.sets.get(((mixed * self.sets.len() as u64) >> 32) as usize)
    }

    /// Copies a part of a page, from byte `at`, if the page is resident.
    pub fn read(&self, page: u64, at: usize, dst: &mut [u8]) -> bool {
        if self.bytes() == 0 {
            return false;
        }
        let Some(set) = self.set(page) else { return false };
        let mut set = locked(set);
        let Some(way) = set.find(page) else { return false };
        set.used |= 1 << way;
        dst.copy_from_slice(&set.frames[way * PAGE + at..][..dst.len()]);
        drop(set);
        self.hits.fetch_add(1, Relaxed);
        true
    }

    /// Updates a resident page to its new content. The leaf's lock must be held.
    pub fn update(&self, page: u64, content: Option<&[u8; PAGE]>, budget: &Budget) {
        if self.bytes() == 0 {
            return;
        }
        let Some(set) = self.set(page) else { return };
        let mut set = locked(set);
        if let Some(way) = set.find(page) {
            match content {
                Some(content) => set.frames[way * PAGE..][..PAGE].copy_from_slice(content),
                None => {
                    set.pages[way] = 0;
                    set.used &= !(1 << way);
                    if set.pages == [0; WAYS] {
                        self.drop_frames(&mut set, budget);
                    }
                }
            }
        }
    }

    /// Admits a page if its set's frames exist or fit within `most` bytes of frames. The leaf's lock must be
    /// held.
    pub fn admit(&self, page: u64, content: &[u8; PAGE], most: u64, budget: &Budget) {
        let Some(set) = self.set(page) else { return };
        let mut set = locked(set);
        if set.frames.is_empty() {
            if self.bytes() + SET as u64 > most || !budget.take(SET as u64) {
                return;
            }
            if set.frames.try_reserve_exact(SET).is_err() {
                budget.give(SET as u64);
                return;
            }
            set.frames.resize(SET, 0);
            self.bytes.fetch_add(SET as u64, Relaxed);
        }
        let way = set.find(page).unwrap_or_else(|| set.victim());
        set.pages[way] = page + 1;
        set.frames[way * PAGE..][..PAGE].copy_from_slice(content);
    }

    /// Examines `count` sets: drops the frames of sets none of whose pages was used since the last sweep, or of
    /// any set while the frames exceed `most` bytes.
    pub fn sweep(&self, count: usize, most: u64, budget: &Budget) {
        if self.bytes() == 0 {
            return;
        }
        for _ in 0..count.min(self.sets.len()) {
            let at = self.sweep.fetch_add(1, Relaxed) % self.sets.len() as u64;
            let mut set = locked(&self.sets[at as usize]);
            if set.frames.is_empty() {
                continue;
            }
            if set.used == 0 || self.bytes() > most {
                self.drop_frames(&mut set, budget);
            } else {
                set.used = 0;
            }
        }
    }

    fn drop_frames(&self, set: &mut Set, budget: &Budget) {
        *set = Set { hand: set.hand, ..Set::default() };
        self.bytes.fetch_sub(SET as u64, Relaxed);
        budget.give(SET as u64);
    }

    /// Drops everything; returns the bytes that this released.
    pub fn clear(&self, budget: &Budget) -> u64 {
        let before = self.bytes();
        self.sweep(self.sets.len(), 0, budget);
        before - self.bytes().min(before)
    }
}

impl Set {
    fn find(&self, page: u64) -> Option<usize> {
        self.pages.iter().position(|&held| held == page + 1)
    }

    fn victim(&mut self) -> usize {
        loop {
            let way = usize::from(self.hand);
            self.hand = (self.hand + 1) % WAYS as u8;
            if self.pages[way] == 0 || self.used & 1 << way == 0 {
                return way;
            }
            self.used &= !(1 << way);
        }
    }
}
