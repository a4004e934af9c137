//! Shared by several tests: a random sequence, owners, a memory source that counts and fails.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::vec::Vec;

use super::{Memory, Owners, Ref};
pub(super) use crate::random::Random;

mod damage;
mod full;
mod model;
mod stress;
mod tiers;

/// The bit with which a slot's owner pins it.
pub(super) const PIN: u64 = 1 << 63;

/// Pins a slot and returns its reference, if it holds one and is not pinned yet.
pub(super) fn pin(slot: &AtomicU64) -> Option<Ref> {
    let held = slot.load(Ordering::Relaxed);
    let r = Ref::from_bits(held)?;
    if held & PIN != 0 {
        return None;
    }
    slot.compare_exchange(held, held | PIN, Ordering::Acquire, Ordering::Relaxed).is_ok().then_some(r)
}

/// The payload that `seed` stands for.
pub(super) fn payload(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// One slot for each owner.
pub(super) struct Slots(pub Vec<AtomicU64>);

impl Slots {
    pub(super) fn new(n: usize) -> Self {
        Slots((0..n).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Owners for Slots {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        self.0.get(owner as usize).is_some_and(|slot| {
            slot.compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }
}

/// Memory that knows what is committed, and refuses when told to.
#[derive(Default)]
pub(super) struct Counting {
    pub committed: AtomicI64,
    pub reserved: AtomicI64,
    pub refuse: AtomicBool,
    /// If not zero, the most bytes to commit in total.
    pub limit: AtomicUsize,
}

const SYSTEM: crate::SystemMemory = crate::SystemMemory;

// SAFETY: this is the system's memory; some requests are refused.
unsafe impl Memory for Counting {
    fn page_size(&self) -> usize {
        SYSTEM.page_size()
    }

    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        if self.refuse.load(Ordering::Relaxed) {
            return None;
        }
        assert_eq!(bytes % self.page_size(), 0);
        self.reserved.fetch_add(bytes as i64, Ordering::Relaxed);
        SYSTEM.reserve(bytes)
    }

    // SAFETY: the caller guarantees what `Memory` says; so for the functions below.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        assert_eq!((start.as_ptr() as usize | bytes) % self.page_size(), 0);
        let limit = self.limit.load(Ordering::Relaxed);
        let after = self.committed.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
        if self.refuse.load(Ordering::Relaxed) || (limit != 0 && after as usize > limit) {
            self.committed.fetch_sub(bytes as i64, Ordering::Relaxed);
            return false;
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { SYSTEM.commit(start, bytes) }
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        assert_eq!((start.as_ptr() as usize | bytes) % self.page_size(), 0);
        self.committed.fetch_sub(bytes as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { SYSTEM.release(start, bytes) }
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        self.reserved.fetch_sub(bytes as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { SYSTEM.unreserve(start, bytes) }
    }
}
