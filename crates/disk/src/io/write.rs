//! Writing and trimming.

use std::sync::atomic::Ordering::*;

use memfold::store::{Full, Ref, Tier};
use memfold_codec::{CodecId, same_filled};

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Entry, Held, Leaf, Left, PAGE, PAGES};
use crate::index::owner::owner_of;
use crate::index::stripes::leaf_of;
use crate::io::{Kept, damaged};
use crate::memory::budget::Budget;
use crate::memory::works::{Lent, Work};

/// A page whose compressed form is larger than this is kept uncompressed.
pub(super) const MOST: usize = PAGE / 16 * 15;
/// The number of pages trimmed while the lock is held once.
const BATCH: usize = 64;

/// The form in which a page is stored.
pub(super) enum Form<'w> {
    /// A hole, or a repeated word.
    Entry(Entry),
    Blob(Option<CodecId>, &'w [u8]),
}

impl Disk {
    /// Writes `src` to the device from byte `offset` on.
    pub fn write(&self, offset: u64, src: &[u8]) -> Result<(), Error> {
        self.check_range(offset, src.len() as u64)?;
        if src.is_empty() {
            return Ok(());
        }
        let mut lent = None;
        let (mut offset, mut rest) = (offset, src);
        while !rest.is_empty() {
            let (page, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
            let len = rest.len().min(PAGE - at);
            self.until_kept(page, &mut lent, |work| match rest.first_chunk() {
                Some(content) if at == 0 => self.write_page(page, content, None, true, work),
                _ => self.patch(page, at, len, |part| part.copy_from_slice(&rest[..len]), work),
            })?;
            (offset, rest) = (offset + len as u64, &rest[len..]);
        }
        Ok(())
    }

    /// Trims a range: it then reads as zeros, and its memory is freed.
    pub fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_range(offset, len)?;
        let end = offset + len;
        let (first, last) = (offset.div_ceil(PAGE as u64), end / PAGE as u64);
        if first > last {
            return self.clear(first - 1, (offset % PAGE as u64) as usize, len as usize);
        }
        let (head, tail) = ((first * PAGE as u64 - offset) as usize, (end % PAGE as u64) as usize);
        // Whole pages first: that frees memory, which parts of pages may need.
        self.trim_pages(first, last)?;
        if head > 0 {
            self.clear(first - 1, PAGE - head, head)?;
        }
        if tail > 0 {
            self.clear(last, 0, tail)?;
        }
        Ok(())
    }

    /// Zeroes a range, which is the same as trimming it: zeros take no memory.
    pub fn zero(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.trim(offset, len)
    }

    /// Zeroes a part of a page.
    fn clear(&self, page: u64, at: usize, len: usize) -> Result<(), Error> {
        {
            let (stripe, number, place) = self.lock(page);
            if stripe.get(number).is_none_or(|leaf| leaf.entry(place) == Some(Entry::Hole)) {
                return Ok(());
            }
        }
        self.until_kept(page, &mut None, |work| self.patch(page, at, len, |part| part.fill(0), work))
    }

    /// Repeats a change of a page until it succeeds or there is no room for it. While a thread waits for
    /// room, it returns its working memory, which readers need.
    fn until_kept<'d>(
        &'d self,
        page: u64,
        lent: &mut Option<Lent<'d>>,
        change: impl Fn(&mut Work) -> Result<Kept, Error>,
    ) -> Result<(), Error> {
        loop {
            match change(lent.get_or_insert_with(|| self.works.take()))? {
                Kept::Done => return Ok(()),
                Kept::Changed => {}
                Kept::Full => {
                    *lent = None;
                    if let Err(full) = self.make_room() {
                        match self.change_in_reserve(page, &change)? {
                            Kept::Done => return Ok(()),
                            Kept::Changed => {}
                            Kept::Full => {
                                self.counts.refused.fetch_add(1, Relaxed);
                                return Err(full);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Changes a part of a page, without undoing a concurrent change.
    fn patch(
        &self,
        page: u64,
        at: usize,
        len: usize,
        change: impl Fn(&mut [u8]),
        work: &mut Work,
    ) -> Result<Kept, Error> {
        let mut content = [0; PAGE];
        let version = self.read_page(page, 0, &mut content, true, work)?;
        change(&mut content[at..at + len]);
        self.write_page(page, &content, Some(version), true, work)
    }

    /// Writes a page to the device; with a version, only if the page's stripe still has that version. `counted`
    /// says whether it counts as written.
    pub(crate) fn write_page(
        &self,
        page: u64,
        content: &[u8; PAGE],
        version: Option<u64>,
        counted: bool,
        work: &mut Work,
    ) -> Result<Kept, Error> {
        let word = same_filled(content);
        if let (Some(shared), None, true) = (&self.shared, word, counted)
            && let Some(done) = self.share(shared, page, content, version, work)?
        {
            self.counts.pages_written.fetch_add(u64::from(done), Relaxed);
            return Ok(if done { Kept::Done } else { Kept::Changed });
        }
        let form = match word {
            Some(0) => Form::Entry(Entry::Hole),
            Some(word) if (word >> 32) as u32 == word as u32 => Form::Entry(Entry::Fill(word as u32)),
            Some(word) => {
                work.page[..8].copy_from_slice(&word.to_le_bytes());
                Form::Blob(None, &work.page[..8])
            }
            None => match self.store.form(Tier::Fast, owner_of(page), content, MOST, &mut work.space) {
                Some((id, payload)) => Form::Blob(Some(id), payload),
                None => Form::Blob(Some(CodecId::COPY), content),
            },
        };
        let kept = self.keep(page, content, &form, version)?;
        self.counts.pages_written.fetch_add(u64::from(counted && kept == Kept::Done), Relaxed);
        Ok(kept)
    }

    pub(super) fn keep(
        &self,
        page: u64,
        content: &[u8; PAGE],
        form: &Form<'_>,
        version: Option<u64>,
    ) -> Result<Kept, Error> {
        let freed = {
            let (mut stripe, number, place) = self.lock(page);
            if version.is_some_and(|version| version != stripe.version) {
                return Ok(Kept::Changed);
            }
            let is_hole = matches!(form, Form::Entry(Entry::Hole));
            if is_hole && stripe.get(number).is_none() {
                return Ok(Kept::Done);
            }
            if stripe.make(number, self.budget()).is_none() && self.budget().has_reserve() {
                // The leaf may use the reserve: the store may have holes for the page that nothing else can
                // use.
                Budget::making_room(|| stripe.make(number, self.budget()).is_some());
            }
            let Some(leaf) = stripe.get_mut(number) else { return Ok(Kept::Full) };
            let before = leaf.entry(place).ok_or(damaged(page))?;
            let new = match *form {
                Form::Entry(entry) => entry,
                Form::Blob(id, payload) => match self.put(page, before, id, payload) {
                    Ok(r) => Entry::Page(Held::Blob(r)),
                    Err(Full) => {
                        stripe.drop_empty(number, self.budget());
                        return Ok(Kept::Full);
                    }
                },
            };
            let left = match leaf.replace(self.layout, place, new) {
                Ok(left) => left,
                Err(_) => {
                    if let Entry::Page(Held::Blob(r)) = new {
                        // No other thread has seen the blob, and it cannot have been moved.
                        let _ = self.store.store().free(r, owner_of(page), self);
                    }
                    return Ok(Kept::Full);
                }
            };
            if matches!(new, Entry::Page(_)) {
                leaf.touch(place);
            }
            stripe.version += 1;
            self.counts.changed(before, new);
            self.resident.update(page, Some(content), self.budget());
            if is_hole {
                stripe.drop_empty(number, self.budget());
            }
            self.settle(number, left)?
        };
        self.free(freed);
        self.counts.changed_something();
        Ok(Kept::Done)
    }

    /// Stores a blob for a page. A blob that is no longer than the one it replaces may use the reserve.
    fn put(&self, page: u64, before: Entry, id: Option<CodecId>, payload: &[u8]) -> Result<Ref, Full> {
        let owner = owner_of(page);
        self.store.put(owner, id, payload).or_else(|Full| match before {
            // SAFETY: its leaf's lock is held.
            Entry::Page(Held::Blob(r)) => match unsafe { self.store.get_unverified(r, owner) } {
                Ok((_, old)) if old.len() >= payload.len() => {
                    Budget::making_room(|| self.store.put(owner, id, payload))
                }
                _ => Err(Full),
            },
            _ => Err(Full),
        })
    }

    /// Trims the pages from `first` to before `end`.
    fn trim_pages(&self, first: u64, end: u64) -> Result<(), Error> {
        let mut page = first;
        while page < end {
            let (number, place) = leaf_of(page);
            let next = (number + 1) * PAGES as u64;
            if self.stripes.lock(number).get(number).is_none() {
                match self.stripes.next(number + 1).filter(|_| next < end) {
                    Some(leaf) => page = leaf * PAGES as u64,
                    None => return Ok(()),
                }
                continue;
            }
            let count = (next.min(end) - page).min(BATCH as u64) as usize;
            self.trim_batch(number, place, count)?;
            page += count as u64;
        }
        Ok(())
    }

    fn trim_batch(&self, number: u64, place: usize, count: usize) -> Result<(), Error> {
        let mut freed = [None; BATCH];
        let mut trimmed = 0;
        // The rest is trimmed before damage is reported.
        let mut result = Ok(());
        {
            let mut stripe = self.stripes.lock(number);
            let Some(leaf) = stripe.get_mut(number) else { return Ok(()) };
            for (at, freed) in (place..place + count).zip(&mut freed) {
                let page = number * PAGES as u64 + at as u64;
                let before = match leaf.entry(at) {
                    Some(Entry::Hole) => continue,
                    Some(before) => before,
                    None => {
                        result = Err(damaged(page));
                        continue;
                    }
                };
                let left = self.take_out(leaf, at);
                match self.settle(number, left) {
                    Ok(left) => *freed = left,
                    Err(error) => result = Err(error),
                }
                self.counts.changed(before, Entry::Hole);
                self.resident.update(page, None, self.budget());
                trimmed += 1;
            }
            if trimmed > 0 {
                stripe.version += 1;
                stripe.drop_empty(number, self.budget());
            }
        }
        if trimmed > 0 {
            freed.into_iter().for_each(|freed| self.free(freed));
            self.counts.pages_trimmed.fetch_add(trimmed, Relaxed);
            self.counts.changed_something();
        }
        result
    }

    fn take_out(&self, leaf: &mut Leaf, at: usize) -> Left {
        leaf.replace(self.layout, at, Entry::Hole)
            .unwrap_or_else(|_| unreachable!("a hole has no reference that might not fit"))
    }
}
