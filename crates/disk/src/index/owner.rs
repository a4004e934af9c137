//! The owners of blobs: their numbers in the store, what happens to a blob that its owner gives up, and how
//! an owner learns that its blob was moved.

use std::sync::atomic::Ordering::*;

use memfold::store::{Owners, Ref};

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Held, Left, PAGE, PAGES};
use crate::index::stripes::leaf_of;

/// Owner numbers of pages are below this: the page's number, modulo this if there are more pages. Numbers
/// from this on are owners of shared blobs.
const OWNERS: u64 = memfold::store::OWNER_LIMIT / 2;

/// The owner of a shared blob in the store.
pub(crate) fn shared_owner(number: u64) -> u64 {
    OWNERS | (number % OWNERS)
}

/// The owner of a page's blob in the store.
pub(crate) fn owner_of(page: u64) -> u64 {
    page % OWNERS
}

impl Disk {
    /// Does what remains to be done about a page's old content, with the lock of its leaf held. The caller
    /// must free the result without that lock.
    pub(crate) fn settle(&self, leaf: u64, left: Left) -> Result<Option<(Held, u64)>, Error> {
        let page = |at: usize| leaf * PAGES as u64 + at as u64;
        match left {
            Left::Nothing => Ok(None),
            Left::Blob { held, owner } => Ok(Some((held, owner_of(page(owner))))),
            Left::Moved { r, from, to } => {
                // If the blob is damaged, the next reader notices.
                let _ = self.store.store().reown(r, owner_of(page(from)), owner_of(page(to)));
                Ok(None)
            }
            Left::Damaged => Err(Error::Damaged { offset: leaf * (PAGES * PAGE) as u64 }),
        }
    }

    pub(crate) fn free(&self, freed: Option<(Held, u64)>) {
        match freed {
            // If the store does not recognise the blob, it was damaged, and there is nothing to free.
            Some((Held::Blob(r), owner)) => drop(self.store.store().free(r, owner, self)),
            Some((Held::Shared(number), _)) => {
                if let Some(r) = self.shared.as_ref().and_then(|shared| shared.leave(number)) {
                    let _ = self.store.store().free(r, shared_owner(number), self);
                }
            }
            Some((Held::Spilled(number), _)) => self.backing.iter().for_each(|backing| backing.free(number)),
            None => {}
        }
    }
}

impl Owners for Disk {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        let moved = self.has_moved(owner, from, to);
        self.counts.moved.fetch_add(moved.into(), Relaxed);
        moved
    }
}

impl Disk {
    /// Updates the reference of a moved blob's owner; returns whether the owner had the blob.
    fn has_moved(&self, owner: u64, from: Ref, to: Ref) -> bool {
        if owner >= OWNERS {
            return self.shared.as_ref().is_some_and(|shared| shared.relocate(owner - OWNERS, from, to));
        }
        // Pages whose numbers exceed the largest owner share their owner with other pages.
        let pages = self.options.size.div_ceil(PAGE as u64);
        (owner..pages).step_by(OWNERS as usize).any(|page| {
            let (leaf, at) = leaf_of(page);
            self.stripes.try_lock(leaf).is_some_and(|mut stripe| {
                stripe.get_mut(leaf).is_some_and(|leaf| leaf.relocate(at, from, to))
            })
        })
    }
}
