//! The positions of the batches in a file, and the space that is kept for the next ones.

use std::collections::{HashMap, VecDeque};

use super::UNIT;
use crate::tiers::space::Space;

/// The space of a file, and the batches in it.
pub struct Kept {
    pub space: Space,
    pub batches: HashMap<u64, Extent>,
    /// Spare extents: space in use that no batch has, kept for the next batches, the oldest first.
    pub spare: VecDeque<Extent>,
    /// The units of spare extents.
    pub spare_units: u64,
}

/// Spare extents take at most the space of the batches divided by this.
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

    /// Removes the oldest spare extent, if there are more than `most` spare units. The caller gives it back.
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
