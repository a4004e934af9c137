//! Random operations against a map that holds a second copy of everything.

use core::sync::atomic::Ordering;
use std::collections::HashMap;

use super::super::{Corrupt, Memory, Ref, Store};
use super::{Counting, Random, Slots, payload};

/// Sizes that mostly fall into few classes, and sometimes into many.
fn some_len(random: &mut Random) -> usize {
    match random.below(100) {
        0..40 => 100 + random.below(64) as usize,
        40..70 => random.below(40) as usize,
        70..95 => random.below(4096) as usize,
        95..99 => 4096 + random.below(30_000) as usize,
        _ => random.below(600_000) as usize,
    }
}

fn run(seed: u64, steps: u64, owners: u64) {
    let store = Store::new(Counting::default());
    let slots = Slots::new(owners as usize);
    let mut model: HashMap<u64, (u64, usize, u8)> = HashMap::new();
    let mut random = Random(seed);
    // Alternates between growing and shrinking, so that tails are returned too.
    for step in 0..steps {
        let mut grow = step / 2000 % 2 == 0;
        let owner = random.below(owners);
        let slot = &slots.0[owner as usize];
        if random.below(10) == 0 {
            grow = !grow;
        }
        let held = Ref::from_bits(slot.load(Ordering::Relaxed));
        match (held, model.get(&owner).copied()) {
            (None, None) if grow => {
                let (seed, len, tag) = (random.next(), some_len(&mut random), random.next() as u8);
                let r = store.put(owner, tag, &payload(seed, len)).unwrap();
                slot.store(r.to_bits(), Ordering::Relaxed);
                model.insert(owner, (seed, len, tag));
            }
            (None, None) => {}
            (Some(r), Some((seed, len, tag))) => {
                // SAFETY: one thread only.
                let blob = unsafe { store.get(r, owner) }.unwrap();
                assert_eq!((blob.payload, blob.tag), (&payload(seed, len)[..], tag));
                if !grow {
                    slot.store(0, Ordering::Relaxed);
                    store.free(r, owner, &slots).unwrap();
                    assert_eq!(store.free(r, owner, &slots), Err(Corrupt), "freed twice");
                    // SAFETY: as above.
                    assert!(unsafe { store.get(r, owner) }.is_err(), "a stale reference");
                    model.remove(&owner);
                }
            }
            (held, modelled) => panic!("owner {owner} has {held:?}, not {modelled:?}"),
        }
        if random.below(50) == 0 {
            store.maintain(&slots, random.below(100_000) as usize);
        }
        if random.below(200) == 0 {
            let before = store.stats();
            let released = store.release_reserve();
            let after = store.stats();
            assert_eq!(after.resident_bytes + released, before.resident_bytes);
            let classes =
                store.classes.iter().filter(|(_, class)| class.lock(&store.memory).top > 0).count() as u64;
            assert!(after.slack_bytes <= classes * store.memory.page_size() as u64);
        }
        if step % 997 == 0 {
            verify(&store, &slots, &model);
        }
    }
    verify(&store, &slots, &model);
    for owner in 0..owners {
        if let Some(r) = Ref::from_bits(slots.0[owner as usize].swap(0, Ordering::Relaxed)) {
            store.free(r, owner, &slots).unwrap();
        }
    }
    while store.maintain(&slots, 1 << 20).more {}
    let stats = store.stats();
    assert_eq!((stats.blobs, stats.payload_bytes, stats.hole_bytes), (0, 0, 0));
    assert_eq!(stats.resident_bytes, stats.table_bytes, "an empty store keeps its tables only");
}

fn verify(store: &Store<Counting>, slots: &Slots, model: &HashMap<u64, (u64, usize, u8)>) {
    let mut seen = 0;
    store
        .check(|owner, r| {
            assert_eq!(slots.0[owner as usize].load(Ordering::Relaxed), r.to_bits());
            seen += 1;
        })
        .unwrap();
    let stats = store.stats();
    assert_eq!((seen, stats.blobs as usize), (model.len(), model.len()));
    assert_eq!(stats.payload_bytes, model.values().map(|m| m.1 as u64).sum::<u64>());
    assert_eq!(stats.resident_bytes, store.memory().committed.load(Ordering::Relaxed) as u64);
}

#[test]
fn behaves_like_a_map() {
    for seed in 0..4 {
        run(seed, 20_000, 3000);
    }
}

#[test]
fn behaves_like_a_map_when_small() {
    for seed in 100..120 {
        run(seed, 1000, 50);
    }
}

#[test]
fn a_dropped_store_gives_everything_back() {
    let memory = Counting::default();
    {
        let store = Store::new(&memory);
        for i in 0..5000u64 {
            store.put(i, 0, &payload(i, (i * 37 % 9000) as usize)).unwrap();
        }
    }
    assert_eq!(memory.reserved.load(Ordering::Relaxed), 0);
}

/// While there are few blobs, slots are longer than necessary; 16 bits of a header record by how much.
#[test]
fn long_blobs_are_read_back() {
    let store = Store::new(Counting::default());
    for doubling in 16..24 {
        for part in 0..16 {
            let len = (1 << doubling) + (part << (doubling - 4)) + part + 1;
            let (owner, bytes) = (len as u64, std::vec![doubling as u8; len]);
            let r = store.put(owner, 3, &bytes).unwrap();
            // SAFETY: nobody else has the store.
            let blob = unsafe { store.get(r, owner) }.unwrap();
            assert!(blob.payload == bytes && blob.tag == 3, "{len}");
            store.free(r, owner, &Slots::new(0)).unwrap();
        }
    }
}
