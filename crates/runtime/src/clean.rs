//! Clean pages: brought back for a reader, and not written since.
//!
//! Processes that come from one another by fork share what was compressed before. A process that reads such a page gets
//! one of its own; were that compressed again, each of them would have a compressed copy of its own in the end, and all
//! together more than plainly. So while there are relatives such a page is write-protected, and its blob is kept.
//! If it is taken away before it is written, the blob is still what it holds: nothing is compressed, and it
//! takes no memory.
//!
//! ```text
//!   stored ──read──> clean: resident, protected ──taken away──> on standby ──> stored: the same blob
//!                      └──written, discarded, unmapped, moved──> resident; the blob is freed
//! ```
//!
//! Invariants, all under the order lock:
//! - A blob is kept only for a page that was protected all the time since it was brought back. Whoever lifts the
//!   protection, or protects pages for another reason, forgets the blobs first (`keep_protected_only`).
//! - That alone is not relied on: when a page is taken away the kernel must say that it is protected.
//! - In a forked child the kernel has forgotten all protection: blobs that were kept in the parent are void there. They are freed
//!   when their block is next looked at.
//! - `Pinned` stands for a page on standby here: its contents are those of the blob, and change no more.

pub mod recent;

use core::sync::atomic::{AtomicU32, Ordering::*};

use memfold::store::Ref;

use crate::pagemap::Pagemap;
use crate::runtime::Runtime;
use crate::sys::{Fd, PAGE};
use crate::table::{BLOCK, Block, Entry, PAGES, State, index_in_block, page_number};

/// The blobs that are kept of a block's clean pages.
#[repr(C)]
pub struct Clean {
    /// Of the process that has kept them.
    births: AtomicU32,
    count: AtomicU32,
    blobs: [Entry; PAGES],
}

impl Clean {
    fn take(&self, index: usize) -> Option<Ref> {
        loop {
            let state = self.blobs[index].load();
            let (State::Stored(name) | State::Pinned(name)) = state else { return None };
            // The store may move it at any time.
            if self.blobs[index].replace(state, State::Empty) {
                self.count.fetch_sub(1, Relaxed);
                return Some(name);
            }
        }
    }
}

impl Runtime {
    /// Whether pages that are brought back are to stay clean: others share their blobs.
    pub fn keeps_clean(&self) -> bool {
        self.protects() && self.shared().sharers.load(Relaxed) > 1 && !self.stop_wanted.load(Relaxed)
    }

    /// The blobs that are kept of a block. Those of the process that this one was forked from are freed.
    fn clean(&self, base: usize, block: &Block) -> Option<&'static Clean> {
        // SAFETY: made zeroed from the arena, and never unmapped.
        let clean = unsafe { block.clean.load(Acquire).as_ref() }?;
        let births = self.births.load(Relaxed);
        if clean.births.load(Relaxed) != births {
            for index in 0..PAGES {
                if let Some(name) = clean.take(index) {
                    self.free(name, page_number(base + index * PAGE));
                }
            }
            clean.births.store(births, Relaxed);
        }
        Some(clean)
    }

    fn clean_of(&self, page: usize) -> Option<(&'static Clean, usize)> {
        let block = self.table.block(page)?;
        Some((self.clean(page & !(BLOCK - 1), block)?, index_in_block(page)))
    }

    /// Keeps the blob of a page that was brought back protected. `false` if it can't be kept.
    pub fn keep_blob(&self, page: usize, block: &Block, name: Ref) -> bool {
        if block.clean.load(Acquire).is_null() {
            // SAFETY: no blobs are all zeros.
            let Some(made) = (unsafe { self.arena.make::<Clean>() }) else { return false };
            block.clean.store(made as *const Clean as *mut Clean, Release);
        }
        let Some(clean) = self.clean(page & !(BLOCK - 1), block) else { return false };
        let blob = &clean.blobs[index_in_block(page)];
        if blob.load() != State::Empty {
            self.forget_blob(page);
        }
        blob.store(State::Stored(name));
        clean.count.fetch_add(1, Relaxed);
        true
    }

    /// Whether a blob is kept of a page. Changes nothing: during a fork, too.
    pub fn is_clean(&self, page: usize) -> bool {
        let Some(block) = self.table.block(page) else { return false };
        // SAFETY: as in `clean`.
        let clean = unsafe { block.clean.load(Acquire).as_ref() };
        clean.is_some_and(|clean| {
            clean.births.load(Relaxed) == self.births.load(Relaxed)
                && clean.blobs[index_in_block(page)].load() != State::Empty
        })
    }

    /// Whether no other process has the page.
    pub fn is_exclusive(&self, page: usize) -> bool {
        let fd = self.pagemap.load(Relaxed);
        fd >= 0 && Pagemap::of(Fd(fd)).exclusive(page, 1, 0).count == 1
    }

    /// A page is about to differ from its blob, or is gone.
    pub fn forget_blob(&self, page: usize) {
        if let Some((clean, index)) = self.clean_of(page)
            && let Some(name) = clean.take(index)
        {
            self.free(name, page_number(page));
        }
    }

    /// The same for a range.
    pub fn forget_blobs(&self, start: usize, end: usize) {
        if self.forks.load(Relaxed) == 0 {
            return;
        }
        self.table.for_each_block(start, end, |base, block| {
            let Some(clean) = self.clean(base, block) else { return };
            if clean.count.load(Relaxed) == 0 {
                return;
            }
            for page in (start.max(base)..end.min(base + BLOCK)).step_by(PAGE) {
                if let Some(name) = clean.take(index_in_block(page)) {
                    self.free(name, page_number(page));
                }
            }
        });
    }

    /// Frees what is kept of a block that is no longer in the table.
    pub fn forget_condemned(&self, base: usize, block: &Block) {
        let Some(clean) = self.clean(base, block) else { return };
        for index in 0..PAGES {
            if let Some(name) = clean.take(index) {
                self.free(name, page_number(base + index * PAGE));
            }
        }
    }

    /// Forgets the blobs of pages in a range, inside one block, that the kernel does not call protected: before pages are protected for
    /// another reason, or taken away. Returns whether any blob is left.
    pub fn keep_protected_only(&self, pagemap: &Pagemap, start: usize, end: usize) -> bool {
        let Some((clean, first)) = self.clean_of(start) else { return false };
        if clean.count.load(Relaxed) == 0 {
            return false;
        }
        let pages = (end - start) / PAGE;
        let protected = pagemap.protected(start, pages, first);
        let mut any = false;
        for index in first..first + pages {
            let page = start + (index - first) * PAGE;
            // What is on standby has no protection and needs none.
            if let State::Stored(_) = clean.blobs[index].load() {
                if protected[index / 64] >> (index % 64) & 1 != 0 {
                    any = true;
                } else {
                    self.forget_blob(page);
                }
            }
        }
        any
    }

    /// The page is on standby now. It was protected when it was taken away.
    pub fn blob_to_standby(&self, page: usize) {
        if let Some((clean, index)) = self.clean_of(page) {
            while let State::Stored(name) = clean.blobs[index].load() {
                clean.blobs[index].replace(State::Stored(name), State::Pinned(name));
            }
        }
    }

    /// The page comes back from standby, protected.
    pub fn blob_from_standby(&self, page: usize) {
        if let Some((clean, index)) = self.clean_of(page) {
            while let State::Pinned(name) = clean.blobs[index].load() {
                clean.blobs[index].replace(State::Pinned(name), State::Stored(name));
            }
        }
    }

    /// Whether the blob of a page on standby is there. A hint, for who does not hold the lock.
    pub fn has_blob_on_standby(&self, page: usize) -> bool {
        let Some(block) = self.table.block(page) else { return false };
        // SAFETY: as in `clean`.
        let clean = unsafe { block.clean.load(Acquire).as_ref() };
        clean.is_some_and(|clean| {
            clean.births.load(Relaxed) == self.births.load(Relaxed)
                && matches!(clean.blobs[index_in_block(page)].load(), State::Pinned(_))
        })
    }

    /// Hands out the blob of a page on standby: its entry names it from now on.
    pub fn take_blob(&self, page: usize) -> Option<Ref> {
        let (clean, index) = self.clean_of(page)?;
        match clean.blobs[index].load() {
            State::Pinned(_) => clean.take(index),
            _ => None,
        }
    }

    /// The store moves a blob that is kept. Not under the order lock.
    pub fn relocate_kept(&self, page: usize, from: Ref, to: Ref) -> bool {
        let Some(block) = self.table.block(page) else { return false };
        // SAFETY: as in `clean`.
        let Some(clean) = (unsafe { block.clean.load(Acquire).as_ref() }) else { return false };
        let blob = &clean.blobs[index_in_block(page)];
        blob.replace(State::Stored(from), State::Stored(to))
            || blob.replace(State::Pinned(from), State::Pinned(to))
    }
}
