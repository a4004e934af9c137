//! The dense tier: the pages of a block that was not used for a while are compressed together by another
//! codec.
//!
//! The blobs of a block are copied with the lock of its leaf held, then decompressed and compressed without
//! it. Then, with the lock held again, the new blob replaces the old ones if the block's mark is still set,
//! so nothing changed meanwhile.

use std::sync::atomic::Ordering::*;

use memfold::store::{Ref, Tier, Tiered};
use memfold_codec::CodecId;

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Entry, Held, Leaf, Mark, PAGE, PAGES};
use crate::index::owner::{owner_of, shared_owner};
use crate::locked;
use crate::memory::budget::Budget;
use crate::memory::works::Work;

/// The most pages of a block.
const BLOCK_PAGES: usize = 8;

/// The outcome for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// It now takes this many bytes less.
    Gained(usize),
    /// It was used recently.
    Hot,
    /// Nothing: there was nothing to do, or the block changed meanwhile.
    Nothing,
    /// There is no room for its new form while the old one exists.
    Full,
}

/// A blob of a block: of a page, or of joined ones.
#[derive(Clone, Copy)]
struct Old {
    owner: u64,
    /// The page within the block; for joined pages, the first.
    at: usize,
    id: Option<CodecId>,
    start: usize,
    len: usize,
    joined: bool,
}

/// What was copied of a block.
struct Copied {
    olds: [Option<Old>; BLOCK_PAGES],
    /// A bit for each page that has a blob or is joined.
    pages: u32,
    joined: u32,
}

impl Disk {
    /// Makes a block denser if it was not used since the last call, or if `even_hot`.
    pub(crate) fn merge_block(&self, number: u64, first: usize, even_hot: bool, work: &mut Work) -> Merged {
        let copied = match self.copy_block(number, first, even_hot, work) {
            Ok(copied) => copied,
            Err(merged) => return merged,
        };
        let image = std::mem::take(&mut work.space.block);
        let merged = self.merge_copied(number, first, &copied, &mut image[..self.layout.bytes()], work);
        work.space.block = image;
        merged
    }

    fn copy_block(
        &self,
        number: u64,
        first: usize,
        even_hot: bool,
        work: &mut Work,
    ) -> Result<Copied, Merged> {
        let mut stripe = self.stripes.lock(number);
        let leaf = stripe.get_mut(number).ok_or(Merged::Nothing)?;
        // The bits of every block are cleared, so that a page that is read twice between two calls counts as
        // read often.
        let hot = leaf.cool(self.layout, first) && !even_hot;
        if hot {
            return Err(Merged::Hot);
        }
        let settled = self.options.dense.is_none() || leaf.has_mark(first, Mark::Settled);
        if settled || leaf.has_mark(first, Mark::Merging) {
            return Err(Merged::Nothing);
        }
        let mut copied = Copied { olds: [None; BLOCK_PAGES], pages: 0, joined: 0 };
        let page = |at: usize| number * PAGES as u64 + at as u64;
        for at in self.layout.range(first) {
            match leaf.entry(at) {
                // There is nothing to gain for a page that is not in memory.
                Some(Entry::Page(Held::Spilled(_))) => return Err(Merged::Nothing),
                // A blob that other pages share stays as it is.
                Some(Entry::Page(Held::Shared(number))) => {
                    let alone = self.shared.as_ref().and_then(|shared| shared.read(number, |_, alone| alone));
                    copied.pages |= u32::from(alone == Some(true)) << (at - first);
                }
                Some(Entry::Page(Held::Blob(_))) => copied.pages |= 1 << (at - first),
                Some(Entry::Joined) => {
                    copied.pages |= 1 << (at - first);
                    copied.joined |= 1 << (at - first);
                }
                _ => {}
            }
        }
        if copied.pages == 0 {
            return Err(Merged::Nothing);
        }
        let mut start = 0;
        let mut add = |at: usize, r: Ref, owner: u64, joined: bool| {
            // SAFETY: the leaf's lock is held: no other thread removes the reference or moves the blob.
            let (id, payload) = unsafe { self.store.get(r, owner) }.ok()?;
            work.payload.get_mut(start..start + payload.len())?.copy_from_slice(payload);
            copied.olds[at - first] =
                Some(Old { owner, at: at - first, id, start, len: payload.len(), joined });
            start += payload.len();
            Some(())
        };
        let mut good = true;
        for at in self.layout.range(first) {
            good &= match leaf.entry(at) {
                _ if copied.pages & 1 << (at - first) == 0 => true,
                Some(Entry::Page(Held::Blob(r))) => add(at, r, owner_of(page(at)), false).is_some(),
                Some(Entry::Page(Held::Shared(number))) => self
                    .shared
                    .as_ref()
                    .and_then(|shared| shared.read(number, |r, _| add(at, r, shared_owner(number), false)))
                    .flatten()
                    .is_some(),
                _ => true,
            };
        }
        if copied.joined != 0 {
            good &= match leaf.joined(self.layout, first) {
                Some((_, Held::Spilled(_))) => return Err(Merged::Nothing),
                Some((at, Held::Blob(r))) => add(at, r, owner_of(page(at)), true).is_some(),
                _ => false,
            };
        }
        if !good {
            return Err(self.give_up(leaf, first));
        }
        leaf.set_mark(first, Mark::Merging);
        Ok(copied)
    }

    /// Memory was damaged, which readers will report. The block is left as it is.
    fn give_up(&self, leaf: &mut Leaf, first: usize) -> Merged {
        leaf.set_mark(first, Mark::Settled);
        Merged::Nothing
    }

    fn merge_copied(
        &self,
        number: u64,
        first: usize,
        copied: &Copied,
        image: &mut [u8],
        work: &mut Work,
    ) -> Merged {
        let owner = owner_of(number * PAGES as u64 + (first + copied.pages.trailing_zeros() as usize) as u64);
        let alone = copied.pages.count_ones() == 1;
        let opened = open(copied, image, work);
        let held: usize = copied.olds.iter().flatten().map(|old| old.len).sum();
        let form = opened.and_then(|()| {
            let at = copied.pages.trailing_zeros() as usize * PAGE;
            let source = if alone { &image[at..at + PAGE] } else { &*image };
            // A gain of less than a sixteenth does not justify slower reads.
            let most = (held - held / 16).min(source.len());
            self.store.form(Tier::Dense, owner, source, most, &mut work.space)
        });
        let mut stripe = self.stripes.lock(number);
        let Some(leaf) = stripe.get_mut(number).filter(|leaf| leaf.has_mark(first, Mark::Merging)) else {
            return Merged::Nothing;
        };
        leaf.clear_mark(first, Mark::Merging);
        let Some((id, payload)) = form else {
            leaf.set_mark(first, Mark::Settled);
            return Merged::Nothing;
        };
        let Ok(r) = self.store.put(owner, Some(id), payload) else { return Merged::Full };
        let len = payload.len();
        // The current references: blobs may have been moved meanwhile.
        let mut olds = [None; BLOCK_PAGES];
        let page = |at: usize| number * PAGES as u64 + at as u64;
        for (at, old) in self.layout.range(first).zip(&mut olds) {
            let is_in = copied.pages & 1 << (at - first) != 0;
            if let Some(Entry::Page(held)) = leaf.entry(at).filter(|_| is_in) {
                *old = Some((held, owner_of(page(at))));
            }
        }
        let joined = leaf.joined(self.layout, first).map(|(at, held)| (held, owner_of(page(at))));
        let done = if alone {
            let at = first + copied.pages.trailing_zeros() as usize;
            leaf.replace(self.layout, at, Entry::Page(Held::Blob(r))).is_ok()
        } else {
            leaf.join(self.layout, first, copied.pages, r)
        };
        if !done {
            drop(stripe);
            self.free(Some((Held::Blob(r), owner)));
            return Merged::Full;
        }
        leaf.set_mark(first, Mark::Settled);
        // The content is the same, but an older image of the block lacks the pages that have just joined it.
        stripe.version += 1;
        drop(stripe);
        let now_joined = if alone { 0 } else { copied.pages.count_ones() };
        self.counts.joined.fetch_add(u64::from(now_joined), Relaxed);
        self.counts.joined.fetch_sub(u64::from(copied.joined.count_ones()), Relaxed);
        self.counts.merges.fetch_add(1, Relaxed);
        olds.into_iter().chain([joined]).for_each(|old| self.free(old));
        Merged::Gained(held - len)
    }

    /// Makes everything as small as possible, recently used or not. Without this call, the background thread
    /// does that over time.
    pub fn condense(&self) -> Result<(), Error> {
        let mut making = locked(&self.making);
        let mut next = self.stripes.next(0);
        while let Some(number) = next {
            for first in (0..PAGES).step_by(self.layout.pages()) {
                Budget::making_room(|| self.merge_block(number, first, true, making.work()));
            }
            next = self.stripes.next(number + 1);
        }
        drop(making);
        while self.compact(64 << 20) {}
        Ok(())
    }
}

/// Makes the image of a block, in which pages without a blob are zeros.
fn open(copied: &Copied, image: &mut [u8], work: &mut Work) -> Option<()> {
    image.fill(0);
    let olds = || copied.olds.iter().flatten();
    if let Some(old) = olds().find(|old| old.joined) {
        let payload = &work.payload[old.start..old.start + old.len];
        Tiered::<Budget>::open(old.owner, old.id, payload, image, &mut work.space.decode).ok()?;
        for (at, page) in image.chunks_exact_mut(PAGE).enumerate() {
            if copied.joined & 1 << at == 0 {
                page.fill(0);
            }
        }
    }
    for old in olds().filter(|old| !old.joined) {
        let payload = &work.payload[old.start..old.start + old.len];
        let page = &mut image[old.at * PAGE..][..PAGE];
        Tiered::<Budget>::open(old.owner, old.id, payload, page, &mut work.space.decode).ok()?;
    }
    Some(())
}
