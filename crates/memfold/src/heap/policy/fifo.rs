//! First in, first out.

use std::collections::VecDeque;
use std::vec::Vec;

use super::{Policy, Uses};

/// The oldest is in front.
#[derive(Default)]
pub struct Fifo(VecDeque<u32>);

impl Policy for Fifo {
    fn came(&mut self, frame: u32, _: &dyn Uses) {
        self.0.push_back(frame);
    }

    fn left(&mut self, frame: u32) {
        self.0.retain(|&other| other != frame);
    }

    fn choose(&mut self, _: &dyn Uses) -> Option<u32> {
        self.0.pop_front()
    }

    fn frames(&self) -> Vec<u32> {
        self.0.iter().copied().collect()
    }
}
