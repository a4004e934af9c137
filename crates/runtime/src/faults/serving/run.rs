//! A run of decompressed pages, and what becomes of their entries when the pages are placed.

use core::sync::atomic::Ordering::*;

use memfold::store::Ref;

use super::Placed;
use crate::interpose::mappings::ranges;
use crate::kernel::addresses::RUN;
use crate::kernel::addresses::{index_in_block, page_number};
use crate::kernel::sys::PAGE;
use crate::pages::table::{Block, State};
use crate::runtime::Runtime;

/// Consecutive pages that were decompressed.
pub struct Run<'f> {
    /// The first page.
    pub page: usize,
    /// The states of their entries when they were read.
    pub found: &'f [State],
    /// The batch in which they were spilled.
    pub batch: Option<u64>,
    /// The block with their entries.
    pub block: Option<&'static Block>,
    /// Number of forks so far.
    pub forks: u32,
}

/// Progress of placing a run.
pub struct Placing {
    /// The result for the thread that waits.
    pub answer: Placed,
    /// Pages placed so far.
    pub done: usize,
    /// The pages stay protected, and their blobs are kept.
    pub keeps: bool,
}

/// What became of the entries.
pub struct Settled {
    /// Blobs that belong to no entry any more, each with its former owner.
    pub freed: [Option<(Ref, u64)>; RUN],
    /// Pages of zeros.
    pub zeros: i64,
    /// Pages that had been spilled.
    pub fetched: u64,
}

impl Run<'_> {
    /// Whether the entry of a page is unchanged. This method and all that follow are called under the order
    /// lock.
    pub fn is_still(&self, runtime: &Runtime, index: usize) -> bool {
        let page = self.page + index * PAGE;
        let now = self.block.map_or(State::Empty, |block| block.entries[index_in_block(page)].load());
        match (self.found[index], now) {
            (State::Stored(name), State::Pinned(other)) => name == other,
            (State::Zero, State::Zero) => true,
            // The same place in another batch holds another block.
            (State::Spilled(spot), State::Spilled(other)) => {
                let batch = self.batch.is_some() && self.batch == runtime.spill.batches.number(spot.batch);
                spot == other && batch
            }
            _ => false,
        }
    }

    /// Whether other processes of the family share the blob of a page.
    pub fn is_inherited(&self, index: usize) -> bool {
        let at = index_in_block(self.page) + index;
        matches!(self.found[index], State::Stored(_))
            && self.block.is_some_and(|block| block.is_inherited(at, self.forks))
    }

    /// How many of the first `intact` pages are kept clean (see `clean`): those whose blobs are shared with
    /// relatives. `None` if the first is not one of them, or if the mapping cannot be write-protected.
    pub fn kept_clean(&self, runtime: &Runtime, intact: usize) -> Option<usize> {
        // Every page that is protected has a blob.
        let count = (0..intact).take_while(|index| self.is_inherited(*index)).count();
        let end = self.page + count * PAGE;
        let may = count > 0
            && runtime.pages.keep_out.first_in(self.page, end).is_none()
            && !ranges::is_kept_now(self.page, end);
        may.then_some(count)
    }

    /// Empties the entries of the pages that were placed, and removes the pins of the others.
    pub fn settle_entries(&self, runtime: &Runtime, placing: &Placing) -> Settled {
        let mut settled = Settled { freed: [None; RUN], zeros: 0, fetched: 0 };
        let Some(block) = self.block else { return settled };
        let first = index_in_block(self.page);
        for (index, state) in self.found.iter().enumerate() {
            let (entry, is_done) = (&block.entries[first + index], index < placing.done);
            match *state {
                State::Stored(name) if is_done && entry.restore(State::Pinned(name)) => {
                    block.evicted.fetch_sub(1, Relaxed);
                    let page = self.page + index * PAGE;
                    let keeps = placing.keeps && self.is_inherited(index);
                    if !(keeps && runtime.keep_blob(page, block, name)) {
                        settled.freed[index] = Some((name, page_number(page)));
                    }
                }
                State::Zero if is_done && entry.restore(State::Zero) => {
                    block.evicted.fetch_sub(1, Relaxed);
                    settled.zeros += 1;
                }
                State::Spilled(spot) if is_done && entry.restore(State::Spilled(spot)) => {
                    block.evicted.fetch_sub(1, Relaxed);
                    runtime.spill.release_location(spot);
                    settled.fetched += 1;
                }
                State::Stored(name) if !is_done => {
                    entry.unpin(name);
                }
                _ => {}
            }
        }
        settled
    }
}
