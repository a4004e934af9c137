//! The lists of a block's free extents, by size. They belong to the session that allocates from the block.

use super::MOST_UNITS;

/// Bins for exact numbers of units.
pub(super) const EXACT: usize = 32;
/// Bins for each doubling above that, as a power of two.
const STEPS: u32 = 3;
const BINS: usize = EXACT + ((MOST_UNITS.ilog2() - EXACT.ilog2()) << STEPS) as usize;
const _: () = assert!(BINS <= 128);
/// The free extents of a block, for the session that allocates from it.
#[derive(Debug, Clone)]
pub struct Extents {
    /// The first extent of each bin, in units from 0; 0 is none, since a header is there.
    pub(super) heads: [u16; BINS],
    /// Which bins are not empty.
    pub(super) some: u128,
    /// The open extent: place and bytes; zero bytes if it is too small.
    pub(super) open: usize,
    pub(super) open_bytes: usize,
}

impl Extents {
    /// No free extents.
    pub const fn new() -> Self {
        Extents { heads: [0; BINS], some: 0, open: 0, open_bytes: 0 }
    }

    #[inline]
    pub(super) fn bin(units: usize) -> usize {
        if units <= EXACT {
            return units.saturating_sub(1);
        }
        let doubling = (units - 1).ilog2();
        let step = ((units - 1) >> (doubling - STEPS)) & ((1 << STEPS) - 1);
        EXACT + ((doubling - EXACT.ilog2()) << STEPS) as usize + step
    }

    /// Units that the longest extent has at least.
    pub(super) fn longest(&self) -> usize {
        let Some(bin) = self.some.checked_ilog2() else { return 0 };
        let bin = bin as usize;
        let Some(long) = bin.checked_sub(EXACT) else { return bin + 1 };
        let (doubling, step) = ((long >> STEPS) as u32 + EXACT.ilog2(), long & ((1 << STEPS) - 1));
        (1 << doubling) + (step << (doubling - STEPS)) + 1
    }

    pub(super) fn first_from(&self, bin: usize) -> Option<usize> {
        let some = self.some.checked_shr(bin as u32).unwrap_or(0);
        (some != 0).then(|| bin + some.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_tells_how_long_its_extents_are_at_least() {
        for units in 1..MOST_UNITS {
            let bin = Extents::bin(units);
            let extents = Extents { some: 1 | 1 << bin, ..Extents::new() };
            let least = extents.longest();
            assert!(
                least <= units && Extents::bin(least) == bin && (least == 1 || Extents::bin(least - 1) < bin)
            );
        }
        assert_eq!(Extents::new().longest(), 0);
    }
}
