//! How many frames a heap may have.
//!
//! With [`Limit::Share`], the number follows use. The minimum is one frame for [`SHARE`] blocks. Each block
//! that is faulted in soon after its eviction raises the number by one, up to one for [`MOST_SHARE`] blocks:
//! a program that keeps using one part of its nodes soon has all of that part resident. Each block that is
//! new, or was evicted long ago, lowers it by two: making nodes, or walking over all of them, doesn't need
//! more frames. [`Limit::Free`] has as many frames as fit into half of the free memory, and is raised and
//! lowered in the same way above that.

use std::sync::atomic::Ordering::*;

use crate::heap::block::table::Block;
use crate::heap::core::Core;
use crate::heap::error::{BadOption, Error};
use crate::heap::options::Limit;
use crate::heap::residency::pledge::Pledge;

/// With [`Limit::Share`], at least one block in this many is resident,
pub const SHARE: u32 = 64;
/// but no fewer than this;
pub const LEAST_RESIDENT: u32 = 8;
/// and at most one in this many,
pub const MOST_SHARE: u32 = 8;
/// or this many.
pub const MOST_RESIDENT: u32 = 128;
/// A block counts as evicted long ago if more evictions have followed than this many times the most extra
/// frames. With random accesses to that many blocks, most are faulted in before that.
const LONG: u32 = 4;

/// With [`Limit::Share`] and [`Limit::Free`], the frames that stay may exceed the allowed number by one in
/// this many.
const KEPT: u32 = 8;
/// With other limits, frames may stay for the existing blocks and one more in this many.
const SPARE: u32 = 128;

/// With a tier, everything but frames may take up to this many quarters of [`Limit::Bytes`],
const BESIDE: u64 = 3;
/// but leaves room for this many frames: more than a further block needs.
const LEFT_FRAMES: u32 = 3 * LEAST_FRAMES;

/// The number of frames of a paranoid heap.
const PARANOID_FRAMES: u32 = 3;
/// With [`Limit::Bytes`], at least this many frames are allowed: existing nodes have to stay readable.
const LEAST_FRAMES: u32 = 4;
/// If there are several sessions, frames for these are left too, up to this part of the limit.
const FOR_OTHERS: u64 = 16;
/// With [`Limit::Bytes`], this many bytes are left for the growth of tables and of the store, which grow in
/// steps.
const LIMIT_SLACK: u64 = 128 << 10;

impl Core {
    pub fn limit(&self) -> Limit {
        Limit::from_bits(self.limit.load(Relaxed))
    }

    /// Sets the limit; the number of frames follows as blocks are faulted in.
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
            Limit::Share => self.least_resident() + self.counts.extra_frames.load(Relaxed),
            Limit::Blocks(blocks) => blocks,
            Limit::Bytes(bytes) => self.frames_within(bytes).max(LEAST_FRAMES),
        }
    }

    /// How many frames may keep their memory when no more than `allowed` may be made. If the allowed number
    /// follows use, it goes up and down, so some more may stay: returning memory and getting it again costs
    /// as much as a decompression. With other limits, only a few may stay for which there are no blocks.
    pub fn frames_retained(&self, allowed: u32) -> u32 {
        let blocks = self.counts.blocks.load(Relaxed);
        let used = blocks + blocks / SPARE + LEAST_RESIDENT;
        match self.limit() {
            Limit::Share if !self.options.paranoid => allowed + allowed / KEPT,
            Limit::Free if !self.options.paranoid => {
                (allowed + allowed / KEPT).min(self.most_frames_of_free()).min(used)
            }
            _ => allowed.min(used),
        }
    }

    fn least_resident(&self) -> u32 {
        (self.counts.blocks.load(Relaxed) / SHARE).max(LEAST_RESIDENT)
    }

    /// The most frames beyond the minimum.
    fn max_extra(&self) -> u32 {
        (self.counts.blocks.load(Relaxed) / MOST_SHARE).max(MOST_RESIDENT) - self.least_resident()
    }

    /// Counts an eviction; `was_compressed` says whether the block had to be compressed for it. A compression
    /// is counted after its eviction, so a reader that loads compressions first never sees more of them.
    pub fn note_evicted(&self, block: &Block, was_compressed: bool) {
        let evictions = self.counts.evictions.fetch_add(1, Relaxed) as u32;
        self.counts.compressions.fetch_add(u64::from(was_compressed), Release);
        block.evicted.store(evictions, Relaxed);
    }

    /// Counts a block that gets a frame: a new one, or one that was evicted before.
    pub fn note_fault(&self, evicted: Option<&Block>) {
        let most = match self.limit() {
            Limit::Share => self.max_extra(),
            Limit::Free => self.headroom.more.load(Relaxed),
            _ => return,
        };
        let away = evicted.map(|block| {
            let now = self.counts.evictions.load(Relaxed) as u32;
            now.wrapping_sub(block.evicted.load(Relaxed))
        });
        // A concurrent update by another thread may be lost.
        let more = self.counts.extra_frames.load(Relaxed);
        let next = match away {
            Some(away) if away <= most.saturating_mul(LONG) => (more + 1).min(most),
            _ => more.saturating_sub(2),
        };
        if next != more {
            self.counts.extra_frames.store(next, Relaxed);
        }
    }

    /// How many frames fit beside everything else, including the tables of the first session and block, and the
    /// buffers of the first compression.
    fn frames_within(&self, bytes: u64) -> u32 {
        self.frames_beside(bytes, 0)
    }

    /// The same beside `pledged` more bytes.
    fn frames_beside(&self, bytes: u64, pledged: u64) -> u32 {
        let first = self.first_work() + self.participants.first_bytes() + self.blocks.first_bytes();
        let others = self.bytes_without_frames() + first + LIMIT_SLACK + pledged;
        self.frames.within(bytes.saturating_sub(others))
    }

    /// Bytes that the first compression will take, if there was none yet.
    fn first_work(&self) -> u64 {
        (self.work_len() as u64).saturating_sub(self.counts.work_bytes.load(Relaxed))
    }

    /// For heaps with a tier: the bytes by which everything but frames exceeds its part of [`Limit::Bytes`].
    /// `None` with other limits.
    pub fn over(&self) -> Option<i64> {
        let Limit::Bytes(bytes) = self.limit() else { return None };
        let frames = u64::from(LEFT_FRAMES) * self.frames.most_bytes() as u64;
        let left = bytes.saturating_sub(frames + self.first_work() + LIMIT_SLACK);
        Some(self.bytes_without_frames() as i64 - left.min(bytes / 4 * BESIDE) as i64)
    }

    /// Pledges memory for a further block. An error if none is allowed, because the memory left is needed to
    /// compress the resident ones.
    pub fn may_grow(&self) -> Result<Pledge<'_>, Error> {
        let pledge = self.pledge_block();
        if self.limit().follows_free() {
            self.is_free()?;
        } else if !self.allows(self.pledged()) {
            return Err(Error::Limit);
        }
        Ok(pledge)
    }

    /// Whether a further block would be allowed if nobody else had pledged anything.
    pub fn may_grow_alone(&self) -> bool {
        self.allows(self.bytes_per_block())
    }

    /// Whether a further block is allowed, with `pledged` bytes for it and for others. The frames that must be
    /// left include its own.
    pub fn allows(&self, pledged: u64) -> bool {
        match self.limit() {
            Limit::Bytes(bytes) => {
                let others = pledged.saturating_sub(self.bytes_per_block());
                self.frames_beside(bytes, others) >= 2 * LEAST_FRAMES + self.frames_of_others(bytes)
            }
            Limit::Free | Limit::All => self.has_room(pledged),
            _ => true,
        }
    }

    /// With [`Limit::Bytes`], the frames that are left for several sessions: each may be filling one while it
    /// evicts another.
    fn frames_of_others(&self, bytes: u64) -> u32 {
        let most = bytes / FOR_OTHERS / self.frames.most_bytes() as u64;
        u64::from(2 * self.participants.others()).min(most) as u32
    }

    /// Whether `bytes` more fit.
    pub fn has_left(&self, bytes: u64) -> bool {
        match self.limit() {
            Limit::Bytes(limit) => self.frames_beside(limit, self.pledged() + bytes) >= 2 * LEAST_FRAMES,
            Limit::Free | Limit::All => self.bytes_left(self.pledged()) >= bytes,
            _ => true,
        }
    }

    /// The lowest [`Limit::Bytes`] with which a further block is allowed.
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

    /// Bytes of everything but frames and the store, whose figures may be of another moment.
    pub fn bytes_without_store(&self) -> u64 {
        self.blocks.bytes()
            + self.nodes_noted.bytes()
            + self.participants.bytes()
            + self.counts.room_bytes.load(Relaxed)
            + self.counts.work_bytes.load(Relaxed)
            + self.options.away.0.as_ref().map_or(0, |tier| tier.memory_bytes())
    }
}
