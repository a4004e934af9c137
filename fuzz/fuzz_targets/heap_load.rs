//! Files that are not heaps, or malicious ones. A heap that can be loaded is used in every way: its contents
//! may be wrong, but it must be sound.
//!
//! ```text
//! | which, 1 byte | the rest        which: 0..=3 changes a file of ours, at places of two bytes; others: the rest is the file |
//! ```
//!
//! Most inputs get right checksums, because an attacker can make them, too.
#![no_main]

#[path = "heap/input.rs"]
mod input;
mod options;

use std::sync::OnceLock;

use input::Input;
use libfuzzer_sys::fuzz_target;
use memfold::heap::{Handle, Heap, Limit, Options};
use twox_hash::XxHash3_64;

const START: usize = 16;
const BEFORE: usize = 8;
const AFTER: usize = 8;
/// Blocks and places in them where nodes are searched for.
const BLOCKS: u64 = 24;
const PLACES: u64 = 160;

fn options(codec: &str) -> Options {
    Options::new().block_size(1024).limit(Limit::Blocks(3)).codec(codec)
}

/// A file with everything: both layouts, with and without checks, vacant numbers, long nodes.
fn file(codec: &str, alignment: usize) -> Vec<u8> {
    let mut heap = Heap::new(options(codec).alignment(alignment)).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> =
        (0..60_usize).map(|i| session.put_bytes(&vec![i as u8; 1 + i * 7 % 90]).unwrap()).collect();
    let equal: Vec<Handle> = (0..150_u64).map(|i| session.put(&[i, !i]).unwrap()).collect();
    let alone = session.alloc(900).unwrap();
    let long = session.put_bytes(&[9; 2500]).unwrap();
    nodes
        .iter()
        .step_by(3)
        .chain(&equal[40..90])
        .chain([&alone])
        .for_each(|&node| session.free(node).unwrap());
    drop(session);
    let mut session = heap.session().unwrap();
    (0..80_u64).for_each(|i| assert!(session.put(&[i, i]).is_ok()));
    (0..20).for_each(|i| assert!(session.alloc(10 + i).is_ok()));
    drop(session);
    heap.set_root(long.to_bits());
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    file
}

/// Corrects the checksums of all chunks.
fn repair(file: &mut [u8]) {
    let Some(start) = file.get(..START) else { return };
    let (mut sum, mut at) = (XxHash3_64::oneshot_with_seed(0, start), START);
    while let Some(len) = file.get(at + 4..at + BEFORE) {
        let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
        let Some(chunk) = file.get(at..at + BEFORE + len) else { return };
        sum = XxHash3_64::oneshot_with_seed(sum, chunk);
        at += BEFORE + len;
        let Some(to) = file.get_mut(at..at + AFTER) else { return };
        to.copy_from_slice(&sum.to_le_bytes());
        at += AFTER;
    }
}

/// Uses everything that can be found.
fn use_up(mut heap: Heap) {
    let whole = heap.check().is_ok();
    let long =
        heap.session().unwrap().size(Handle::from_bits(heap.root()).unwrap_or(Handle::from_bits(1).unwrap()));
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    Heap::load_from(&file[..], options("lz4")).unwrap();
    let mut session = heap.session().unwrap();
    let mut found = vec![];
    for block in 1..BLOCKS {
        for place in 0..PLACES {
            // The checks and incarnations that the files have.
            for high in [0, 1, 1 << 8, 1 << 8 | 1, 2 << 8] {
                let handle = Handle::from_bits(high << 48 | block << 16 | place).unwrap();
                let Ok(pin) = session.pin(handle) else { continue };
                assert!(pin.len() <= 1024);
                // SAFETY: one thread.
                let bytes = unsafe { pin.bytes() }.to_vec();
                drop(pin);
                assert!(session.read(handle).unwrap() == bytes);
                found.push((handle, bytes));
            }
        }
    }
    // No two nodes may share a byte.
    for (i, (handle, bytes)) in found.iter().enumerate() {
        let new = vec![i as u8; bytes.len()];
        session.write(*handle).unwrap().copy_from_slice(&new);
    }
    for (i, (handle, bytes)) in found.iter().enumerate() {
        assert!(session.read(*handle).unwrap() == vec![i as u8; bytes.len()], "two nodes share a byte");
    }
    for (i, (handle, _)) in found.into_iter().enumerate() {
        match i % 4 {
            0 => drop(session.resize(handle, 1 + i % 200)),
            1 => drop(session.alloc_near(20, handle)),
            2 => assert!(session.free(handle).is_ok() && session.read(handle).is_err()),
            _ => {}
        }
    }
    if let Some(root) = Handle::from_bits(heap.root()) {
        let read = session.read(root);
        assert_eq!(read.is_ok() && long.is_ok(), read.is_ok());
        let _ = session.write(root).map(|mut node| node.fill(1));
        let _ = session.resize(root, 100);
        let _ = session.free(root);
    }
    for len in [16; 100].into_iter().chain([1, 100, 900, 3000]) {
        let new = session.alloc(len).unwrap();
        assert!(session.read(new).unwrap() == vec![0; len], "new nodes are zero");
    }
    drop(session);
    let _ = heap.stats();
    let after = heap.check();
    assert!(!whole || after.is_ok(), "{after:?}");
}

fuzz_target!(|data: &[u8]| {
    static FILES: OnceLock<[Vec<u8>; 4]> = OnceLock::new();
    let files = FILES.get_or_init(|| [file("copy", 8), file("copy", 1), file("lz4", 8), file("auto", 16)]);
    let mut input = Input(data);
    let which = input.byte();
    let mut bytes = match files.get(usize::from(which % 8)) {
        Some(file) => {
            let mut bytes = file.clone();
            while !input.0.is_empty() {
                let (place, byte) = (usize::from(input.short()) % bytes.len(), input.byte());
                bytes[place] = byte;
            }
            bytes
        }
        None => input.0.to_vec(),
    };
    if which < 240 {
        repair(&mut bytes);
    }
    if let Ok(heap) = Heap::load_from(&bytes[..], options("lz4")) {
        use_up(heap);
    }
});
