//! An ordered set of frames, from which any frame can be removed.

use std::collections::BTreeSet;
use std::vec::Vec;

/// Frames, each with a key.
#[derive(Debug)]
pub struct Order<K> {
    frames: BTreeSet<(K, u32)>,
    /// Keys by the frame's number.
    keys: Vec<Option<K>>,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Order { frames: BTreeSet::new(), keys: Vec::new() }
    }
}

impl<K: Ord + Copy> Order<K> {
    /// Adds the frame with this key.
    pub fn insert(&mut self, frame: u32, key: K) {
        let index = frame as usize;
        if self.keys.len() <= index {
            self.keys.resize(index + 1, None);
        }
        self.keys[index] = Some(key);
        self.frames.insert((key, frame));
    }

    /// Removes the frame, if it is in the set.
    pub fn remove(&mut self, frame: u32) {
        if let Some(key) = self.keys.get_mut(frame as usize).and_then(Option::take) {
            self.frames.remove(&(key, frame));
        }
    }

    /// Removes the first frame.
    pub fn pop_first(&mut self) -> Option<(K, u32)> {
        let first = self.frames.pop_first()?;
        self.keys[first.1 as usize] = None;
        Some(first)
    }

    /// The first frame whose key is not less than this.
    pub fn first_from(&self, key: K) -> Option<(K, u32)> {
        self.frames.range((key, 0)..).next().copied()
    }

    /// The number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// All frames, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.frames.iter().map(|&(_, frame)| frame)
    }
}
