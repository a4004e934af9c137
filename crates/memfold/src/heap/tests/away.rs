//! Heaps that spill to a tier in memory, which can be told to lose copies.

use std::ops::Range;
use std::string::ToString;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::vec::Vec;
use std::{thread, vec};

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::model::against_model;
use super::small;
use crate::heap::stored::tier::{Away, ReadError, Tier};
use crate::heap::*;
use crate::random::Random;

/// A copy: its owner, how it is compressed, its payload.
type Kept = (u64, u8, Vec<u8>);

#[derive(Default)]
pub struct Memory {
    copies: Mutex<HashMap<u32, Kept>>,
    /// Copies that the tier has lost.
    lost: Mutex<HashSet<u32>>,
    next: AtomicU32,
    puts: AtomicU64,
    gets: AtomicU64,
    /// How often the tier was asked for a copy and did not answer.
    pub in_vain: AtomicU64,
    /// 1: the tier takes nothing; 2: it has nothing; 3: it does not answer.
    pub trouble: AtomicU32,
}

impl Memory {
    /// Loses all copies for whose numbers `is_lost` holds; returns how many those are.
    pub fn lose(&self, mut is_lost: impl FnMut(u32) -> bool) -> usize {
        let mut lost = self.lost.lock().unwrap();
        lost.extend(self.copies.lock().unwrap().keys().copied().filter(|number| is_lost(*number)));
        lost.len()
    }
}

impl Tier for Memory {
    fn put(&self, owner: u64, codec: u8, payload: &[u8]) -> Option<u32> {
        if self.trouble.load(Relaxed) != 0 {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        self.copies.lock().unwrap().insert(number, (owner, codec, payload.to_vec()));
        self.puts.fetch_add(1, Relaxed);
        Some(number)
    }

    fn get(&self, owner: u64, number: u32, room: &mut [u8]) -> Result<(u8, Range<usize>), ReadError> {
        match self.trouble.load(Relaxed) {
            2 => return Err(ReadError::Lost),
            3 => {
                self.in_vain.fetch_add(1, Relaxed);
                return Err(ReadError::Away);
            }
            _ => {}
        }
        if self.lost.lock().unwrap().contains(&number) {
            return Err(ReadError::Lost);
        }
        let copies = self.copies.lock().unwrap();
        let (whose, codec, payload) = copies.get(&number).ok_or(ReadError::Lost)?;
        assert_eq!(*whose, owner);
        let at = 8..8 + payload.len();
        room[at.clone()].copy_from_slice(payload);
        self.gets.fetch_add(1, Relaxed);
        Ok((*codec, at))
    }

    fn free(&self, number: u32) {
        assert!(self.copies.lock().unwrap().remove(&number).is_some(), "{number} was freed twice");
    }

    fn forget_ahead(&self) {}

    fn overhead(&self) -> usize {
        8
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn spilled_bytes(&self) -> u64 {
        self.copies.lock().unwrap().values().map(|(_, _, payload)| payload.len() as u64).sum()
    }

    fn health(&self) -> TierHealth {
        if self.trouble.load(Relaxed) == 3 { TierHealth::Away } else { TierHealth::Open }
    }
}

pub fn spilling(mut options: Options) -> (Options, Arc<Memory>) {
    let tier = Arc::new(Memory::default());
    options.away = Away(Some(tier.clone()));
    (options, tier)
}

const LIMIT: u64 = 4 << 20;

pub fn limited() -> (Options, Arc<Memory>) {
    spilling(Options::new().block_size(16 << 10).limit(Limit::Bytes(LIMIT)).codec("lz4"))
}

/// Bytes that do not compress.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

#[test]
fn more_than_the_limit_is_held() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..20_000)
        .map(|seed| {
            let node = session.alloc(1000).unwrap();
            session.write(node).unwrap().copy_from_slice(&noise(seed, 1000));
            node
        })
        .collect();
    let stats = heap.stats();
    assert!(stats.memory_bytes() <= LIMIT && stats.spilled_bytes > 15 << 20, "{stats:?}");
    assert_eq!(stats.tier, TierHealth::Open);
    let mut random = Random(3);
    for _ in 0..20_000 {
        let at = random.index(nodes.len());
        assert_eq!(session.read(nodes[at]).unwrap(), noise(at as u64, 1000));
    }
    assert!(heap.stats().memory_bytes() <= LIMIT, "{:?}", heap.stats());
    drop(session);
    heap.check().unwrap();
    // Files also contain what is on the tier.
    heap.set_root(nodes[77].to_bits());
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    let path = std::env::temp_dir().join(std::format!("memfold-away-{}", std::process::id()));
    std::fs::write(&path, &file).unwrap();
    let again = Heap::load(&path, Options::new().codec("lz4")).unwrap();
    std::fs::remove_file(&path).unwrap();
    let session = again.session().unwrap();
    assert_eq!(session.read(Handle::from_bits(again.root()).unwrap()).unwrap(), noise(77, 1000));
    drop(session);
    let session = heap.session().unwrap();
    for (seed, node) in (0..).zip(&nodes) {
        assert_eq!(session.read(*node).unwrap(), noise(seed, 1000));
        session.free(*node).unwrap();
    }
    drop(session);
    heap.check().unwrap();
    assert_eq!(tier.spilled_bytes(), 0);
}

fn write(session: &mut Session<'_>, seed: u64) -> Result<Handle, Error> {
    let node = session.alloc(1000)?;
    session.write(node)?.copy_from_slice(&noise(seed, 1000));
    Ok(node)
}

#[test]
fn blocks_that_the_tier_does_not_return_are_errors() {
    let (options, tier) = limited();
    let heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..8000).map(|seed| write(&mut session, seed).unwrap()).collect();
    for (trouble, error) in [(2, Error::Lost), (3, Error::Away)] {
        tier.trouble.store(trouble, Relaxed);
        let mut refused = 0;
        for (seed, node) in (0..).zip(&nodes) {
            match session.read(*node) {
                Ok(read) => assert_eq!(read, noise(seed, 1000)),
                Err(why) => {
                    assert_eq!(why, error);
                    refused += 1;
                }
            }
        }
        assert!(refused > 2000, "{refused}");
    }
    // If the tier takes nothing more, the old limit applies.
    tier.trouble.store(1, Relaxed);
    let refused = (8000..20_000).find_map(|seed| write(&mut session, seed).err());
    assert_eq!(refused, Some(Error::Limit));
    tier.trouble.store(0, Relaxed);
    for (seed, node) in (0..).zip(&nodes) {
        assert_eq!(session.read(*node).unwrap(), noise(seed, 1000));
    }
    write(&mut session, 1).unwrap();
}

/// A session allocated from a block that was on the tier, which did not answer: every node was refused, and
/// the tier was asked again each time.
#[test]
fn nodes_are_made_while_the_tier_does_not_answer() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let lens = [300, 160, session.longest()];
    // There are so many nodes of one size that they have blocks of their own.
    let first: Vec<Handle> = lens
        .into_iter()
        .flat_map(|len| (0..40).map(move |_| len))
        .map(|len| session.put_bytes(&noise(1, len)).unwrap())
        .collect();
    // These blocks are evicted, including those with room.
    let mut other = heap.session().unwrap();
    let more: Vec<Handle> = (0..8000).map(|seed| write(&mut other, seed).unwrap()).collect();
    more.iter().skip(1).step_by(2).for_each(|node| other.free(*node).unwrap());
    let fill: Vec<Handle> = (0..2000).map(|seed| other.put_bytes(&noise(seed, 2000)).unwrap()).collect();
    drop(other);
    let is_away = |node: &&Handle| !heap.core().blocks.get(node.block()).unwrap().is_here();
    assert!(first.iter().filter(is_away).count() > 100);
    tier.trouble.store(3, Relaxed);
    let asked = tier.in_vain.load(Relaxed);
    let mut made = vec![];
    for len in lens.into_iter().chain(lens).chain([500, 500, 1000, 160, 160]) {
        for seed in 0..5 {
            made.push((session.put_bytes(&noise(seed, len)).unwrap(), noise(seed, len)));
        }
    }
    let asked = tier.in_vain.load(Relaxed) - asked;
    assert!(asked <= 3, "the tier was asked {asked} times");
    tier.trouble.store(0, Relaxed);
    for (node, bytes) in made {
        assert_eq!(session.read(node).unwrap(), bytes);
        session.free(node).unwrap();
    }
    let rest = first.iter().chain(more.iter().step_by(2)).chain(&fill);
    rest.for_each(|node| session.free(*node).unwrap());
    drop(session);
    heap.check().unwrap();
    assert_eq!((heap.stats().nodes, tier.spilled_bytes()), (0, 0));
}

/// If a file holds more than the limit, its heap is loaded as it was when it was saved: the rest goes to the
/// tier.
#[test]
fn blocks_that_do_not_fit_at_loading_go_to_the_tier() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..10_000).map(|seed| write(&mut session, seed).unwrap()).collect();
    drop(session);
    let mut file = vec![];
    heap.save_to(&mut file).unwrap();
    drop(heap);
    assert_eq!(tier.spilled_bytes(), 0, "a tier that is shared keeps nothing of a heap that is gone");
    let (options, tier) = limited();
    let mut heap = Heap::load_from(&file[..], options).unwrap();
    let stats = heap.stats();
    assert!(stats.memory_bytes() <= LIMIT && stats.spilled_bytes > 5 << 20, "{stats:?}");
    heap.check().unwrap();
    let session = heap.session().unwrap();
    for (seed, node) in (0..).zip(&nodes) {
        assert_eq!(session.read(*node).unwrap(), noise(seed, 1000));
        session.free(*node).unwrap();
    }
    drop(session);
    assert_eq!(tier.spilled_bytes(), 0);
    // A load that is aborted leaves nothing behind, either.
    let (options, tier) = limited();
    assert!(Heap::load_from(&file[..file.len() - 1], options).is_err());
    assert_eq!(tier.spilled_bytes(), 0);
}

#[test]
fn threads_share_a_heap_that_spills() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options.background(true)).unwrap();
    thread::scope(|scope| {
        for thread in 0..3 {
            let heap = &heap;
            scope.spawn(move || {
                let mut session = heap.session().unwrap();
                let mut random = Random(thread);
                let mut model: Vec<(Handle, u64)> = vec![];
                for step in 0..15_000 {
                    if model.len() < 4000 && random.index(5) < 3 || model.is_empty() {
                        let (seed, node) = (thread << 32 | step, session.alloc(800).unwrap());
                        session.write(node).unwrap().copy_from_slice(&noise(seed, 800));
                        model.push((node, seed));
                    } else {
                        let at = random.index(model.len());
                        let (node, seed) = model[at];
                        assert_eq!(session.read(node).unwrap(), noise(seed, 800));
                        if random.index(3) == 0 {
                            session.free(node).unwrap();
                            model.swap_remove(at);
                        }
                    }
                }
                for (node, seed) in model {
                    assert_eq!(session.read(node).unwrap(), noise(seed, 800));
                    session.free(node).unwrap();
                }
            });
        }
    });
    heap.check().unwrap();
    assert!(tier.puts.load(Relaxed) > 500 && tier.gets.load(Relaxed) > 500);
    assert_eq!(tier.spilled_bytes(), 0);
}

#[test]
fn spilling_needs_a_limit() {
    let (options, _) = spilling(Options::new());
    assert!(Heap::new(options).err().unwrap().to_string().contains("limit in bytes"));
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn heaps_that_spill_all_the_time_do_as_the_model() {
        for (block, sizes) in [(1024, &[200][..]), (4096, &[16, 16, 16, 40]), (32768, &[2000])] {
            for codec in ["lz4", "zstd:1", "auto", "delta:8x1+shuffle:8+lz4"] {
                let (options, tier) = spilling(small(block).paranoid(true).codec(codec));
                against_model(options, 4000, sizes, 7 + block as u64);
                assert!(tier.puts.load(Relaxed) > 100 && tier.gets.load(Relaxed) > 100);
                assert_eq!(tier.spilled_bytes(), 0, "something is left");
            }
        }
    }
}
