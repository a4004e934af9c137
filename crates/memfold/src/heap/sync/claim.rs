//! The right to change a block.
//!
//! Either a block has an **owner** (biased locking): the one session that may change it without the block's lock, while its participant says that it is busy. A
//! session owns the blocks that it makes or brings back. Or the right comes with a **claim**: the block's lock, the block in a frame, and no
//! other owner. Who claims a block of another session takes it over: it names itself the owner, makes the frame's tenancy another one, tells all
//! sessions (`sync/fences.rs`), and waits until the old owner is not busy; what that one does next begins with a look at the tenancy.
//!
//! That takes a microsecond or two. So a block that goes to and fro is **shared**: it has no owner, and
//! every session claims it for each change, to allocate from it too. It has an owner again when it is
//! restored the next time, or when one session has claimed it many times in a row.

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
    /// The right to change a block, which is brought back if need be; an error if there is none of this incarnation.
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

    /// Makes sure that nobody but who has the block's lock changes it, who is `me` or, if 0, no session.
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
