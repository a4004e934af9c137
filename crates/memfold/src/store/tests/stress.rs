//! Many threads at once, with the compactor running all the time and every byte verified. A thread uses an
//! owner's slot after it has pinned that slot.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::super::{Goal, Ref, Store};
use super::{Counting, PIN, Random, Slots, payload, pin};

/// How long to wait for the first move of a blob.
const PATIENCE: Duration = Duration::from_secs(60);

/// The content of a blob is derived from its owner and from how often it was written.
struct Shared {
    store: Store<Counting>,
    slots: Slots,
    /// Changed only by a thread that has pinned the owner's slot, or found it empty and holds the owner's
    /// `busy`.
    versions: Vec<AtomicU64>,
    busy: Vec<AtomicBool>,
}

impl Shared {
    fn new(owners: usize) -> Self {
        Shared {
            store: Store::new(Counting::default()),
            slots: Slots::new(owners),
            versions: (0..owners).map(|_| AtomicU64::new(0)).collect(),
            busy: (0..owners).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn len(owner: u64, version: u64) -> usize {
        let mut random = Random(owner << 32 | version);
        // Few classes, so that all threads use the same ones; now and then a large blob.
        if random.below(200) == 0 {
            random.below(100_000) as usize
        } else {
            100 + random.below(80) as usize * 7
        }
    }

    /// Puts a blob for an owner that has none.
    fn put(&self, owner: u64) {
        let busy = &self.busy[owner as usize];
        if busy.swap(true, Ordering::Acquire) {
            return;
        }
        let slot = &self.slots.0[owner as usize];
        if slot.load(Ordering::Acquire) == 0 {
            let version = self.versions[owner as usize].fetch_add(1, Ordering::Relaxed) + 1;
            let bytes = payload(owner << 32 | version, Self::len(owner, version));
            let r = self.store.put(owner, version as u8, &bytes).unwrap();
            slot.store(r.to_bits(), Ordering::Release);
        }
        busy.store(false, Ordering::Release);
    }

    /// Verifies an owner's blob while it is pinned, and then frees it if `free`.
    fn get(&self, owner: u64, free: bool) {
        let slot = &self.slots.0[owner as usize];
        let Some(r) = pin(slot) else { return };
        let version = self.versions[owner as usize].load(Ordering::Relaxed);
        let expected = payload(owner << 32 | version, Self::len(owner, version));
        // SAFETY: the slot is pinned, so nobody moves or frees the blob.
        let blob = unsafe { self.store.get(r, owner) }.expect("a pinned blob is whole");
        assert_eq!((blob.payload, blob.tag), (&expected[..], version as u8));
        assert_eq!(slot.load(Ordering::Relaxed), r.to_bits() | PIN, "moved while pinned");
        assert_eq!(blob.payload, &expected[..], "changed while pinned");
        slot.store(if free { 0 } else { r.to_bits() }, Ordering::Release);
        if free {
            self.store.free(r, owner, &self.slots).expect("freed once");
        }
    }
}

fn run(threads: u64, owners: u64, steps: u64, seed: u64) {
    let shared = Shared::new(owners as usize);
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let (shared, moved) = (&shared, &moved);
                scope.spawn(move || {
                    let mut random = Random(seed + t);
                    let begin = Instant::now();
                    // At least this many steps, and until a compactor has had its turn: on a busy machine the
                    // workers may be done before the other threads have begun.
                    let goes_on = |step| {
                        let alone = moved.load(Ordering::Relaxed) == 0;
                        step < steps || alone && begin.elapsed() < PATIENCE
                    };
                    for step in (0u64..).take_while(|step| goes_on(*step)) {
                        let owner = random.below(owners);
                        // Alternates between mostly freeing and mostly putting.
                        let freeing = step / (steps / 8).max(1) % 2 == 1;
                        match random.below(8) {
                            0..3 => shared.get(owner, false),
                            3 => shared.get(owner, true),
                            4 => shared.put(owner),
                            _ if freeing => shared.get(owner, true),
                            _ => shared.put(owner),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut budget = 1;
                while !stop.load(Ordering::Relaxed) {
                    budget = budget * 5 % 200_003 + 1;
                    let done = shared.store.maintain_to(Goal::DENSE, &shared.slots, budget);
                    moved.fetch_add(done.moved, Ordering::Relaxed);
                    shared.store.stats();
                    if budget % 4 == 0 {
                        shared.store.release_reserve();
                    }
                }
            });
        }
        for worker in workers {
            worker.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(moved.load(Ordering::Relaxed) > 0, "the compactor never had anything to do");
    let mut blobs = 0;
    shared
        .store
        .check(|owner, r| {
            assert_eq!(shared.slots.0[owner as usize].load(Ordering::Relaxed), r.to_bits());
            blobs += 1;
        })
        .unwrap();
    let held = shared.slots.0.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).count();
    assert_eq!((blobs, shared.store.stats().blobs), (held, held as u64));
    let committed = shared.store.memory().committed.load(Ordering::Relaxed);
    assert_eq!(shared.store.stats().resident_bytes, committed as u64);
    for owner in 0..owners {
        shared.get(owner, true);
    }
    assert_eq!(shared.store.stats().blobs, 0);
}

#[test]
fn threads_and_compactors_agree() {
    run(4, 2000, 30_000, 1);
}

#[test]
fn threads_agree_over_few_owners() {
    run(4, 60, 20_000, 2);
}

#[test]
fn a_pinned_blob_stays_where_it_is() {
    let (store, slots) = (Store::new(Counting::default()), Slots::new(1000));
    for i in 0..1000u64 {
        let r = store.put(i, 0, &payload(i, 400)).unwrap();
        slots.0[i as usize].store(r.to_bits(), Ordering::Relaxed);
    }
    let last = pin(&slots.0[999]).unwrap();
    for i in 0..500u64 {
        let r = Ref::from_bits(slots.0[i as usize].swap(0, Ordering::Relaxed)).unwrap();
        store.free(r, i, &slots).unwrap();
    }
    let done = store.maintain(&slots, usize::MAX);
    assert_eq!((done.moved, done.refused, done.more), (0, 1, false));
    // SAFETY: pinned.
    assert_eq!(unsafe { store.get(last, 999) }.unwrap().payload, payload(999, 400));
    slots.0[999].store(last.to_bits(), Ordering::Release);
    assert!(store.maintain(&slots, usize::MAX).moved >= 400);
    store.check(|owner, r| assert_eq!(slots.0[owner as usize].load(Ordering::Relaxed), r.to_bits())).unwrap();
}

#[test]
fn freeing_alone_keeps_a_class_from_being_all_holes() {
    let (store, slots) = (Store::new(Counting::default()), Slots::new(4000));
    for i in 0..4000u64 {
        let r = store.put(i, 0, &payload(i, 400)).unwrap();
        slots.0[i as usize].store(r.to_bits(), Ordering::Relaxed);
    }
    let mut random = Random(11);
    while store.stats().blobs > 100 {
        let i = random.below(4000);
        if let Some(r) = Ref::from_bits(slots.0[i as usize].swap(0, Ordering::Relaxed)) {
            store.free(r, i, &slots).unwrap();
            let stats = store.stats();
            assert!(stats.resident_bytes < 6 * stats.payload_bytes + 100_000, "{stats:?}");
        }
    }
    store.check(|owner, r| assert_eq!(slots.0[owner as usize].load(Ordering::Relaxed), r.to_bits())).unwrap();
}
