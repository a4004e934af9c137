//! Blobs and the entries that name them: moving a blob in the store, and freeing one that no entry needs.

use memfold::store::{Owners, Ref};

use crate::kernel::sys::PAGE;
use crate::runtime::{RUNTIME, Runtime};

/// How the store moves a blob: by one compare-exchange of the entry that names it.
pub struct Entries;

impl Owners for Entries {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        let address = (owner as usize).wrapping_mul(PAGE);
        match RUNTIME.pages.table.entry(address) {
            Some(entry) if !RUNTIME.spill.is_unmoved(owner) => {
                entry.relocate(from, to) || RUNTIME.pages.relocate_kept(address, from, to)
            }
            _ => false,
        }
    }
}

impl Runtime {
    /// Frees a blob that no entry names any more.
    pub fn free(&self, found: Ref, owner: u64) {
        if self.store().store().free(found, owner, &Entries).is_err() {
            self.fail_corrupt();
        }
    }
}
