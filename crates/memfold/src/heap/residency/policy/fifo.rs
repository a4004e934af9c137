//! First in, first out.

use std::vec::Vec;

use super::order::Order;
use super::{Policy, Uses};
use crate::heap::error::Error;
use crate::room::gather;

/// Frames in order of arrival.
#[derive(Default)]
pub struct Fifo {
    order: Order<u64>,
    arrivals: u64,
}

impl Policy for Fifo {
    fn came(&mut self, frame: u32, _: &dyn Uses) {
        self.order.insert(frame, self.arrivals);
        self.arrivals += 1;
    }

    fn left(&mut self, frame: u32) {
        self.order.remove(frame);
    }

    fn choose(&mut self, _: &dyn Uses) -> Option<u32> {
        self.order.pop_first().map(|(_, frame)| frame)
    }

    fn frames(&self) -> Result<Vec<u32>, Error> {
        gather(self.order.iter())
    }
}
