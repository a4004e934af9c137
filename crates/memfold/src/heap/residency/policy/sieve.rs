//! SIEVE.
//!
//! ```text
//!   old  [ a ] [ b ] [ c ] [ d ] [ e ]  new      used since the hand was here: stays, the hand goes on
//!                      ^ hand ->                 not used: evicted
//! ```

use std::vec::Vec;

use super::order::Order;
use super::{Policy, Uses};
use crate::heap::error::Error;
use crate::room::gather;

/// Frames in the order in which they came; and, by frame, the last use when the hand last passed.
#[derive(Default)]
pub struct Sieve {
    order: Order<u64>,
    arrivals: u64,
    hand: u64,
    seen: Vec<u32>,
}

impl Policy for Sieve {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        if self.seen.len() <= frame as usize {
            self.seen.resize(frame as usize + 1, 0);
        }
        self.seen[frame as usize] = uses.last(frame);
        self.order.insert(frame, self.arrivals);
        self.arrivals += 1;
    }

    fn left(&mut self, frame: u32) {
        self.order.remove(frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        for _ in 0..=2 * self.order.len() {
            let Some((arrival, frame)) = self.order.first_from(self.hand) else {
                self.hand = 0;
                continue;
            };
            // After the newest one, the hand starts again at the oldest, not at the next one to come.
            self.hand = if arrival + 1 == self.arrivals { 0 } else { arrival + 1 };
            let (last, seen) = (uses.last(frame), &mut self.seen[frame as usize]);
            if last == *seen {
                self.order.remove(frame);
                return Some(frame);
            }
            *seen = last;
        }
        self.order.pop_first().map(|(_, frame)| frame)
    }

    fn frames(&self) -> Result<Vec<u32>, Error> {
        gather(self.order.iter())
    }
}
