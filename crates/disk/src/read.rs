//! Reading.

use std::sync::atomic::Ordering::*;

use memfold::store::Tiered;
use memfold_codec::{CodecId, fill};

use crate::Error;
use crate::budget::Budget;
use crate::disk::{Disk, owner_of};
use crate::leaf::{Entry, PAGE};
use crate::works::Work;

/// What was found out about a page.
enum Found {
    /// It has been copied.
    Done,
    /// Its blob has been copied.
    Page {
        id: Option<CodecId>,
        len: usize,
        version: u64,
        again: bool,
    },
    Joined {
        again: bool,
    },
}

/// Why there is no image of a block.
enum Missing {
    /// Its page is not in it any more.
    Changed,
    Failed(Error),
}

impl Disk {
    /// Fills `dst` with what the device holds from byte `offset` on.
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
                self.read_page(page, at, &mut rest[..len], work)?;
                len
            };
            (offset, rest) = (offset + len as u64, &mut rest[len..]);
        }
        Ok(())
    }

    /// Fills `dst` with a part of a page, from byte `at`. The version is that of the page's stripe when it was so.
    pub(crate) fn read_page(
        &self,
        page: u64,
        at: usize,
        dst: &mut [u8],
        work: &mut Work,
    ) -> Result<u64, Error> {
        self.counts.pages_read.fetch_add(1, Relaxed);
        loop {
            if self.resident.bytes() > 0 {
                // Before a look at what is resident: that is never older than the version.
                let version = self.lock_version(page);
                if self.resident.read(page, at, dst) {
                    return Ok(version);
                }
            }
            let (found, version) = self.find(page, at, dst, work)?;
            match found {
                Found::Done => return Ok(version),
                Found::Page { id, len, version, again } => {
                    let Work { space, payload, page: whole, .. } = work;
                    let opened = if dst.len() == PAGE {
                        let opened = Tiered::<Budget>::open(
                            owner_of(page),
                            id,
                            &payload[..len],
                            dst,
                            &mut space.decode,
                        );
                        if again {
                            whole.copy_from_slice(dst);
                        }
                        opened
                    } else {
                        let opened = Tiered::<Budget>::open(
                            owner_of(page),
                            id,
                            &payload[..len],
                            &mut whole[..],
                            &mut space.decode,
                        );
                        dst.copy_from_slice(&whole[at..at + dst.len()]);
                        opened
                    };
                    opened.map_err(|_| damaged(page))?;
                    self.counts.faults.fetch_add(1, Relaxed);
                    if again {
                        self.admit(page, version, whole);
                    }
                    return Ok(version);
                }
                Found::Joined { again } => match self.read_joined(page, at, dst, again, work) {
                    Ok(version) => return Ok(version),
                    Err(Missing::Changed) => {}
                    Err(Missing::Failed(error)) => return Err(error),
                },
            }
        }
    }

    fn lock_version(&self, page: u64) -> u64 {
        self.lock(page).0.version
    }

    /// Looks a page up, and copies what there is of it.
    fn find(&self, page: u64, at: usize, dst: &mut [u8], work: &mut Work) -> Result<(Found, u64), Error> {
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
            Entry::Joined => Found::Joined { again: leaf.touch(place) },
            Entry::Page(r) => {
                let again = leaf.touch(place);
                // SAFETY: a blob moves and is freed only by who has the lock, or when its reference was taken out under it.
                let (id, payload) =
                    unsafe { self.store.get(r, owner_of(page)) }.map_err(|_| damaged(page))?;
                let room = work.payload.get_mut(..payload.len()).ok_or(damaged(page))?;
                room.copy_from_slice(payload);
                Found::Page { id, len: payload.len(), version, again }
            }
        };
        Ok((found, version))
    }

    /// A page that is joined with others.
    fn read_joined(
        &self,
        page: u64,
        at: usize,
        dst: &mut [u8],
        again: bool,
        work: &mut Work,
    ) -> Result<u64, Missing> {
        let block = page - page % self.layout.pages() as u64;
        let within = (page - block) as usize * PAGE;
        let version = match self.images.lock(block) {
            Some(mut image) => {
                let good = image.block == block + 1 && image.version == self.lock_version(page);
                if !good {
                    image.block = 0;
                    image.version = self.open_block(page, &mut image.bytes, work)?;
                    image.block = block + 1;
                }
                dst.copy_from_slice(&image.bytes[within + at..][..dst.len()]);
                if again {
                    work.page.copy_from_slice(&image.bytes[within..][..PAGE]);
                }
                image.version
            }
            // Others work there: not worth waiting.
            None => {
                let image = std::mem::take(&mut work.space.block);
                let opened = self.open_block(page, &mut image[..self.layout.bytes()], work);
                if opened.is_ok() {
                    dst.copy_from_slice(&image[within + at..][..dst.len()]);
                    work.page.copy_from_slice(&image[within..][..PAGE]);
                }
                work.space.block = image;
                opened?
            }
        };
        if again {
            self.promote(page, version, work).map_err(Missing::Failed)?;
        }
        Ok(version)
    }

    /// A joined page that is read often, which is in `work.page`, goes back to the fast tier, as long as there is room for it beside its block: to bring
    /// a page takes a tenth of the time that a block takes.
    fn promote(&self, page: u64, version: u64, work: &mut Work) -> Result<(), Error> {
        let budget = self.budget();
        if budget.used() > budget.open() - budget.open() / 8 {
            return Ok(());
        }
        let content = *work.page;
        if self.write_page(page, &content, Some(version), false, work)? {
            self.counts.promotions.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Fills `image` with the image of the block in which `page` is joined. The version is that of its stripe.
    fn open_block(&self, page: u64, image: &mut [u8], work: &mut Work) -> Result<u64, Missing> {
        let (id, len, owner, version) = {
            let (mut stripe, number, place) = self.lock(page);
            let version = stripe.version;
            let leaf = stripe.get_mut(number).ok_or(Missing::Changed)?;
            if leaf.entry(place) != Some(Entry::Joined) {
                return Err(Missing::Changed);
            }
            let failed = Missing::Failed(damaged(page));
            let Some((holder, r)) = leaf.joined(self.layout, self.layout.first(place)) else {
                return Err(failed);
            };
            let owner = owner_of(page - place as u64 + holder as u64);
            // SAFETY: as in `find`.
            let Ok((id, payload)) = (unsafe { self.store.get(r, owner) }) else { return Err(failed) };
            let Some(room) = work.payload.get_mut(..payload.len()) else { return Err(failed) };
            room.copy_from_slice(payload);
            (id, payload.len(), owner, version)
        };
        Tiered::<Budget>::open(owner, id, &work.payload[..len], image, &mut work.space.decode)
            .map_err(|_| Missing::Failed(damaged(page)))?;
        self.counts.faults.fetch_add(1, Relaxed);
        Ok(version)
    }

    /// A whole block: what is joined in it is decompressed in place.
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
                // It may be another form by now: see which pages are in that one. What is not is read by itself.
                Ok(version) => {
                    let (mut stripe, number, place) = self.lock(first);
                    let same = stripe.version == version;
                    match stripe.get_mut(number) {
                        Some(leaf) if same => {
                            apart = [true; 8];
                            for page in leaf.joined_pages(self.layout, place) {
                                apart[page - place] = false;
                                leaf.touch(page);
                                self.counts.pages_read.fetch_add(1, Relaxed);
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
                self.read_page(page, 0, part, work)?;
            }
        }
        Ok(())
    }

    /// Keeps a page uncompressed if it is what it was.
    fn admit(&self, page: u64, version: u64, content: &[u8; PAGE]) {
        let (stripe, ..) = self.lock(page);
        if stripe.version == version {
            self.resident.admit(page, content, self.resident_allowed(), self.budget());
        }
    }
}

/// A page that is not what was written.
pub(crate) fn damaged(page: u64) -> Error {
    Error::Damaged { offset: page * PAGE as u64 }
}
