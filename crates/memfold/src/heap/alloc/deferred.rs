//! Unreachable nodes that could not be freed at once.
//!
//! Freeing a node may fail: a guard holds the same stripe, all frames are pinned, there is no memory to fault
//! its block in, or the tier does not answer. Sometimes there is no caller to report that to: for a part of a
//! long node that is gone, for a node made by an operation that then failed, or for a node that an operation
//! replaced. Such a node is garbage, not a leak. It waits and is no longer counted. Freeing it is retried
//! without waiting for guards: one node each time that a block is made, all of them when a session ends and
//! before the heap is saved. A node that still stays, because its block can't be read, is saved and checked
//! as a node that nothing refers to.
//!
//! From the first session on there is room for some dozens of such nodes, since the reason to wait may be a
//! lack of memory. If memory is still refused when that room is used up, further nodes stay in the heap.

use std::vec::Vec;

use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::core::Core;
use crate::heap::error::Error;
use crate::heap::large::of_part;
use crate::heap::stored::tier::TierHealth;
use crate::heap::sync::locked;

/// Nodes for which there is room in advance.
const ROOM: usize = 64;

/// Whether the reason why a node was not freed may be temporary. A damaged block, too, may be readable next
/// time, if a user-supplied codec failed.
fn may_go_by(error: Error) -> bool {
    use Error::{Away, Busy, Damaged, Limit, OutOfMemory, Pinned};
    matches!(error, Busy | Pinned | Limit | OutOfMemory | Away | Damaged)
}

impl Core {
    /// Makes room for nodes that will wait; false if there is no memory.
    pub fn reserve_deferred(&self) -> bool {
        locked(&self.large).waiting.try_reserve(ROOM).is_ok()
    }

    /// Makes a node wait; `bytes` is its length, as far as known.
    fn wait(&self, node: Handle, bytes: usize) {
        let waiting = &mut locked(&self.large).waiting;
        if waiting.len() < waiting.capacity() || waiting.try_reserve(1).is_ok() {
            waiting.push_back((node, bytes));
        }
        // Room for the next nodes. If there is no memory now, there may be some later.
        let _ = waiting.try_reserve(ROOM);
    }

    /// Retries the node that has waited longest. Not while the tier does not answer: that would only delay
    /// the thread that makes a block.
    pub fn free_one_waiting(&self, me: u16) {
        if self.tier_health() == TierHealth::Away {
            return;
        }
        let next = locked(&self.large).waiting.pop_front();
        let Some((node, bytes)) = next else { return };
        // Freeing a long node requires a session.
        if Core::is_large(node) || self.free_within(me, node, 0).is_err_and(may_go_by) {
            self.wait(node, bytes);
        }
    }
}

impl Session<'_> {
    /// Frees an unreachable node, now or later. Whatever the result, it must not be freed again: if it could
    /// not be freed, it waits.
    pub(crate) fn free_or_defer(&self, node: Handle) -> Result<(), Error> {
        let freed = self.free(node);
        if freed.is_err_and(may_go_by) {
            // Don't wait for the tier a second time.
            let is_away = freed == Err(Error::Away) && !Core::is_large(node);
            let bytes = if is_away { 0 } else { self.size(node).unwrap_or(0) };
            self.core().wait(node, bytes);
        }
        freed
    }

    /// As `free_or_defer`, for callers that can't handle an error.
    pub(crate) fn discard(&self, node: Handle) {
        let _ = self.free_or_defer(node);
    }

    /// Frees parts, given with their bytes, of a node that is gone or got shorter, and nodes that wait.
    /// Whatever the result, none may be freed again.
    pub(crate) fn free_parts(&self, parts: Vec<(Handle, usize)>) -> Result<(), Error> {
        self.free_waiting();
        let (mut result, mut is_away) = (Ok(()), false);
        for (part, bytes) in parts {
            // Wait only once for a tier that does not answer.
            let freed = if is_away { Err(Error::Away) } else { self.free(part) };
            is_away |= freed == Err(Error::Away);
            match freed {
                // The node's owner is told of a damaged part.
                Err(error) if error != Error::Damaged && may_go_by(error) => self.core().wait(part, bytes),
                freed => result = result.and(freed.map_err(of_part)),
            }
        }
        result
    }

    /// Retries all nodes that wait.
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
            // Wait only once for a tier that does not answer.
            if freed == Err(Error::Away) {
                return;
            }
        }
    }
}
