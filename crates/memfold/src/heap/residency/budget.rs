//! How many frames a heap may have.
//!
//! With [`Limit::Share`] that follows what is used. The least is one frame for [`SHARE`] blocks. When a block is brought back that has not been away for long,
//! there is one more from then on, up to one for [`MOST_SHARE`] blocks: a program that goes to and fro in a part of its nodes
//! soon has all of that part. For each block that is new, or was away for longer, there are two less: who makes nodes or
//! walks over all of them doesn't need more for that.

use std::sync::atomic::Ordering::*;

use crate::heap::block::table::Block;
use crate::heap::core::Core;
use crate::heap::error::{BadOption, Error};
use crate::heap::options::Limit;

/// With [`Limit::Share`], one block in so many is resident at least,
pub const SHARE: u32 = 64;
/// but so many of them;
pub const LEAST_RESIDENT: u32 = 8;
/// and one in so many at most,
pub const MOST_SHARE: u32 = 8;
/// or so many.
pub const MOST_RESIDENT: u32 = 128;
/// A block has been away for long if so many times the most frames were evicted meanwhile. With accesses at random to that many blocks, most
/// are back before.
const LONG: u32 = 4;

/// This part more than are allowed are kept.
const KEPT: u32 = 8;
/// Frames are kept for so many more blocks than there are: this part.
const SPARE: u32 = 128;

/// Where there is a tier, everything but frames takes up to this part of [`Limit::Bytes`], in quarters,
const BESIDE: u64 = 3;
/// and leaves so many frames: more than a further block needs.
const LEFT_FRAMES: u32 = 3 * LEAST_FRAMES;

/// A paranoid heap has so many frames.
const PARANOID_FRAMES: u32 = 3;
/// With [`Limit::Bytes`], so many frames are there in any case: what is there has to stay readable.
const LEAST_FRAMES: u32 = 4;
/// And so many bytes are left for what tables and the store take at a time when they grow.
const LIMIT_SLACK: u64 = 128 << 10;

impl Core {
    pub fn limit(&self) -> Limit {
        Limit::from_bits(self.limit.load(Relaxed))
    }

    /// Frames follow as blocks come.
    pub fn set_limit(&self, limit: Limit) -> Result<(), BadOption> {
        limit.check(self.options.block_size)?;
        self.limit.store(limit.to_bits(), Relaxed);
        self.headroom.forget();
        Ok(())
    }

    /// How many frames there may be.
    pub fn frames_allowed(&self) -> u32 {
        if self.options.paranoid {
            return PARANOID_FRAMES;
        }
        match self.limit() {
            Limit::Free | Limit::All => self.frames_of_free(),
            Limit::Share => self.least_resident() + self.counts.more_frames.load(Relaxed),
            Limit::Blocks(blocks) => blocks,
            Limit::Bytes(bytes) => self.frames_within(bytes).max(LEAST_FRAMES),
        }
    }

    /// How many frames may stay when no more than `allowed` may be made: with [`Limit::Share`] that goes to and fro, and to give memory back and get it
    /// again costs as much as a decompression. Of frames for which there are no blocks, a few.
    pub fn frames_kept(&self, allowed: u32) -> u32 {
        let blocks = self.counts.blocks.load(Relaxed);
        match self.limit() {
            Limit::Share if !self.options.paranoid => allowed + allowed / KEPT,
            _ => allowed.min(blocks + blocks / SPARE + LEAST_RESIDENT),
        }
    }

    fn least_resident(&self) -> u32 {
        (self.counts.blocks.load(Relaxed) / SHARE).max(LEAST_RESIDENT)
    }

    /// How many frames there may be more than the least.
    fn most_more(&self) -> u32 {
        (self.counts.blocks.load(Relaxed) / MOST_SHARE).max(MOST_RESIDENT) - self.least_resident()
    }

    /// A block is evicted; `was_compressed` says whether it had to be compressed for that. A compression is counted
    /// after its eviction, so a reader that loads compressions first never sees more of them.
    pub fn note_evicted(&self, block: &Block, was_compressed: bool) {
        let evictions = self.counts.evictions.fetch_add(1, Relaxed) as u32;
        self.counts.compressions.fetch_add(u64::from(was_compressed), Release);
        block.evicted.store(evictions, Relaxed);
    }

    /// A block comes into a frame: a new one, or one that was evicted before.
    pub fn note_came(&self, evicted: Option<&Block>) {
        if self.limit() != Limit::Share {
            return;
        }
        let most = self.most_more();
        let away = evicted.map(|block| {
            let now = self.counts.evictions.load(Relaxed) as u32;
            now.wrapping_sub(block.evicted.load(Relaxed))
        });
        // What another thread does at the same time may be lost.
        let more = self.counts.more_frames.load(Relaxed);
        let next = match away {
            Some(away) if away <= most * LONG => (more + 1).min(most),
            _ => more.saturating_sub(2),
        };
        self.counts.more_frames.store(next, Relaxed);
    }

    /// How many frames there is room for beside everything else, what the first compression takes included.
    fn frames_within(&self, bytes: u64) -> u32 {
        let left = bytes.saturating_sub(self.bytes_without_frames() + self.first_work() + LIMIT_SLACK);
        self.frames.within(left)
    }

    /// Bytes that the first compression will take, if there was none yet.
    fn first_work(&self) -> u64 {
        (self.work_len() as u64).saturating_sub(self.counts.work_bytes.load(Relaxed))
    }

    /// Bytes by which everything but frames is more than it should be where there is a tier. `None` with other limits.
    pub fn over(&self) -> Option<i64> {
        let Limit::Bytes(bytes) = self.limit() else { return None };
        let frames = u64::from(LEFT_FRAMES) * self.frames.most_bytes() as u64;
        let left = bytes.saturating_sub(frames + self.first_work() + LIMIT_SLACK);
        Some(self.bytes_without_frames() as i64 - left.min(bytes / 4 * BESIDE) as i64)
    }

    /// An error if there may be no further block: those that are resident still have to be compressed.
    pub fn may_grow(&self) -> Result<(), Error> {
        match self.limit() {
            Limit::Bytes(bytes) if self.frames_within(bytes) < 2 * LEAST_FRAMES => Err(Error::Limit),
            Limit::Free | Limit::All => self.is_free(),
            _ => Ok(()),
        }
    }

    /// The least [`Limit::Bytes`] with which there may be a further block.
    pub fn least_bytes(&self) -> u64 {
        let (mut refused, mut least) = (0, u64::MAX >> 1);
        while least - refused > 1 {
            let bytes = refused + (least - refused) / 2;
            let is_enough = self.frames_within(bytes) >= 2 * LEAST_FRAMES;
            *(if is_enough { &mut least } else { &mut refused }) = bytes;
        }
        least
    }

    /// Bytes of everything but frames.
    pub fn bytes_without_frames(&self) -> u64 {
        self.bytes_without_store() + self.store.store().stats().resident_bytes
    }

    /// The same without the store, whose own figures may be another moment's.
    pub fn bytes_without_store(&self) -> u64 {
        self.blocks.bytes()
            + self.nodes_noted.bytes()
            + self.participants.bytes()
            + self.counts.room_bytes.load(Relaxed)
            + self.counts.work_bytes.load(Relaxed)
            + self.options.away.0.as_ref().map_or(0, |tier| tier.memory_bytes())
    }
}
