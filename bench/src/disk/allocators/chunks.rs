//! The area: chunks that come and go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes of a chunk.
pub const CHUNK: usize = 64 << 10;

/// Which chunks there are.
#[derive(Default)]
pub struct Chunks {
    there: Vec<bool>,
    gone: BinaryHeap<Reverse<usize>>,
}

impl Chunks {
    /// One more: the lowest number that is not there.
    pub fn take(&mut self) -> usize {
        let number = self.gone.pop().map_or(self.there.len(), |Reverse(number)| number);
        if number == self.there.len() {
            self.there.push(false);
        }
        self.there[number] = true;
        number
    }

    /// All of it is free.
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

    /// Whether the byte at that offset is of a chunk that is there.
    pub fn has(&self, at: u64) -> bool {
        self.there.get(at as usize / CHUNK).is_some_and(|&there| there)
    }
}
