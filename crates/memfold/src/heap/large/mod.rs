//! Nodes longer than a block.
//!
//! ```text
//!   Handle ──> Large: len, parts ──> [ node ] [ node ] none [ node ]      none: all zero
//!                       whole, while a guard lives: all parts in one piece
//! ```
//!
//! A large node is kept in parts, which are nodes like others, each about as long as a block or the longest node. So reading and writing a piece of it brings
//! only the blocks of that piece, and a part that was never written takes no room. Whoever wants all of it in one piece, by a pin or a guard
//! to write, gets a copy of the parts, which is the node from then on: what was changed goes back into the parts when the last guard
//! is dropped. If it can't, because there is no memory, the copy stays what the node is, and the next one tries again.
//!
//! Numbers of blocks from [`FIRST`] on are those of large nodes:
//!
//! ```text
//!   63..48 generation │ 47..16 block: FIRST + index / 65536 │ 15..0 index % 65536
//! ```

mod hold;
mod nodes;
mod table;

use std::alloc::{Layout, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::vec::Vec;

use super::core::{Core, locked};
use super::error::Error;
use crate::heap::alloc::free::PATIENCE;
use crate::heap::block::handle::Handle;
use crate::heap::residency::frames::pause;
pub use hold::Held;
pub use table::Table;

/// No block has this number or a higher one.
pub const FIRST: u32 = 0xffff_0000;

/// All of a node in one piece.
struct Whole {
    bytes: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory that is reached under the node's lock, or by a guard whose user takes care.
unsafe impl Send for Whole {}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: made with this layout.
        unsafe { dealloc(self.bytes.as_ptr(), self.layout) };
    }
}

/// What a large node is; under its lock.
#[derive(Default)]
struct State {
    len: usize,
    parts: Vec<Option<Handle>>,
    whole: Option<Whole>,
    /// `whole` holds what the parts don't.
    changed: bool,
    /// Guards that use `whole`, and whether one of them writes.
    guards: u32,
    writing: bool,
    freed: bool,
}

/// See the module.
pub struct Large(Mutex<State>);

/// What large nodes come to.
#[derive(Default)]
pub struct Counts {
    pub nodes: u64,
    pub bytes: u64,
    /// Their parts, which are nodes too, and the bytes of those.
    pub parts: u64,
    pub part_bytes: u64,
    /// Memory beside the parts.
    pub memory: u64,
}

impl State {
    /// Which bytes the part of this number has.
    fn span(&self, number: usize, part: usize) -> Range<usize> {
        (number * part).min(self.len)..(number * part + part).min(self.len)
    }

    /// Takes out the parts from this number on: their handles and bytes.
    fn take_parts(&mut self, from: usize, part: usize) -> Vec<(Handle, usize)> {
        let of = |number: usize| Some((self.parts[number]?, self.span(number, part).len()));
        let taken = (from..self.parts.len()).filter_map(of).collect();
        self.parts.truncate(from);
        taken
    }

    /// What is in `whole`, if it is there.
    fn whole(&self, range: Range<usize>) -> Option<NonNull<u8>> {
        debug_assert!(range.end <= self.len);
        // SAFETY: within the memory, which is as long as the node.
        self.whole.as_ref().map(|whole| unsafe { whole.bytes.add(range.start) })
    }
}

impl Core {
    /// Whether a handle is that of a large node.
    #[inline]
    pub fn is_large(handle: Handle) -> bool {
        handle.block() >= FIRST
    }

    /// Bytes of each part but the last.
    pub fn part(&self) -> usize {
        (self.shape.longest() & !7).max(1)
    }

    fn large(&self, handle: Handle) -> Result<Arc<Large>, Error> {
        let mut table = locked(&self.large);
        table.entry(handle).and_then(|(_, entry)| entry.node.clone()).ok_or(Error::Stale)
    }
}

impl Core {
    /// Counts of all large nodes, one after the other.
    pub fn large_counts(&self) -> Counts {
        let (all, mut counts) = {
            let table = locked(&self.large);
            let (parts, part_bytes) =
                (table.waiting.len(), table.waiting.iter().map(|part| part.1).sum::<usize>());
            let (parts, part_bytes) = (parts as u64, part_bytes as u64);
            (table.all(), Counts { parts, part_bytes, memory: table.bytes(), ..Counts::default() })
        };
        counts.nodes = all.len() as u64;
        for large in all {
            let state = locked(&large.0);
            let parts = (0..state.parts.len()).filter(|&number| state.parts[number].is_some());
            for number in parts {
                counts.parts += 1;
                counts.part_bytes += state.span(number, self.part()).len() as u64;
            }
            let whole = state.whole.as_ref().map_or(0, |whole| whole.layout.size());
            counts.bytes += state.len as u64;
            counts.memory +=
                (state.parts.capacity() * size_of::<Option<Handle>>() + whole + size_of::<Large>()) as u64;
        }
        counts
    }
}

impl Large {
    /// There are no guards, whatever was forgotten.
    pub fn let_go(&self) {
        let mut state = locked(&self.0);
        (state.guards, state.writing) = (0, false);
        if !state.changed {
            state.whole = None;
        }
    }

    /// The node, while no guard writes it.
    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.lock_within(PATIENCE)
    }

    /// The same, after so many turns of waiting at most.
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

/// An error that a part caused, as one of the node: a part that is gone or has another length is not what the node's handle stands for.
pub fn of_part(error: Error) -> Error {
    match error {
        Error::Stale | Error::Mismatch { .. } => Error::Damaged,
        error => error,
    }
}
