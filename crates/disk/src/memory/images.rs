//! The most recently decompressed blocks: a reader of one page of a block usually wants the next page soon.
//!
//! A block's image is valid while its **version** equals the version of the block's stripe (see
//! `index/stripes.rs`). One thread decompresses, and others that want the same block wait for it; a thread
//! that finds all places of the set in use continues without an image.
//!
//! Locks: a set's lock is held to choose a place, and no thread waits while holding it; an image's lock is taken
//! before the lock of its leaf.

use std::sync::{Mutex, MutexGuard};

use crate::locked;

/// Images of a set.
const WAYS: usize = 8;

/// A block's image, and which block it is.
pub struct Image {
    /// The block's first page, plus one.
    pub block: u64,
    pub version: u64,
    pub bytes: Box<[u8]>,
}

/// Which places hold which blocks, the most recently used first.
struct Order([(u64, u8); WAYS]);

struct Set {
    order: Mutex<Order>,
    images: [Mutex<Image>; WAYS],
}

/// The cache of images; see the module.
pub struct Images {
    sets: Box<[Set]>,
}

impl Images {
    /// Places for `count` images, or a few more.
    pub fn new(count: usize, block_bytes: usize) -> Self {
        let image = || Image { block: 0, version: 0, bytes: vec![0; block_bytes].into_boxed_slice() };
        let set = || Set {
            order: Mutex::new(Order(std::array::from_fn(|at| (0, at as u8)))),
            images: std::array::from_fn(|_| Mutex::new(image())),
        };
        Images { sets: (0..count.div_ceil(WAYS)).map(|_| set()).collect() }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        let image_bytes = |image: &Mutex<Image>| locked(image).bytes.len();
        self.sets.iter().map(|set| size_of::<Set>() + set.images.iter().map(image_bytes).sum::<usize>()).sum()
    }

    /// Allocates the memory of all images.
    pub fn fill_in(&self) {
        self.sets.iter().flat_map(|set| &set.images).for_each(|image| locked(image).bytes.fill(1));
    }

    /// The place of a block, locked. Waits only for a thread that is making this block's image.
    pub fn lock(&self, block: u64) -> Option<MutexGuard<'_, Image>> {
        let mixed = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let set = &self.sets[((mixed * self.sets.len() as u64) >> 32) as usize];
        let mut order = locked(&set.order);
        if let Some(way) = order.find(block + 1) {
            drop(order);
            return Some(locked(&set.images[way]));
        }
        // The least recently used place that is not currently in use.
        let free = (0..WAYS).rev().find_map(|at| {
            let (_, way) = order.0[at];
            Some((at, set.images[usize::from(way)].try_lock().ok()?))
        });
        let (at, image) = free?;
        order.0[at].0 = block + 1;
        order.0[..=at].rotate_right(1);
        Some(image)
    }
}

impl Order {
    /// Finds the place of a block and makes it the most recently used one.
    fn find(&mut self, wanted: u64) -> Option<usize> {
        let at = self.0.iter().position(|&(block, _)| block == wanted)?;
        self.0[..=at].rotate_right(1);
        Some(usize::from(self.0[0].1))
    }
}
