//! Where the batches of a file are, and which of its space is kept for the next ones.

use std::collections::{HashMap, VecDeque};

use super::UNIT;
use crate::tiers::space::Space;

/// The space of a file, and the batches in it.
pub struct Kept {
    pub space: Space,
    pub batches: HashMap<u64, Extent>,
    /// Space in use that no batch has: kept for the next ones, the oldest first.
    pub spare: VecDeque<Extent>,
    /// Units of these.
    pub spare_units: u64,
}

/// One part in this many of what batches use is kept spare.
pub const SPARE: u64 = 8;

impl Kept {
    pub fn new(most: u64) -> Self {
        Kept { space: Space::new(most), batches: HashMap::new(), spare: VecDeque::new(), spare_units: 0 }
    }

    /// Units that batches use.
    pub fn used(&self) -> u64 {
        self.space.used() - self.spare_units
    }

    /// Takes space for a batch: a spare extent of the same size, or other free units.
    pub fn take(&mut self, bytes: u32) -> Option<Extent> {
        let wanted = Extent { first: 0, bytes };
        let first = match self.spare.iter().position(|spare| spare.units() == wanted.units()) {
            Some(at) => {
                self.spare_units -= wanted.units();
                self.spare.remove(at)?.first
            }
            None => self.space.take(wanted.units())?,
        };
        Some(Extent { first, bytes })
    }

    /// Takes out the oldest spare extent, if there are more than `most` units of them. The caller gives it
    /// back.
    pub fn next_spare(&mut self, most: u64) -> Option<Extent> {
        let spare = (self.spare_units > most).then(|| self.spare.pop_front()).flatten()?;
        self.spare_units -= spare.units();
        Some(spare)
    }
}

/// The place of a batch.
#[derive(Clone, Copy)]
pub struct Extent {
    pub first: u64,
    pub bytes: u32,
}

impl Extent {
    pub fn units(self) -> u64 {
        u64::from(self.bytes).div_ceil(UNIT as u64).max(1)
    }
}
