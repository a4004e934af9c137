//! Round trips of blocks through both tiers.

use core::sync::atomic::Ordering;
use std::vec::Vec;

use memfold_codec::{ScratchBuf, codec};

use super::super::{Corrupt, Ref, Tier, Tiered};
use super::{Counting, Random, Slots, payload};

const BLOCK: usize = 4096;

/// Blocks of many kinds: same-filled, text-like, sparse, random.
fn block(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    match seed % 5 {
        0 => std::vec![seed as u8; BLOCK],
        1 => (0..BLOCK).map(|i| (seed.to_le_bytes())[i % 8]).collect(),
        2 => (0..BLOCK).map(|_| b"the quick brown fox "[random.below(20) as usize]).collect(),
        3 => (0..BLOCK).map(|i| if i % 8 < 3 { random.next() as u8 % 32 } else { 0 }).collect(),
        _ => payload(seed, BLOCK),
    }
}

fn tiered(fast: &str, dense: Option<&str>) -> Tiered<Counting> {
    Tiered::new(Counting::default(), codec(fast).unwrap(), dense.map(|name| codec(name).unwrap()))
}

#[test]
fn blocks_are_read_back_from_every_tier() {
    for (fast, dense) in [("lz4", Some("zstd:3")), ("zstd:-3", Some("zstd:9")), ("copy", None)] {
        let tiers = tiered(fast, dense);
        let mut memory = std::vec![0; tiers.workspace_bytes(BLOCK)];
        let mut work = tiers.workspace(BLOCK, &mut memory);
        let slots = Slots::new(200);
        for owner in 0..200u64 {
            let tier = if owner % 2 == 0 { Tier::Fast } else { Tier::Dense };
            let r = tiers.insert(tier, owner, &block(owner), &mut work).unwrap();
            slots.0[owner as usize].store(r.to_bits(), Ordering::Relaxed);
        }
        let (mut back, before, mut denser) = (std::vec![0; BLOCK], tiers.store().stats(), 0);
        for owner in 0..200u64 {
            let r = Ref::from_bits(slots.0[owner as usize].load(Ordering::Relaxed)).unwrap();
            // SAFETY: one thread only.
            unsafe { tiers.load(r, owner, &mut back, &mut work.decode) }.unwrap();
            assert!(back == block(owner), "block {owner}");
            // SAFETY: as above.
            let Some(new) = (unsafe { tiers.densify(r, owner, BLOCK, &mut work) }).unwrap() else { continue };
            assert_eq!(owner % 2, 0, "made dense twice");
            tiers.store().free(r, owner, &slots).unwrap();
            // SAFETY: as above.
            unsafe { tiers.load(new, owner, &mut back, &mut work.decode) }.unwrap();
            assert!(back == block(owner), "block {owner}, dense");
            denser += 1;
        }
        let after = tiers.store().stats();
        assert_eq!(before.blobs, after.blobs);
        assert_eq!(denser > 0, dense.is_some());
        assert_eq!(after.payload_bytes < before.payload_bytes, dense.is_some());
        assert!(after.payload_bytes < 200 * BLOCK as u64 * if fast == "copy" { 4 } else { 2 } / 4);
    }
}

#[test]
fn same_filled_blocks_take_eight_bytes_and_incompressible_ones_no_more_than_themselves() {
    let tiers = tiered("lz4", None);
    let mut memory = std::vec![0; tiers.workspace_bytes(BLOCK)];
    let mut work = tiers.workspace(BLOCK, &mut memory);
    tiers.insert(Tier::Fast, 0, &[0; BLOCK], &mut work).unwrap();
    assert_eq!(tiers.store().stats().payload_bytes, 8);
    tiers.insert(Tier::Fast, 1, &payload(1, BLOCK), &mut work).unwrap();
    assert_eq!(tiers.store().stats().payload_bytes, 8 + BLOCK as u64);
}

#[test]
fn only_blocks_below_the_threshold_are_kept() {
    // Text of a few letters: lz4 cannot compress such short blocks, but Zstandard can.
    let letters: Vec<u8> = (0..BLOCK).map(|i| b'a' + (Random(i as u64).next() >> 20) as u8 % 16).collect();
    for (dense, keeps_letters) in [(None, false), (Some("zstd:3"), true)] {
        let tiers = tiered("lz4", dense);
        tiers.set_threshold(56);
        let mut memory = std::vec![0; tiers.workspace_bytes(BLOCK)];
        let mut work = tiers.workspace(BLOCK, &mut memory);
        for tier in [Tier::Fast, Tier::Dense] {
            for (number, (block, keeps)) in [
                (block(3), true),
                (std::vec![7; BLOCK], true),
                (letters.clone(), keeps_letters),
                (payload(1, BLOCK), false),
            ]
            .into_iter()
            .enumerate()
            {
                let before = tiers.store().stats().blobs;
                assert_eq!(tiers.gets_smaller(5, &block, &mut work), keeps, "{dense:?}, {number}");
                let kept = tiers.insert_if_smaller(tier, 5, &block, &mut work).unwrap();
                assert_eq!(kept.is_some(), keeps, "{dense:?}, {tier:?}, {number}");
                assert_eq!(tiers.store().stats().blobs - before, u64::from(keeps));
                let Some((name, bytes)) = kept else { continue };
                assert!(bytes <= BLOCK * 56 / 64);
                let mut back = std::vec![0; BLOCK];
                // SAFETY: one thread only.
                unsafe { tiers.load(name, 5, &mut back, &mut work.decode) }.unwrap();
                assert!(back == block, "{dense:?}, {tier:?}, {number}");
            }
        }
    }
}

#[test]
fn the_tag_finds_the_decoder_whatever_the_codecs_are() {
    let old = tiered("zstd:1", None);
    let mut memory = std::vec![0; old.workspace_bytes(BLOCK)];
    let mut work = old.workspace(BLOCK, &mut memory);
    let r = old.insert(Tier::Fast, 5, &block(2), &mut work).unwrap();
    // SAFETY: one thread only.
    let blob = unsafe { old.store().get(r, 5) }.unwrap();
    let new = tiered("lz4", None);
    let r = new.store().put(5, blob.tag, blob.payload).unwrap();
    let mut scratch = ScratchBuf::with_size(codec("zstd:1").unwrap().decompress_scratch(BLOCK));
    let mut back = std::vec![0; BLOCK];
    // SAFETY: as above.
    unsafe { new.load(r, 5, &mut back, &mut scratch.scratch()) }.unwrap();
    assert!(back == block(2));
}

#[test]
fn wrong_lengths_and_unknown_tags_are_corrupt() {
    let tiers = tiered("lz4", None);
    let mut memory = std::vec![0; tiers.workspace_bytes(BLOCK)];
    let mut work = tiers.workspace(BLOCK, &mut memory);
    let raw = tiers.insert(Tier::Fast, 0, &payload(4, BLOCK), &mut work).unwrap();
    let packed = tiers.insert(Tier::Fast, 1, &block(2), &mut work).unwrap();
    let unknown = tiers.store().put(2, 0x7f, b"what is this").unwrap();
    let same = tiers.store().put(3, 0, b"seven b").unwrap();
    for (r, owner, len) in
        [(raw, 0, BLOCK - 1), (packed, 1, BLOCK + 8), (unknown, 2, BLOCK), (same, 3, BLOCK)]
    {
        let mut back = std::vec![0; len];
        // SAFETY: one thread only.
        assert_eq!(unsafe { tiers.load(r, owner, &mut back, &mut work.decode) }, Err(Corrupt));
    }
}
