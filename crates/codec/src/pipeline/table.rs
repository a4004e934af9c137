//! Append-only tables of pipelines: for programs that store places in them, and for the registry, whose
//! codecs live for ever.
//!
//! A chain is one number, so a place is taken with one compare-exchange from zero. Neither readers nor
//! writers ever wait, and no chain is in the table twice.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{Chain, Pipeline};
use crate::interned::Interned;

/// At most `N` chains, each at the place where it was first put.
///
/// A file with forms of [`Chain::compress`] stores a place with each form, and once the names of all chains
/// in the order of [`PipelineTable::iter`].
#[derive(Debug)]
pub struct PipelineTable<const N: usize = 256> {
    chains: [AtomicU64; N],
}

impl<const N: usize> PipelineTable<N> {
    const FITS: () = assert!(N <= 1 << 16, "a place is a number of 16 bits");

    /// An empty table.
    pub const fn new() -> Self {
        let () = Self::FITS;
        PipelineTable { chains: [const { AtomicU64::new(0) }; N] }
    }

    /// The place of a chain; the chain is appended if it has none. `None` if the table is full.
    pub fn append(&self, chain: Chain) -> Option<u16> {
        for (place, there) in self.chains.iter().enumerate() {
            // Release: a thread that sees a later place also sees this one.
            let found = there.compare_exchange(0, chain.number(), Ordering::AcqRel, Ordering::Acquire);
            if found.is_ok() || found == Err(chain.number()) {
                return Some(place as u16);
            }
        }
        None
    }

    /// The chain at a place.
    #[inline]
    pub fn get(&self, place: u16) -> Option<Chain> {
        Chain::from_number(self.chains.get(usize::from(place))?.load(Ordering::Acquire))
    }

    /// All chains in order of their places.
    pub fn iter(&self) -> impl Iterator<Item = Chain> + '_ {
        self.chains.iter().map_while(|chain| Chain::from_number(chain.load(Ordering::Acquire)))
    }
}

impl<const N: usize> Default for PipelineTable<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// How many pipelines [`crate::codec`] can hand out in one process.
const PLACES: usize = 256;

static INTERNED: Interned<Pipeline, PLACES> = Interned::new();

/// The pipeline at a permanent address. `None` if there are no places left.
pub(crate) fn interned(pipeline: Pipeline) -> Option<&'static Pipeline> {
    INTERNED.find(|there| *there == pipeline).or_else(|| INTERNED.put(|| Some(pipeline)))
}
