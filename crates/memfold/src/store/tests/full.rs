//! When the memory source is exhausted, no data are lost or wrong.

use core::sync::atomic::Ordering;
use std::vec::Vec;

use super::super::{Full, MAX_PAYLOAD, Ref, Store, Tuning};
use super::{Counting, Slots, payload};

#[test]
fn full_leaves_everything_as_it_was() {
    let store = Store::new(Counting::default());
    store.memory().limit.store(600_000, Ordering::Relaxed);
    let slots = Slots::new(5000);
    let mut kept = Vec::new();
    for i in 0..5000u64 {
        let len = (i * 131 % 3000) as usize;
        match store.put(i, 0, &payload(i, len)) {
            Ok(r) => {
                slots.0[i as usize].store(r.to_bits(), Ordering::Relaxed);
                kept.push((i, len));
            }
            Err(Full) => store.check(|_, _| ()).unwrap(),
        }
        assert!(store.stats().resident_bytes <= 600_000);
    }
    assert!(kept.len() > 200 && kept.len() < 1000, "{}", kept.len());
    for &(i, len) in &kept {
        let r = Ref::from_bits(slots.0[i as usize].load(Ordering::Relaxed)).unwrap();
        // SAFETY: one thread only.
        assert_eq!(unsafe { store.get(r, i) }.unwrap().payload, payload(i, len));
    }
    // Freed memory can be used again, whatever the source says.
    store.memory().refuse.store(true, Ordering::Relaxed);
    for &(i, len) in &kept {
        let r = Ref::from_bits(slots.0[i as usize].swap(0, Ordering::Relaxed)).unwrap();
        store.free(r, i, &slots).unwrap();
        let r = store.put(i, 0, &payload(i, len)).unwrap();
        slots.0[i as usize].store(r.to_bits(), Ordering::Relaxed);
    }
    store.check(|_, _| ()).unwrap();
}

#[test]
fn an_empty_store_without_memory_is_full() {
    let store = Store::new(Counting::default());
    store.memory().refuse.store(true, Ordering::Relaxed);
    assert_eq!(store.put(0, 0, b"x"), Err(Full));
    assert_eq!(store.stats().resident_bytes, 0);
    store.memory().refuse.store(false, Ordering::Relaxed);
    assert!(store.put(0, 0, b"x").is_ok());
}

#[test]
fn the_longest_payload_is_kept_and_a_longer_one_is_refused() {
    let (store, slots) = (Store::new(Counting::default()), Slots::new(1));
    let longest = payload(3, MAX_PAYLOAD);
    let r = store.put(0, 0, &longest).unwrap();
    // SAFETY: one thread only.
    assert!(unsafe { store.get(r, 0) }.unwrap().payload == longest);
    store.free(r, 0, &slots).unwrap();
    assert_eq!(store.put(0, 0, &payload(3, MAX_PAYLOAD + 1)), Err(Full));
}

#[test]
fn the_reserve_holds_the_next_blobs_when_memory_is_refused() {
    for (fill_ratio, expected) in [(64, false), (56, true), (32, true)] {
        let store = Store::new(Counting::default());
        store.set_tuning(Tuning { fill_ratio, ..Tuning::DEFAULT });
        let mut all = true;
        for i in 0..200u64 {
            store.put(i, 0, &payload(i, 1024)).unwrap();
            // At any moment there is room for one more blob of this size.
            store.memory().refuse.store(true, Ordering::Relaxed);
            match store.put(i + 1000, 0, &payload(i, 1024)) {
                Ok(r) => store.free(r, i + 1000, &Slots::new(0)).unwrap(),
                Err(Full) => all = false,
            }
            store.memory().refuse.store(false, Ordering::Relaxed);
        }
        assert_eq!(all, expected, "fill ratio {fill_ratio}/64");
    }
}

#[test]
fn a_larger_slot_will_do_when_the_right_one_has_no_room() {
    let store = Store::new(Counting::default());
    for i in 0..10 {
        store.put(i, 0, &payload(i, 1100)).unwrap();
    }
    store.memory().refuse.store(true, Ordering::Relaxed);
    let r = store.put(77, 0, &payload(77, 1000)).unwrap();
    // SAFETY: one thread only.
    assert_eq!(unsafe { store.get(r, 77) }.unwrap().payload, payload(77, 1000));
    store.check(|_, _| ()).unwrap();
    assert_eq!(store.put(78, 0, &payload(78, 500)), Err(Full), "but not one of twice the size");
}
