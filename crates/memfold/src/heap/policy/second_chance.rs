//! First in, first out, but what was used in between goes round again.

use std::collections::VecDeque;
use std::vec::Vec;

use super::{Policy, Uses};

/// The oldest is in front, each with when it had last been used when it was looked at.
#[derive(Default)]
pub struct SecondChance(VecDeque<(u32, u32)>);

impl Policy for SecondChance {
    fn came(&mut self, frame: u32, uses: &dyn Uses) {
        self.0.push_back((frame, uses.last(frame)));
    }

    fn left(&mut self, frame: u32) {
        self.0.retain(|&(other, _)| other != frame);
    }

    fn choose(&mut self, uses: &dyn Uses) -> Option<u32> {
        for _ in 0..self.0.len() {
            let (frame, seen) = self.0.pop_front()?;
            let last = uses.last(frame);
            if last == seen {
                return Some(frame);
            }
            self.0.push_back((frame, last));
        }
        self.0.pop_front().map(|(frame, _)| frame)
    }

    fn frames(&self) -> Vec<u32> {
        self.0.iter().map(|&(frame, _)| frame).collect()
    }
}
