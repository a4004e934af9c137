//! The store against a map with the same contents: puts of all sizes, reads, new owners, deletions and bits
//! of maintenance in any order, stale and made-up references in between, and now and then no memory.
//!
//! ```text
//! | operation, 1 byte | owner, 1 byte | length or budget, 3 bytes | ...
//! ```
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use memfold::SystemMemory;
use memfold::store::{Full, Memory, Owners, Ref, Store, Tuning};

/// The system's memory, which is refused while the flag is set.
struct Fickle(AtomicBool);

// SAFETY: `SystemMemory` serves every call that is not refused.
unsafe impl Memory for Fickle {
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        if self.0.load(Ordering::Relaxed) { None } else { SystemMemory.reserve(bytes) }
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: as the caller guarantees.
        !self.0.load(Ordering::Relaxed) && unsafe { SystemMemory.commit(start, bytes) }
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller guarantees.
        unsafe { SystemMemory.release(start, bytes) }
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller guarantees.
        unsafe { SystemMemory.unreserve(start, bytes) }
    }
}

struct Slots(Vec<AtomicU64>);

impl Owners for Slots {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        self.0.get(owner as usize).is_some_and(|slot| {
            slot.compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }
}

fn payload(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (seed ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7]).collect()
}

fuzz_target!(|data: &[u8]| {
    let store = Store::new(Fickle(AtomicBool::new(false)));
    let slots = Slots((0..256).map(|_| AtomicU64::new(0)).collect());
    let model: RefCell<HashMap<u64, (u64, usize)>> = RefCell::default();
    let mut stale: Vec<(Ref, u64)> = Vec::new();
    for (step, chunk) in data.chunks_exact(5).enumerate() {
        let (operation, owner) = (chunk[0], u64::from(chunk[1]));
        let number = u32::from_le_bytes([chunk[2], chunk[3], chunk[4], 0]) as usize;
        let slot = &slots.0[owner as usize];
        let held = Ref::from_bits(slot.load(Ordering::Relaxed));
        match (operation % 8, held) {
            (0..=2, None) => {
                let (seed, len) = (step as u64, if operation >= 128 { number >> 4 } else { number % 2000 });
                match store.put(owner, operation, &payload(seed, len)) {
                    Ok(r) => {
                        slot.store(r.to_bits(), Ordering::Relaxed);
                        model.borrow_mut().insert(owner, (seed, len));
                    }
                    Err(Full) => assert!(store.memory().0.load(Ordering::Relaxed)),
                }
            }
            (3 | 4, Some(r)) => {
                slot.store(0, Ordering::Relaxed);
                store.free(r, owner, &slots).unwrap();
                model.borrow_mut().remove(&owner);
                stale.push((r, owner));
            }
            (5, Some(r)) if slots.0[number % 256].load(Ordering::Relaxed) == 0 => {
                let new = (number % 256) as u64;
                store.reown(r, owner, new).unwrap();
                slot.store(0, Ordering::Relaxed);
                slots.0[new as usize].store(r.to_bits(), Ordering::Relaxed);
                let kept = model.borrow_mut().remove(&owner).unwrap();
                model.borrow_mut().insert(new, kept);
                stale.push((r, owner));
            }
            (6, _) => drop(store.maintain(&slots, number)),
            (7, _) if operation >= 128 => store.memory().0.store(number % 4 == 0, Ordering::Relaxed),
            (7, _) => store.set_tuning(Tuning {
                fill_ratio: (number % 80) as u8,
                loose_share: (number >> 8) as u8 % 16,
                help_share: (number >> 16) as u8 % 80,
            }),
            (_, Some(r)) => {
                // SAFETY: one thread only.
                let blob = unsafe { store.get(r, owner) }.unwrap();
                let (seed, len) = model.borrow()[&owner];
                assert!(blob.payload == payload(seed, len));
            }
            (_, None) => {
                // A blob may belong again to an owner that it had before.
                let live = |&&(r, owner): &&(Ref, u64)| {
                    slots.0[owner as usize].load(Ordering::Relaxed) == r.to_bits()
                };
                for &(r, owner) in stale.iter().rev().take(8).filter(|entry| !live(entry)) {
                    // SAFETY: one thread only.
                    assert!(unsafe { store.get(r, owner) }.is_err());
                    assert!(store.free(r, owner, &slots).is_err());
                }
                if let Some(r) = Ref::from_bits(number as u64 * 0x1_0001 | owner << 49) {
                    assert!(store.free(r, owner, &slots).is_err());
                }
            }
        }
    }
    let mut seen = 0;
    store
        .check(|owner, r| {
            assert_eq!(slots.0[owner as usize].load(Ordering::Relaxed), r.to_bits());
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, model.borrow().len());
});
