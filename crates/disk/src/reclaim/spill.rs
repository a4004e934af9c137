//! Moves blobs to the backing device: cold data that do not compress and, at the limit, everything that
//! cannot be made denser.

use memfold_codec::CodecId;

use crate::disk::Disk;
use crate::index::leaf::{Entry, Held, Mark, PAGES};
use crate::index::owner::owner_of;
use crate::memory::works::Work;

impl Disk {
    /// Spills a block's blobs in memory: uncompressed ones only, or all if `any`. Returns the number of bytes
    /// freed.
    pub(crate) fn spill_block(&self, number: u64, first: usize, any: bool, work: &mut Work) -> usize {
        if self.backing.as_ref().is_none_or(|backing| !backing.is_open()) {
            return 0;
        }
        self.layout.range(first).map(|at| self.spill(number, at, any, work)).sum()
    }

    /// Spills a page's blob, or the joined blob if this page holds its reference.
    fn spill(&self, number: u64, at: usize, any: bool, work: &mut Work) -> usize {
        let Some(backing) = &self.backing else { return 0 };
        let first = self.layout.first(at);
        let owner = owner_of(number * PAGES as u64 + at as u64);
        let (id, len) = {
            let mut stripe = self.stripes.lock(number);
            let Some(leaf) = stripe.get_mut(number) else { return 0 };
            let r = match leaf.entry(at) {
                Some(Entry::Page(Held::Blob(r))) => r,
                Some(Entry::Joined) => match leaf.joined(self.layout, first) {
                    Some((holder, Held::Blob(r))) if holder == at => r,
                    _ => return 0,
                },
                _ => return 0,
            };
            // SAFETY: the leaf's lock is held: no other thread removes the reference or moves the blob.
            let Ok((id, payload)) = (unsafe { self.store.get(r, owner) }) else { return 0 };
            let is_raw = id == Some(CodecId::COPY);
            let Some(room) = work.payload.get_mut(..payload.len()).filter(|_| any || is_raw) else {
                return 0;
            };
            if leaf.has_mark(first, Mark::Merging) {
                return 0;
            }
            room.copy_from_slice(payload);
            leaf.set_mark(first, Mark::Merging);
            (id, payload.len())
        };
        // The owner on the tier is the block, since a page may leave the block and another one then holds the
        // reference.
        let block = owner_of(number * PAGES as u64 + first as u64);
        let spilled = backing.write(block, id, &work.payload[..len]);
        let mut stripe = self.stripes.lock(number);
        let leaf = stripe.get_mut(number).filter(|leaf| leaf.has_mark(first, Mark::Merging));
        let before = leaf.and_then(|leaf| {
            leaf.clear_mark(first, Mark::Merging);
            leaf.rehold(at, Held::Spilled(spilled?))
        });
        drop(stripe);
        match (before, spilled) {
            (Some(blob), _) => {
                self.free(Some((blob, owner)));
                len
            }
            // The blob changed meanwhile.
            (None, Some(spilled)) => {
                backing.free(spilled);
                0
            }
            (None, None) => 0,
        }
    }
}
