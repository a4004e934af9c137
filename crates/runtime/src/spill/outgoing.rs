//! Batches on their way to the tier: see `out.rs`.

use memfold_shared::spill::{self as area, Word};

use super::batches::{Batches, SpillLocation};
use super::sparse::Sparse;
use crate::kernel::sys::{self, PAGE};
use crate::memory::arena::Arena;

/// Maximum number of a process's batches on their way at the same time.
pub(super) const BATCHES: usize = 2;
/// Maximum number of blocks in a batch.
pub(super) const BLOCKS: usize = 1024;
/// The threshold for large blobs at the beginning, and its maximum, in bytes: such pages do not compress.
pub const LARGEST: usize = PAGE / 4 * 3;
/// A round has found much if it has found this fraction of the store.
pub const MUCH: u64 = 64;
/// A block in a batch.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Item {
    pub page: u64,
    /// The state of its entry as a number: stored, or spilled to another place.
    pub was: u64,
    pub offset: u32,
    pub len: u32,
}

impl Item {
    /// Its location in that batch.
    pub fn spot(&self, batch: u32) -> SpillLocation {
        SpillLocation { batch, offset: self.offset, len: self.len }
    }
}

/// A batch on its way.
pub struct Sent {
    pub(super) post: usize,
    /// The store's [`wraps`](memfold::store::Store::wraps) when the batch was begun: if it has changed, a
    /// reference may stand for another blob, and the answer is not trusted.
    pub(super) wraps: u64,
    /// The state of the request slot when it was taken.
    pub(super) taken: Word,
    /// Private memory in which the batch is sealed: bytes that other processes could change before they are
    /// sealed would count as right.
    pub(super) room: *mut u8,
    /// Its index among [`super::batches::Batches`].
    pub(super) batch: u32,
    pub count: usize,
    pub(super) items: *mut Item,
    /// Its length in bytes, and the batch from which some of its blocks come, which is held meanwhile.
    pub(super) bytes: usize,
    pub(super) from: Option<u32>,
    pub(super) is_used: bool,
}

/// See the module.
pub struct Outgoing {
    pub sent: [Sent; BATCHES],
    /// The minimum size of blobs in this round of the hand, in bytes, and how many bytes it has found.
    pub least: usize,
    pub found: u64,
    pub(super) sparse: Sparse,
    /// The last release that was reported, one at a time: the only answer is that its request slot is free.
    pub(super) released: Option<(usize, Word)>,
    /// When a compressor was last here.
    pub(super) looked_ns: u64,
}

// SAFETY: the items are reached only through the lock around this.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// No batches.
    pub const fn new() -> Self {
        Outgoing {
            sent: [const { Sent::none() }; BATCHES],
            least: LARGEST,
            found: 0,
            sparse: Sparse::new(),
            released: None,
            looked_ns: 0,
        }
    }

    /// Reserves, once, the memory for lists and for sealing batches.
    pub fn prepare(&mut self, arena: &Arena) -> sys::Result<()> {
        for sent in &mut self.sent {
            if sent.items.is_null() {
                let place = arena.reserve(BLOCKS * size_of::<Item>(), 64).ok_or(sys::Errno::NOMEM)?;
                sent.items = place as *mut Item;
                sent.room = arena.reserve(area::BUFFER, 4096).ok_or(sys::Errno::NOMEM)?;
            }
        }
        Ok(())
    }

    /// The request slot of the last release, if it may not have been handled yet.
    pub fn released(&self) -> Option<(usize, Word)> {
        self.released
    }

    /// Whether no batch is on its way.
    pub fn is_idle(&self) -> bool {
        self.sent.iter().all(|sent| !sent.is_used)
    }

    /// Called when the hand has finished a round: sets the threshold for the next one. Returns whether there
    /// was nothing at all.
    pub fn end_round(&mut self, store: u64) -> bool {
        let (least, found) = (self.least, core::mem::take(&mut self.found));
        if found == 0 {
            // Lower by at least one, down to 0.
            self.least = (least / 4 * 3).min(least.saturating_sub(1));
        } else if found > store / MUCH {
            self.least = (least / 3 * 4 + 4).min(LARGEST);
        }
        found == 0 && least == 0
    }

    /// In a forked child: batches on their way are the parent's.
    pub fn forget(&mut self, batches: &Batches) {
        for sent in self.sent.iter_mut().filter(|sent| sent.is_used) {
            sent.is_used = false;
            batches.release(sent.batch);
            sent.from.take().into_iter().for_each(|from| batches.release(from));
        }
        self.released = None;
        self.sparse.forget().into_iter().for_each(|batch| batches.release(batch));
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::new()
    }
}

impl Sent {
    const fn none() -> Self {
        Sent {
            post: 0,
            wraps: 0,
            taken: Word::NONE,
            room: core::ptr::null_mut(),
            batch: 0,
            count: 0,
            items: core::ptr::null_mut(),
            bytes: 0,
            from: None,
            is_used: false,
        }
    }

    pub fn items(&mut self) -> &mut [Item] {
        // SAFETY: memory for this many items, initially zeroed, made by `prepare` and reached only through
        // the lock.
        unsafe { core::slice::from_raw_parts_mut(self.items, BLOCKS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spill::out::ROUNDS;

    #[test]
    fn the_size_threshold_follows_from_the_pages_found() {
        let mut out = Outgoing::new();
        let rounds = (1..=ROUNDS).find(|_| out.end_round(1 << 20));
        assert!(rounds.is_some() && out.least == 0);
        out.found = 1 << 14;
        assert!(!out.end_round(1 << 20) && out.least == 0, "that was just enough");
        for _ in 0..ROUNDS {
            out.found = 1 << 18;
            assert!(!out.end_round(1 << 20));
        }
        assert_eq!(out.least, LARGEST);
    }
}
