//! The right to change a block.
//!
//! Either a block has an **owner** (biased locking): the one session that may change it without the block's
//! lock, while its participant says that it is busy. A session owns the blocks that it makes or faults in. Or
//! the right comes with a **claim**: the block's lock, the block in a frame, and no other owner. A session
//! that claims another's block revokes the ownership: it makes itself the owner, changes the frame's tenancy,
//! issues a heavy fence (`sync/fences.rs`), and waits until the old owner is not busy. The next thing that
//! the old owner does with the block begins with a check of the tenancy.
//!
//! A revocation takes a microsecond or two. So a block that several sessions change in turn is **shared**: it
//! has no owner, and every session claims it for each change, including allocation. It gets an owner again
//! when it is next faulted in, or when one session has claimed it many times in a row.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::*;

use crate::heap::block::table::{Block, Residency};
use crate::heap::core::Core;
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;

/// See the module.
pub struct Claim<'c> {
    pub number: u32,
    pub block: &'c Block,
    pub frame: &'c Frame,
    /// The frame's number.
    pub at: u32,
    pub lock: MutexGuard<'c, ()>,
}

impl Core {
    /// Claims the right to change a block and faults it in if necessary; an error if there is no block of
    /// this incarnation.
    pub fn claim(&self, me: u16, number: u32, incarnation: u8) -> Result<Claim<'_>, Error> {
        let block = self.blocks.get(number).ok_or(Error::Stale)?;
        let lock = block.lock();
        if block.state().residency() == Residency::Vacant || block.incarnation.load(Relaxed) != incarnation {
            return Err(Error::Stale);
        }
        let (at, frame) = self.resident(me, number, block)?;
        self.take_over(me, frame);
        Ok(Claim { number, block, frame, at, lock })
    }

    /// Makes sure that only the caller changes the block. The caller holds its lock; `me` is its session, or
    /// 0 for none.
    pub fn take_over(&self, me: u16, frame: &Frame) {
        let owner = frame.owner.load(Relaxed);
        if owner == me {
            return;
        }
        let next = if owner == 0 { frame.note_claim(me) } else { frame.note_owner(me) };
        if owner == next {
            return;
        }
        frame.owner.store(next, Relaxed);
        frame.change();
        if owner != 0 {
            self.participants.heavy_fence(me.into());
            self.participants.wait_for(owner.into());
        }
    }
}
