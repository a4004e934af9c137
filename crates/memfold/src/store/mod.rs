//! The store: keeps compressed blocks densely, and returns memory to the system.
//!
//! A blob is stored for an *owner*, a number that leads the user to the one place (a slot of eight bytes)
//! that holds the blob's reference. The store finds that place too, through the user's [`Owners`], so it can
//! move blobs. An allocator cannot move objects, so none stays within a few percent of the size of its
//! content after most of the content is freed.
//!
//! ```text
//!   user's slots  [ Ref + 4 bits ] ──────────┐ get, free
//!        ^                                   v
//!        └─ relocate(owner, from, to) ── [header owner|...|payload] in a class
//! ```
//!
//! Guarantees, and what they require of the user:
//! - Every blob carries a checksum over payload, owner and generation that
//!   [`Store::get`] verifies; a wrong byte or a stale reference is an error,
//!   never data.
//! - A reader sets a pin in its own slot (for example one of the four bits above [`Ref::MASK`]) before it
//!   calls [`Store::get`], and clears it when it is done with the bytes (acquire to pin, release to unpin).
//!   `relocate` is ONE compare-exchange on that slot, from the plain `from` to the plain `to`, which fails
//!   while the pin is set. So readers and the compactor never wait for each other.
//! - The thread that takes a reference out of its slot for good frees it. A blob whose reference is not in
//!   its owner's slot (just put, or about to be freed) stays where it is.
//! - Each size class has its own lock, held at most for a short copy. The store uses only memory that
//!   [`Memory`] supplies, and no thread-local data. Whenever no thread is inside a call, its memory is
//!   consistent and the process may fork.
//!
//! The parts: `blob` (references and headers), `class` (dense arrays of slots, and their sizes), `compact`
//! (moving blobs and returning memory), `check`, and on top `tiers` (blocks, compressed by one of two
//! codecs).

mod blob;
mod cache;
mod check;
mod class;
mod compact;
mod hash;
mod lock;
mod memory;
#[cfg(feature = "std")]
mod owned;
mod stats;
#[cfg(test)]
mod tests;
mod tiers;

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use blob::Header;
pub use blob::{OWNER_LIMIT, Ref};
#[cfg(feature = "std")]
pub(crate) use cache::will_read_all;
use class::Class;
pub use class::size::MAX_PAYLOAD;
use class::size::{self, PAD_LIMIT};
use class::table::Classes;
pub use compact::pacer::{DEADLINE_NS, Pace, Pacer};
pub use compact::{Debt, Goal, Maintained};
#[cfg(feature = "std")]
pub(crate) use hash::{hash, mix};
pub use memory::Memory;
#[cfg(feature = "std")]
pub use owned::OwnedWorkspace;
pub use stats::Stats;
pub use tiers::{Tier, Tiered, Workspace};

use crate::probe;

/// Bytes at each end of a blob that are prefetched before a part of it is read.
const ENDS: usize = 320;

/// There is no memory for the blob, or it is longer than [`MAX_PAYLOAD`]; the store is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The blob differs from what was put: it is damaged, or the reference is stale or belongs to another owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// Finds the slots in which the users keep their references.
pub trait Owners {
    /// Called when the blob of `owner` has been copied. If the owner's slot holds exactly `from`, unpinned,
    /// this replaces it with `to` by one compare-exchange (acquire and release on success) and returns true.
    /// A lock of the store is held during the call, so this may neither call the store nor wait. For an
    /// unknown `owner` (from a damaged header) it returns false and never panics.
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool;

    /// `relocate` will be called soon: a hint to prefetch the slot's cache line. As for `relocate`, `owner`
    /// may be any number.
    fn prefetch(&self, owner: u64) {
        let _ = owner;
    }
}

/// A blob as it was put.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'a> {
    /// Its content.
    pub payload: &'a [u8],
    /// The tag it was put with.
    pub tag: u8,
}

/// Settings that may change while the store runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// A class asks for its next unit of memory when the present one is this
    /// many 64ths full; 64 means no reserve.
    pub fill_ratio: u8,
    /// Maintenance begins when holes and unused tails exceed this many 256ths of the bytes that blobs take;
    /// with the pacer's goals it also ends there. A larger value means less work: fewer moves, and fewer
    /// pages that are returned and soon needed again.
    pub loose_share: u8,
    /// Freeing moves a few blobs itself when fewer than this many 64ths of a class's slots are in use; 0
    /// means that it never does.
    pub help_share: u8,
}

impl Tuning {
    /// CRAMES's fill ratio of 7/8; holes and tails up to 3/64; help when three quarters of the slots are
    /// holes.
    pub const DEFAULT: Tuning = Tuning { fill_ratio: 56, loose_share: 12, help_share: 16 };
}

/// A slot that has been taken, and belongs to the taker until it is published.
struct Taken<'a> {
    number: usize,
    class: &'a Class,
    index: u64,
    generation: u16,
}

impl Taken<'_> {
    fn payload(&self) -> *mut u8 {
        self.class.slot(self.index)
    }

    /// Makes the slot a blob; the payload is already there.
    fn publish(self, owner: u64, tag: u8, len: usize, payload_hash: u32) -> Ref {
        assert!(owner < OWNER_LIMIT, "an owner has 48 bits");
        let pad = self.class.slot as usize - len;
        debug_assert!(pad < PAD_LIMIT);
        let pad = pad as u16;
        let header = Header { owner, generation: self.generation, pad, tag, payload_hash };
        // SAFETY: the slot is committed, and belongs to this call.
        unsafe { header.write(self.class.header(self.index)) };
        let reference = Ref::new(self.number, self.index, self.generation);
        probe!(store_put, owner, reference.to_bits(), len);
        reference
    }
}

/// Keeps blobs in memory from `M`. See the module.
pub struct Store<M: Memory> {
    memory: M,
    tuning: AtomicU32,
    classes: Classes,
    /// The class with which maintenance continues.
    cursor: AtomicUsize,
    /// The number of blobs, for the choice of classes.
    blobs: AtomicUsize,
}

impl<M: Memory> Store<M> {
    /// An empty store: takes no memory before the first blob.
    pub const fn new(memory: M) -> Self {
        Store {
            memory,
            tuning: AtomicU32::new(pack(Tuning::DEFAULT)),
            classes: Classes::new(),
            cursor: AtomicUsize::new(0),
            blobs: AtomicUsize::new(0),
        }
    }

    /// The memory source.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The current settings.
    pub fn tuning(&self) -> Tuning {
        let packed = self.tuning.load(Ordering::Relaxed);
        Tuning {
            fill_ratio: packed as u8,
            loose_share: (packed >> 8) as u8,
            help_share: (packed >> 16) as u8,
        }
    }

    /// Changes the settings; they apply from the next put on.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.tuning.store(pack(tuning), Ordering::Relaxed);
    }

    /// Stores a copy of `payload` for `owner`, which is less than [`OWNER_LIMIT`]. `Full` if there is no
    /// memory, or the payload is longer than [`MAX_PAYLOAD`].
    pub fn put(&self, owner: u64, tag: u8, payload: &[u8]) -> Result<Ref, Full> {
        // The source is hashed, not the copy: it is in the cache, and damage to the copy is detected too.
        let hash = blob::payload_hash(payload);
        let taken = self.take(payload.len()).ok_or(Full)?;
        // SAFETY: the slot was taken for this call: nobody else reads or
        // writes its payload before the header is written, and it has room
        // for the bytes.
        unsafe { ptr::copy_nonoverlapping(payload.as_ptr(), taken.payload(), payload.len()) };
        Ok(taken.publish(owner, tag, payload.len(), hash))
    }

    /// As `put`, but `fill` writes the `len` bytes in place, whose previous content is arbitrary. If `fill`
    /// panics, the slot leaks, and nothing else is lost.
    pub fn put_with(
        &self,
        owner: u64,
        tag: u8,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Ref, Full> {
        let taken = self.take(len).ok_or(Full)?;
        // SAFETY: as in `put`; committed memory is initialised.
        let payload = unsafe { core::slice::from_raw_parts_mut(taken.payload(), len) };
        fill(payload);
        let hash = blob::payload_hash(payload);
        Ok(taken.publish(owner, tag, len, hash))
    }

    /// The blob that `r` refers to, verified.
    ///
    /// # Safety
    ///
    /// If `r` is a reference to a live blob, that blob is neither freed nor moved while the result is used:
    /// the owner's slot is pinned, or does not hold `r`, and nobody frees it.
    pub unsafe fn get(&self, r: Ref, owner: u64) -> Result<Blob<'_>, Corrupt> {
        let class = self.classes.get(r.class()).ok_or(Corrupt)?;
        if class.is_ready(r.index()) {
            // Header and payload are probably not cached: fetch them together, not one after the other.
            cache::will_read_all(class.slot(r.index()), class.slot as usize);
        }
        // SAFETY: the caller keeps the same contract.
        let (blob, payload_hash) = unsafe { self.find(r, owner) }?;
        if blob::payload_hash(blob.payload) == payload_hash { Ok(blob) } else { Err(Corrupt) }
    }

    /// As `get`, but does not read the whole payload: for payloads that have checks of their own and of which
    /// only a part is needed.
    ///
    /// # Safety
    ///
    /// As for `get`.
    pub unsafe fn get_unverified(&self, r: Ref, owner: u64) -> Result<Blob<'_>, Corrupt> {
        if let Some(class) = self.classes.get(r.class()).filter(|class| class.is_ready(r.index())) {
            // Such a payload has the index of its parts at its ends.
            let (slot, bytes) = (class.slot(r.index()), class.slot as usize);
            let ends = bytes.min(ENDS);
            cache::will_read_all(slot, ends);
            cache::will_read_all(slot.wrapping_add(bytes - ends), ends);
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { self.find(r, owner) }.map(|(blob, _)| blob)
    }

    /// A blob, and the expected hash of its payload.
    ///
    /// # Safety
    ///
    /// As for `get`.
    unsafe fn find(&self, r: Ref, owner: u64) -> Result<(Blob<'_>, u32), Corrupt> {
        let class = self.classes.get(r.class()).ok_or(Corrupt)?;
        let (header, len) = header(class, r, owner)?;
        // SAFETY: the header says that the slot holds a blob of `len` bytes, which fit in the slot; the
        // caller guarantees that it stays.
        let payload = unsafe { core::slice::from_raw_parts(class.slot(r.index()), len) };
        Ok((Blob { payload, tag: header.tag }, header.payload_hash))
    }

    /// Frees a blob. `Corrupt` if `r` is not a blob of `owner`, or its header is damaged; nothing has changed
    /// then. May move a few other blobs, if maintenance is far behind.
    pub fn free(&self, r: Ref, owner: u64, owners: &impl Owners) -> Result<(), Corrupt> {
        let class = self.classes.get(r.class()).ok_or(Corrupt)?;
        if !class.is_ready(r.index()) {
            return Err(Corrupt);
        }
        cache::will_read(class.group(r.index() / class::GROUP_SLOTS));
        cache::will_read(class.header(r.index()));
        let mut locked = class.lock(&self.memory);
        let (_, len) = header(class, r, owner)?;
        if !locked.is_live(r.index()) {
            return Err(Corrupt);
        }
        // SAFETY: a live slot; readers are done with it, as the callers of `get` guarantee.
        unsafe { Header::withdraw(class.header(r.index())) };
        locked.give_back(r.index(), len);
        probe!(store_free, owner, r.to_bits(), len);
        self.blobs.fetch_sub(1, Ordering::Relaxed);
        let tuning = self.tuning();
        if locked.needs_help(tuning) {
            locked.help(r.class(), owners);
            // A system call for a few pages would not be worth it.
            let trim = locked.long_tail(tuning) > locked.committed / 4;
            drop(locked);
            if trim {
                class.trim(&self.memory, usize::MAX, tuning);
            }
        }
        Ok(())
    }

    /// Transfers a blob from one owner to another, without touching its payload. Afterwards it is found, and
    /// may be moved, through the new owner's slot.
    pub fn reown(&self, r: Ref, old: u64, new: u64) -> Result<(), Corrupt> {
        assert!(new < OWNER_LIMIT, "an owner has 48 bits");
        let class = self.classes.get(r.class()).ok_or(Corrupt)?;
        let _locked = class.lock(&self.memory);
        let (header, _) = header(class, r, old)?;
        // SAFETY: a live slot, which the lock keeps from being moved.
        unsafe { Header { owner: new, ..header }.write(class.header(r.index())) };
        Ok(())
    }

    /// Takes a slot for `len` bytes, in the class that fits or, if that one cannot grow, in one that is a
    /// little larger and has room.
    fn take(&self, len: usize) -> Option<Taken<'_>> {
        let number = size::class_among(len, self.blobs.load(Ordering::Relaxed))?;
        let taken = self.take_in(number, len)?;
        self.blobs.fetch_add(1, Ordering::Relaxed);
        Some(taken)
    }

    fn take_in(&self, number: usize, len: usize) -> Option<Taken<'_>> {
        let tuning = self.tuning();
        if let Some(class) = self.classes.make(number, &self.memory) {
            let mut locked = class.lock(&self.memory);
            if let Some(index) = locked.take(len, tuning) {
                return Some(Taken { number, class, index, generation: locked.next_generation() });
            }
        }
        self.take_larger(number, len)
    }

    #[cold]
    fn take_larger(&self, best: usize, len: usize) -> Option<Taken<'_>> {
        for number in best + 1..size::CLASSES {
            let slot = size::slot_bytes(number);
            if slot > (len + 16) * 5 / 4 || slot - len >= PAD_LIMIT {
                return None;
            }
            let Some(class) = self.classes.get(number) else { continue };
            let mut locked = class.lock(&self.memory);
            if locked.holes() == 0 && !class.is_ready(locked.top) {
                continue;
            }
            if let Some(index) = locked.take(len, self.tuning()) {
                return Some(Taken { number, class, index, generation: locked.next_generation() });
            }
        }
        None
    }

    /// How many times generations have wrapped around, over all classes. The count grows before any reference
    /// can name a blob other than the one it was made for.
    pub fn wraps(&self) -> u64 {
        self.classes.iter().map(|(_, class)| class.wraps.load(Ordering::Relaxed)).sum()
    }
}

/// The header of the blob of `owner` that `r` refers to, and the payload's length.
fn header(class: &Class, r: Ref, owner: u64) -> Result<(Header, usize), Corrupt> {
    if !class.is_ready(r.index()) {
        return Err(Corrupt);
    }
    // SAFETY: the slot is in committed memory.
    let header = unsafe { Header::read(class.header(r.index())) }.ok_or(Corrupt)?;
    if header.owner != owner || header.generation != r.generation() {
        return Err(Corrupt);
    }
    let len = class.payload_len(header).ok_or(Corrupt)?;
    Ok((header, len))
}

impl<M: Memory> Drop for Store<M> {
    fn drop(&mut self) {
        // SAFETY: nobody else uses the store any more.
        unsafe { self.classes.unreserve(&self.memory) };
    }
}

const fn pack(tuning: Tuning) -> u32 {
    tuning.fill_ratio as u32 | (tuning.loose_share as u32) << 8 | (tuning.help_share as u32) << 16
}
