//! Reading.

use std::sync::atomic::Ordering::*;

use memfold::store::Tiered;
use memfold_codec::{CodecId, fill};
use memfold_spill::Trouble;

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Entry, Held, PAGE};
use crate::index::owner::{owner_of, shared_owner};
use crate::io::{Kept, damaged};
use crate::memory::budget::Budget;
use crate::memory::works::Work;

/// The result of looking up a page.
enum Found {
    /// It has been copied.
    Done,
    /// Its blob has been copied.
    Page {
        copied: Copied,
        again: bool,
    },
    Joined {
        again: bool,
    },
    /// Its blob is on the backing device.
    Spilled {
        at: Spilled,
        again: bool,
    },
}

/// A copied payload of a blob.
#[derive(Clone, Copy)]
struct Copied {
    id: Option<CodecId>,
    len: usize,
    was_spilled: bool,
}

/// The number of a blob on the backing device, and its generation.
#[derive(Clone, Copy)]
struct Spilled {
    number: u64,
    stamp: u32,
}

impl Work {
    /// Copies a blob's payload; `None` if it is longer than a payload can be.
    fn copy(&mut self, id: Option<CodecId>, payload: &[u8]) -> Option<Copied> {
        self.payload.get_mut(..payload.len())?.copy_from_slice(payload);
        Some(Copied { id, len: payload.len(), was_spilled: false })
    }
}

/// Why there is no image of a block.
enum Missing {
    /// The page is no longer part of it.
    Changed,
    Failed(Error),
}

impl Disk {
    /// Fills `dst` with the device's content from byte `offset` on.
    pub fn read(&self, offset: u64, dst: &mut [u8]) -> Result<(), Error> {
        self.check_range(offset, dst.len() as u64)?;
        if dst.is_empty() {
            return Ok(());
        }
        let mut work = self.works.take();
        self.read_with(offset, dst, &mut work)
    }

    pub(crate) fn read_with(&self, offset: u64, dst: &mut [u8], work: &mut Work) -> Result<(), Error> {
        let (mut offset, mut rest) = (offset, dst);
        self.counts.activity.fetch_add(1, Relaxed);
        while !rest.is_empty() {
            let (page, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
            let block = self.layout.bytes();
            let len = if offset.is_multiple_of(block as u64) && rest.len() >= block {
                self.read_block(page, &mut rest[..block], work)?;
                block
            } else {
                let len = rest.len().min(PAGE - at);
                self.read_page(page, at, &mut rest[..len], true, work)?;
                len
            };
            (offset, rest) = (offset + len as u64, &mut rest[len..]);
        }
        Ok(())
    }

    /// Fills `dst` with a part of a page, from byte `at`. Returns the version of the page's stripe at that
    /// moment. With `used`, the page counts as used.
    pub(crate) fn read_page(
        &self,
        page: u64,
        at: usize,
        dst: &mut [u8],
        used: bool,
        work: &mut Work,
    ) -> Result<u64, Error> {
        self.counts.pages_read.fetch_add(1, Relaxed);
        loop {
            if self.resident.bytes() > 0 {
                // The version is read before the resident copy, so that the copy is never older than the
                // version.
                let version = self.lock_version(page);
                if self.resident.read(page, at, dst) {
                    return Ok(version);
                }
            }
            let (found, version) = self.find(page, at, dst, used, work)?;
            let (copied, version, again) = match found {
                Found::Done => return Ok(version),
                Found::Page { copied, again } => (copied, version, again),
                Found::Spilled { at, again } => match self.fetch(page, at, work)? {
                    Some((copied, version)) => (copied, version, again),
                    None => continue,
                },
                Found::Joined { again } => match self.read_joined(page, at, dst, again, work) {
                    Ok(version) => return Ok(version),
                    Err(Missing::Changed) => continue,
                    Err(Missing::Failed(error)) => return Err(error),
                },
            };
            let Work { space, payload, page: whole, .. } = work;
            let mut open = |image: &mut [u8]| {
                let payload = &payload[..copied.len];
                Tiered::<Budget>::open(owner_of(page), copied.id, payload, image, &mut space.decode)
                    .map_err(|_| damaged(page))
            };
            if dst.len() == PAGE {
                open(dst)?;
                if again {
                    whole.copy_from_slice(dst);
                }
            } else {
                open(&mut whole[..])?;
                dst.copy_from_slice(&whole[at..at + dst.len()]);
            }
            self.counts.faults.fetch_add(1, Relaxed);
            if again {
                if copied.was_spilled {
                    self.promote(page, version, work)?;
                } else {
                    self.admit(page, version, whole);
                }
            }
            return Ok(version);
        }
    }

    fn lock_version(&self, page: u64) -> u64 {
        self.lock(page).0.version
    }

    /// Looks up a page and copies its content or its blob.
    fn find(
        &self,
        page: u64,
        at: usize,
        dst: &mut [u8],
        used: bool,
        work: &mut Work,
    ) -> Result<(Found, u64), Error> {
        let (mut stripe, number, place) = self.lock(page);
        let version = stripe.version;
        let Some(leaf) = stripe.get_mut(number) else {
            dst.fill(0);
            return Ok((Found::Done, version));
        };
        let found = match leaf.entry(place).ok_or(damaged(page))? {
            Entry::Hole => {
                dst.fill(0);
                Found::Done
            }
            Entry::Fill(word) => {
                let word = u64::from(word) << 32 | u64::from(word);
                fill(dst, word.rotate_right((at % 8 * 8) as u32));
                Found::Done
            }
            Entry::Joined => {
                let again = used && leaf.is_hot(self.layout, self.layout.first(place));
                if used {
                    leaf.touch(place);
                }
                Found::Joined { again }
            }
            Entry::Page(Held::Spilled(number)) => {
                Found::Spilled { at: self.spilled(page, number)?, again: used && leaf.touch(place) }
            }
            Entry::Page(Held::Shared(number)) => {
                let again = used && leaf.touch(place);
                let shared = self.shared.as_ref().ok_or(damaged(page))?;
                let copied = shared.read(number, |r, _| {
                    // SAFETY: as below, and its shard's lock is held.
                    let (id, payload) = unsafe { self.store.get(r, shared_owner(number)) }.ok()?;
                    work.copy(id, payload)
                });
                Found::Page { copied: copied.flatten().ok_or(damaged(page))?, again }
            }
            Entry::Page(Held::Blob(r)) => {
                let again = used && leaf.touch(place);
                // SAFETY: a blob is moved or freed only by the thread that holds the lock, or after its
                // reference was removed under the lock.
                let (id, payload) =
                    unsafe { self.store.get(r, owner_of(page)) }.map_err(|_| damaged(page))?;
                Found::Page { copied: work.copy(id, payload).ok_or(damaged(page))?, again }
            }
        };
        Ok((found, version))
    }

    /// The blob that currently has a number. The lock of the leaf that names it must be held.
    fn spilled(&self, page: u64, number: u64) -> Result<Spilled, Error> {
        let stamp = self.backing.as_ref().and_then(|backing| backing.stamp(number)).ok_or(damaged(page))?;
        Ok(Spilled { number, stamp })
    }

    /// Reads a blob from the backing device into `work.payload`, on behalf of a page. `None` if the page or
    /// its block has moved meanwhile: then the data read may belong to any page.
    fn fetch(&self, page: u64, at: Spilled, work: &mut Work) -> Result<Option<(Copied, u64)>, Error> {
        let Some(backing) = &self.backing else { return Err(damaged(page)) };
        let Work { sealed, payload: room, .. } = work;
        // The block's first page: see `spill`.
        let owner = owner_of(page - page % self.layout.pages() as u64);
        let read = backing.read(owner, at.number, sealed);
        let (stripe, number, place) = self.lock(page);
        let Some(leaf) = stripe.get(number) else { return Ok(None) };
        let held = match leaf.entry(place) {
            Some(Entry::Page(held)) => Some(held),
            Some(Entry::Joined) => leaf.joined(self.layout, self.layout.first(place)).map(|(_, held)| held),
            _ => None,
        };
        if held != Some(Held::Spilled(at.number)) || backing.stamp(at.number) != Some(at.stamp) {
            return Ok(None);
        }
        let (id, payload) = match read {
            Ok(blob) => blob,
            Err(trouble) => {
                let is_lost = trouble == Trouble::Lost;
                return Err(Error::Backing { offset: page * PAGE as u64, is_lost });
            }
        };
        room.get_mut(..payload.len()).ok_or(damaged(page))?.copy_from_slice(payload);
        Ok(Some((Copied { id, len: payload.len(), was_spilled: true }, stripe.version)))
    }

    /// Reads a page that is joined with others. `again`: one of them was read recently.
    fn read_joined(
        &self,
        page: u64,
        at: usize,
        dst: &mut [u8],
        again: bool,
        work: &mut Work,
    ) -> Result<u64, Missing> {
        let block = page - page % self.layout.pages() as u64;
        let within = (page - block) as usize * PAGE + at;
        let Some(mut image) = self.images.lock(block) else {
            // All places of the cache are in use, and waiting does not pay.
            let image = std::mem::take(&mut work.space.block);
            let opened = self.open_block(page, &mut image[..self.layout.bytes()], work);
            if opened.is_ok() {
                dst.copy_from_slice(&image[within..][..dst.len()]);
            }
            work.space.block = image;
            return opened;
        };
        // The page must have been joined at the version of the image, and must be joined now. Otherwise it
        // may be zeros in the image, or older than the returned version.
        let version = self.joined_version(page).ok_or(Missing::Changed)?;
        let good = image.block == block + 1 && image.version == version;
        if !good {
            image.block = 0;
            image.version = self.open_block(page, &mut image.bytes, work)?;
            image.block = block + 1;
        }
        dst.copy_from_slice(&image.bytes[within..][..dst.len()]);
        let version = image.version;
        if again && !good {
            self.promote_block(block, version, &image.bytes, work).map_err(Missing::Failed)?;
        }
        Ok(version)
    }

    /// The version of a page's stripe, if the page is joined.
    fn joined_version(&self, page: u64) -> Option<u64> {
        let (stripe, number, place) = self.lock(page);
        let is_joined = stripe.get(number)?.entry(place) == Some(Entry::Joined);
        is_joined.then_some(stripe.version)
    }

    /// Whether data that are read often may go back to the fast tier, which is so while there is room.
    fn may_promote(&self) -> bool {
        let budget = self.budget();
        budget.used() <= budget.open() - budget.open() / 8
    }

    /// Restores a spilled page that is read often; its content is in `work.page`.
    fn promote(&self, page: u64, version: u64, work: &mut Work) -> Result<(), Error> {
        let content = *work.page;
        if self.may_promote() && self.write_page(page, &content, Some(version), false, work)? == Kept::Done {
            self.counts.promotions.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Moves the joined pages of a block that had to be decompressed twice in a short time back to the fast tier:
    /// reading all of them from there takes less time than decompressing the block once.
    fn promote_block(&self, block: u64, version: u64, image: &[u8], work: &mut Work) -> Result<(), Error> {
        let mut joined = 0u32;
        if self.may_promote() {
            let (stripe, number, first) = self.lock(block);
            if let Some(leaf) = stripe.get(number).filter(|_| stripe.version == version) {
                joined = leaf.joined_pages(self.layout, first).fold(0, |bits, at| bits | 1 << (at - first));
            }
        }
        let pages =
            (0..).zip(image.as_chunks().0).filter(|&(at, _): &(u64, &[u8; PAGE])| joined & 1 << at != 0);
        // Each page is one change of the stripe. If there are other changes in between, another thread is
        // working there.
        for (version, (at, content)) in (version..).zip(pages) {
            if self.write_page(block + at, content, Some(version), false, work)? != Kept::Done {
                break;
            }
            self.counts.promotions.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Fills `image` with the image of the block in which `page` is joined. Returns the version of its stripe.
    fn open_block(&self, page: u64, image: &mut [u8], work: &mut Work) -> Result<u64, Missing> {
        let failed = |error| Missing::Failed(error);
        let (copied, owner, version) = {
            let (stripe, number, place) = self.lock(page);
            let leaf = stripe.get(number).ok_or(Missing::Changed)?;
            if leaf.entry(place) != Some(Entry::Joined) {
                return Err(Missing::Changed);
            }
            let (holder, held) =
                leaf.joined(self.layout, self.layout.first(place)).ok_or(failed(damaged(page)))?;
            let owner = owner_of(page - place as u64 + holder as u64);
            match held {
                Held::Blob(r) => {
                    // SAFETY: as in `find`.
                    let (id, payload) =
                        unsafe { self.store.get(r, owner) }.map_err(|_| failed(damaged(page)))?;
                    (work.copy(id, payload).ok_or(failed(damaged(page)))?, owner, stripe.version)
                }
                Held::Shared(_) => return Err(failed(damaged(page))),
                Held::Spilled(number) => {
                    let at = self.spilled(page, number).map_err(failed)?;
                    drop(stripe);
                    let (copied, version) =
                        self.fetch(page, at, work).map_err(failed)?.ok_or(Missing::Changed)?;
                    (copied, owner, version)
                }
            }
        };
        Tiered::<Budget>::open(owner, copied.id, &work.payload[..copied.len], image, &mut work.space.decode)
            .map_err(|_| failed(damaged(page)))?;
        self.counts.faults.fetch_add(1, Relaxed);
        Ok(version)
    }

    /// Reads a whole block; its joined pages are decompressed in place.
    fn read_block(&self, first: u64, dst: &mut [u8], work: &mut Work) -> Result<(), Error> {
        let mut apart = [true; 8];
        {
            let (mut stripe, number, place) = self.lock(first);
            if let Some(leaf) = stripe.get_mut(number) {
                for page in leaf.joined_pages(self.layout, place) {
                    apart[page - place] = false;
                }
            }
        }
        if let Some(joined) = apart.iter().position(|&apart| !apart) {
            match self.open_block(first + joined as u64, dst, work) {
                // The block may have changed meanwhile, so check which pages are in the image. Other pages
                // are read separately.
                Ok(version) => {
                    let (mut stripe, number, place) = self.lock(first);
                    let same = stripe.version == version;
                    match stripe.get_mut(number) {
                        Some(leaf) if same => {
                            apart = [true; 8];
                            let again = leaf.is_hot(self.layout, place);
                            for page in leaf.joined_pages(self.layout, place) {
                                apart[page - place] = false;
                                leaf.touch(page);
                                self.counts.pages_read.fetch_add(1, Relaxed);
                            }
                            drop(stripe);
                            if again {
                                self.promote_block(first, version, dst, work)?;
                            }
                        }
                        _ => apart = [true; 8],
                    }
                }
                Err(Missing::Changed) => apart = [true; 8],
                Err(Missing::Failed(error)) => return Err(error),
            }
        }
        for (page, part) in (first..).zip(dst.chunks_exact_mut(PAGE)) {
            if apart[(page - first) as usize] {
                self.read_page(page, 0, part, true, work)?;
            }
        }
        Ok(())
    }

    /// Admits a page to the uncompressed copies, if it has not changed.
    fn admit(&self, page: u64, version: u64, content: &[u8; PAGE]) {
        let (stripe, ..) = self.lock(page);
        if stripe.version == version {
            self.resident.admit(page, content, self.resident_allowed(), self.budget());
        }
    }
}
