//! Reordering nodes: their links are written in the order in which the nodes lie, so that each block is
//! faulted in once.

use std::cmp::Ordering;
use std::vec::Vec;

use super::links::{Link, bits};
use crate::heap::{Error, Handle};
use crate::room::filled;

/// Sorts elements that have their old numbers beside them; equal ones stay in that order. It takes no memory.
pub fn sort_numbered<E>(all: &mut [(E, u32)], mut compare: impl FnMut(&E, &E) -> Ordering) {
    all.sort_unstable_by(|a, b| compare(&a.0, &b.0).then(a.1.cmp(&b.1)));
}

/// Nodes to be linked in another order.
pub struct Sorted {
    /// The nodes in their old order.
    nodes: Vec<Handle>,
    /// Their old numbers, in the new order.
    order: Vec<u32>,
    /// Their new numbers, in the old order.
    places: Vec<u32>,
}

impl Sorted {
    /// Nodes in their old order, and their numbers in the new one.
    pub fn new(nodes: Vec<Handle>, order: Vec<u32>) -> Result<Self, Error> {
        if nodes.len() != order.len() {
            return Err(Error::Damaged);
        }
        let mut places = filled(nodes.len(), 0)?;
        for (place, number) in order.iter().enumerate() {
            places[*number as usize] = place as u32;
        }
        Ok(Sorted { nodes, order, places })
    }

    /// The first and the last in the new order.
    pub fn first_and_last(&self) -> Option<(Handle, Handle)> {
        let node = |number: &u32| self.nodes[*number as usize];
        Some((self.order.first().map(node)?, self.order.last().map(node)?))
    }

    /// The link of a node, by its old number, to the next one or to the previous one. The last one links to
    /// the first if `last_on`, the first back to the last if `first_back`.
    pub fn link(
        &self,
        number: usize,
        is_next: bool,
        at: usize,
        last_on: bool,
        first_back: bool,
    ) -> Option<Link> {
        let count = self.nodes.len();
        let beside = |place: usize| match is_next {
            true if place + 1 == count => last_on.then_some(0),
            true => Some(place + 1),
            false if place == 0 => first_back.then_some(count - 1),
            false => Some(place - 1),
        };
        let from = beside(number).map(|number| self.nodes[number]);
        let to = beside(self.places[number] as usize).map(|place| self.nodes[self.order[place] as usize]);
        let link = Link { node: self.nodes[number], at, from: bits(from), to: bits(to) };
        (from != to).then_some(link)
    }
}
