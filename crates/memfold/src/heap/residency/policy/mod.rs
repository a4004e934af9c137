//! Which block to evict.
//!
//! A policy knows frames by their numbers, and is asked only when a frame has to be made free. It learns of
//! uses only then, from the frames themselves: a session notes the heap's **clock** in a frame when it moves
//! to another block than the one it used before, and the clock advances when a block is faulted in. So a read
//! costs no more than a comparison. The order of uses between two faults is not recorded, since no decision
//! needs it.

mod fifo;
mod lfu;
mod lru;
mod order;
mod second_chance;
mod sieve;

use std::boxed::Box;
use std::fmt;
use std::str::FromStr;
use std::vec::Vec;

use crate::heap::error::Error;

/// The uses of frames, as the frames record them.
pub trait Uses {
    /// When the frame was last used, by the clock.
    fn last(&self, frame: u32) -> u32;
    /// The number of clock values at which it was used since its block came.
    fn count(&self, frame: u32) -> u32;
}

/// See the module.
pub trait Policy: Send {
    /// A block came into the frame.
    fn came(&mut self, frame: u32, uses: &dyn Uses);
    /// The block left the frame without having been chosen: it was freed.
    fn left(&mut self, frame: u32);
    /// The frame whose block is to be evicted. The policy forgets the frame, and `came` is called again if
    /// the block can't be evicted.
    fn choose(&mut self, uses: &dyn Uses) -> Option<u32>;
    /// The frames that the policy knows of.
    fn frames(&self) -> Result<Vec<u32>, Error>;
}

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PolicyKind {
    /// First in, first out.
    Fifo,
    /// First in, first out, but a block that was used in between gets another round (compll's FINUFO).
    SecondChance,
    /// Least recently used (compll's choice).
    Lru,
    /// Least frequently used since the block came, with dynamic aging.
    Lfu,
    /// SIEVE: a hand moves from old to new and takes the first block that was not used since the hand last
    /// passed. New blocks enter at the new end, and used ones stay where they are (Zhang et al., NSDI 2024).
    #[default]
    Sieve,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 5] =
        [PolicyKind::Fifo, PolicyKind::SecondChance, PolicyKind::Lru, PolicyKind::Lfu, PolicyKind::Sieve];

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Fifo => "fifo",
            PolicyKind::SecondChance => "second-chance",
            PolicyKind::Lru => "lru",
            PolicyKind::Lfu => "lfu",
            PolicyKind::Sieve => "sieve",
        }
    }

    /// A policy that knows of no frame.
    pub(crate) fn make(self) -> Box<dyn Policy> {
        match self {
            PolicyKind::Fifo => Box::<fifo::Fifo>::default(),
            PolicyKind::SecondChance => Box::<second_chance::SecondChance>::default(),
            PolicyKind::Lru => Box::<lru::Lru>::default(),
            PolicyKind::Lfu => Box::<lfu::Lfu>::default(),
            PolicyKind::Sieve => Box::<sieve::Sieve>::default(),
        }
    }
}

/// No policy has that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no policy has that name; there are fifo, second-chance, lru, lfu and sieve")
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownPolicy)
    }
}

#[cfg(test)]
mod tests;
