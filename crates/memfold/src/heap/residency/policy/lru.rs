//! Least recently used.

use std::vec::Vec;

use super::order::Order;
use super::{Policy, Uses};
use crate::heap::error::Error;
use crate::room::gather;

/// Frames by time of last use, as of the last look. A use moves nothing: it is noticed when the frame comes
/// first.
#[derive(Default)]
pub struct Lru(Order<u32>);

impl Policy for Lru {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        self.0.insert(frame, uses.last(frame));
    }

    fn left(&mut self, frame: u32) {
        self.0.remove(frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        // Each frame is looked at once, so that concurrent uses do not keep this going.
        for _ in 0..self.0.len() {
            let (seen, frame) = self.0.pop_first()?;
            let last = uses.last(frame);
            if last == seen {
                return Some(frame);
            }
            self.0.insert(frame, last);
        }
        self.0.pop_first().map(|(_, frame)| frame)
    }

    fn frames(&self) -> Result<Vec<u32>, Error> {
        gather(self.0.iter())
    }
}
