//! Writing a page whose content another page already has: both then share one blob.

use memfold::store::Tier;
use memfold_codec::CodecId;

use crate::Error;
use crate::disk::Disk;
use crate::index::leaf::{Entry, Held, PAGE};
use crate::index::owner::{owner_of, shared_owner};
use crate::index::shared::{self, Shared};
use crate::io::Kept;
use crate::io::write::{Form, MOST};
use crate::memory::works::Work;

/// Why a page cannot be shared now.
enum NotShared {
    /// It has changed, or there is no memory.
    Changed,
    /// Its data are in a dense block, or not in memory.
    Cold,
}

impl Disk {
    /// Makes the page share the blob of another page with the same content. Returns whether the page still
    /// had the requested version; `None` if it cannot share.
    pub(super) fn share(
        &self,
        shared: &Shared,
        page: u64,
        content: &[u8; PAGE],
        version: Option<u64>,
        work: &mut Work,
    ) -> Result<Option<bool>, Error> {
        let hash = shared::hash(content);
        let Some(twin) = shared.hint(hash, page) else { return Ok(None) };
        let mut its = [0; PAGE];
        let is_equal =
            self.read_page(twin, 0, &mut its, false, work).map(|version| (version, its == *content));
        let Ok((twin_version, true)) = is_equal else {
            shared.renew(hash, page);
            return Ok(None);
        };
        let number = match self.make_shared(shared, twin, twin_version, None) {
            Ok(number) => number,
            Err(NotShared::Changed) => return Ok(None),
            // The other page is cold; from now on both share the form being written.
            Err(NotShared::Cold) => {
                let (id, payload) =
                    match self.store.form(Tier::Fast, owner_of(page), content, MOST, &mut work.space) {
                        Some((id, payload)) => (id, payload),
                        None => (CodecId::COPY, content.as_slice()),
                    };
                match self.make_shared(shared, twin, twin_version, Some((id, payload))) {
                    Ok(number) => number,
                    Err(_) => return Ok(None),
                }
            }
        };
        let form = Form::Entry(Entry::Page(Held::Shared(number)));
        match self.keep(page, content, &form, version) {
            Ok(Kept::Done) => Ok(Some(true)),
            other => {
                self.free(Some((Held::Shared(number), 0)));
                Ok(if matches!(other?, Kept::Changed) { Some(false) } else { None })
            }
        }
    }

    /// Shares the blob of a page with one more page and returns the blob's number. A page without a blob of
    /// its own in memory gets one of this form.
    fn make_shared(
        &self,
        shared: &Shared,
        page: u64,
        version: u64,
        form: Option<(CodecId, &[u8])>,
    ) -> Result<u64, NotShared> {
        let (mut stripe, number, place) = self.lock(page);
        let leaf = Some(&mut *stripe).filter(|stripe| stripe.version == version);
        let leaf = leaf.and_then(|stripe| stripe.get_mut(number)).ok_or(NotShared::Changed)?;
        let before = leaf.entry(place).ok_or(NotShared::Changed)?;
        let r = match (before, form) {
            (Entry::Page(Held::Shared(known)), _) => {
                return if shared.share(known) { Ok(known) } else { Err(NotShared::Changed) };
            }
            (Entry::Page(Held::Blob(r)), _) => Some(r),
            (Entry::Joined | Entry::Page(Held::Spilled(_)), Some(_)) => None,
            (Entry::Joined | Entry::Page(Held::Spilled(_)), None) => return Err(NotShared::Cold),
            (Entry::Hole | Entry::Fill(_), _) => return Err(NotShared::Changed),
        };
        let known = shared.number().ok_or(NotShared::Changed)?;
        let owner = shared_owner(known);
        let cancelled = || {
            shared.cancel(known);
            NotShared::Changed
        };
        let entry = Entry::Page(Held::Shared(known));
        let freed = match (r, form) {
            (Some(r), _) => {
                self.store.store().reown(r, owner_of(page), owner).map_err(|_| cancelled())?;
                if leaf.replace(self.layout, place, entry).is_err() {
                    // Undo: the page alone owned the blob before.
                    let _ = self.store.store().reown(r, owner, owner_of(page));
                    return Err(cancelled());
                }
                shared.put(known, r);
                None
            }
            (None, Some((id, payload))) => {
                let r = self.store.put(owner, Some(id), payload).map_err(|_| cancelled())?;
                let Ok(left) = leaf.replace(self.layout, place, entry) else {
                    drop(stripe);
                    let _ = self.store.store().free(r, owner, self);
                    return Err(cancelled());
                };
                shared.put(known, r);
                self.counts.changed(before, entry);
                // An image that contains the page is still valid.
                self.settle(number, left).map_err(|_| NotShared::Changed)?
            }
            (None, None) => None,
        };
        drop(stripe);
        self.free(freed);
        Ok(known)
    }
}
