//! Nodes that nothing leads to any more, and that could not be freed at once.
//!
//! To free a node may fail: a guard holds the same stripe, all frames are pinned, there is no memory to bring its
//! block back, or the tier does not answer. Whoever frees a part of a long node that is gone, a node that was
//! made for an operation that then failed, or what an operation put something else in place of, has nobody to
//! tell: the node is garbage, not a leak. It waits then, is counted no more, and is tried again without waiting
//! for anybody: one node each time that a block is made, all of them when a session ends and before the heap is
//! saved. A node that stays all the same, because its block can't be read, is saved and checked as what it is: a
//! node that nothing leads to.
//!
//! There is room for some dozens of them from the first session on, since a node may have to wait because memory
//! is refused. If that is still so when all of this is taken, what comes on top of it stays in the heap.

use std::vec::Vec;

use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::core::{Core, locked};
use crate::heap::error::Error;
use crate::heap::large::of_part;
use crate::heap::stored::tier::TierHealth;

/// Nodes for which there is room before they come.
const ROOM: usize = 64;

/// Whether what kept a node from being freed may go by. A block may be read the next time, too, where a codec of
/// the program's own failed.
fn may_go_by(error: Error) -> bool {
    use Error::{Away, Busy, Damaged, Limit, OutOfMemory, Pinned};
    matches!(error, Busy | Pinned | Limit | OutOfMemory | Away | Damaged)
}

impl Core {
    /// Makes room for nodes that will have to wait; false if there is no memory.
    pub fn make_waiting_room(&self) -> bool {
        locked(&self.large).waiting.try_reserve(ROOM).is_ok()
    }

    /// A node waits that has so many bytes, as far as that is known.
    fn wait(&self, node: Handle, bytes: usize) {
        let waiting = &mut locked(&self.large).waiting;
        if waiting.len() < waiting.capacity() || waiting.try_reserve(1).is_ok() {
            waiting.push_back((node, bytes));
        }
        // For the next ones. If there is no memory now there may be then.
        let _ = waiting.try_reserve(ROOM);
    }

    /// Tries the node that has waited longest. While the tier does not answer that would only hold up who makes a
    /// block.
    pub fn free_one_waiting(&self, me: u16) {
        if self.tier_health() == TierHealth::Away {
            return;
        }
        let next = locked(&self.large).waiting.pop_front();
        let Some((node, bytes)) = next else { return };
        // For a long one it takes a session.
        if Core::is_large(node) || self.free_within(me, node, 0).is_err_and(may_go_by) {
            self.wait(node, bytes);
        }
    }
}

impl Session<'_> {
    /// Frees a node that nothing leads to any more, now or later. It must not be freed again, whatever the
    /// result, which is why it waits if it does.
    pub(crate) fn free_or_wait(&self, node: Handle) -> Result<(), Error> {
        let freed = self.free(node);
        if freed.is_err_and(may_go_by) {
            // Not to wait for the tier once more.
            let is_away = freed == Err(Error::Away) && !Core::is_large(node);
            let bytes = if is_away { 0 } else { self.size(node).unwrap_or(0) };
            self.core().wait(node, bytes);
        }
        freed
    }

    /// The same, for who can do nothing about it.
    pub(crate) fn discard(&self, node: Handle) {
        let _ = self.free_or_wait(node);
    }

    /// Frees parts, given with their bytes, of a node that is gone or got shorter, and what waits. None has to be
    /// freed again, whatever the result.
    pub(crate) fn free_parts(&self, parts: Vec<(Handle, usize)>) -> Result<(), Error> {
        self.free_waiting();
        let (mut result, mut is_away) = (Ok(()), false);
        for (part, bytes) in parts {
            // One is enough to wait for a tier that does not answer.
            let freed = if is_away { Err(Error::Away) } else { self.free(part) };
            is_away |= freed == Err(Error::Away);
            match freed {
                // Of a part that is damaged its node's owner is told.
                Err(error) if error != Error::Damaged && may_go_by(error) => self.core().wait(part, bytes),
                freed => result = result.and(freed.map_err(of_part)),
            }
        }
        result
    }

    /// Tries all nodes that wait.
    pub(crate) fn free_waiting(&self) {
        let (core, me) = (self.core(), self.access().me);
        let count = locked(&core.large).waiting.len();
        for _ in 0..count {
            let next = locked(&core.large).waiting.pop_front();
            let Some((node, bytes)) = next else { return };
            let freed = match core.plain() {
                Some(plain) => plain.free(node),
                None if Core::is_large(node) => self.free_large_within(node, 0),
                None => core.free_within(me, node, 0),
            };
            if freed.is_err_and(may_go_by) {
                core.wait(node, bytes);
            }
            // One is enough to wait for a tier that does not answer.
            if freed == Err(Error::Away) {
                return;
            }
        }
    }
}
