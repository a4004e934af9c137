//! The pages ahead of the clock hand: one search of the pagemap for many blocks at once. Where little is
//! resident, nearly every block has nothing worth evicting, and asking the kernel for each block costs more
//! than compressing the pages found.
//!
//! The result is old when it is used: it says where to look, and the pages are checked again before they are
//! evicted.
//!
//! ```text
//!      from                                    until
//!  ------|--[region]-----[region][region]--------|----  not searched yet
//! ```

use crate::kernel::addresses::BLOCK;
use crate::kernel::pagemap::{Pagemap, Region};
use crate::kernel::sys::PAGE;

/// Maximum number of runs of pages known ahead.
const REGIONS: usize = 256;

/// See the module.
pub(super) struct Ahead {
    regions: [Region; REGIONS],
    pub count: usize,
    /// The range that was searched.
    from: usize,
    until: usize,
    /// The first region that may still be ahead.
    next: usize,
}

/// Pages of one block and one mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The first page that is present.
    pub from: usize,
    /// The end of the block, or of the mapping.
    pub to: usize,
    /// Number of pages that are present.
    pub present: usize,
}

impl Ahead {
    pub const fn new() -> Self {
        Ahead { regions: [Region::NONE; REGIONS], count: 0, from: 0, until: 0, next: 0 }
    }

    /// Discards the result: from now on only a new search counts.
    pub fn forget(&mut self) {
        self.until = 0;
    }

    /// The first part of `from..end` that has present pages; the range lies in one mapping, and mappings end
    /// at `last`. Without a search in the kernel it is the first block, and all of it counts as present.
    pub fn first(&mut self, pagemap: &Pagemap, mut from: usize, end: usize, last: usize) -> Option<Part> {
        while from < end {
            if from < self.from || from >= self.until {
                match pagemap.regions(from, last, &mut self.regions) {
                    Some((count, until)) => {
                        (self.count, self.from, self.until, self.next) = (count, from, until, 0);
                    }
                    None => {
                        let to = end_of_block(from).min(end);
                        return Some(Part { from, to, present: (to - from) / PAGE });
                    }
                }
            }
            let ahead = &self.regions[..self.count];
            while ahead.get(self.next).is_some_and(|region| region.end as usize <= from) {
                self.next += 1;
            }
            let Some(region) = ahead.get(self.next).filter(|region| (region.start as usize) < end) else {
                if self.until >= end {
                    return None;
                }
                from = self.until;
                continue;
            };
            let first = from.max(region.start as usize);
            let to = end_of_block(first).min(end);
            if to > self.until && first > self.from {
                // The search broke off in the middle of it.
                self.forget();
                from = first;
                continue;
            }
            let inside = ahead[self.next..].iter().take_while(|region| (region.start as usize) < to);
            let bytes: usize =
                inside.map(|region| to.min(region.end as usize) - first.max(region.start as usize)).sum();
            return Some(Part { from: first, to, present: bytes / PAGE });
        }
        None
    }
}

fn end_of_block(address: usize) -> usize {
    (address / BLOCK + 1) * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::sys::{self, prot};

    /// Every third page of some blocks, and every page of one block.
    #[test]
    fn all_parts_are_found_with_their_pages() {
        const BLOCKS: usize = 9;
        let bytes = BLOCKS * BLOCK;
        let memory = sys::map_anonymous(bytes + BLOCK, prot::READ | prot::WRITE).unwrap() as usize;
        let start = memory.next_multiple_of(BLOCK);
        // SAFETY: the test's own memory.
        unsafe { sys::madvise(start, bytes, sys::advice::NOHUGEPAGE) }.unwrap();
        let wanted = |page: usize| match page * PAGE / BLOCK {
            2 | 7 => false,
            4 => true,
            8 => page == BLOCKS * BLOCK / PAGE - 1,
            _ => page % 3 == 1,
        };
        for page in (0..bytes / PAGE).filter(|page| wanted(*page)) {
            // SAFETY: inside the test's own memory.
            unsafe { *((start + page * PAGE) as *mut u8) = 1 };
        }
        let pagemap = Pagemap::open().unwrap();
        let mut ahead = Ahead::new();
        // Mappings that end inside a block, one after the other.
        let cuts = [0, 3 * BLOCK + 5 * PAGE, 3 * BLOCK + 6 * PAGE, 6 * BLOCK, bytes];
        let mut found = std::vec![0; BLOCKS];
        for cut in cuts.windows(2) {
            let (mut at, end) = (start + cut[0], start + cut[1]);
            while let Some(part) = ahead.first(&pagemap, at, end, start + bytes) {
                assert!(at <= part.from && part.from < part.to && part.to <= end);
                let pages = (part.from - start) / PAGE..(part.to - start) / PAGE;
                assert!(wanted(pages.start), "{part:?}");
                assert_eq!(pages.clone().filter(|page| wanted(*page)).count(), part.present, "{part:?}");
                found[(part.from - start) / BLOCK] += part.present;
                at = part.to;
            }
        }
        let per_block =
            |block: usize| (0..BLOCK / PAGE).filter(|page| wanted(block * BLOCK / PAGE + page)).count();
        assert_eq!(found, (0..BLOCKS).map(per_block).collect::<std::vec::Vec<_>>());
    }
}
