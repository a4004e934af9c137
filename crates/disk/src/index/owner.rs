//! The owners of blobs: the numbers by which the store knows them, what happens to a blob when its owner gives it
//! up, and how an owner learns that its blob was moved.

use std::sync::atomic::Ordering::*;

use memfold::store::{Owners, Ref};

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Held, Left, PAGE, PAGES};
use crate::index::stripes::leaf_of;

/// Owners of pages are smaller than this: the page's number, or its remainder if there are more pages. Larger
/// numbers are owners of shared blobs.
const OWNERS: u64 = memfold::store::OWNER_LIMIT / 2;

/// The owner of a shared blob in the store.
pub(crate) fn shared_owner(number: u64) -> u64 {
    OWNERS | (number % OWNERS)
}

/// The number by which the store knows the owner of a page's blob.
pub(crate) fn owner_of(page: u64) -> u64 {
    page % OWNERS
}

impl Disk {
    /// Settles what is left of a page's old content, with the lock of its leaf held. The result must be freed
    /// without that lock.
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
            // If the store does not know the blob, it was damaged: there is nothing to free.
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
    /// Tells the owner of a blob where it is now; returns whether the owner had it.
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
