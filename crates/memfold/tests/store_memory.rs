//! The store over the system's memory, with its real constants: its statistics agree with the kernel's.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use memfold::SystemMemory;
use memfold::store::{Memory, Owners, Ref, Store};

const PAGE: usize = 4096;

/// The system's memory, with a list of the reservations.
#[derive(Default)]
struct Listed(Mutex<Vec<(usize, usize)>>);

// SAFETY: `SystemMemory` serves every call.
unsafe impl Memory for Listed {
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        let start = SystemMemory.reserve(bytes)?;
        self.0.lock().unwrap().push((start.as_ptr() as usize, bytes));
        Some(start)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: as the caller guarantees.
        unsafe { SystemMemory.commit(start, bytes) }
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

impl Listed {
    /// Bytes of the reserved pages that have memory or are swapped out, by the kernel's account.
    fn resident(&self) -> usize {
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let present = |&(start, bytes): &(usize, usize)| {
            let mut entries = vec![0u8; bytes / PAGE * 8];
            pagemap.read_exact_at(&mut entries, (start / PAGE * 8) as u64).unwrap();
            // The highest bit of an entry says that the page is present, the next one that it is swapped out.
            entries.chunks(8).filter(|entry| entry[7] & 0xc0 != 0).count() * PAGE
        };
        self.0.lock().unwrap().iter().map(present).sum()
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

fn payload(owner: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (owner * 31 + i * 7 + i / 251) as u8).collect()
}

fn len(owner: usize) -> usize {
    owner * 7919 % 56 * 50 + 200
}

fn put(store: &Store<Listed>, slots: &Slots, owner: usize) {
    let r = store.put(owner as u64, 1, &payload(owner, len(owner))).unwrap();
    slots.0[owner].store(r.to_bits(), Ordering::Release);
}

fn free(store: &Store<Listed>, slots: &Slots, owner: usize) {
    let r = Ref::from_bits(slots.0[owner].swap(0, Ordering::AcqRel)).unwrap();
    store.free(r, owner as u64, slots).unwrap();
}

fn is_whole(store: &Store<Listed>, slots: &Slots, owner: usize) -> bool {
    let r = Ref::from_bits(slots.0[owner].load(Ordering::Acquire)).unwrap();
    // SAFETY: the calling thread is the only one that changes the store.
    let blob = unsafe { store.get(r, owner as u64) }.unwrap();
    blob.payload == payload(owner, len(owner))
}

fn store_of(n: usize) -> (Store<Listed>, Slots) {
    let (store, slots) = (Store::new(Listed::default()), Slots((0..n).map(|_| AtomicU64::new(0)).collect()));
    (0..n).for_each(|owner| put(&store, &slots, owner));
    (store, slots)
}

/// Resident bytes per byte of payload, after a comparison with the kernel's account.
fn takes(store: &Store<Listed>) -> f64 {
    let stats = store.stats();
    assert_eq!(stats.resident_bytes as usize, store.memory().resident(), "the kernel has another opinion");
    stats.resident_bytes as f64 / stats.payload_bytes as f64
}

#[test]
fn stays_dense_through_rounds_of_deletion_and_gives_memory_back() {
    let n = 60_000;
    let (store, slots) = store_of(n);
    assert!(takes(&store) < 1.05, "{}", takes(&store));
    for round in 0..3 {
        let chosen = |owner: &usize| ((owner * 2_654_435_761) >> (7 + round)).is_multiple_of(2);
        (0..n).filter(chosen).for_each(|owner| free(&store, &slots, owner));
        while store.maintain(&slots, 1 << 20).more {}
        assert!(takes(&store) < 1.1, "{}", takes(&store));
        (0..n).filter(chosen).for_each(|owner| put(&store, &slots, owner));
        assert!(takes(&store) < 1.05, "{}", takes(&store));
        assert!((0..n).all(|owner| is_whole(&store, &slots, owner)));
    }
    (0..n).filter(|owner| owner % 10 != 3).for_each(|owner| free(&store, &slots, owner));
    while store.maintain(&slots, 1 << 20).more {}
    assert!(takes(&store) < 1.15, "{}", takes(&store));
    assert!((0..n).filter(|owner| owner % 10 == 3).all(|owner| is_whole(&store, &slots, owner)));
    store.check(|_, _| ()).unwrap();
    (0..n).filter(|owner| owner % 10 == 3).for_each(|owner| free(&store, &slots, owner));
    while store.maintain(&slots, 1 << 20).more {}
    let stats = store.stats();
    assert_eq!(stats.resident_bytes as usize, store.memory().resident());
    assert!(stats.resident_bytes < 1 << 20, "{stats:?}");
}

#[test]
fn a_forked_child_has_a_store_of_its_own() {
    let n = 3000;
    let (store, slots) = store_of(n);
    // SAFETY: the child uses only the store and its own memory, takes no lock that another thread of this
    // test process may have held, and ends with _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let verified = (0..n).filter(|owner| {
            let r = Ref::from_bits(slots.0[*owner].load(Ordering::Acquire));
            // SAFETY: this process has one thread.
            r.is_some_and(|r| unsafe { store.get(r, *owner as u64) }.is_ok())
        });
        let mut right = verified.count() == n;
        for (owner, slot) in slots.0.iter().enumerate().take(n - n / 8) {
            let r = Ref::from_bits(slot.swap(0, Ordering::AcqRel));
            right &= r.is_some_and(|r| store.free(r, owner as u64, &slots).is_ok());
        }
        right &= store.maintain(&slots, usize::MAX).moved > 0;
        right &= store.put(1, 0, b"the child's").is_ok();
        right &= store.check(|_, _| ()).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "what the child did with its store");
    assert!((0..n).all(|owner| is_whole(&store, &slots, owner)), "the child changed the parent's store");
    store.check(|_, _| ()).unwrap();
}
