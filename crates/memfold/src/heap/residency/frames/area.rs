//! A reservation that holds the same item for each frame.
//!
//! ```text
//!   | item 0 | item 1 | item 2 | item 3 | ..      `each` bytes, no gaps
//!   | page | page | page | page | page | ..       with memory as long as an item in it is in use
//!   | unit                      | unit ..         as long as a huge page; of images only
//! ```
//!
//! Invariants:
//! - A page has memory if an item in it is in use, or its unit is **whole**.
//! - A unit is whole if all its pages are to have memory, so that a huge page may take their place. Those of
//!   its pages that have no item in use are **hollow**: they cost memory for nothing.
//! - The system makes huge pages of whole units only, so it never adds memory that is not accounted for.

use std::ops::Range;
use std::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use crate::SystemMemory;
use crate::store::Memory;

/// One in this many bytes of frames may be hollow when a unit gets its memory at once, since it will be
/// filled.
pub const HOLLOW: u64 = 64;
/// One in this many may be hollow after a shrinking heap has returned frames, since that may last.
pub const KEPT_HOLLOW: u64 = 1024;

/// The memory that all areas of a heap take.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Bytes that have memory, and how many of those are hollow.
    pub committed: u64,
    pub hollow: u64,
}

impl Tally {
    /// Whether a unit may be made whole at once if `bytes` of it are not needed yet.
    fn may_waste(&self, bytes: usize, unit: usize) -> bool {
        bytes == 0 || self.hollow + bytes as u64 <= (self.committed + unit as u64) / HOLLOW
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    /// Pages with an item in use.
    used: u32,
    whole: bool,
}

/// See the module.
pub struct Area {
    start: NonNull<u8>,
    /// The whole reservation, including what lies before the first unit.
    reserved: (NonNull<u8>, usize),
    each: usize,
    page: usize,
    /// For each page the number of its items in use.
    users: Vec<u16>,
    /// Pages of a unit.
    in_unit: usize,
    units: Vec<Unit>,
}

// SAFETY: the pointers are to a reservation that the area owns.
unsafe impl Send for Area {}

impl Area {
    /// An area for `items` items, none of which is in use. If `huge` is given, huge pages of that many bytes
    /// may back it. `None` if the system has no address space left.
    pub fn new(items: usize, each: usize, huge: Option<usize>) -> Option<Self> {
        let page = SystemMemory.page_size();
        let unit = huge.unwrap_or(page);
        let bytes = items.checked_mul(each)?.max(1).next_multiple_of(unit);
        let (in_unit, count) = huge.map_or((usize::MAX, 0), |unit| (unit / page, bytes / unit));
        let reserved = bytes + unit - page;
        let first = SystemMemory.reserve(reserved)?;
        // SAFETY: reservations begin at pages, so the offset is less than what was reserved beyond `bytes`.
        let start = unsafe { first.add(first.as_ptr().align_offset(unit)) };
        let (users, units) = (vec![0; bytes / page], vec![Unit::default(); count]);
        Some(Area { start, reserved: (first, reserved), each, page, users, in_unit, units })
    }

    /// Where an item lies.
    pub fn at(&self, item: usize) -> NonNull<u8> {
        self.address(item * self.each)
    }

    fn address(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.users.len() * self.page);
        // SAFETY: within the reservation.
        unsafe { self.start.add(offset) }
    }

    /// The pages of an item.
    fn pages(&self, item: usize) -> Range<usize> {
        let (from, end) = (item * self.each, (item + 1) * self.each);
        from / self.page..end.div_ceil(self.page)
    }

    /// The units that contain these pages.
    fn units_of(&self, pages: &Range<usize>) -> Range<usize> {
        if self.units.is_empty() {
            0..0
        } else {
            pages.start / self.in_unit..pages.end.div_ceil(self.in_unit)
        }
    }

    fn pages_of(&self, unit: usize) -> Range<usize> {
        unit * self.in_unit..(unit + 1) * self.in_unit
    }

    fn is_whole(&self, page: usize) -> bool {
        self.units.get(page / self.in_unit).is_some_and(|unit| unit.whole)
    }

    /// Provides memory for an item that was not in use; the memory may hold anything. False if the system has
    /// none. Units that become full are added to `full`.
    pub fn provide(&mut self, item: usize, tally: &mut Tally, full: &mut Vec<usize>) -> bool {
        let pages = self.pages(item);
        for unit in self.units_of(&pages) {
            self.begin(unit, &pages, tally);
        }
        let without = self.runs(pages.clone());
        for (done, run) in without.iter().enumerate() {
            // SAFETY: pages of our reservation without memory.
            if !unsafe { SystemMemory.commit(self.address(run.start * self.page), run.len() * self.page) } {
                // The commit that failed half-way is undone, too.
                without[..=done].iter().for_each(|run| self.release(run.clone()));
                return false;
            }
        }
        for page in pages.clone() {
            self.users[page] += 1;
            if self.users[page] > 1 {
                continue;
            }
            let bytes = self.page as u64;
            if self.is_whole(page) {
                tally.hollow -= bytes
            } else {
                tally.committed += bytes
            }
            if let Some(unit) = self.units.get_mut(page / self.in_unit) {
                unit.used += 1;
            }
        }
        full.extend(self.units_of(&pages).filter(|&unit| self.is_full(unit)));
        true
    }

    /// Makes an unused unit whole, if that wastes little memory.
    fn begin(&mut self, unit: usize, wanted: &Range<usize>, tally: &mut Tally) {
        let pages = self.pages_of(unit);
        let taken = pages.end.min(wanted.end) - pages.start.max(wanted.start);
        let bytes = pages.len() * self.page;
        let Unit { used, whole } = self.units[unit];
        if whole || used > 0 || !tally.may_waste(bytes - taken * self.page, bytes) {
            return;
        }
        let start = self.address(pages.start * self.page);
        // SAFETY: a unit of our reservation, none of whose pages has memory.
        unsafe {
            if !SystemMemory.prefer_huge(start, bytes) {
                return;
            }
            if !SystemMemory.commit(start, bytes) {
                SystemMemory.release(start, bytes);
                SystemMemory.prefer_small(start, bytes);
                return;
            }
        }
        self.units[unit].whole = true;
        tally.committed += bytes as u64;
        tally.hollow += bytes as u64;
    }

    /// The runs of adjacent pages among these that are unused and in no whole unit.
    fn runs(&self, pages: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = vec![];
        for page in pages.filter(|&page| self.users[page] == 0 && !self.is_whole(page)) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    fn release(&self, pages: Range<usize>) {
        // SAFETY: whole pages of our reservation, in which no item is in use; readers that still read there
        // discard what they read.
        unsafe { SystemMemory.release(self.address(pages.start * self.page), pages.len() * self.page) };
    }

    /// Ends the use of an item.
    pub fn give_back(&mut self, item: usize, tally: &mut Tally) {
        let pages = self.pages(item);
        for page in pages.clone() {
            self.users[page] -= 1;
            if self.users[page] > 0 {
                continue;
            }
            let bytes = self.page as u64;
            if self.is_whole(page) {
                tally.hollow += bytes
            } else {
                tally.committed -= bytes
            }
            if let Some(unit) = self.units.get_mut(page / self.in_unit) {
                unit.used -= 1;
            }
        }
        self.runs(pages).into_iter().for_each(|run| self.release(run));
    }

    /// Whether all pages of a unit are used, and it is not whole yet.
    fn is_full(&self, unit: usize) -> bool {
        let Unit { used, whole } = self.units[unit];
        used as usize == self.in_unit && !whole
    }

    /// Makes a full unit whole; returns whether it is whole now.
    pub fn collapse(&mut self, unit: usize) -> bool {
        let pages = self.pages_of(unit);
        let (start, bytes) = (self.address(pages.start * self.page), pages.len() * self.page);
        // SAFETY: a unit of our reservation, all of whose pages have memory.
        if !self.is_full(unit) || !unsafe { SystemMemory.prefer_huge(start, bytes) } {
            return false;
        }
        // SAFETY: as above.
        unsafe { SystemMemory.collapse(start, bytes) };
        self.units[unit].whole = true;
        true
    }

    /// The whole unit with the most hollow pages, and their number.
    pub fn hollowest(&self) -> Option<(usize, usize)> {
        let whole = self.units.iter().enumerate().filter(|(_, unit)| unit.whole);
        whole.map(|(number, unit)| (self.in_unit - unit.used as usize, number)).max()
    }

    /// Returns the hollow pages of a unit, which is whole no longer; false if the system can't split it.
    pub fn split(&mut self, unit: usize, tally: &mut Tally) -> bool {
        let pages = self.pages_of(unit);
        // SAFETY: a unit of our reservation.
        if !unsafe {
            SystemMemory.prefer_small(self.address(pages.start * self.page), pages.len() * self.page)
        } {
            return false;
        }
        self.units[unit].whole = false;
        for run in self.runs(pages) {
            let bytes = (run.len() * self.page) as u64;
            (tally.committed, tally.hollow) = (tally.committed - bytes, tally.hollow - bytes);
            self.release(run);
        }
        true
    }

    /// Bytes of its tables.
    pub fn table_bytes(&self) -> usize {
        self.users.capacity() * size_of::<u16>() + self.units.capacity() * size_of::<Unit>()
    }

    /// The memory that the area takes, counted anew from the items in use.
    pub fn count(&self, in_use: impl Fn(usize) -> bool, items: usize) -> Option<Tally> {
        let mut users = vec![0; self.users.len()];
        for item in (0..items).filter(|&item| in_use(item)) {
            self.pages(item).for_each(|page| users[page] += 1);
        }
        let used = |unit: usize| self.pages_of(unit).filter(|&page| users[page] > 0).count();
        let good = users == self.users
            && self.units.iter().enumerate().all(|(number, unit)| unit.used as usize == used(number));
        let mut tally = Tally::default();
        for (page, &users) in users.iter().enumerate() {
            let hollow = users == 0 && self.is_whole(page);
            tally.committed += if users > 0 || hollow { self.page as u64 } else { 0 };
            tally.hollow += if hollow { self.page as u64 } else { 0 };
        }
        good.then_some(tally)
    }

    #[cfg(test)]
    pub fn whole_units(&self) -> usize {
        self.units.iter().filter(|unit| unit.whole).count()
    }

    /// Its addresses, for tests that ask the system how much memory it takes.
    #[cfg(test)]
    pub fn range(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.users.len() * self.page
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let (start, bytes) = self.reserved;
        // SAFETY: a whole reservation; the area is dropped, so nobody uses it.
        unsafe { SystemMemory.unreserve(start, bytes) };
    }
}
