//! A damaged or stale blob is never returned as data.

use core::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

use super::super::{Corrupt, Ref, Store};
use super::{Counting, Random, Slots, payload};

/// Calls `look` with every bit of the header and slot of a blob flipped, one
/// after the other.
fn with_each_bit_flipped(store: &Store<Counting>, r: Ref, mut look: impl FnMut(usize, bool)) {
    let class = store.classes.get(r.class()).unwrap();
    // SAFETY: the header of a live blob.
    let words: &[AtomicU64; 2] = unsafe { &*class.header(r.index()) };
    for bit in 0..128 {
        words[bit / 64].fetch_xor(1 << (bit % 64), Ordering::Relaxed);
        look(bit, true);
        words[bit / 64].fetch_xor(1 << (bit % 64), Ordering::Relaxed);
    }
    for bit in 0..class.slot as usize * 8 {
        let at = class.slot(r.index()).wrapping_add(bit / 8);
        // SAFETY: a byte of the slot, which nobody else uses now.
        unsafe { at.write(at.read() ^ 1 << (bit % 8)) };
        look(bit, false);
        // SAFETY: as above.
        unsafe { at.write(at.read() ^ 1 << (bit % 8)) };
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for len in [0, 1, 7, 8, 16, 17, 63, 64, 65, 100, 200, 1000, 2000] {
        let (store, slots) = (Store::new(Counting::default()), Slots::new(1));
        let bytes = payload(len as u64, len);
        let r = store.put(0, 9, &bytes).unwrap();
        with_each_bit_flipped(&store, r, |bit, in_header| {
            // SAFETY: one thread only, nobody moves or frees it.
            let got = unsafe { store.get(r, 0) };
            if in_header || bit < len * 8 {
                assert_eq!(got.err(), Some(Corrupt), "bit {bit} of {len} bytes");
            } else {
                assert_eq!(got.unwrap().payload, bytes, "a bit of the pad does not matter");
            }
            if in_header {
                assert_eq!(store.free(r, 0, &slots), Err(Corrupt), "bit {bit}");
            } else {
                assert_eq!(store.check(|_, _| ()).is_err(), bit < len * 8);
            }
        });
        // SAFETY: as above.
        assert_eq!(unsafe { store.get(r, 0) }.unwrap().payload, bytes);
    }
}

#[test]
fn zeroed_and_exchanged_payloads_are_noticed() {
    let store = Store::new(Counting::default());
    let a = store.put(1, 0, &payload(1, 500)).unwrap();
    let b = store.put(2, 0, &payload(2, 500)).unwrap();
    let class = store.classes.get(a.class()).unwrap();
    // SAFETY: two slots of 500 bytes and more, used by nobody else.
    unsafe { core::ptr::swap_nonoverlapping(class.slot(a.index()), class.slot(b.index()), 500) };
    for (r, owner) in [(a, 1), (b, 2)] {
        // SAFETY: one thread only.
        assert_eq!(unsafe { store.get(r, owner) }.err(), Some(Corrupt));
    }
    // SAFETY: as above.
    unsafe { class.slot(a.index()).write_bytes(0, 500) };
    // SAFETY: as above.
    assert_eq!(unsafe { store.get(a, 1) }.err(), Some(Corrupt));
}

#[test]
fn damage_stays_visible_through_moves_and_new_owners() {
    let (store, slots) = (Store::new(Counting::default()), Slots::new(300));
    let refs: Vec<Ref> = (0..200).map(|i| store.put(i, 0, &payload(i, 300)).unwrap()).collect();
    for (slot, r) in slots.0.iter().zip(&refs) {
        slot.store(r.to_bits(), Ordering::Relaxed);
    }
    let class = store.classes.get(refs[199].class()).unwrap();
    let at = class.slot(refs[199].index());
    // SAFETY: a byte of a blob's payload that nobody uses now.
    unsafe { at.write(at.read() ^ 4) };
    for (i, slot) in slots.0.iter().enumerate().take(150) {
        let r = Ref::from_bits(slot.swap(0, Ordering::Relaxed)).unwrap();
        store.free(r, i as u64, &slots).unwrap();
    }
    let done = store.maintain(&slots, usize::MAX);
    assert!(done.moved > 0);
    for i in 150..200u64 {
        let moved = Ref::from_bits(slots.0[i as usize].load(Ordering::Relaxed)).unwrap();
        // SAFETY: one thread only.
        assert_eq!(unsafe { store.get(moved, i) }.is_ok(), i != 199);
        store.reown(moved, i, i + 100).unwrap();
        // SAFETY: as above.
        assert!(unsafe { store.get(moved, i) }.is_err(), "the old owner");
        // SAFETY: as above.
        assert_eq!(unsafe { store.get(moved, i + 100) }.is_ok(), i != 199);
    }
}

#[test]
fn stale_and_made_up_references_are_noticed() {
    let (store, slots) = (Store::new(Counting::default()), Slots::new(1));
    let mut random = Random(7);
    let mut stale: Vec<Ref> = Vec::new();
    // Uses the same few slots again and again, for the same owner.
    for round in 0..2000u64 {
        let r = store.put(0, 0, &payload(round, 256)).unwrap();
        assert!(!stale.contains(&r));
        for old in stale.iter().rev().take(50) {
            // SAFETY: one thread only.
            assert!(unsafe { store.get(*old, 0) }.is_err());
            assert_eq!(store.free(*old, 0, &slots), Err(Corrupt));
            assert_eq!(store.reown(*old, 0, 1), Err(Corrupt));
        }
        store.free(r, 0, &slots).unwrap();
        stale.push(r);
    }
    for _ in 0..100_000 {
        let bits = random.next() & (random.next() | 0xff_ffff);
        let Some(r) = Ref::from_bits(bits) else { continue };
        // SAFETY: as above.
        assert!(unsafe { store.get(r, 0) }.is_err());
        assert_eq!(store.free(r, 0, &slots), Err(Corrupt));
    }
    assert_eq!(store.stats().blobs, 0);
    store.check(|_, _| ()).unwrap();
}

#[test]
fn a_blob_with_a_damaged_header_is_left_where_it_is() {
    let (store, slots) = (Store::new(Counting::default()), Slots::new(200));
    let refs: Vec<Ref> = (0..200).map(|i| store.put(i, 0, &payload(i, 300)).unwrap()).collect();
    for (slot, r) in slots.0.iter().zip(&refs) {
        slot.store(r.to_bits(), Ordering::Relaxed);
    }
    let last = refs[199];
    let class = store.classes.get(last.class()).unwrap();
    // SAFETY: the header of a live blob.
    let words: &[AtomicU64; 2] = unsafe { &*class.header(last.index()) };
    words[0].fetch_xor(1 << 63, Ordering::Relaxed);
    for (i, r) in refs.into_iter().enumerate().take(100) {
        slots.0[i].store(0, Ordering::Relaxed);
        store.free(r, i as u64, &slots).unwrap();
    }
    let done = store.maintain(&slots, usize::MAX);
    assert_eq!((done.moved, done.more), (0, false), "neither moved nor waited for");
    words[0].fetch_xor(1 << 63, Ordering::Relaxed);
    assert!(store.maintain(&slots, usize::MAX).moved > 80);
    store.check(|owner, r| assert_eq!(slots.0[owner as usize].load(Ordering::Relaxed), r.to_bits())).unwrap();
}
