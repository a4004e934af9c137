//! The heap against a map from handles to bytes: everything that sessions do, several of them in one thread,
//! with frames for few blocks, so that blocks are evicted all the time. After each round everything is
//! checked, and now and then the heap is saved and loaded.
//!
//! ```text
//! | options, 4 bytes | round, round, ..        round: | sessions, 1 byte | operation, 1 byte, and what it needs | .. | 0 or the end |
//! ```
#![no_main]

#[path = "heap/input.rs"]
mod input;
mod options;

use std::collections::{HashMap, HashSet};

use input::Input;
use libfuzzer_sys::fuzz_target;
use memfold::heap::{Error, Handle, Heap, Limit, Options, Pin, PolicyKind, Session};

/// The most bytes of all nodes together, and the most nodes.
const MOST_BYTES: usize = 128 << 10;
const MOST_NODES: usize = 2000;
/// No handle is given out twice before more than this many nodes were freed.
const GENERATIONS: usize = 250;
/// Handles of freed nodes that are tried again.
const STALE: usize = 64;

/// The content of a node, and how often its length changed in place.
struct Node {
    bytes: Vec<u8>,
    moved: u32,
}

struct Model {
    nodes: HashMap<Handle, Node>,
    live: Vec<Handle>,
    stale: Vec<Handle>,
    gone: HashSet<Handle>,
    freed: usize,
    bytes: usize,
    /// Bytes of a block.
    block: usize,
    frames: u32,
}

impl Model {
    fn pick(&self, input: &mut Input<'_>) -> Option<Handle> {
        let number = usize::from(input.short());
        (!self.live.is_empty()).then(|| self.live[number % self.live.len()])
    }

    fn add(&mut self, handle: Handle, bytes: Vec<u8>) {
        assert!(self.freed > GENERATIONS || !self.gone.contains(&handle), "{handle:?} was given out twice");
        self.bytes += bytes.len();
        self.live.push(handle);
        assert!(self.nodes.insert(handle, Node { bytes, moved: 0 }).is_none(), "{handle:?} lives twice");
    }

    fn remove(&mut self, handle: Handle) -> Node {
        let node = self.nodes.remove(&handle).unwrap();
        self.live.retain(|&live| live != handle);
        self.bytes -= node.bytes.len();
        self.freed += 1;
        self.gone.insert(handle);
        if self.stale.len() == STALE {
            self.stale.remove(0);
        }
        self.stale.push(handle);
        node
    }

    fn len(&self, input: &mut Input<'_>) -> usize {
        let (how, byte) = (input.byte(), usize::from(input.byte()));
        match how % 16 {
            // Many nodes of one size get blocks for that size alone.
            0..=5 => 16,
            6 | 7 => 1 + byte % 24,
            8..=12 => 1 + byte * 2,
            13 | 14 => 1 + byte * self.block / 128,
            _ => 1 + byte * self.block / 16,
        }
        .min(MOST_BYTES - self.bytes.min(MOST_BYTES - 1))
    }

    /// The result of an operation; none if it failed because of pins, which it may.
    fn allowed<T>(result: Result<T, Error>, pins: usize) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::Pinned) if pins > 0 => None,
            Err(error) => panic!("{error:?} with {pins} pins"),
        }
    }

    /// Checks that a handle of a freed node was refused, or that pins left no frame to look at its block.
    fn refused<T: std::fmt::Debug>(result: Result<T, Error>, pins: usize) {
        match result {
            Err(Error::Stale) => {}
            Err(Error::Pinned) if pins > 0 => {}
            other => panic!("{other:?} with {pins} pins"),
        }
    }

    /// The handles by block, so that each block is restored once.
    fn in_order(&self) -> Vec<Handle> {
        let mut handles = self.live.clone();
        handles.sort_unstable_by_key(|handle| handle.to_bits() & 0xffff_ffff_ffff);
        handles
    }

    fn compare(&self, heap: &mut Heap) {
        heap.check().unwrap();
        let stats = heap.stats();
        assert_eq!((stats.nodes, stats.node_bytes), (self.nodes.len() as u64, self.bytes as u64));
        let session = heap.session().unwrap();
        for handle in self.in_order() {
            assert_eq!(session.read(handle).as_ref(), Ok(&self.nodes[&handle].bytes));
        }
    }
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add((i / 5 % 3) as u8)).collect()
}

fn options(input: &mut Input<'_>) -> (Options, usize, u32) {
    let [shape, codec, frames, policy] = [(); 4].map(|()| input.byte());
    let block = 1024 << [0, 0, 0, 1, 2, 5][usize::from(shape) % 6];
    let frames = 1 + u32::from(frames) % 6;
    let names =
        ["lz4", "copy", "zstd:1", "auto", "delta:8x1+shuffle:8+lz4", "auto=xor:1x1+huffman/lz4", "stride:1"];
    let options = Options::new()
        .block_size(block)
        .alignment([8, 1, 2, 16, 64, 256][usize::from(shape / 6) % 6])
        .limit(Limit::Blocks(frames))
        .codec(names[usize::from(codec) % names.len()])
        .policy(PolicyKind::ALL[usize::from(policy) % PolicyKind::ALL.len()])
        .background(policy >= 224)
        .paranoid(codec >= 224);
    (options, block, frames)
}

/// Does the operations of the input, up to a zero byte. The caller holds `pins` pins meanwhile.
fn run(input: &mut Input<'_>, sessions: &mut [Session<'_>], model: &mut Model, pins: usize) {
    while let operation @ 1.. = input.byte() {
        let at = usize::from(operation >> 4) % sessions.len();
        let session = &mut sessions[at];
        match operation % 16 {
            1..=4 if model.nodes.len() < MOST_NODES && model.bytes < MOST_BYTES / 2 => {
                let count = if operation % 16 == 1 { 1 + input.byte() % 70 } else { 1 };
                let len = model.len(input);
                let near = model.pick(input).filter(|_| operation % 16 == 4);
                for i in 0..count {
                    let made = match near {
                        Some(near) => session.alloc_near(len, near),
                        None => session.alloc(len),
                    };
                    let Some(handle) = Model::allowed(made, pins) else { break };
                    model.add(handle, vec![0; len]);
                    if i % 2 == 0 {
                        assert!(
                            Model::allowed(session.read(handle), pins).is_none_or(|new| new == vec![0; len])
                        );
                    }
                    let bytes = pattern(i ^ operation, len);
                    if len <= model.block / 4
                        && Model::allowed(session.write_at(handle, 0, &bytes), pins).is_some()
                    {
                        model.nodes.get_mut(&handle).unwrap().bytes = bytes;
                    }
                }
            }
            5 | 6 => {
                let count = if operation % 16 == 5 { 1 + input.byte() % 70 } else { 1 };
                for _ in 0..count {
                    let Some(handle) = model.pick(input) else { break };
                    // The parts of a long node are freed one after the other, so pins could stop that
                    // halfway.
                    let long = model.nodes[&handle].bytes.len() > model.block / 4;
                    if long && pins > 0 || Model::allowed(session.free(handle), pins).is_none() {
                        break;
                    }
                    model.remove(handle);
                    if model.freed < GENERATIONS {
                        Model::refused(session.size(handle), pins);
                    }
                }
            }
            7 => {
                let Some(old) = model.pick(input) else { continue };
                let len = model.len(input);
                let long = model.nodes[&old].bytes.len().max(len) > model.block / 4;
                if long && pins > 0 {
                    continue;
                }
                let Some(new) = Model::allowed(session.resize(old, len), pins) else { continue };
                if new == old {
                    let node = model.nodes.get_mut(&old).unwrap();
                    model.bytes = model.bytes + len - node.bytes.len();
                    node.bytes.resize(len, 0);
                    node.moved += 1;
                } else {
                    let mut bytes = model.remove(old).bytes;
                    bytes.resize(len, 0);
                    model.add(new, bytes);
                }
                assert!(
                    Model::allowed(session.read(new), pins)
                        .is_none_or(|read| read == model.nodes[&new].bytes)
                );
            }
            8 | 9 => {
                let Some(handle) = model.pick(input) else { continue };
                let (from, len) = (usize::from(input.short()), usize::from(input.byte()));
                let bytes = &model.nodes[&handle].bytes;
                assert!(Model::allowed(session.size(handle), pins).is_none_or(|size| size == bytes.len()));
                let mut part = vec![1; len];
                match (session.read_at(handle, from, &mut part), bytes.get(from..from + len)) {
                    (Err(Error::Mismatch { .. }), None) => {}
                    (read, Some(bytes)) => {
                        assert!(Model::allowed(read, pins).is_none() || part == bytes);
                    }
                    (read, None) => assert!(Model::allowed(read, pins).is_none()),
                }
            }
            10 | 11 => {
                let Some(handle) = model.pick(input) else { continue };
                let bytes = &mut model.nodes.get_mut(&handle).unwrap().bytes;
                let from = usize::from(input.short()) % bytes.len();
                if operation % 16 == 10 || pins > 0 {
                    // One byte, which is in one part of a long node.
                    let part = pattern(input.byte(), 1.min(bytes.len() - from));
                    if Model::allowed(session.write_at(handle, from, &part), pins).is_some() {
                        bytes[from..from + part.len()].copy_from_slice(&part);
                    }
                } else {
                    let mut node = session.write(handle).unwrap();
                    assert!(*node == **bytes);
                    node[from..].fill(operation);
                    bytes[from..].fill(operation);
                }
            }
            12 => {
                // Freed, foreign and invented handles.
                for handle in model.stale.clone() {
                    if !model.nodes.contains_key(&handle) && model.freed < GENERATIONS {
                        Model::refused(session.size(handle), pins);
                        Model::refused(session.write(handle), pins);
                        Model::refused(session.free(handle), pins);
                    }
                }
                let bits = (0..8).fold(0, |bits, _| bits << 8 | u64::from(input.byte()));
                let near = model.pick(input).map_or(0, Handle::to_bits);
                let has_long = model.nodes.values().any(|node| node.bytes.len() > model.block / 4);
                // The parts of long nodes are nodes that the model does not have.
                for bits in [bits, near ^ bits & 0xff, near ^ 1 << (bits % 64)] {
                    let Some(handle) = Handle::from_bits(bits).filter(|_| !has_long) else { continue };
                    if !model.nodes.contains_key(&handle) && model.freed < GENERATIONS {
                        Model::refused(session.size(handle), pins);
                        Model::refused(session.pin(handle), pins);
                        Model::refused(session.resize(handle, 5), pins);
                    }
                }
            }
            13 | 14 if sessions.len() > 1 => with_pins(input, sessions, model, pins),
            15 if sessions.len() > 1 && model.frames > 2 && pins == 0 => {
                while_written(input, sessions, model)
            }
            _ => {}
        }
    }
}

/// Continues with nodes pinned by the first session.
fn with_pins(input: &mut Input<'_>, sessions: &mut [Session<'_>], model: &mut Model, pins: usize) {
    let (first, rest) = sessions.split_first_mut().unwrap();
    let first = &*first;
    let mut held: Vec<(Pin<'_>, Handle, u32)> = vec![];
    for _ in 0..1 + input.byte() % 3 {
        let Some(handle) = model.pick(input) else { break };
        if let Some(pin) = Model::allowed(first.pin(handle), pins + held.len()) {
            held.push((pin, handle, model.nodes[&handle].moved));
        }
    }
    run(input, rest, model, pins + held.len());
    for (mut pin, handle, moved) in held {
        let Some(node) = model.nodes.get_mut(&handle).filter(|node| node.moved == moved) else { continue };
        // SAFETY: one thread, and no guard but pins lives.
        assert!(unsafe { pin.bytes() } == node.bytes);
        let changed = pin.as_mut_ptr().map(|bytes| {
            // SAFETY: as above.
            unsafe { bytes.write(77) };
        });
        if Model::allowed(changed, 1).is_some() {
            node.bytes[0] = 77;
        }
    }
}

/// Reads with one session while another one writes.
fn while_written(input: &mut Input<'_>, sessions: &mut [Session<'_>], model: &mut Model) {
    let (first, rest) = sessions.split_first_mut().unwrap();
    let (Some(written), Some(read)) = (model.pick(input), model.pick(input)) else { return };
    // The reader would wait for the writer.
    if (written.to_bits() ^ read.to_bits()) % 8 == 0 || model.nodes[&read].bytes.len() > model.block / 4 {
        return;
    }
    let mut node = first.write(written).unwrap();
    node.fill(5);
    assert_eq!(rest[0].read(read).as_ref(), Ok(&model.nodes[&read].bytes));
    drop(node);
    model.nodes.get_mut(&written).unwrap().bytes.fill(5);
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (first, block, frames) = options(&mut input);
    let mut heap = Heap::new(first).unwrap();
    let mut model = Model {
        nodes: HashMap::new(),
        live: vec![],
        stale: vec![],
        gone: HashSet::new(),
        freed: 0,
        bytes: 0,
        block,
        frames,
    };
    while !input.0.is_empty() {
        let count = input.byte();
        let mut sessions: Vec<Session<'_>> = (0..1 + count % 3).map(|_| heap.session().unwrap()).collect();
        run(&mut input, &mut sessions, &mut model, 0);
        drop(sessions);
        model.compare(&mut heap);
        if count >= 192 {
            let mut file = vec![];
            heap.save_to(&mut file).unwrap();
            let (next, _, frames) = options(&mut input);
            heap = Heap::load_from(&file[..], next).unwrap();
            model.frames = frames;
            let session = heap.session().unwrap();
            for &handle in &model.stale {
                if !model.nodes.contains_key(&handle) && model.freed < GENERATIONS {
                    assert_eq!(session.size(handle), Err(Error::Stale));
                }
            }
            drop(session);
            let mut again = vec![];
            heap.save_to(&mut again).unwrap();
            assert!(file == again, "loading changes nothing");
            model.compare(&mut heap);
        }
    }
    let session = heap.session().unwrap();
    for handle in model.in_order() {
        session.free(handle).unwrap();
    }
    drop(session);
    heap.check().unwrap();
    let stats = heap.stats();
    assert_eq!((stats.nodes, stats.node_bytes, stats.blocks, stats.payload_bytes), (0, 0, 0, 0));
});
