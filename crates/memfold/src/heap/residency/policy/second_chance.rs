//! First in, first out, but a block that was used in between gets another round.

use std::vec::Vec;

use super::order::Order;
use super::{Policy, Uses};
use crate::heap::error::Error;
use crate::room::gather;

/// Frames by the time when they came or got another round; and, by frame, the last use at that time.
#[derive(Default)]
pub struct SecondChance {
    order: Order<u64>,
    arrivals: u64,
    seen: Vec<u32>,
}

impl SecondChance {
    fn push(&mut self, frame: u32, last: u32) {
        if self.seen.len() <= frame as usize {
            self.seen.resize(frame as usize + 1, 0);
        }
        self.seen[frame as usize] = last;
        self.order.insert(frame, self.arrivals);
        self.arrivals += 1;
    }
}

impl Policy for SecondChance {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        self.push(frame, uses.last(frame));
    }

    fn left(&mut self, frame: u32) {
        self.order.remove(frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        for _ in 0..self.order.len() {
            let (_, frame) = self.order.pop_first()?;
            let last = uses.last(frame);
            if last == self.seen[frame as usize] {
                return Some(frame);
            }
            self.push(frame, last);
        }
        self.order.pop_first().map(|(_, frame)| frame)
    }

    fn frames(&self) -> Result<Vec<u32>, Error> {
        gather(self.order.iter())
    }
}
