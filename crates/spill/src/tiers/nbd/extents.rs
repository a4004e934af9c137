//! The positions of the batches in an export: after the claim, in whole units.

use std::collections::HashMap;

use super::UNIT;
use crate::tiers::space::Space;

/// The space of an export, and the batches in it.
pub struct Kept {
    pub space: Space,
    /// First unit and bytes.
    pub batches: HashMap<u64, (u64, u32)>,
}

/// The byte where a unit begins, after the claim.
pub fn byte_of(unit: u64) -> u64 {
    (unit + 1) * UNIT
}

/// The units that this many bytes take.
pub fn units(bytes: u32) -> u64 {
    u64::from(bytes).div_ceil(UNIT).max(1)
}

impl Kept {
    /// Removes batches from the table.
    pub fn forget(&mut self, batches: &[u64]) {
        for batch in batches {
            if let Some((first, bytes)) = self.batches.remove(batch) {
                self.space.give_back(first, units(bytes));
            }
        }
    }
}
