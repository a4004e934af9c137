//! SIEVE.
//!
//! ```text
//!   old  [ a ] [ b ] [ c ] [ d ] [ e ]  new      used since the hand was here: stays, the hand goes on
//!                      ^ hand ->                 not used: goes
//! ```

use std::collections::BTreeMap;
use std::vec::Vec;

use super::{Policy, Uses};

/// Frames in the order in which they came, and when each had last been used when the hand came by.
#[derive(Default)]
pub struct Sieve {
    order: BTreeMap<u64, (u32, u32)>,
    arrivals: u64,
    hand: u64,
}

impl Policy for Sieve {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        self.order.insert(self.arrivals, (frame, uses.last(frame)));
        self.arrivals += 1;
    }

    fn left(&mut self, frame: u32) {
        self.order.retain(|_, &mut (other, _)| other != frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        for _ in 0..=2 * self.order.len() {
            let from_hand = self.order.range_mut(self.hand..).next();
            let Some((&arrival, (frame, seen))) = from_hand else {
                self.hand = 0;
                continue;
            };
            // Behind the newest one it begins with the oldest again, and not with what comes next.
            self.hand = if arrival + 1 == self.arrivals { 0 } else { arrival + 1 };
            let last = uses.last(*frame);
            if last == *seen {
                let frame = *frame;
                self.order.remove(&arrival);
                return Some(frame);
            }
            *seen = last;
        }
        self.order.pop_first().map(|(_, (frame, _))| frame)
    }

    fn frames(&self) -> Vec<u32> {
        self.order.values().map(|&(frame, _)| frame).collect()
    }
}
