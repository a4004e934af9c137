//! What can be chosen about a list, and what it counts.

/// When the room that removed elements left is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Little by little: a removal packs a few leaves at most, and all stay 95 % full, if that can be had.
    #[default]
    Lazily,
    /// All at once, as the slab lists of the paper reap: when so many slabs could be spared, and they are such a part of all.
    AtOnce {
        /// Slabs at least.
        least_slabs: u32,
        /// Per cent of the list's slabs, at least.
        least_percent: u8,
    },
    /// When the program asks for it.
    Never,
}

/// What a list did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Leaves that were made: nodes of the heap.
    pub leaves_made: u64,
    /// Leaves that were freed.
    pub leaves_freed: u64,
    /// How often leaves were packed anew: elements went from some leaves to others.
    pub packs: u64,
}
