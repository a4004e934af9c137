//! A few blocks as they were decompressed last: who reads one page of a block mostly wants the next one soon.
//!
//! A block's image is good as long as the **version** under which it was made is the one of its stripe (see `stripes.rs`). One thread decompresses,
//! and others that want the same block wait for it; who finds all places of its set busy goes on without.
//!
//! Locks: a set's lock is held to choose a place, and nobody waits with it; an image's lock is taken before the lock of its leaf.

use std::sync::{Mutex, MutexGuard};

use crate::locked;

/// Images of a set.
const WAYS: usize = 8;

/// An image and what it is one of.
pub struct Image {
    /// The block's first page, plus one.
    pub block: u64,
    pub version: u64,
    pub bytes: Box<[u8]>,
}

/// Which places have which blocks, the last used first.
struct Order([(u64, u8); WAYS]);

struct Set {
    order: Mutex<Order>,
    images: [Mutex<Image>; WAYS],
}

/// See the module.
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

    /// Takes the memory of all.
    pub fn fill_in(&self) {
        self.sets.iter().flat_map(|set| &set.images).for_each(|image| locked(image).bytes.fill(1));
    }

    /// The place of a block, waiting only for who is about to make its image.
    pub fn lock(&self, block: u64) -> Option<MutexGuard<'_, Image>> {
        let mixed = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let set = &self.sets[((mixed * self.sets.len() as u64) >> 32) as usize];
        let mut order = locked(&set.order);
        if let Some(way) = order.find(block + 1) {
            drop(order);
            return Some(locked(&set.images[way]));
        }
        // The one that was not used for the longest time, of those that nobody uses now.
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
    /// The place of a block, which is the last used one then.
    fn find(&mut self, wanted: u64) -> Option<usize> {
        let at = self.0.iter().position(|&(block, _)| block == wanted)?;
        self.0[..=at].rotate_right(1);
        Some(usize::from(self.0[0].1))
    }
}
