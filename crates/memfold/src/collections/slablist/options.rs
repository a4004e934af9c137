//! Options and counters of a list.

/// When the space of removed elements is reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Little by little: a removal repacks a few leaves at most, and all of them stay 95 % full where
    /// possible.
    #[default]
    Lazily,
    /// All at once, as the slab lists of the paper reap: when this many slabs could be saved, and they are at
    /// least this part of all.
    AtOnce {
        /// The fewest slabs.
        least_slabs: u32,
        /// The smallest percentage of the list's slabs.
        least_percent: u8,
    },
    /// Only when the program asks for it.
    Never,
}

/// What a list has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Leaves that were made: nodes of the heap.
    pub leaves_made: u64,
    /// Leaves that were freed.
    pub leaves_freed: u64,
    /// How often leaves were repacked: elements moved from some leaves to others.
    pub packs: u64,
}
