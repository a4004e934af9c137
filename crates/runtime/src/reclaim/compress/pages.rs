//! Moves the pages of a standby slot, one by one, into the store or back to their places.

use core::sync::atomic::Ordering::*;

use memfold::probe;
use memfold::store::{Ref, Tier};
use memfold_shared::page::{self, flags};
use memfold_shared::trail::{self, Run};

use super::{GROUP, TRIES};
use crate::kernel::addresses::{PAGES, index_in_block};
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE, advice};
use crate::pages::standby::page_id;
use crate::pages::table::State;
use crate::reclaim::incompressible::Back;
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;

/// Some pages of a slot: their indices, ascending.
pub struct Pages {
    index: [u16; GROUP],
    pub count: usize,
}

impl Pages {
    pub fn new() -> Self {
        Pages { index: [0; GROUP], count: 0 }
    }

    pub fn add(&mut self, index: usize) {
        self.index[self.count] = index as u16;
        self.count += 1;
    }
}

/// The result of compressing a page; by default, a page of zeros.
#[derive(Clone, Copy, Default)]
pub struct Size {
    class: u8,
    bytes: u16,
}

/// What becomes of a page.
#[derive(Clone, Copy)]
pub enum Fate {
    /// Its entry gets this state.
    Kept(State),
    /// Its blob is still in the store: see `clean`.
    Clean,
    /// It does not get smaller, and goes back to its place.
    Back,
}

/// The fates of some pages, before they are written to the entries.
struct Made {
    /// Their owners; no fate for those that are no longer on standby.
    fates: [(u64, Option<Fate>); GROUP],
    sizes: [Size; GROUP],
    /// The store got no more memory: not all pages were processed.
    full: bool,
}

impl Made {
    /// How many pages from this one on, adjacent in the slot, are to go back.
    fn run_back(&self, pages: &[u16; GROUP], number: usize) -> usize {
        let first = usize::from(pages[number]);
        let rest = self.fates[number..].iter().zip(&pages[number..]).enumerate();
        rest.take_while(|(more, ((_, fate), at))| {
            matches!(fate, Some(Fate::Back)) && usize::from(**at) == first + more
        })
        .count()
    }
}

/// The result of compressing some pages.
#[derive(Default)]
pub struct Done {
    /// Pages to try again, since they got another owner meanwhile.
    again: u64,
    /// Those of them that are to be stored uncompressed.
    whole: u64,
    /// Number of pages that went back, as large as before.
    back: u32,
    /// The store got no more memory: not all pages were processed.
    full: bool,
    /// Number of bytes that the store took.
    stored_bytes: i64,
}

impl Runtime {
    /// Compresses some pages of a slot, and frees them together: freeing interrupts all CPUs on which the
    /// program runs, however few the pages are. `false` if the store got no more memory: then some are still
    /// on standby.
    pub fn compress_group(&self, worker: &mut Worker, slot: u32, pages: &mut Pages) -> bool {
        let held = self.pages.standby.slot(slot);
        let Pages { index, count } = core::mem::replace(pages, Pages::new());
        let (mut todo, mut whole) = (u64::MAX >> (64 - count), 0);
        let (mut used, mut back, mut tries) = (0i64, 0, 0);
        while todo != 0 {
            let done = self.compress_pages(worker, slot, &index, (todo, whole));
            todo = done.again;
            used += done.stored_bytes;
            back += i64::from(done.back);
            if self.note_store_full(done.full) {
                self.reclaim.change_debt(used);
                return false;
            }
            tries += 1;
            // Pages that could not go back by then are kept in the store.
            whole = if tries < TRIES { done.whole } else { u64::MAX };
            if todo & !whole != 0 {
                sched::yield_now();
            }
        }
        for index in &index[..count] {
            let index = usize::from(*index);
            held.present[index / 64].fetch_and(!(1 << (index % 64)), Relaxed);
        }
        let (first, last) = (usize::from(index[0]), usize::from(index[count - 1]));
        let at = self.pages.standby.address(slot) + first * PAGE;
        // SAFETY: no entry names these pages any more, no others lie between them, and this thread holds the
        // slot.
        let _ = unsafe { sys::madvise(at, (last + 1 - first) * PAGE, advice::DONTNEED) };
        self.reclaim.given_back.fetch_add(1, Relaxed);
        probe!(runtime_compress, slot, count);
        let bytes = (count * PAGE) as u64;
        if held.shared.load(Relaxed) {
            // Other processes still share them: this process is smaller, but no memory is free.
            self.shared().copied.fetch_add(bytes, Relaxed);
            self.shared().unshared.fetch_add(bytes, Relaxed);
            self.reclaim.change_debt(used);
        } else {
            self.reclaim.change_debt(used + back * PAGE as i64 - bytes as i64);
        }
        true
    }

    /// Records whether the store gets the memory that it needs. Returns its argument.
    pub fn note_store_full(&self, full: bool) -> bool {
        if self.stored.full.load(Relaxed) != full {
            self.stored.full.store(full, Relaxed);
            if full && !self.stored.told_full.swap(true, Relaxed) {
                self.shared().flags.fetch_or(flags::NO_STORE, Relaxed);
                self.say(
                    "no memory is left for compressed pages (ulimit -v, ulimit -d): nothing more is evicted; raise that limit, memfold's own bounds the memory that is used",
                );
            }
            self.reclaim.room.ring();
        }
        full
    }

    /// Compresses the pages in `todo`, one bit for each of `pages`, and writes their entries. Pages that do
    /// not get smaller are stored uncompressed if they are in `whole`; the others go back.
    pub fn compress_pages(
        &self,
        worker: &mut Worker,
        slot: u32,
        pages: &[u16; GROUP],
        (todo, whole): (u64, u64),
    ) -> Done {
        let tier = self.tier(self.pages.standby.slot(slot).shared.load(Relaxed));
        let whole = if self.spill.leaves_incompressible() { whole } else { u64::MAX };
        let made = self.decide_fates(worker, tier, slot, pages, (todo, whole));
        let trail = self.shared().trail();
        let mut run = trail.map(|trail| Run::new(trail, self.slot().pid.load(Relaxed)));
        let mut done = Done { full: made.full, ..Done::default() };
        let mut compressed = 0;
        let mut useless: [Option<(Ref, u64)>; GROUP] = [None; GROUP];
        let mut order = self.pages.order.lock();
        for (number, (owner, fate)) in made.fates.iter().enumerate() {
            let index = usize::from(pages[number]);
            let is_again = match *fate {
                // The page seemed void; but perhaps its mapping was being moved.
                None => todo >> number & 1 != 0 && self.is_owner_on_standby(slot, index),
                Some(Fate::Clean) => !self.reuse_blob(worker, slot, index, *owner),
                Some(Fate::Back) if self.is_on_standby(slot, index, *owner) => {
                    match self.put_back_incompressible(&mut order, slot, index, made.run_back(pages, number))
                    {
                        Back::Done(pages) => {
                            done.back += pages as u32;
                            false
                        }
                        Back::Later => true,
                        Back::Never => {
                            done.whole |= 1 << number;
                            true
                        }
                    }
                }
                Some(Fate::Kept(state)) if self.write_compressed(slot, index, *owner, state, tier) => {
                    compressed += 1;
                    if let Some(run) = &mut run {
                        run.add(*owner, made.sizes[number].class.into(), made.sizes[number].bytes.into());
                    }
                    false
                }
                // The page has changed meanwhile; if it has moved, it is still to be compressed.
                Some(fate) => {
                    if let Fate::Kept(State::Stored(name)) = fate {
                        useless[number] = Some((name, *owner));
                    }
                    self.pages.standby.slot(slot).owners[index].load(Relaxed) != *owner
                }
            };
            done.again |= u64::from(is_again) << number;
        }
        drop(order);
        useless.iter().flatten().for_each(|(name, owner)| self.free(*name, *owner));
        self.slot().counters.pages_compressed.fetch_add(compressed, Relaxed);
        if let Some(run) = run {
            run.end();
        }
        done.stored_bytes = compressed as i64 * PAGE as i64 / 3;
        done
    }

    /// Compresses pages without the order lock: their entries still say that they are on standby.
    fn decide_fates(
        &self,
        worker: &mut Worker,
        tier: Tier,
        slot: u32,
        pages: &[u16; GROUP],
        (todo, whole): (u64, u64),
    ) -> Made {
        let mut made = Made { fates: [(0, None); GROUP], sizes: [Size::default(); GROUP], full: false };
        let mut same_filled = 0;
        for number in (0..GROUP).filter(|number| todo >> number & 1 != 0) {
            self.reclaim.let_others_run();
            let index = usize::from(pages[number]);
            let owner = self.pages.standby.slot(slot).owners[index].load(Relaxed);
            if !self.is_on_standby(slot, index, owner) {
                continue;
            }
            if self.is_clean_on_standby(owner as usize * PAGE) {
                made.fates[number] = (owner, Some(Fate::Clean));
                continue;
            }
            let at = self.pages.standby.address(slot) + index * PAGE;
            // SAFETY: the page lies in a slot that this thread holds, is readable, and does not change.
            let page = unsafe { core::slice::from_raw_parts(at as *const u8, PAGE) };
            let is_whole = whole >> number & 1 != 0;
            let Some((fate, size)) = self.compress_page(worker, tier, owner, page, is_whole) else {
                made.full = true;
                break;
            };
            made.fates[number] = (owner, Some(fate));
            made.sizes[number] = size;
            same_filled += u64::from(matches!(fate, Fate::Kept(State::Zero)));
        }
        self.slot().counters.pages_same_filled.fetch_add(same_filled, Relaxed);
        made
    }

    /// Whether this page of a slot is on standby for this owner.
    fn is_on_standby(&self, slot: u32, index: usize, owner: u64) -> bool {
        let entry = self.pages.table.entry(owner as usize * PAGE);
        entry.is_some_and(|entry| entry.load() == State::Standby(page_id(slot, index)))
    }

    /// The same, for the owner that the slot names now.
    fn is_owner_on_standby(&self, slot: u32, index: usize) -> bool {
        self.is_on_standby(slot, index, self.pages.standby.slot(slot).owners[index].load(Relaxed))
    }

    /// Writes the entry of a page that was compressed. Under the order lock. `false` if the entry no longer
    /// says that the page is on standby here.
    fn write_compressed(&self, slot: u32, index: usize, owner: u64, state: State, tier: Tier) -> bool {
        let (page, id) = (owner as usize * PAGE, page_id(slot, index));
        if !self.pages.table.entry(page).is_some_and(|entry| entry.compress(id, state)) {
            return false;
        }
        self.pages.standby.forget(id);
        if let Some(block) = self.pages.table.block(page) {
            if let State::Stored(_) = state {
                block.set_own(owner as usize % PAGES, self.forks.generation.load(Relaxed));
            }
            if tier == Tier::Fast {
                block.fast.fetch_add(1, Relaxed);
                self.reclaim.fast_left.store(true, Relaxed);
            }
        }
        if state == State::Zero {
            self.pages.zero_pages.fetch_add(1, Relaxed);
        }
        true
    }

    /// Makes the entry of a clean page on standby name its blob again. Under the order lock. `false` if the
    /// page has moved meanwhile or its blob is gone: then it is compressed like any other.
    pub fn reuse_blob(&self, worker: &mut Worker, slot: u32, index: usize, owner: u64) -> bool {
        let (page, id) = (owner as usize * PAGE, page_id(slot, index));
        let Some(entry) = self.pages.table.entry(page).filter(|entry| entry.load() == State::Standby(id))
        else {
            return self.pages.standby.slot(slot).owners[index].load(Relaxed) == owner;
        };
        let Some(name) = self.is_clean_on_standby(page).then(|| self.take_blob(page)).flatten() else {
            return false;
        };
        if self.shared().flags.load(Relaxed) & page::flags::PARANOID != 0 {
            self.compare(worker, name, owner, self.pages.standby.page_address(id));
        }
        entry.reuse(name);
        self.pages.standby.forget(id);
        self.slot().counters.pages_clean.fetch_add(1, Relaxed);
        true
    }

    /// With `--paranoid`: ends the process if a blob differs from its page.
    #[cold]
    pub fn compare(&self, worker: &mut Worker, name: Ref, owner: u64, page: usize) {
        let into = &mut worker.pages[..PAGE];
        self.stored.set_reading(worker.number, true);
        // SAFETY: only this thread, to which the blob was just handed out, knows it.
        let loaded = unsafe { self.store().load(name, owner, into, &mut worker.decode) };
        self.stored.set_reading(worker.number, false);
        // SAFETY: a page on standby does not change.
        let page = unsafe { core::slice::from_raw_parts(page as *const u8, PAGE) };
        if loaded.is_err() || *into != *page {
            self.fail_corrupt();
        }
    }

    /// Decides the fate of a page; `None` if the store gets no memory for it. With `whole`, the page is kept
    /// even if it does not get smaller.
    pub fn compress_page(
        &self,
        worker: &mut Worker,
        tier: Tier,
        owner: u64,
        page: &[u8],
        whole: bool,
    ) -> Option<(Fate, Size)> {
        let word = memfold_codec::same_filled(page);
        if word == Some(0) {
            return Some((Fate::Kept(State::Zero), Size::default()));
        }
        let address = owner as usize * PAGE;
        let is_marked =
            || self.pages.table.block(address).is_some_and(|block| block.marks.has(index_in_block(address)));
        let (name, bytes) = if whole {
            self.store().insert_sized(tier, owner, page, &mut worker.space).ok()?
        } else if is_marked() {
            return Some((Fate::Back, Size::default()));
        } else {
            match self.store().insert_if_smaller(tier, owner, page, &mut worker.space).ok()? {
                Some(kept) => kept,
                None => return Some((Fate::Back, Size::default())),
            }
        };
        let class = if word.is_some() { trail::REPEATED } else { trail::size_class(bytes) };
        Some((Fate::Kept(State::Stored(name)), Size { class: class as u8, bytes: bytes as u16 }))
    }
}
