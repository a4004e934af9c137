//! Pages with the same content share one blob, if the device was asked for that.
//!
//! ```text
//!   hints    │ tag, page │ tag, page │ ──        by hash of the content: a page that had it once
//!   blobs    │ reference, count │ ──             by number: what the pages that share it have in their slots
//! ```
//!
//! A hint is only that: whoever follows it compares the contents, byte by byte. Hints take eight bytes for two pages of the device, or of what fits into its
//! limit, and forget each other.
//!
//! Locks: who has the lock of a leaf may take that of a shared blob's shard, and never the other way round.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

use memfold::store::Ref;
use twox_hash::XxHash3_64;

use crate::leaf::PAGE;
use crate::locked;

const SHARDS: usize = 64;
/// Bits of a hint that are the page's number; the others are of the hash.
const PAGE_BITS: u32 = 40;

struct Blob {
    /// `None` where there is nothing.
    r: Option<Ref>,
    count: u32,
}

#[derive(Default)]
struct Shard {
    blobs: Vec<Blob>,
    free: Vec<u32>,
}

/// See the module.
pub struct Shared {
    hints: Box<[AtomicU64]>,
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicU64,
    /// Pages that have their blob with others, less the blobs that they have.
    pub saved: AtomicU64,
}

/// The content of a page, as a number.
pub fn hash(content: &[u8; PAGE]) -> u64 {
    XxHash3_64::oneshot(content)
}

impl Shared {
    /// For so many pages.
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

    /// A page that may have the content with this hash; from now on that is `page`, if there was none.
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

    /// The hint was wrong, or there was none.
    pub fn renew(&self, hash: u64, page: u64) {
        if page + 1 < 1 << PAGE_BITS {
            let place = &self.hints[(hash as usize) & (self.hints.len() - 1)];
            place.store((hash >> PAGE_BITS) << PAGE_BITS | (page + 1), Relaxed);
        }
    }

    /// The number of a blob that is not there yet, for [`Shared::put`].
    pub fn number(&self) -> Option<u64> {
        let shard = self.next.fetch_add(1, Relaxed) as usize % SHARDS;
        let mut locked = locked(&self.shards[shard]);
        let at = match locked.free.pop() {
            Some(at) => at,
            None => {
                locked.blobs.try_reserve(1).ok()?;
                // Who frees one must not need memory.
                let count = locked.blobs.len() + 1;
                let more = count.saturating_sub(locked.free.capacity());
                locked.free.try_reserve(more).ok()?;
                locked.blobs.push(Blob { r: None, count: 0 });
                u32::try_from(count - 1).ok()?
            }
        };
        Some(u64::from(at) * SHARDS as u64 + shard as u64)
    }

    /// Two pages have it.
    pub fn put(&self, number: u64, r: Ref) {
        self.with(number, |blob| {
            if let Some(blob) = blob {
                *blob = Blob { r: Some(r), count: 2 };
            }
        });
        self.saved.fetch_add(1, Relaxed);
    }

    /// A number is not needed after all.
    pub fn cancel(&self, number: u64) {
        locked(&self.shards[number as usize % SHARDS]).free.push((number / SHARDS as u64) as u32);
    }

    /// One page more has it; false if that is not possible.
    pub fn share(&self, number: u64) -> bool {
        let shared = self.with(number, |blob| {
            let count = blob.filter(|blob| blob.r.is_some()).map(|blob| &mut blob.count);
            count.is_some_and(|count| count.checked_add(1).map(|more| *count = more).is_some())
        });
        self.saved.fetch_add(u64::from(shared), Relaxed);
        shared
    }

    /// One page less has it. The reference, if that was the last one.
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

    /// Calls `f` with the reference, which stays so until it returns, and whether one page alone has it.
    pub fn read<R>(&self, number: u64, f: impl FnOnce(Ref, bool) -> R) -> Option<R> {
        self.with(number, |blob| blob.and_then(|blob| Some(f(blob.r?, blob.count == 1))))
    }

    /// The blob was `from` and is `to` now; false if it was not, or somebody has the lock.
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
