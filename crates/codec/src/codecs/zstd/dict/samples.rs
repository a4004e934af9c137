//! Blocks that compressing threads leave for training.
//!
//! A fixed amount of memory holds a uniform sample of all blocks between two rounds (reservoir sampling): the
//! first blocks fill it, and the n-th block replaces another with a probability that falls like 1/n. No
//! thread waits: one that finds another at work does not leave its block.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

/// Bytes of the blocks of a round.
pub(super) const ROUND: usize = 256 << 10;

/// Longer blocks have enough content of their own; a dictionary hardly helps.
const LONGEST: usize = 16 << 10;

/// Blocks in sequence.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Blocks {
    /// Room for `capacity` bytes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        // If blocks are shorter than 64 bytes, this array grows.
        Blocks { bytes: Vec::with_capacity(capacity), ends: Vec::with_capacity(capacity / 64) }
    }

    /// No blocks and no memory.
    pub(super) const fn none() -> Self {
        Blocks { bytes: Vec::new(), ends: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all blocks.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    fn range(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        start..self.ends[i]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| &self.bytes[self.range(i)])
    }

    /// Adds a block if that takes no further memory.
    pub(super) fn push(&mut self, block: &[u8]) -> bool {
        let fits = self.bytes.capacity() - self.bytes.len() >= block.len();
        if !fits || self.ends.len() == self.ends.capacity() {
            return false;
        }
        self.bytes.extend_from_slice(block);
        self.ends.push(self.bytes.len());
        true
    }

    /// Replaces a block by one of the same length.
    fn replace(&mut self, i: usize, block: &[u8]) {
        let range = self.range(i);
        if range.len() == block.len() {
            self.bytes[range].copy_from_slice(block);
        }
    }

    /// Removes the oldest blocks, to make room for `count` more with `bytes` bytes.
    pub(super) fn make_room(&mut self, bytes: usize, count: usize) {
        let too_much = (self.bytes.len() + bytes).saturating_sub(self.bytes.capacity());
        let for_bytes = self.ends.partition_point(|&end| end < too_much) + usize::from(too_much > 0);
        let for_count = (self.ends.len() + count).saturating_sub(self.ends.capacity());
        let count = for_bytes.max(for_count).min(self.ends.len());
        if count > 0 {
            let gone = self.ends[count - 1];
            self.bytes.drain(..gone);
            self.ends.drain(..count);
            self.ends.iter_mut().for_each(|end| *end -= gone);
        }
    }
}

/// The place where compressing threads leave blocks.
#[derive(Debug)]
pub(super) struct Samples {
    /// Whether they are wanted.
    wanted: AtomicBool,
    /// Blocks compressed in this round so far.
    passed: AtomicU64,
    /// The number of blocks for which there is room, once it is known.
    places: AtomicU64,
    blocks: Mutex<Blocks>,
}

impl Samples {
    pub(super) const fn new() -> Self {
        Samples {
            wanted: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            places: AtomicU64::new(u64::MAX),
            blocks: Mutex::new(Blocks::none()),
        }
    }

    /// Offers a block for the sample. Does not allocate.
    #[inline]
    pub(super) fn leave(&self, block: &[u8]) {
        if !self.wanted.load(Relaxed) || block.len() > LONGEST {
            return;
        }
        let passed = self.passed.fetch_add(1, Relaxed);
        // Whether this block is in the sample of all blocks so far, and which one it replaces.
        let draw = mix(passed) % (passed + 1);
        if draw >= self.places.load(Relaxed) {
            return;
        }
        let Ok(mut blocks) = self.blocks.try_lock() else { return };
        if !blocks.push(block) {
            self.places.store(blocks.len() as u64, Relaxed);
            if (draw as usize) < blocks.len() {
                blocks.replace(draw as usize, block);
            }
        }
    }

    /// Takes the blocks of this round in exchange for an empty set, and begins the next round. If there are
    /// not enough, it returns the empty set as an error. Blocks are collected from the first call on.
    pub(super) fn take(&self, empty: Blocks, enough: usize) -> Result<Blocks, Blocks> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.wanted.load(Relaxed) && blocks.bytes.len() < enough {
            return Err(empty);
        }
        self.passed.store(0, Relaxed);
        self.places.store(u64::MAX, Relaxed);
        self.wanted.store(true, Relaxed);
        Ok(core::mem::replace(&mut *blocks, empty))
    }

    pub(super) fn memory(&self) -> usize {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).memory()
    }
}

/// A number that looks random. SplitMix64.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
