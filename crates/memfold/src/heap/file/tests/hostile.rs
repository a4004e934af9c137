//! Files that are damaged, truncated or foreign, and heaps whose nodes may have any content.

use std::collections::HashSet;
use std::string::ToString;
use std::sync::atomic::Ordering::Relaxed;
use std::vec;
use std::vec::Vec;

use super::super::format::{CODEC, END};
use super::*;
use crate::heap::Limit;
use crate::heap::block::handle::Parts;
use crate::heap::core::Shape;
use crate::heap::sync::locked;

pub fn options() -> Options {
    Options::new().block_size(1024).limit(Limit::Blocks(3)).codec("copy")
}

/// A small heap with every feature: vacant numbers, blocks of both layouts, with and without checks, long
/// nodes.
pub fn heap() -> Heap {
    let heap = Heap::new(options().codec("lz4")).unwrap();
    let mut session = heap.session().unwrap();
    let mut model = Model::new(11, &[200]);
    model.go_on(&mut session, 40);
    let equal: Vec<Handle> = (0..90_u64).map(|i| session.put(&[i, 7]).unwrap()).collect();
    let first = session.put_bytes(&[3; 2000]).unwrap();
    let alone = session.alloc(1000).unwrap();
    session.free(alone).unwrap();
    equal[20..60].iter().for_each(|&node| session.free(node).unwrap());
    drop(session);
    // Freed nodes are reused, in another generation.
    let mut session = heap.session().unwrap();
    (0..50_u64).for_each(|i| assert!(session.put(&[i, 8]).is_ok()));
    model.go_on(&mut session, 30);
    drop(session);
    heap.set_root(first.to_bits());
    heap
}

/// The same with uncompressed blocks, so that a change of the file is a change of a block's bytes.
pub fn open_file() -> Vec<u8> {
    let file = saved(&mut heap());
    let mut heap = load(&file, &options()).unwrap();
    // When it is written again, each block is stored by the current codec.
    let handles: Vec<Handle> = all_handles(&heap);
    let mut session = heap.session().unwrap();
    for handle in handles {
        let bytes = session.read(handle).unwrap();
        session.write_at(handle, 0, &bytes).unwrap();
    }
    drop(session);
    saved(&mut heap)
}

/// Handles of all live nodes except long ones, as far as checks can be guessed.
pub fn all_handles(heap: &Heap) -> Vec<Handle> {
    let (core, mut found) = (heap.core(), vec![]);
    let session = heap.session().unwrap();
    let end = locked(&core.rooms).numbers().0;
    for (number, block) in (1..end).filter_map(|number| Some((number, core.blocks.get(number)?))) {
        let (incarnation, generation) = (block.incarnation.load(Relaxed), block.generation.load(Relaxed));
        let shape = core.shape_of(block.kind.load(Relaxed)).filter(|_| block.live.load(Relaxed) > 0);
        let mut checks = vec![0, 1, generation];
        checks.sort_unstable();
        checks.dedup();
        for place in 0..shape.map_or(0, Shape::places) as u32 {
            for &check in &checks {
                let handle = Handle::new(Parts { check, incarnation, block: number, place: place as u16 });
                match session.size(handle) {
                    Ok(_) => found.push(handle),
                    // The block is damaged.
                    Err(Error::Damaged) => break,
                    Err(_) => {}
                }
            }
        }
    }
    found
}

/// Uses all of a heap whose content may be anything, but must not be unsound: nodes do not overlap, and no
/// operation panics.
pub fn use_up(mut heap: Heap) {
    let _ = heap.check();
    let handles = all_handles(&heap);
    let mut session = heap.session().unwrap();
    let mut spans: Vec<(u32, usize, usize)> = vec![];
    for &handle in &handles {
        // One after the other, in the frame where the block is at that time.
        let frames = heap.core();
        let Ok(pin) = session.pin(handle) else { continue };
        let block = frames.blocks.get(handle.block()).unwrap();
        let crate::heap::block::table::Residency::Resident(frame) = block.state().residency() else {
            panic!("it is pinned")
        };
        let at = pin.as_ptr().addr() - frames.frames.get(frame).unwrap().base().addr().get();
        let Some(Shape::Mixed(_) | Shape::Equal(_)) = frames.shape_of(block.kind.load(Relaxed)) else {
            panic!()
        };
        assert!(at + pin.len() <= frames.frames.stride());
        spans.push((handle.block(), at, at + pin.len()));
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "two nodes lie over each other: {pair:?}");
    }
    let root = Handle::from_bits(heap.root());
    for handle in handles.into_iter().chain(root) {
        let _ = session.read(handle);
        let _ = session.write(handle).map(|mut node| node.fill(5));
        let _ = session.resize(handle, 30);
        let _ = session.alloc_near(20, handle);
        let _ = session.free(handle);
    }
    let mut made = HashSet::new();
    for len in [16; 80].into_iter().chain([100, 900, 3000]) {
        // Allocation succeeds, whatever blocks are damaged.
        let handle = session.alloc(len).unwrap();
        assert!(session.read(handle).unwrap().iter().all(|&byte| byte == 0), "new nodes are zero");
        assert!(made.insert(handle));
    }
    drop(session);
    let _ = heap.stats();
    let _ = heap.check();
    let _ = heap.save_to(&mut vec![]);
}

#[test]
fn every_byte_counts() {
    let file = saved(&mut heap());
    load(&file, &options()).unwrap();
    let mut bad = file.clone();
    for at in 0..file.len() {
        for bits in [1, 0x80, 0xff] {
            bad[at] ^= bits;
            let error = load(&bad, &options()).expect_err("a byte was changed");
            match at {
                0..8 => assert!(matches!(error, LoadError::Foreign)),
                8..12 => assert!(matches!(error, LoadError::Newer(_) | LoadError::Damaged(_))),
                _ => assert!(matches!(error, LoadError::Damaged(_)), "{error}"),
            }
            assert!(error.to_string().len() > 20);
            bad[at] = file[at];
        }
    }
}

#[test]
fn every_length_counts() {
    let file = saved(&mut heap());
    assert!(matches!(load(&[], &options()), Err(LoadError::Foreign)));
    for len in 1..file.len() {
        assert!(matches!(load(&file[..len], &options()), Err(LoadError::Damaged(_))), "{len} bytes");
    }
}

#[test]
fn parts_of_a_file_elsewhere() {
    let file = saved(&mut heap());
    let found = chunks(&file);
    let part = |i: usize| &file[found[i].0..found.get(i + 1).map_or(file.len(), |next| next.0)];
    // Each chunk left out, repeated, or swapped with the one before.
    for i in 0..found.len() {
        let without: Vec<u8> = [&file[..found[i].0], &file[found[i].0 + part(i).len()..]].concat();
        assert!(load(&without, &options()).is_err());
        let twice: Vec<u8> = [&file[..found[i].0], part(i), &file[found[i].0..]].concat();
        assert!(load(&twice, &options()).is_err() || i + 1 == found.len());
        if i > 0 {
            let exchanged: Vec<u8> =
                [&file[..found[i - 1].0], part(i), part(i - 1), &file[found[i].0 + part(i).len()..]].concat();
            assert!(load(&exchanged, &options()).is_err());
        }
    }
}

#[test]
fn files_that_are_not_heaps() {
    for foreign in [&b"#!/bin/sh\n"[..], b"\x89PNG\r\n\x1a\n", &[0; 100], b"\x89mfheaq\n", b"x"] {
        assert!(matches!(load(foreign, &options()), Err(LoadError::Foreign)), "{foreign:?}");
    }
    let mut newer = saved(&mut heap());
    newer[8] = 2;
    assert!(matches!(load(&newer, &options()), Err(LoadError::Newer(2))));
}

/// A file with an additional chunk before the end.
pub fn with_chunk(file: &[u8], kind: u8, body: &[u8]) -> Vec<u8> {
    let (end, of_end) = *chunks(file).last().unwrap();
    assert_eq!(of_end, END);
    let mut chunk = vec![kind, 0, 0, 0];
    chunk.extend((body.len() as u32).to_le_bytes());
    chunk.extend(body);
    let mut file = [&file[..end], &chunk, &[0; AFTER], &file[end..]].concat();
    repair(&mut file);
    file
}

#[test]
fn codecs_that_are_not_there() {
    let file = open_file();
    for (body, own) in
        [(&b"\0brotli:5"[..], false), (b"\0delta:8x9", false), (b"\0", false), (b"\x01mine", true)]
    {
        match load(&with_chunk(&file, CODEC, body), &options()) {
            Err(LoadError::Codec { name, own: is_own }) => {
                assert_eq!((name.as_bytes(), is_own), (&body[1..], own));
            }
            other => panic!("{other:?}"),
        }
    }
    for body in [&b""[..], b"\x02lz4", b"\0\xff\xfe"] {
        assert!(matches!(load(&with_chunk(&file, CODEC, body), &options()), Err(LoadError::Damaged(_))));
    }
    // Codecs, one more than there are numbers for them.
    let mut bad = file.clone();
    let (end, _) = *chunks(&bad).last().unwrap();
    let chunk = [&[CODEC, 0, 0, 0, 4, 0, 0, 0, 0][..], b"lz4", &[0; AFTER]].concat();
    bad.splice(end..end, chunk.repeat(1 << 16));
    repair(&mut bad);
    assert!(matches!(load(&bad, &options()), Err(LoadError::Damaged(_))));
}

#[test]
fn a_limit_that_is_too_small() {
    let mut heap = Heap::new(Options::new().codec("copy")).unwrap();
    let mut model = Model::new(12, &[1500, 2000]);
    model.go_on(&mut heap.session().unwrap(), 6000);
    let file = saved(&mut heap);
    let small = Options::new().codec("lz4").limit(Limit::Bytes(file.len() as u64));
    Heap::new(small.clone()).unwrap();
    assert!(matches!(load(&file, &small), Err(LoadError::Heap(Error::Limit))));
    let enough = Options::new().limit(Limit::Bytes(30 << 20));
    model.is_in(&mut load(&file, &enough).unwrap());
    let bad = Options::new().limit(Limit::Blocks(0));
    assert!(matches!(load(&file, &bad), Err(LoadError::Options(_))));
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn every_byte_with_right_checksums() {
        // Only some bytes of the larger file are changed: it is mostly nodes.
        for (file, step) in [(saved(&mut heap()), 1), (open_file(), 3)] {
            let (mut bad, mut loaded, mut refused) = (file.clone(), 0, 0);
            for at in (START..file.len()).step_by(step) {
                bad[at] ^= [1, 0xff, 0x80][at / step % 3];
                repair(&mut bad);
                match load(&bad, &options()) {
                    Ok(heap) => {
                        loaded += 1;
                        use_up(heap);
                    }
                    Err(_) => refused += 1,
                }
                bad.copy_from_slice(&file);
            }
            assert!(loaded > 1000 && refused > 100, "{loaded} {refused}");
        }
    }
}
