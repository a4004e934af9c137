//! Pages with the same content share one blob, if the device has that option.
//!
//! ```text
//!   hints    │ tag, page │ tag, page │ ──        by hash of the content: a page that had it once
//!   blobs    │ reference, count │ ──             by number: what the pages that share it have in their slots
//! ```
//!
//! A hint may be wrong, so a thread that follows it compares the contents byte by byte. Hints take eight
//! bytes for every two pages of the device (or of what fits into its limit), and overwrite each other.
//!
//! Locks: a thread that holds the lock of a leaf may take the lock of a shared blob's shard, never the other way
//! round.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

use memfold::store::Ref;
use twox_hash::XxHash3_64;

use crate::index::leaf::PAGE;
use crate::locked;

const SHARDS: usize = 64;
/// Bits of a hint for the page's number; the other bits are of the hash.
const PAGE_BITS: u32 = 40;

struct Blob {
    /// `None` if the number is free.
    r: Option<Ref>,
    count: u32,
}

#[derive(Default)]
struct Shard {
    blobs: Vec<Blob>,
    free: Vec<u32>,
}

/// The shared blobs; see the module.
pub struct Shared {
    hints: Box<[AtomicU64]>,
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicU64,
    /// The number of pages that share a blob, minus the number of these blobs.
    pub saved: AtomicU64,
}

/// A hash of a page's content.
pub fn hash(content: &[u8; PAGE]) -> u64 {
    XxHash3_64::oneshot(content)
}

impl Shared {
    /// Tables for this many pages.
    pub fn new(pages: u64) -> Self {
        let hints = (pages / 2).clamp(64, 1 << 27).next_power_of_two();
        Shared {
            hints: (0..hints).map(|_| AtomicU64::new(0)).collect(),
            shards: [const { Mutex::new(Shard { blobs: Vec::new(), free: Vec::new() }) }; SHARDS],
            next: AtomicU64::new(0),
            saved: AtomicU64::new(0),
        }
    }

    /// Bytes of tables.
    pub fn table_bytes(&self) -> u64 {
        let blobs = |shard: &Mutex<Shard>| {
            let shard = locked(shard);
            shard.blobs.capacity() * size_of::<Blob>() + shard.free.capacity() * 4
        };
        (self.hints.len() * 8 + self.shards.iter().map(blobs).sum::<usize>()) as u64
    }

    /// A page that may have the content with this hash; if there is none, `page` becomes the hint.
    pub fn hint(&self, hash: u64, page: u64) -> Option<u64> {
        let place = &self.hints[(hash as usize) & (self.hints.len() - 1)];
        let tag = hash >> PAGE_BITS;
        let held = place.load(Relaxed);
        if held != 0 && held >> PAGE_BITS == tag {
            let known = (held & ((1 << PAGE_BITS) - 1)) - 1;
            return (known != page).then_some(known);
        }
        self.renew(hash, page);
        None
    }

    /// Replaces a hint that was wrong or missing.
    pub fn renew(&self, hash: u64, page: u64) {
        if page + 1 < 1 << PAGE_BITS {
            let place = &self.hints[(hash as usize) & (self.hints.len() - 1)];
            place.store((hash >> PAGE_BITS) << PAGE_BITS | (page + 1), Relaxed);
        }
    }

    /// Reserves a number for a future blob, for [`Shared::put`].
    pub fn number(&self) -> Option<u64> {
        let shard = self.next.fetch_add(1, Relaxed) as usize % SHARDS;
        let mut locked = locked(&self.shards[shard]);
        let at = match locked.free.pop() {
            Some(at) => at,
            None => {
                locked.blobs.try_reserve(1).ok()?;
                // Freeing a number must not need memory.
                let count = locked.blobs.len() + 1;
                let more = count.saturating_sub(locked.free.capacity());
                locked.free.try_reserve(more).ok()?;
                locked.blobs.push(Blob { r: None, count: 0 });
                u32::try_from(count - 1).ok()?
            }
        };
        Some(u64::from(at) * SHARDS as u64 + shard as u64)
    }

    /// Sets the blob of a number; two pages share it.
    pub fn put(&self, number: u64, r: Ref) {
        self.with(number, |blob| {
            if let Some(blob) = blob {
                *blob = Blob { r: Some(r), count: 2 };
            }
        });
        self.saved.fetch_add(1, Relaxed);
    }

    /// Returns a number that is not needed after all.
    pub fn cancel(&self, number: u64) {
        locked(&self.shards[number as usize % SHARDS]).free.push((number / SHARDS as u64) as u32);
    }

    /// Adds a page to a blob; false if that is not possible.
    pub fn share(&self, number: u64) -> bool {
        let shared = self.with(number, |blob| {
            let count = blob.filter(|blob| blob.r.is_some()).map(|blob| &mut blob.count);
            count.is_some_and(|count| count.checked_add(1).map(|more| *count = more).is_some())
        });
        self.saved.fetch_add(u64::from(shared), Relaxed);
        shared
    }

    /// Removes a page from a blob. Returns the reference if that was the last page.
    pub fn leave(&self, number: u64) -> Option<Ref> {
        let mut shard = locked(&self.shards[number as usize % SHARDS]);
        let at = (number / SHARDS as u64) as usize;
        let blob = shard.blobs.get_mut(at)?;
        if blob.count > 1 {
            blob.count -= 1;
            drop(shard);
            self.saved.fetch_sub(1, Relaxed);
            return None;
        }
        let r = blob.r.take()?;
        blob.count = 0;
        shard.free.push(at as u32);
        Some(r)
    }

    /// Calls `f` with the reference, which does not change until `f` returns, and with whether only one page
    /// has it.
    pub fn read<R>(&self, number: u64, f: impl FnOnce(Ref, bool) -> R) -> Option<R> {
        self.with(number, |blob| blob.and_then(|blob| Some(f(blob.r?, blob.count == 1))))
    }

    /// Changes the reference from `from` to `to`; false if it was not `from`, or if another thread has the lock.
    pub fn relocate(&self, number: u64, from: Ref, to: Ref) -> bool {
        let Ok(mut shard) = self.shards[number as usize % SHARDS].try_lock() else { return false };
        match shard.blobs.get_mut((number / SHARDS as u64) as usize) {
            Some(blob) if blob.r == Some(from) => {
                blob.r = Some(to);
                true
            }
            _ => false,
        }
    }

    fn with<R>(&self, number: u64, f: impl FnOnce(Option<&mut Blob>) -> R) -> R {
        f(locked(&self.shards[number as usize % SHARDS]).blobs.get_mut((number / SHARDS as u64) as usize))
    }
}
