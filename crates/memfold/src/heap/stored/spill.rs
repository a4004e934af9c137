//! Copies of blocks that are spilled to a tier if memory is limited and compression is not enough.
//!
//! ```text
//!   frame ── copies.rs ──> store ── spill_some: what was evicted long ago ──> tier
//!     ^                      │                                                 │
//!     └──────────────────────┴────────────────── decompress ───────────────────┘
//! ```
//!
//! When everything but frames takes more than 3/4 of the limit, a clock hand goes over the blocks' numbers. A
//! block that is faulted in keeps its copy on the tier until it is changed.
//!
//! Invariants: only the holder of the block's lock spills a copy and frees its blob; a block has a copy in
//! one place.

use std::sync::atomic::Ordering::*;

use crate::heap::block::table::{Block, Copy, Residency};
use crate::heap::core::Core;
use crate::heap::error::Error;
use crate::heap::stored::grouping::most_grouped;
use crate::heap::stored::tier::{ReadError, Tier, TierHealth};
use memfold_codec::CodecId;

/// The most blocks that are spilled at once, and the most that are examined for it.
const AT_ONCE: u32 = 16;
const LOOKS: u32 = 1024;
/// Blocks evicted most recently, one in this many of all blocks, are spilled only if no others are found.
const STAYS: u32 = 4;

impl Core {
    /// The state of the tier.
    pub fn tier_health(&self) -> TierHealth {
        self.options.away.0.as_ref().map_or(TierHealth::None, |tier| tier.health())
    }

    /// Frees memory by spilling, if there is a tier and everything but frames takes too much.
    pub fn spill_some(&self) {
        let Some(tier) = &self.options.away.0 else { return };
        let over = if self.options.paranoid { Some(i64::MAX) } else { self.over() };
        let Some(mut over) = over.filter(|over| *over > 0) else { return };
        let now = self.counts.evictions.load(Relaxed) as u32;
        let end = self.spill_end.load(Relaxed);
        let stay = self.counts.blocks.load(Relaxed) / STAYS;
        let (mut done, mut freed) = (0, 0);
        let looks = LOOKS.min(2 * end);
        for look in 0..looks {
            if done == AT_ONCE || over <= 0 {
                break;
            }
            let number = self.spill_at.fetch_add(1, Relaxed) % end.max(1) + 1;
            let Some(block) = self.blocks.get(number) else { continue };
            let is_young = now.wrapping_sub(block.evicted.load(Relaxed)) < stay;
            if is_young && look < looks / 2 {
                continue;
            }
            let Some(_lock) = block.try_lock() else { continue };
            if block.state().residency() != Residency::Absent {
                continue;
            }
            match self.spill(tier.as_ref(), number, block) {
                Some(0) => {}
                Some(bytes) => {
                    done += 1;
                    freed += bytes;
                    over -= bytes as i64;
                }
                // The tier takes nothing now.
                None => break,
            }
        }
        if freed > 0 {
            self.store.store().maintain(&self.blocks, 2 * freed);
        }
    }

    /// Spills a block's copy; the caller holds its lock. Returns the number of bytes freed, 0 if nothing is
    /// spilled. `None` if the tier takes nothing.
    fn spill(&self, tier: &dyn Tier, number: u32, block: &Block) -> Option<usize> {
        let taken = block.with_copy(|copy| {
            let Copy::Stored(copy) = copy else { return Some(None) };
            // SAFETY: the copy is pinned, and freeing it requires the block's lock.
            let Ok((id, payload)) = (unsafe { self.store.get(copy, number.into()) }) else {
                return Some(None);
            };
            // There would be no room to read it back.
            if self.longest_payload(block).is_none_or(|longest| payload.len() > longest) {
                return Some(None);
            }
            let put = tier.put(number.into(), id.map_or(0, |id| id.0), payload)?;
            Some(Some((put, copy, payload.len())))
        });
        // A block that is given up has no copy.
        let Some((put, copy, bytes)) = taken.unwrap_or(Some(None))? else { return Some(0) };
        if block.set_spilled(copy, put) {
            let _ = self.store.store().free(copy, number.into(), &self.blocks);
            Some(bytes)
        } else {
            // The store has moved the blob since it was unpinned.
            tier.free(put);
            Some(0)
        }
    }

    /// Reads a copy from the tier into `room`; returns how it is compressed, and its payload.
    pub fn read_copy<'r>(
        &self,
        block: u32,
        number: u32,
        room: &'r mut [u8],
    ) -> Result<(Option<CodecId>, &'r [u8]), Error> {
        let tier = self.options.away.0.as_ref().ok_or(Error::Damaged)?;
        let (codec, at) = tier.get(block.into(), number, room).map_err(|why| match why {
            ReadError::Lost => Error::Lost,
            ReadError::Away => Error::Away,
        })?;
        Ok(((codec != 0).then_some(CodecId(codec)), room.get(at).ok_or(Error::Damaged)?))
    }

    /// Bytes of room needed to read a block's copy.
    pub fn copy_buffer_len(&self, block: u32) -> Result<usize, Error> {
        let block = self.blocks.get(block).ok_or(Error::Damaged)?;
        let longest = self.longest_payload(block).ok_or(Error::Damaged)?;
        Ok(longest + self.options.away.0.as_ref().map_or(0, |tier| tier.overhead()))
    }

    /// Bytes of the longest payload that a block can have.
    fn longest_payload(&self, block: &Block) -> Option<usize> {
        let (shape, len) = self.stored_len(block).ok()?;
        Some(most_grouped(shape, len))
    }
}
