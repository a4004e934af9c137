//! A few blocks as they were decompressed last: who reads one page of a block mostly wants the next one soon.
//!
//! A block's image is good as long as the **version** under which it was made is the one of its stripe (see `stripes.rs`). One thread decompresses,
//! and others that want the same block wait for it; who wants another block that has its place here goes on without.
//!
//! Locks: an image's lock is taken before the lock of its leaf.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::locked;

/// An image and what it is one of.
pub struct Image {
    /// The block's first page, plus one.
    pub block: u64,
    pub version: u64,
    pub bytes: Box<[u8]>,
}

struct Place {
    /// The block that is wanted here, plus one: changed with the lock held.
    wanted: AtomicU64,
    image: Mutex<Image>,
}

/// See the module.
pub struct Images {
    places: Box<[Place]>,
}

impl Images {
    pub fn new(count: usize, block_bytes: usize) -> Self {
        let place = || Place {
            wanted: AtomicU64::new(0),
            image: Mutex::new(Image { block: 0, version: 0, bytes: vec![0; block_bytes].into_boxed_slice() }),
        };
        Images { places: (0..count).map(|_| place()).collect() }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.places.iter().map(|place| size_of::<Place>() + locked(&place.image).bytes.len()).sum()
    }

    /// The place of a block, waiting only for who is about to make its image.
    pub fn lock(&self, block: u64) -> Option<MutexGuard<'_, Image>> {
        let mixed = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = &self.places[((mixed * self.places.len() as u64) >> 32) as usize];
        let image = match place.image.try_lock() {
            Ok(image) => image,
            Err(TryLockError::Poisoned(image)) => image.into_inner(),
            Err(TryLockError::WouldBlock) if place.wanted.load(Relaxed) == block + 1 => locked(&place.image),
            Err(TryLockError::WouldBlock) => return None,
        };
        place.wanted.store(block + 1, Relaxed);
        Some(image)
    }
}
