//! The blobs of clean pages: see `mod.rs`.

use super::Clean;
use crate::kernel::Kernel;
use crate::kernel::addresses::{BLOCK, PAGES, index_in_block, page_number};
use crate::kernel::pagemap::Pagemap;
use crate::kernel::sys::{Fd, PAGE};
use crate::pages::Pages;
use crate::pages::table::{Block, State};
use crate::runtime::Runtime;
use core::sync::atomic::Ordering::*;
use memfold::store::Ref;

impl Kernel {
    /// Whether no other process shares the page.
    pub fn is_exclusive(&self, page: usize) -> bool {
        let fd = self.pagemap.load(Relaxed);
        fd >= 0 && Pagemap::of(Fd(fd)).exclusive(page, 1, 0).count == 1
    }
}

impl Pages {
    /// Called when the store moves a kept blob, without the order lock.
    pub fn relocate_kept(&self, page: usize, from: Ref, to: Ref) -> bool {
        let Some(clean) = self.table.block(page).and_then(Block::clean) else { return false };
        let blob = &clean.blobs[index_in_block(page)];
        blob.replace(State::Stored(from), State::Stored(to))
            || blob.replace(State::Pinned(from), State::Pinned(to))
    }
}

impl Runtime {
    /// Whether restored pages are kept clean, because relatives share their blobs.
    pub fn keeps_clean(&self) -> bool {
        self.protects() && self.shared().sharers.load(Relaxed) > 1 && !self.process.stop_wanted.load(Relaxed)
    }

    /// Frees the blobs kept for pages in a range of a block.
    fn forget(&self, base: usize, clean: &Clean, pages: impl Iterator<Item = usize>) {
        if clean.count.load(Relaxed) == 0 {
            return;
        }
        for index in pages {
            if let Some(name) = clean.take(index) {
                self.free(name, page_number(base + index * PAGE));
            }
        }
    }

    /// The clean pages of a block, after those inherited from the parent are forgotten.
    fn renewed(&self, base: usize, clean: &'static Clean) -> &'static Clean {
        let births = self.forks.births.load(Relaxed);
        if clean.births.load(Relaxed) != births {
            self.forget(base, clean, 0..PAGES);
            clean.births.store(births, Relaxed);
        }
        clean
    }

    fn clean_of(&self, page: usize) -> Option<(&'static Clean, usize)> {
        let clean = self.pages.table.block(page)?.clean()?;
        Some((self.renewed(page & !(BLOCK - 1), clean), index_in_block(page)))
    }

    /// The blob kept for a page. This changes nothing, so it may be called during a fork and without the
    /// lock.
    fn kept(&self, page: usize) -> State {
        let clean = self.pages.table.block(page).and_then(Block::clean);
        match clean.filter(|clean| clean.births.load(Relaxed) == self.forks.births.load(Relaxed)) {
            Some(clean) => clean.blobs[index_in_block(page)].load(),
            None => State::Empty,
        }
    }

    /// Whether the blob of a page is kept.
    pub fn is_clean(&self, page: usize) -> bool {
        self.kept(page) != State::Empty
    }

    /// Whether the blob of a page on standby is kept.
    pub fn is_clean_on_standby(&self, page: usize) -> bool {
        matches!(self.kept(page), State::Pinned(_))
    }

    /// Keeps the blob of a page that was restored protected. `false` if there is no memory to record it.
    pub fn keep_blob(&self, page: usize, block: &Block, name: Ref) -> bool {
        let Some(clean) = block.make_clean(&self.arena) else { return false };
        self.renewed(page & !(BLOCK - 1), clean);
        self.forget_blob(page);
        clean.blobs[index_in_block(page)].store(State::Stored(name));
        clean.count.fetch_add(1, Relaxed);
        true
    }

    /// Frees the blob of a page that is about to change, or is gone.
    pub fn forget_blob(&self, page: usize) {
        if let Some((clean, index)) = self.clean_of(page) {
            self.forget(page & !(BLOCK - 1), clean, index..index + 1);
        }
    }

    /// The same for a range.
    pub fn forget_blobs(&self, start: usize, end: usize) {
        if self.forks.generation.load(Relaxed) == 0 {
            return;
        }
        self.pages.table.for_each_block(start, end, |base, block| {
            if let Some(clean) = block.clean() {
                let (from, to) = (start.max(base) - base, end.min(base + BLOCK) - base);
                self.forget(base, self.renewed(base, clean), from / PAGE..to / PAGE);
            }
        });
    }

    /// The same for a block that is no longer in the table.
    pub fn forget_condemned(&self, base: usize, block: &Block) {
        if let Some(clean) = block.clean() {
            self.forget(base, clean, 0..PAGES);
        }
    }

    /// Frees the blobs of pages in a range, inside one block, that the kernel does not report as protected. To be
    /// called before pages are evicted, or protected for another reason. Returns whether any blob is left.
    pub fn keep_protected_only(&self, pagemap: &Pagemap, start: usize, end: usize) -> bool {
        let Some((clean, first)) = self.clean_of(start) else { return false };
        if clean.count.load(Relaxed) == 0 {
            return false;
        }
        let pages = (end - start) / PAGE;
        let protected = pagemap.protected(start, pages, first);
        let mut any = false;
        for index in first..first + pages {
            // Pages on standby are not protected, and need not be.
            if let State::Stored(_) = clean.blobs[index].load() {
                if protected[index / 64] >> (index % 64) & 1 != 0 {
                    any = true;
                } else {
                    self.forget_blob(start + (index - first) * PAGE);
                }
            }
        }
        any
    }

    /// A page was moved to standby. It was protected until then, if its blob is kept.
    pub fn blob_to_standby(&self, page: usize) {
        if let Some((clean, index)) = self.clean_of(page) {
            while let State::Stored(name) = clean.blobs[index].load() {
                clean.blobs[index].replace(State::Stored(name), State::Pinned(name));
            }
        }
    }

    /// A page was restored from standby, protected.
    pub fn blob_from_standby(&self, page: usize) {
        if let Some((clean, index)) = self.clean_of(page) {
            while let State::Pinned(name) = clean.blobs[index].load() {
                clean.blobs[index].replace(State::Pinned(name), State::Stored(name));
            }
        }
    }

    /// Hands out the blob of an evicted page, for its entry to name again.
    pub fn take_blob(&self, page: usize) -> Option<Ref> {
        let (clean, index) = self.clean_of(page)?;
        clean.take(index)
    }
}
