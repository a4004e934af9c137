//! The heap as a program sees it.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::vec::Vec;
use std::{thread, vec};

use super::*;
use crate::random::Random;

pub mod away;
pub mod faults;
pub mod free;
mod large;
mod lost;
mod model;
mod owners;
mod parts;
mod peek;
mod room;
mod threads;
mod view;
mod waiting;

fn small(block: usize) -> Options {
    Options::new().block_size(block).limit(Limit::Blocks(3)).codec("lz4")
}

#[test]
fn one_place_used_again_and_again() {
    for paranoid in [false, true] {
        let heap = Heap::new(small(1024).paranoid(paranoid)).unwrap();
        let session = heap.session().unwrap();
        let keeper = session.alloc(50).unwrap();
        let (mut old, mut passed): (Vec<Handle>, usize) = (vec![], 0);
        for _ in 0..2000 {
            let handle = session.alloc(60).unwrap();
            passed += old.iter().filter(|&&old| session.size(old).is_ok()).count();
            session.free(handle).unwrap();
            assert!(old.iter().all(|&old| session.size(old) == Err(Error::Stale)));
            if old.len() < 300 {
                old.push(handle);
            }
        }
        session.free(keeper).unwrap();
        // Of all uses of a handle whose place was reused, at most one in 256 may succeed.
        assert!(passed <= if paranoid { 0 } else { 2000 * 300 / 256 }, "{passed}");
    }
}

#[test]
fn handles_that_were_never_given_out_are_refused() {
    let heap = Heap::new(small(4096)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..500).map(|i| session.alloc(1 + i % 90).unwrap()).collect();
    let mut random = Random(9);
    for _ in 0..20_000 {
        let mut bits = nodes[random.index(nodes.len())].to_bits();
        for _ in 0..1 + random.index(3) {
            bits ^= 1 << random.index(64);
        }
        let Some(handle) = Handle::from_bits(bits).filter(|handle| !nodes.contains(handle)) else { continue };
        assert_eq!(session.size(handle), Err(Error::Stale), "{handle:?}");
        assert_eq!(session.free(handle), Err(Error::Stale));
        assert!(session.write(handle).is_err());
    }
    for far in [1, u64::MAX, 1 << 16, u64::from(u32::MAX) << 16] {
        assert_eq!(session.size(Handle::from_bits(far).unwrap()), Err(Error::Stale));
        assert!(session.write(Handle::from_bits(far).unwrap()).is_err());
    }
    for (i, &node) in nodes.iter().enumerate() {
        assert_eq!(session.size(node), Ok(1 + i % 90));
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    assert_eq!(session.alloc(0), Err(Error::Size(0)));
    assert_eq!(session.alloc(usize::MAX), Err(Error::Size(usize::MAX)));
}

#[test]
fn pinned_nodes_stay() {
    let heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..100).map(|_| session.alloc(200).unwrap()).collect();
    for (i, &node) in nodes.iter().enumerate() {
        session.write(node).unwrap().fill(i as u8);
    }
    let mut first = session.pin(nodes[0]).unwrap();
    let second = session.pin(nodes[50]).unwrap();
    // SAFETY: here and below: this thread alone has the heap.
    unsafe {
        first.as_mut_ptr().unwrap().write(77);
        for (i, &node) in nodes.iter().enumerate().skip(1) {
            assert!(session.read(node).unwrap().iter().all(|&byte| byte == i as u8));
        }
        assert_eq!((first.bytes()[0], first.bytes()[1], second.bytes()[199]), (77, 0, 50));
    }
    assert_eq!((first.len(), second.len()), (200, 200));
    // A third pin leaves no frame for blocks that are not pinned.
    let third = session.pin(nodes[99]).unwrap();
    assert_eq!(session.read(nodes[25]), Err(Error::Pinned));
    assert_eq!(session.read(nodes[99]).unwrap()[0], 99);
    drop((first, second, third));
    assert_eq!(session.read(nodes[25]).unwrap()[0], 25);
    assert_eq!(session.read(nodes[0]).unwrap()[..2], [77, 0]);
    assert!(session.pin(Handle::from_bits(1 << 40).unwrap()).is_err());
}

#[test]
fn values_and_texts_are_read_back() {
    let heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let numbers: Vec<Handle> = (0..500_u64).map(|i| session.put(&[i, !i]).unwrap()).collect();
    let texts: Vec<Handle> =
        (0..500).map(|i| session.put_bytes("so ".repeat(1 + i % 9).as_bytes()).unwrap()).collect();
    for (i, (&number, &text)) in numbers.iter().zip(&texts).enumerate() {
        session.update(number, |value: &mut [u64; 2]| value[1] ^= 1).unwrap();
        assert_eq!(session.get::<[u64; 2]>(number), Ok([i as u64, !(i as u64) ^ 1]));
        assert_eq!(session.text(text).unwrap(), "so ".repeat(1 + i % 9));
        assert!(session.get::<u64>(number).is_err() && session.set(number, &1_u8).is_err());
    }
    session.set(numbers[7], &[1_u64, 2]).unwrap();
    assert_eq!(session.get::<[u64; 2]>(numbers[7]), Ok([1, 2]));
    assert!(session.read_at(texts[0], 2, &mut [0; 2]).is_err());
}

#[test]
fn nodes_are_grouped_when_that_pays() {
    let mut random = Random(12);
    // Numbers that differ only in the lower bytes; and text, which is best left as it is.
    let numbers: Vec<[u64; 5]> = (0..20_000)
        .map(|i| [i, random.below(1000), 1 << 40 | random.below(1 << 20), 0x1000 + 16 * i, random.below(3)])
        .collect();
    let words = ["lorem ", "ipsum ", "dolor ", "sit am", "et con"];
    let texts: Vec<Vec<u8>> =
        (0..20_000).map(|_| (0..10).flat_map(|_| words[random.index(5)].bytes()).collect()).collect();
    let payload = |sizes: &dyn Fn(usize) -> usize, text: bool| {
        let heap = Heap::new(Options::new().limit(Limit::Blocks(1))).unwrap();
        let mut session = heap.session().unwrap();
        let nodes: Vec<Handle> = (0..20_000)
            .map(|i| {
                let node = session.alloc(sizes(i)).unwrap();
                let mut bytes = session.write(node).unwrap();
                if text {
                    bytes[..60].copy_from_slice(&texts[i]);
                } else {
                    bytes[..40].copy_from_slice(zerocopy::IntoBytes::as_bytes(&numbers[i]));
                }
                node
            })
            .collect();
        for (i, &node) in nodes.iter().enumerate() {
            let bytes = session.read(node).unwrap();
            let same = if text {
                bytes[..60] == texts[i][..]
            } else {
                bytes[..40] == *zerocopy::IntoBytes::as_bytes(&numbers[i])
            };
            assert!(same);
        }
        heap.stats().payload_bytes
    };
    // The codec's output for the same bytes without the heap, in pieces as long as blocks.
    let alone = |bytes: Vec<u8>| {
        let codec = memfold_codec::codec("zstd:1").unwrap();
        let mut memory = memfold_codec::ScratchBuf::for_codecs([codec], 32 << 10);
        let mut to = vec![0; codec.bound(32 << 10)];
        let mut len = |piece: &[u8]| match codec.compress(piece, &mut to, piece.len(), &mut memory.scratch())
        {
            memfold_codec::Compressed::Fits(len) => len as u64,
            memfold_codec::Compressed::Incompressible => piece.len() as u64,
        };
        bytes.chunks_exact(32 << 10).map(&mut len).sum::<u64>()
    };
    let of_numbers =
        alone(numbers.iter().flat_map(|node| zerocopy::IntoBytes::as_bytes(node).to_vec()).collect());
    // Nodes of one size, and of two.
    let (one, two) = (payload(&|_| 40, false), payload(&|i| 40 + i % 2 * 2, false));
    assert!(one < of_numbers * 7 / 10 && two < of_numbers * 8 / 10, "{one} and {two} of {of_numbers}");
    // The texts are as far apart as nodes are.
    let of_texts = alone(texts.iter().flat_map(|text| [text, &[0; 4][..]].concat()).collect());
    let (one, two) = (payload(&|_| 60, true), payload(&|i| 60 + i % 2 * 2, true));
    assert!(one < of_texts * 21 / 20 && two < of_texts * 23 / 20, "{one} and {two} of {of_texts}");
}

#[test]
fn options_out_of_range_are_refused() {
    let bad = [
        Options::new().block_size(1000),
        Options::new().block_size(512),
        Options::new().block_size(32 << 20),
        Options::new().alignment(3),
        Options::new().alignment(8192),
        Options::new().block_size(1024).alignment(1024),
        Options::new().limit(Limit::Blocks(0)),
        Options::new().limit(Limit::Bytes(1000)),
        Options::new().limit(Limit::Bytes(150_000)),
        Options::new().codec("lzma"),
    ];
    for options in bad {
        let words = Heap::new(options.clone()).unwrap_err();
        assert!(std::format!("{words}").len() > 20, "{options:?}");
    }
}

#[test]
fn linked_blocks_are_restored_ahead() {
    // A list whose nodes lie in as many blocks, in one order or another.
    for (step, ahead) in [(1_u64, Ahead::Neighbours(1)), (37, Ahead::Links(vec![0]))] {
        let heap = Heap::new(small(4096).limit(Limit::Blocks(16)).ahead(ahead)).unwrap();
        let mut session = heap.session().unwrap();
        let nodes: Vec<Handle> = (0..101).map(|_| session.alloc(3000).unwrap()).collect();
        for i in 0..101 {
            let next = nodes[(i + step as usize) % 101].to_bits();
            session.write_at(nodes[i], 0, &next.to_ne_bytes()).unwrap();
        }
        let before = heap.stats();
        let mut node = nodes[0];
        for _ in 0..101 {
            let mut bits = [0; 8];
            session.read_at(node, 0, &mut bits).unwrap();
            node = Handle::from_bits(u64::from_ne_bytes(bits)).unwrap();
            thread::sleep(std::time::Duration::from_micros(300));
        }
        assert_eq!(node, nodes[0]);
        let ahead = heap.stats().ahead - before.ahead;
        assert!(ahead > 20, "{ahead} of 101 blocks were brought ahead");
    }
}

#[test]
fn a_limit_in_bytes_is_held() {
    let most = 8 << 20;
    let heap = Heap::new(Options::new().limit(Limit::Bytes(most))).unwrap();
    let mut session = heap.session().unwrap();
    let (mut random, mut nodes) = (Random(31), vec![]);
    let refused = loop {
        let bytes: Vec<u8> = (0..200).map(|_| random.below(40) as u8).collect();
        match session.put_bytes(&bytes) {
            Ok(node) => nodes.push((node, bytes)),
            Err(error) => break error,
        }
        if nodes.len() % 1000 == 0 {
            let stats = heap.stats();
            assert!(stats.memory_bytes() <= most, "{stats:?}");
        }
        assert!(nodes.len() < 1_000_000);
    };
    assert_eq!(refused, Error::Limit);
    let stats = heap.stats();
    assert!(
        stats.memory_bytes() <= most && stats.node_bytes > most && stats.frame_bytes < most / 4,
        "{stats:?}"
    );
    // Everything is still there, and freeing makes room.
    for (node, bytes) in &nodes {
        assert_eq!(session.read(*node).as_ref(), Ok(bytes));
    }
    assert!(heap.stats().memory_bytes() <= most, "{:?}", heap.stats());
    for (node, _) in nodes.drain(nodes.len() / 2..) {
        session.free(node).unwrap();
    }
    for _ in 0..1000 {
        session.alloc(200).unwrap();
    }
    // Frames are also returned when few blocks are left.
    let resident = |heap: &Heap| heap.stats().frame_bytes;
    let heap = Heap::new(Options::new().limit(Limit::Share).codec("lz4")).unwrap();
    let session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..200_000).map(|_| session.alloc(250).unwrap()).collect();
    let full = resident(&heap);
    for node in nodes {
        session.free(node).unwrap();
    }
    assert!(resident(&heap) < full / 2, "{} of {full}", resident(&heap));
}

#[test]
fn a_guard_of_the_same_thread_makes_others_busy() {
    let heap = Heap::new(small(4096)).unwrap();
    let (mut one, mut other) = (heap.session().unwrap(), heap.session().unwrap());
    let node = one.alloc(50).unwrap();
    let guard = one.write(node).unwrap();
    assert_eq!(other.read(node), Err(Error::Busy));
    assert_eq!(other.size(node), Err(Error::Busy));
    assert_eq!(other.write(node).err(), Some(Error::Busy));
    assert_eq!(other.free(node), Err(Error::Busy));
    assert_eq!(other.resize(node, 500), Err(Error::Busy));
    drop(guard);
    assert_eq!(other.read(node), Ok(vec![0; 50]));
    other.free(node).unwrap();
}

#[test]
fn the_longest_nodes_of_a_block_fit() {
    for (block, align) in [(1024, 1), (1024, 8), (4096, 1), (4096, 512), (32768, 1)] {
        let mut heap = Heap::new(small(block).alignment(align)).unwrap();
        let session = heap.session().unwrap();
        let nodes: Vec<Handle> = (block - 40..block + 40).map(|len| session.alloc(len).unwrap()).collect();
        for (node, len) in nodes.iter().zip(block - 40..) {
            assert_eq!(session.read(*node), Ok(vec![0; len]));
            session.free(*node).unwrap();
        }
        drop(session);
        heap.check().unwrap();
    }
}

#[test]
fn writes_past_a_node_are_detected() {
    let mut heap = Heap::new(small(4096)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..100).map(|i| session.alloc(20 + i % 50).unwrap()).collect();
    let mut pin = session.pin(nodes[10]).unwrap();
    let end = pin.as_mut_ptr().unwrap().wrapping_add(pin.len());
    // SAFETY: bytes of the heap, though not of this node: the test is that this is detected.
    unsafe { end.write_bytes(0xFF, 12) };
    drop(pin);
    // The rest stays usable, and the damaged nodes are an error.
    let refused = nodes.iter().filter(|&&node| session.read(node).is_err()).count();
    assert!(refused <= 2);
    for &node in &nodes {
        let _ = session.free(node);
    }
    assert!(session.alloc(100).and_then(|node| session.write(node).map(|mut node| node.fill(1))).is_ok());
    drop(session);
    assert!(heap.check().is_err());
}
