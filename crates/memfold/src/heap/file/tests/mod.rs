//! Saving and loading heaps, against a model; invalid files; and how files get their names.

mod bounds;
mod files;
mod hostile;
mod lies;
mod round_trip;
mod streams;

use std::collections::HashMap;
use std::vec;
use std::vec::Vec;

use super::format::{AFTER, BEFORE, START, checksum};
use crate::heap::{Error, Handle, Heap, LoadError, Options, Session};
use crate::random::Random;

/// The content of nodes, and handles of freed ones.
struct Model {
    random: Random,
    nodes: HashMap<Handle, Vec<u8>>,
    live: Vec<Handle>,
    stale: Vec<Handle>,
    /// One size: lengths up to it; several: only these.
    sizes: Vec<usize>,
}

impl Model {
    fn new(seed: u64, sizes: &[usize]) -> Self {
        let random = Random(seed);
        Model { random, nodes: HashMap::new(), live: vec![], stale: vec![], sizes: sizes.into() }
    }

    fn len(&mut self) -> usize {
        match self.sizes[..] {
            [most] => 1 + self.random.index(most),
            _ => self.sizes[self.random.index(self.sizes.len())],
        }
    }

    /// Makes, changes, resizes and frees nodes; the number of nodes alternately grows and shrinks.
    fn go_on(&mut self, session: &mut Session<'_>, steps: usize) {
        for step in 0..steps {
            let grows = step / 300 % 3 != 2;
            let at = self.random.index(self.live.len().max(1));
            match self.random.index(8) {
                0..=3 if grows || self.live.is_empty() => {
                    let len = self.len();
                    let bytes = self.random.bytes(len);
                    let handle = session.put_bytes(&bytes).unwrap();
                    assert!(self.nodes.insert(handle, bytes).is_none());
                    self.live.push(handle);
                }
                _ if self.live.is_empty() => {}
                0..=4 => {
                    let handle = self.live.swap_remove(at);
                    self.nodes.remove(&handle);
                    session.free(handle).unwrap();
                    self.stale.push(handle);
                }
                5 => {
                    let (old, len) = (self.live[at], self.len());
                    let new = session.resize(old, len).unwrap();
                    let mut bytes = self.nodes.remove(&old).unwrap();
                    bytes.resize(len, 0);
                    assert!(self.nodes.insert(new, bytes).is_none());
                    self.live[at] = new;
                    if old != new {
                        self.stale.push(old);
                    }
                }
                _ => {
                    let bytes = self.nodes.get_mut(&self.live[at]).unwrap();
                    let byte = self.random.index(bytes.len());
                    bytes[byte] ^= 1;
                    session.write_at(self.live[at], byte, &bytes[byte..=byte]).unwrap();
                }
            }
        }
    }

    /// Checks that the heap has exactly these nodes.
    fn is_in(&self, heap: &mut Heap) {
        heap.check().unwrap();
        let stats = heap.stats();
        assert_eq!(stats.nodes, self.nodes.len() as u64);
        assert_eq!(stats.node_bytes, self.nodes.values().map(|bytes| bytes.len() as u64).sum::<u64>());
        let session = heap.session().unwrap();
        for (&handle, bytes) in &self.nodes {
            assert_eq!(session.read(handle).as_ref(), Ok(bytes));
        }
    }

    /// Frees everything and checks that nothing is left.
    fn end(self, heap: &mut Heap) {
        let session = heap.session().unwrap();
        for handle in self.live {
            session.free(handle).unwrap();
        }
        drop(session);
        heap.check().unwrap();
        let stats = heap.stats();
        assert_eq!((stats.nodes, stats.node_bytes, stats.blocks, stats.payload_bytes), (0, 0, 0, 0));
    }
}

fn saved(heap: &mut Heap) -> Vec<u8> {
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    file
}

fn load(file: &[u8], options: &Options) -> Result<Heap, LoadError> {
    Heap::load_from(file, options.clone())
}

/// The offsets of chunks, and their kinds.
fn chunks(file: &[u8]) -> Vec<(usize, u8)> {
    let (mut at, mut found) = (START, vec![]);
    while let Some(&[kind, _, _, _, ref len @ ..]) =
        file.get(at..).and_then(|rest| rest.first_chunk::<BEFORE>())
    {
        found.push((at, kind));
        at = at.saturating_add(BEFORE + AFTER).saturating_add(u32::from_le_bytes(*len) as usize);
    }
    found
}

/// Corrects all checksums, as an attacker would.
fn repair(file: &mut [u8]) {
    let mut sum = checksum(0, &file[..START]);
    let found = chunks(file);
    for (i, &(at, _)) in found.iter().enumerate() {
        let end = found.get(i + 1).map_or(file.len(), |next| next.0);
        let Some(body_end) = end.checked_sub(AFTER).filter(|&end| end >= at + BEFORE) else { return };
        sum = checksum(sum, &file[at..body_end]);
        file[body_end..end].copy_from_slice(&sum.to_le_bytes());
    }
}
