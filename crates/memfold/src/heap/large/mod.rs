//! Nodes longer than a block.
//!
//! ```text
//!   Handle ──> Large: len, parts ──> [ node ] [ node ] none [ node ]      none: all zero
//!                       whole, while a guard lives: all parts in one piece
//! ```
//!
//! A large node consists of parts, which are ordinary nodes, each about as long as a block or the longest
//! node. So reading or writing a piece of it faults in only the blocks of that piece, and a part that was
//! never written takes no memory. A pin, or a guard to write, needs the node in one piece. It gets a copy of
//! the parts, which is the node from then on. When the last guard is dropped, changes are written back to the
//! parts. If that fails for lack of memory, the copy remains the node, and dropping the next guard tries
//! again.
//!
//! Numbers of blocks from [`FIRST_LARGE`] on are those of large nodes:
//!
//! ```text
//!   63..48 generation │ 47..16 block: FIRST_LARGE + index / 65536 │ 15..0 index % 65536
//! ```

pub mod hold;
mod nodes;
pub mod table;

use std::alloc::{Layout, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

#[cfg(doc)]
use crate::heap::block::handle::FIRST_LARGE;
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;
use crate::heap::residency::frames::{PATIENCE, pause};
use crate::heap::sync::locked;

/// All of a node in one piece.
struct Whole {
    bytes: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is reached only under the node's lock, or by a guard whose user takes care.
unsafe impl Send for Whole {}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: made with this layout.
        unsafe { dealloc(self.bytes.as_ptr(), self.layout) };
    }
}

/// The state of a large node, under its lock.
#[derive(Default)]
struct State {
    len: usize,
    parts: Vec<Option<Handle>>,
    whole: Option<Whole>,
    /// `whole` holds changes that the parts don't.
    changed: bool,
    /// Guards that use `whole`, and whether one of them writes.
    guards: u32,
    writing: bool,
    freed: bool,
}

/// See the module.
pub struct Large(Mutex<State>);

/// Statistics of large nodes.
#[derive(Default)]
pub struct Counts {
    pub nodes: u64,
    pub bytes: u64,
    /// Their parts, which are nodes too, and the bytes of those.
    pub parts: u64,
    pub part_bytes: u64,
    /// Memory apart from the parts.
    pub memory: u64,
}

impl State {
    /// The bytes of the node that the part of this number holds.
    fn span(&self, number: usize, part: usize) -> Range<usize> {
        (number * part).min(self.len)..(number * part + part).min(self.len)
    }

    /// Removes the parts from this number on, and returns the handle and the bytes of each.
    fn take_parts(&mut self, from: usize, part: usize) -> Vec<(Handle, usize)> {
        let of = |number: usize| Some((self.parts[number]?, self.span(number, part).len()));
        let taken = (from..self.parts.len()).filter_map(of).collect();
        self.parts.truncate(from);
        taken
    }

    /// The bytes `range` of `whole`, if there is one.
    fn whole(&self, range: Range<usize>) -> Option<NonNull<u8>> {
        debug_assert!(range.end <= self.len);
        // SAFETY: within the memory, which is as long as the node.
        self.whole.as_ref().map(|whole| unsafe { whole.bytes.add(range.start) })
    }
}

impl Large {
    /// Clears the guards: the caller knows that none lives, even if some were forgotten.
    pub fn let_go(&self) {
        let mut state = locked(&self.0);
        (state.guards, state.writing) = (0, false);
        if !state.changed {
            state.whole = None;
        }
    }

    /// Locks the node; waits until no guard writes it.
    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.lock_within(PATIENCE)
    }

    /// The same, but gives up after `patience` turns of waiting.
    fn lock_within(&self, patience: u32) -> Result<MutexGuard<'_, State>, Error> {
        let mut turn = 0;
        loop {
            let state = locked(&self.0);
            if state.freed {
                return Err(Error::Stale);
            }
            if !state.writing {
                return Ok(state);
            }
            drop(state);
            if turn >= patience {
                return Err(Error::Busy);
            }
            pause(&mut turn);
        }
    }
}

/// Turns an error of a part into one of the node: if a part is missing or has another length, the node is not
/// what its handle stands for.
pub fn of_part(error: Error) -> Error {
    match error {
        Error::Stale | Error::Mismatch { .. } => Error::Damaged,
        error => error,
    }
}
