//! Which pages are present, from `/proc/self/pagemap`.
//!
//! Since Linux 6.7 the kernel can search it (PAGEMAP_SCAN), skipping the holes of large reservations; on
//! earlier kernels, every entry must be read.
//!
//! A page in the kernel's swap is not resident, and is left there. A guard page (MADV_GUARD_INSTALL, Linux
//! 6.13) looks the same: its entry is neither a page nor empty. Both are called **swapped** here.

use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::kernel::addresses::PAGES;
use crate::kernel::sys::{self, Fd, PAGE};

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE: u64 = 1 << 61;
/// Write-protected by a userfaultfd (Linux 5.7).
const PROTECTED: u64 = 1 << 57;
/// No other process has the page mapped (Linux 4.2).
const EXCLUSIVE: u64 = 1 << 56;

const SCAN: usize = 0xC060_6610;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

/// Adjacent pages of the same kind.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Region {
    /// Address of the first page.
    pub start: u64,
    /// The end of the last page.
    pub end: u64,
    categories: u64,
}

impl Region {
    /// No pages.
    pub const NONE: Region = Region { start: 0, end: 0, categories: 0 };
}

/// The result of a search.
struct Found<'a> {
    regions: &'a [Region],
    /// The search reached the end of the range.
    whole: bool,
}

/// An open pagemap of this process.
pub struct Pagemap {
    fd: Fd,
    can_scan: AtomicBool,
}

/// Present pages of one block, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Present {
    /// One bit for each page of the block.
    pub bits: [u64; PAGES / 64],
    /// Number of bits.
    pub count: u32,
    /// The same for swapped pages: see the module.
    pub swapped: [u64; PAGES / 64],
    /// Number of bits.
    pub swapped_count: u32,
}

impl Pagemap {
    /// Opens it.
    pub fn open() -> sys::Result<Self> {
        let fd = crate::kernel::procfs::open("pagemap")?;
        Ok(Pagemap { fd, can_scan: AtomicBool::new(true) })
    }

    /// An open pagemap of this process; it stays open.
    pub fn of(fd: Fd) -> Self {
        Pagemap { fd, can_scan: AtomicBool::new(true) }
    }

    /// Its descriptor.
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Closes it.
    pub fn close(self) {
        sys::close(self.fd);
    }

    /// `None` if this kernel cannot search. Finds at most as many regions as `regions` has room for.
    fn scan<'a>(
        &self,
        start: usize,
        end: usize,
        any_of: u64,
        max: u64,
        regions: &'a mut [Region],
    ) -> Option<Found<'a>> {
        if !self.can_scan.load(Relaxed) {
            return None;
        }
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            flags: 0,
            start: start as u64,
            end: end as u64,
            walk_end: 0,
            regions: regions.as_mut_ptr() as u64,
            regions_len: regions.len() as u64,
            max_pages: max,
            inverted: 0,
            mask: 0,
            any_of,
            returned: IS_FILE | IS_PRESENT | IS_SWAPPED | IS_ZERO,
        };
        // SAFETY: the structure is the one of PAGEMAP_SCAN; it only reports.
        match unsafe { sys::ioctl(self.fd, SCAN, &mut arg) } {
            Ok(count) => Some(Found { regions: &regions[..count], whole: arg.walk_end == arg.end }),
            Err(_) => {
                self.can_scan.store(false, Relaxed);
                None
            }
        }
    }

    /// The first present page in the range. Without a search in the kernel, only the first block is examined,
    /// and the result is its end if no page of it is present.
    pub fn first_present(&self, start: usize, end: usize) -> Option<usize> {
        let mut region = [Region::default(); 1];
        match self.scan(start, end, IS_PRESENT, 1, &mut region) {
            Some(found) => found.regions.first().map(|r| r.start as usize),
            None => Some(start),
        }
    }

    /// The runs of present pages in the range, including pages of files, as many as `regions` has room for.
    /// Returns their number, and where the search ended. `None` if this kernel cannot search.
    pub fn regions(&self, start: usize, end: usize, regions: &mut [Region]) -> Option<(usize, usize)> {
        let found = self.scan(start, end, IS_PRESENT, 0, regions)?;
        let last = found.regions.last().map_or(end, |region| region.end as usize);
        Some((found.regions.len(), if found.whole { end } else { last }))
    }

    /// The first run of swapped pages in a range inside one block.
    pub fn first_swapped(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let mut region = [Region::default(); 1];
        match self.scan(start, end, IS_SWAPPED, 0, &mut region) {
            Some(found) => found.regions.first().map(|r| (r.start as usize, r.end as usize)),
            None => {
                let words = self.words(start, (end - start) / PAGE)?;
                let is_swapped = |word: &u64| word & SWAPPED != 0;
                let first = words[..(end - start) / PAGE].iter().position(is_swapped)?;
                let count = words[first..].iter().take_while(|word| is_swapped(word)).count();
                Some((start + first * PAGE, start + (first + count) * PAGE))
            }
        }
    }

    /// Which pages of a range inside one block are present; `first` is the index of its first page in the
    /// block. `None` if there are pages of a file among them, or the range cannot be read.
    pub fn present(&self, start: usize, pages: usize, first: usize) -> Option<Present> {
        // Adjacent pages of different kinds are separate regions: at most as many as there are pages.
        let mut regions = [Region::default(); PAGES];
        let mut present = Present::default();
        match self.scan(start, start + pages * PAGE, IS_PRESENT | IS_SWAPPED, 0, &mut regions) {
            // Pages that were not seen would be lost.
            Some(found) if !found.whole => None,
            Some(found) => {
                for region in found.regions {
                    if region.categories & IS_FILE != 0 && region.categories & IS_ZERO == 0 {
                        return None;
                    }
                    for page in (region.start as usize..region.end as usize).step_by(PAGE) {
                        present.add(first + (page - start) / PAGE, region.categories & IS_SWAPPED != 0);
                    }
                }
                Some(present)
            }
            None => self.read(start, pages, first, present),
        }
    }

    /// The words of `/proc/self/pagemap` for some pages of one block.
    fn words(&self, start: usize, pages: usize) -> Option<[u64; PAGES]> {
        let mut raw = [0u8; PAGES * 8];
        let wanted = &mut raw[..pages * 8];
        if sys::pread(self.fd, wanted, (start / PAGE * 8) as u64) != Ok(pages * 8) {
            return None;
        }
        let mut words = [0; PAGES];
        for (word, bytes) in words.iter_mut().zip(wanted.chunks_exact(8)) {
            let mut raw = [0u8; 8];
            raw.copy_from_slice(bytes);
            *word = u64::from_ne_bytes(raw);
        }
        Some(words)
    }

    fn read(&self, start: usize, pages: usize, first: usize, mut present: Present) -> Option<Present> {
        for (index, word) in self.words(start, pages)?[..pages].iter().enumerate() {
            if word & (PRESENT | SWAPPED) != 0 {
                if word & FILE != 0 {
                    return None;
                }
                present.add(first + index, word & PRESENT == 0);
            }
        }
        Some(present)
    }

    /// Like `present`, but only pages that no other process has mapped.
    pub fn exclusive(&self, start: usize, pages: usize, first: usize) -> Present {
        let mut exclusive = Present::default();
        let words = self.words(start, pages).unwrap_or([0; PAGES]);
        for (index, word) in words[..pages].iter().enumerate() {
            if word & PRESENT != 0 && word & EXCLUSIVE != 0 {
                exclusive.add(first + index, false);
            }
        }
        exclusive
    }

    /// Which pages of a range inside one block are present and write-protected, one bit each.
    pub fn protected(&self, start: usize, pages: usize, first: usize) -> [u64; PAGES / 64] {
        let mut protected = [0; PAGES / 64];
        let words = self.words(start, pages).unwrap_or([0; PAGES]);
        for (index, word) in words[..pages].iter().enumerate() {
            if word & PRESENT != 0 && word & PROTECTED != 0 {
                protected[(first + index) / 64] |= 1 << ((first + index) % 64);
            }
        }
        protected
    }
}

impl Present {
    fn add(&mut self, index: usize, swapped: bool) {
        let (bits, count) = match swapped {
            false => (&mut self.bits, &mut self.count),
            true => (&mut self.swapped, &mut self.swapped_count),
        };
        bits[index / 64] |= 1 << (index % 64);
        *count += 1;
    }

    /// The present pages that are also in `bits`, and all swapped ones.
    pub fn only(&self, bits: &[u64; PAGES / 64]) -> Present {
        let bits: [u64; PAGES / 64] = core::array::from_fn(|word| self.bits[word] & bits[word]);
        let count = bits.iter().map(|word| word.count_ones()).sum();
        Present { bits, count, ..*self }
    }

    /// Present and swapped pages together.
    pub fn all(&self) -> [u64; PAGES / 64] {
        core::array::from_fn(|word| self.bits[word] | self.swapped[word])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_different_kinds_are_all_seen() {
        let base = sys::map_anonymous(4 << 20, sys::prot::READ | sys::prot::WRITE).unwrap() as usize;
        let start = base.next_multiple_of(crate::kernel::addresses::BLOCK);
        // SAFETY: advice for fresh memory of our own.
        unsafe { sys::madvise(start, PAGES * PAGE, sys::advice::NOHUGEPAGE) }.unwrap();
        for index in 0..PAGES {
            let page = (start + index * PAGE) as *mut u8;
            // SAFETY: inside fresh memory of our own. Reading a page makes it the zero page, writing to it
            // makes it a page of its own.
            let _: () = unsafe {
                if index % 2 == 0 {
                    page.write_volatile(1)
                } else {
                    let _ = page.read_volatile();
                }
            };
        }
        let pagemap = Pagemap::open().unwrap();
        assert_eq!(pagemap.present(start, PAGES, 0).unwrap().count as usize, PAGES);
        let mut few = [Region::default(); 300];
        if let Some(found) = pagemap.scan(start, start + PAGES * PAGE, IS_PRESENT, 0, &mut few) {
            assert!(!found.whole);
        }
    }

    #[test]
    fn both_ways_see_the_same_pages() {
        let bytes = 4 << 20;
        let base = sys::map_anonymous(bytes, sys::prot::READ | sys::prot::WRITE).unwrap() as usize;
        let start = base.next_multiple_of(crate::kernel::addresses::BLOCK);
        let touched = [0usize, 1, 2, 7, 100, 101, 333, 511];
        for index in touched {
            // SAFETY: inside fresh memory of our own.
            unsafe { ((start + index * PAGE) as *mut u8).write_volatile(1) };
        }
        let pagemap = Pagemap::open().unwrap();
        let searched = pagemap.present(start, PAGES, 0).unwrap();
        assert_eq!(pagemap.first_present(start + 3 * PAGE, start + PAGES * PAGE), {
            let can = pagemap.can_scan.load(Relaxed);
            Some(start + if can { 7 } else { 3 } * PAGE)
        });
        pagemap.can_scan.store(false, Relaxed);
        let read = pagemap.present(start, PAGES, 0).unwrap();
        assert_eq!(searched, read);
        assert_eq!(read.count as usize, touched.len());
        assert!(touched.iter().all(|i| read.bits[i / 64] >> (i % 64) & 1 == 1));
        let part = pagemap.present(start + 7 * PAGE, 4, 7).unwrap();
        assert_eq!((part.count, part.bits[0]), (1, 1 << 7));
    }
}
