//! The least frequently used, and of those the least recently used.

use std::collections::BTreeSet;
use std::vec::Vec;

use super::{Policy, Uses};

/// By count and time of last use as they were when last looked at; both only grow.
#[derive(Default)]
pub struct Lfu(BTreeSet<(u32, u32, u32)>);

impl Policy for Lfu {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        self.0.insert((uses.count(frame), uses.last(frame), frame));
    }

    fn left(&mut self, frame: u32) {
        self.0.retain(|&(_, _, other)| other != frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        for _ in 0..self.0.len() {
            let (count, last, frame) = self.0.pop_first()?;
            let now = (uses.count(frame), uses.last(frame), frame);
            if now == (count, last, frame) {
                return Some(frame);
            }
            self.0.insert(now);
        }
        self.0.pop_first().map(|(_, _, frame)| frame)
    }

    fn frames(&self) -> Vec<u32> {
        self.0.iter().map(|&(_, _, frame)| frame).collect()
    }
}
