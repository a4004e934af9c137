//! How sessions work on the same blocks without locks on the fast path.
//!
//! Each session is a participant: it shows whether it is at work, and what it has pinned. To take something away from
//! the others (a block's owner, a frame) a thread publishes that first, then issues the heavy half of an asymmetric
//! fence, then looks at the participants.

pub mod claim;
pub mod fences;
pub mod forgotten;
pub mod participants;
