//! Tables of pipelines that only grow: for programs that store places in them, and for the registry, whose
//! codecs live for ever.
//!
//! A chain is one number, so a place is taken with one compare-exchange from zero. Neither readers nor
//! writers ever wait, and no chain is in the table twice.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::{Chain, Pipeline};

/// At most `N` chains, each at the place where it was first put.
///
/// A file with forms of [`Chain::compress`] stores the places, and once the names of all chains in order:
/// [`PipelineTable::iter`].
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

    /// The place of a chain, which is added if it has none; `None` if the table is full.
    pub fn append(&self, chain: Chain) -> Option<u16> {
        for (place, there) in self.chains.iter().enumerate() {
            // Release: a thread that finds a later place has also seen this one.
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

/// A place for a pipeline that lives for ever.
struct Slot {
    state: AtomicU8,
    pipeline: UnsafeCell<MaybeUninit<Pipeline>>,
}

const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
const READY: u8 = 2;

// SAFETY: only the thread that took the slot writes the pipeline, and others read it only after that thread
// has made it ready.
unsafe impl Sync for Slot {}

impl Slot {
    fn get(&self) -> Option<&Pipeline> {
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: ready, so written, and never written again.
        Some(unsafe { (*self.pipeline.get()).assume_init_ref() })
    }

    /// Puts a pipeline here if the slot is free.
    fn put(&self, pipeline: Pipeline) -> Option<&Pipeline> {
        self.state.compare_exchange(EMPTY, TAKEN, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        // SAFETY: the slot was empty and belongs to this thread alone until it is made ready.
        unsafe { (*self.pipeline.get()).write(pipeline) };
        self.state.store(READY, Ordering::Release);
        self.get()
    }
}

/// How many pipelines [`crate::codec`] can hand out in one process.
const SLOTS: usize = 256;

static INTERNED: [Slot; SLOTS] =
    [const { Slot { state: AtomicU8::new(EMPTY), pipeline: UnsafeCell::new(MaybeUninit::uninit()) } }; SLOTS];

/// The pipeline, in a place where it stays. Two threads that ask at the same moment may get two places: no
/// thread waits for another here, so that a thread that was stopped half-way, or did not survive a fork,
/// blocks nobody. `None` if there are no places left.
pub(crate) fn interned(pipeline: Pipeline) -> Option<&'static Pipeline> {
    let there = INTERNED.iter().filter_map(Slot::get).find(|there| **there == pipeline);
    there.or_else(|| INTERNED.iter().find_map(|slot| slot.put(pipeline)))
}
