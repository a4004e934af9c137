//! Least frequently used, with dynamic aging; ties go to the least recently used.
//!
//! A new block begins with as many uses as the last evicted one had. Otherwise it would always be evicted
//! next, and blocks that were used often long ago would stay for ever (LFU-DA: Arlitt, Cherkasova, Dilley,
//! Friedrich, Jin, 2000).

use std::vec::Vec;

use super::order::Order;
use super::{Policy, Uses};
use crate::heap::error::Error;
use crate::room::gather;

/// Frames by uses and time of last use, as of the last look; both only grow.
#[derive(Default)]
pub struct Lfu {
    order: Order<(u32, u32)>,
    /// The uses of the block that was evicted last; and, by frame, that value when the block came.
    age: u32,
    ages: Vec<u32>,
}

impl Lfu {
    fn key(&self, frame: u32, uses: &dyn Uses) -> (u32, u32) {
        (self.ages[frame as usize].saturating_add(uses.count(frame)), uses.last(frame))
    }
}

impl Policy for Lfu {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        if self.ages.len() <= frame as usize {
            self.ages.resize(frame as usize + 1, 0);
        }
        self.ages[frame as usize] = self.age;
        self.order.insert(frame, self.key(frame, uses));
    }

    fn left(&mut self, frame: u32) {
        self.order.remove(frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        for _ in 0..self.order.len() {
            let (seen, frame) = self.order.pop_first()?;
            let key = self.key(frame, uses);
            if key == seen {
                self.age = seen.0;
                return Some(frame);
            }
            self.order.insert(frame, key);
        }
        self.order.pop_first().map(|(_, frame)| frame)
    }

    fn frames(&self) -> Result<Vec<u32>, Error> {
        gather(self.order.iter())
    }
}
