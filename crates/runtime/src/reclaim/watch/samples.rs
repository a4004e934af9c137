//! Sampling before eviction: some pages of a block are compressed in place. If none of them gets smaller, the
//! block stays (`incompressible.rs`). Evicting the block, compressing all of it and putting it back would
//! cost a hundred times as much.
//!
//! Samples are read through `/proc/PID/mem`, which returns an error where a page is evicted or unmapped: a
//! plain read would make this thread wait for a handler, or end the process. If the program writes meanwhile,
//! the sample is wrong, but nothing else is.

use core::sync::atomic::Ordering::*;

use memfold::store::Workspace;

use super::ReclaimThread;
use crate::kernel::addresses::{PAGES, index_in_block, page_number};
use crate::kernel::pagemap::Present;
use crate::kernel::sys::{self, Fd, PAGE};
use crate::pages::marks::{Bits, bits_of, count, has, now_ms};
use crate::pages::table::Block;
use crate::runtime::Runtime;

/// A block is skipped if this many consecutive samples do not get smaller.
const SAMPLES: usize = 8;
/// Number of consecutive marked pages at which a range is cut.
const CUT: usize = 16;
/// After this many consecutive blocks that were worth evicting, only one in `LOOKED_AT` is sampled.
const TRUSTED: u32 = 32;
const LOOKED_AT: u32 = 8;

/// See the module.
pub(super) struct Samples {
    mem: Option<Fd>,
    space: Option<Workspace<'static>>,
    page: [u8; PAGE],
    /// Number of consecutive blocks that were worth evicting.
    good: u32,
    /// Number of marked pages at the last look.
    marked: i64,
    random: u64,
}

impl Samples {
    /// Opens `/proc/PID/mem`, if possible. The memory to compress in is taken at the first sample.
    pub fn new() -> Self {
        Samples {
            mem: crate::kernel::procfs::open("mem").ok(),
            space: None,
            page: [0; PAGE],
            good: 0,
            marked: 0,
            random: sys::now_ns() | 1,
        }
    }

    /// Whether a page compresses; `None` if it cannot be read.
    fn compresses(&mut self, runtime: &'static Runtime, address: usize) -> Option<bool> {
        if self.space.is_none() {
            self.space = workspace(runtime);
        }
        let (mem, space) = (self.mem?, self.space.as_mut()?);
        match sys::pread(mem, &mut self.page, address as u64) {
            Ok(PAGE) => Some(runtime.store().gets_smaller(page_number(address), &self.page, space)),
            _ => None,
        }
    }

    /// Whether any of some random pages of a block, chosen among `among`, compresses. A page that cannot be
    /// read counts as if it did.
    fn any_compresses(&mut self, runtime: &'static Runtime, base: usize, among: &Bits) -> bool {
        let all = count(among);
        for _ in 0..SAMPLES.min(all) {
            let index = nth(among, self.next_random() as u32 % all as u32);
            if self.compresses(runtime, base + index * PAGE) != Some(false) {
                return true;
            }
        }
        all == 0
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The memory in which the keeper compresses samples: taken once, and found again by the keeper of a forked
/// child.
fn workspace(runtime: &'static Runtime) -> Option<Workspace<'static>> {
    let (store, place) = (runtime.store(), &runtime.threads.sample_memory);
    let bytes = store.workspace_bytes(PAGE);
    if place.load(Relaxed) == 0 {
        place.store(runtime.arena.reserve(bytes, PAGE)? as usize, Relaxed);
    }
    // SAFETY: memory of the arena of that size, for the one keeper of this process, and never freed.
    let memory = unsafe { core::slice::from_raw_parts_mut(place.load(Relaxed) as *mut u8, bytes) };
    Some(store.workspace(PAGE, memory))
}

/// Index of the set bit that has `n` set bits before it.
fn nth(bits: &Bits, mut n: u32) -> usize {
    for (number, word) in bits.iter().enumerate() {
        let mut word = *word;
        if n >= word.count_ones() {
            n -= word.count_ones();
            continue;
        }
        for _ in 0..n {
            word &= word - 1;
        }
        return number * 64 + word.trailing_zeros() as usize;
    }
    0
}

fn and(a: &Bits, b: &Bits) -> Bits {
    core::array::from_fn(|word| a[word] & b[word])
}

/// The first part of a range, in page indices of its block, that holds present pages without a mark; it ends
/// before many consecutive marked ones. `None` if there are none.
fn first_part(present: &Bits, marked: &Bits, first: usize, end: usize) -> Option<(usize, usize)> {
    let wanted = |index: &usize| has(present, *index) && !has(marked, *index);
    let from = (first..end).find(wanted)?;
    let (mut to, mut run) = (from + 1, 0);
    for index in from..end {
        if wanted(&index) {
            (to, run) = (index + 1, 0);
        } else if has(present, index) {
            run += 1;
            if run == CUT {
                break;
            }
        }
    }
    Some((from, to))
}

impl ReclaimThread {
    /// Whether all `present` pages of a range are marked and it is not time to check the marks.
    pub(super) fn all_marked(&self, start: usize, end: usize, present: usize) -> bool {
        self.runtime.pages.table.block(start).filter(|block| block.marks.any()).is_some_and(|block| {
            let inside = bits_of(index_in_block(start), (end - start) / PAGE);
            count(&and(&block.marks.bits(), &inside)) >= present && !block.marks.are_due(now_ms())
        })
    }

    /// The part of a range inside one block that should be evicted, without incompressible pages; `None` if
    /// there is none. The second number says where to go on.
    pub(super) fn without_incompressible(
        &mut self,
        (start, end): (usize, usize),
    ) -> (Option<(usize, usize)>, usize) {
        let runtime = self.runtime;
        let block = runtime.pages.table.block(start);
        let has_marks = block.is_some_and(|block| block.marks.any());
        let marked = runtime.pages.incompressible.load(Relaxed);
        if marked > core::mem::replace(&mut self.samples.marked, marked) {
            self.samples.good = 0;
        }
        let looked_at = self.samples.good < TRUSTED || self.samples.good.is_multiple_of(LOOKED_AT);
        if !runtime.spill.leaves_incompressible() || !has_marks && !looked_at {
            self.samples.good = self.samples.good.saturating_add(1);
            return (Some((start, end)), end);
        }
        let (base, first) = (start - index_in_block(start) * PAGE, index_in_block(start));
        let pages = (end - start) / PAGE;
        let Some(Present { bits: present, .. }) = self.pagemap.present(start, pages, first) else {
            return (Some((start, end)), end);
        };
        let mut marks = [0; PAGES / 64];
        if let Some(block) = block.filter(|_| has_marks) {
            self.look_at_marks(base, block, &bits_of(first, pages), &present);
            marks = block.marks.bits();
        }
        let Some((from, to)) = first_part(&present, &marks, first, first + pages) else {
            return (None, end);
        };
        let range = (base + from * PAGE, base + to * PAGE);
        let inside = and(&present, &bits_of(from, to - from));
        let unmarked = and(&inside, &marks.map(|word| !word));
        if count(&unmarked) < self.worth_of(range.0, range.1) {
            return (None, range.1);
        }
        if self.samples.any_compresses(runtime, base, &unmarked) {
            self.samples.good = self.samples.good.saturating_add(1);
            return (Some(range), range.1);
        }
        self.samples.good = 0;
        let mut order = runtime.pages.order.lock();
        let is_new = runtime.pages.table.block(start).is_none();
        if !order.forking
            && let Some(block) = runtime.pages.table.make_block(start, &runtime.arena, &mut order.spare)
        {
            if is_new {
                // The memory there was not registered.
                block.stale.store(true, Relaxed);
            }
            runtime.mark_incompressible(block, &unmarked);
        }
        (None, range.1)
    }

    /// Forgets the marks of absent pages of a range. When the marks are due, forgets all of them if one of
    /// the present pages compresses by now.
    fn look_at_marks(&mut self, base: usize, block: &Block, range: &Bits, present: &Bits) {
        let (runtime, now) = (self.runtime, now_ms());
        let outside = range.map(|word| !word);
        let there: Bits = core::array::from_fn(|word| present[word] | outside[word]);
        runtime.pages.unmark_all_but(block, &there);
        if !block.marks.are_due(now) {
            return;
        }
        let marked = and(&block.marks.bits(), present);
        if count(&marked) == 0 {
            return;
        }
        let index = nth(&marked, self.samples.next_random() as u32 % count(&marked) as u32);
        if self.samples.compresses(runtime, base + index * PAGE) == Some(false)
            || !self.samples.any_compresses(runtime, base, &marked)
        {
            block.marks.confirm(now);
        } else {
            runtime.pages.unmark_all_but(block, &outside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_by_their_number() {
        let bits = core::array::from_fn(|word| if word % 2 == 1 { 0x8000_0000_0000_0011 } else { 0 });
        let found: std::vec::Vec<usize> = (0..6).map(|n| nth(&bits, n)).collect();
        assert_eq!(found, [64, 68, 127, 192, 196, 255]);
        assert_eq!(count(&bits), 12);
    }

    #[test]
    fn ranges_are_cut_where_many_marked_pages_follow_each_other() {
        let all = bits_of(0, PAGES);
        assert_eq!(first_part(&all, &bits_of(0, PAGES), 0, PAGES), None);
        assert_eq!(first_part(&all, &[0; PAGES / 64], 3, 500), Some((3, 500)));
        // A few marked pages go with the others; many do not.
        assert_eq!(first_part(&all, &bits_of(10, CUT - 1), 0, PAGES), Some((0, PAGES)));
        assert_eq!(first_part(&all, &bits_of(10, CUT), 0, PAGES), Some((0, 10)));
        assert_eq!(first_part(&all, &bits_of(0, 300), 0, PAGES), Some((300, PAGES)));
        // Absent pages do not count.
        let present = core::array::from_fn(|word| if word < 2 { u64::MAX } else { 0 });
        assert_eq!(first_part(&present, &bits_of(128, 300), 5, PAGES), Some((5, 128)));
        assert_eq!(first_part(&present, &[0; PAGES / 64], 128, PAGES), None);
    }
}
