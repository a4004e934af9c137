//! The area: chunks that are added and returned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes of a chunk.
pub const CHUNK: usize = 64 << 10;

/// The chunks in use.
#[derive(Default)]
pub struct Chunks {
    there: Vec<bool>,
    gone: BinaryHeap<Reverse<usize>>,
}

impl Chunks {
    /// Adds a chunk: the lowest number that is free.
    pub fn take(&mut self) -> usize {
        let number = self.gone.pop().map_or(self.there.len(), |Reverse(number)| number);
        if number == self.there.len() {
            self.there.push(false);
        }
        self.there[number] = true;
        number
    }

    /// Returns a chunk that is completely free.
    pub fn give_back(&mut self, number: usize) {
        assert!(std::mem::take(&mut self.there[number]), "it is there");
        self.gone.push(Reverse(number));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.there.len() - self.gone.len()
    }

    pub fn bytes(&self) -> usize {
        self.count() * CHUNK
    }

    /// Whether the byte at that offset belongs to a chunk in use.
    pub fn has(&self, at: u64) -> bool {
        self.there.get(at as usize / CHUNK).is_some_and(|&there| there)
    }
}
