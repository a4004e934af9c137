//! Blocks that the tier has lost, and how their nodes can still be freed.
//!
//! ```text
//!   spilled ── the tier reports it lost ──> lost: asked for again each time
//!                                             │
//!                              a node of it is freed ──> given up ── the last one is freed ──> vacant
//! ```
//!
//! It is no longer known which nodes a lost block had, only how many. So any freed handle of the block counts
//! as one of them, once for each place. Once the first is freed, the block is **given up**: absent and
//! without a copy. It is not restored even if the tier finds it again.
//!
//! Invariants: a block that is absent and has no copy is given up and in the table; every block in the table
//! is such a block.

use std::fmt;
use std::sync::atomic::Ordering::*;
use std::vec::Vec;

use crate::heap::Heap;
use crate::heap::block::handle::{Handle, Parts};
use crate::heap::block::table::{Block, Copy, Residency, add, subtract};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::sync::locked;
use crate::room::push;

/// Bits of a word.
const WORD: usize = 64;

/// Nodes that can't be restored: the tier to which their blocks were spilled no longer has them.
///
/// It is no longer known where in a block its nodes were, only how many there were. So [`Lost::has`] is true
/// for stale handles of a lost block, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lost {
    blocks: Vec<LostBlock>,
    large: Vec<Handle>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LostBlock {
    number: u32,
    incarnation: u8,
    nodes: u32,
    /// One of its nodes.
    node: Option<Handle>,
}

impl Lost {
    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The number of lost blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The number of lost nodes, without those freed since. Each part of a node longer than a block counts as
    /// one.
    pub fn nodes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.nodes)).sum()
    }

    /// Whether the node of a handle was in a lost block, or is a long one with a part in a lost block.
    pub fn has(&self, handle: Handle) -> bool {
        let is_in =
            |block: &LostBlock| (block.number, block.incarnation) == (handle.block(), handle.incarnation());
        self.large.contains(&handle) || self.blocks.iter().any(is_in)
    }

    /// Handles of lost nodes: one of each block, and all long nodes with a lost part. A block's node may be a
    /// part of such a long node. A block has none here if one of its nodes was freed since it was lost.
    pub fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.blocks.iter().filter_map(|block| block.node).chain(self.large.iter().copied())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |count: u64| if count == 1 { "" } else { "s" };
        let (blocks, nodes) = (self.blocks() as u64, self.nodes());
        write!(f, "the tier lost {blocks} block{} with {nodes} node{}", s(blocks), s(nodes))?;
        match self.handles().next() {
            Some(node) => write!(f, ", for example the one with the handle {:#x}", node.to_bits()),
            None => Ok(()),
        }
    }
}

impl Core {
    /// Frees a node of a block that the tier has just reported lost.
    #[cold]
    pub fn free_lost(&self, me: u16, handle: Handle) -> Result<(), Error> {
        let number = handle.block();
        let block = self.blocks.get(number).ok_or(Error::Stale)?;
        let lock = block.lock();
        if block.state().residency() == Residency::Vacant
            || block.incarnation.load(Relaxed) != handle.incarnation()
        {
            return Err(Error::Stale);
        }
        // Another thread has faulted the block in.
        if block.state().residency() != Residency::Absent {
            drop(lock);
            return self.free(me, handle);
        }
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        let places = shape.places();
        let place = usize::from(handle.place());
        let can_be = place < places && (block.marked.load(Relaxed) || handle.check() == 0);
        if !can_be || block.live.load(Relaxed) == 0 {
            return Err(Error::Stale);
        }
        self.give_up(number, block, places)?;
        let mut given_up = locked(&self.given_up);
        let freed = given_up.get_mut(&number).and_then(|words| words.get_mut(place / WORD));
        let word = freed.ok_or(Error::Damaged)?;
        if *word >> (place % WORD) & 1 != 0 {
            return Err(Error::Stale);
        }
        *word |= 1 << (place % WORD);
        drop(given_up);
        let live = block.live.load(Relaxed);
        match shape {
            // The node's length is unknown, so the average is assumed.
            Shape::Mixed(_) => subtract(&block.bytes, block.bytes.load(Relaxed) / live),
            Shape::Equal(_) => add(&block.pending, 1),
        }
        subtract(&block.live, 1);
        if live == 1 && block.allocator.load(Relaxed) == 0 {
            self.vacate(me, number, block, lock);
        }
        Ok(())
    }

    /// Gives a lost block up, so that the tier is no longer asked for it; the caller holds the block's lock.
    fn give_up(&self, number: u32, block: &Block, places: usize) -> Result<(), Error> {
        let mut given_up = locked(&self.given_up);
        if given_up.contains_key(&number) {
            return Ok(());
        }
        let mut freed = Vec::new();
        freed.try_reserve_exact(places.div_ceil(WORD)).map_err(|_| Error::OutOfMemory)?;
        freed.resize(places.div_ceil(WORD), 0);
        given_up.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        given_up.insert(number, freed);
        drop(given_up);
        self.refuse(number, block);
        self.drop_copy(number);
        Ok(())
    }

    /// Notes that a given-up block is vacant.
    pub fn forget_lost(&self, number: u32) {
        locked(&self.given_up).remove(&number);
    }

    /// Records one node of a block in that frame, so that there is one to name if the block gets lost; the
    /// caller holds the block's lock.
    pub fn note_node(&self, number: u32, at: u32, block: &Block, shape: Shape) {
        if self.options.away.0.is_none() {
            return;
        }
        let Some(frame) = self.frames.get(at) else { return };
        let marks = self.marks(at, block, shape);
        let starts = match shape {
            Shape::Mixed(_) => marks.starts(),
            // Such a block begins with a bit for each node.
            Shape::Equal(_) => self.image(frame, shape),
        };
        let words = (0..shape.places().div_ceil(WORD)).map(|word| starts.get64(word * 8).unwrap_or(0));
        let found = words.enumerate().find(|(_, bits)| *bits != 0);
        let Some((word, bits)) = found else { return };
        let place = (word * WORD) as u32 + bits.trailing_zeros();
        let check = marks.checks().get8(place as usize).unwrap_or(0);
        // One thread at a time makes pieces of the table.
        let made = self.nodes_noted.get(number).or_else(|| {
            let _rooms = locked(&self.rooms);
            self.nodes_noted.make(number, Default::default)
        });
        if let Some(node) = made {
            node.store(1 << 31 | u32::from(check) << 16 | place, Relaxed);
        }
    }

    /// The node that was recorded when the block was last compressed, unless one of its nodes was freed since
    /// it was lost.
    fn noted_node(&self, number: u32, block: &Block) -> Option<Handle> {
        let bits = self.nodes_noted.get(number)?.load(Relaxed);
        let given_up = locked(&self.given_up);
        let is_freed = given_up.get(&number).is_some_and(|freed| freed.iter().any(|word| *word != 0));
        (bits != 0 && !is_freed).then(|| {
            let (check, place) = ((bits >> 16) as u8, bits as u16);
            Handle::new(Parts { check, incarnation: block.incarnation.load(Relaxed), block: number, place })
        })
    }

    /// Adds a block to the lost ones; the caller holds its lock.
    pub fn add_lost(&self, lost: &mut Lost, number: u32, block: &Block) -> Result<(), Error> {
        let one = LostBlock {
            number,
            incarnation: block.incarnation.load(Relaxed),
            nodes: block.live.load(Relaxed),
            node: self.noted_node(number, block),
        };
        push(&mut lost.blocks, one)
    }

    /// Adds long nodes with a lost part.
    pub fn add_lost_parts(&self, lost: &mut Lost) -> Result<(), Error> {
        if !lost.is_empty() {
            let is_lost = |part: &Handle| lost.has(*part);
            let large = locked(&self.large).with_part(is_lost)?;
            large.into_iter().try_for_each(|node| push(&mut lost.large, node))?;
        }
        Ok(())
    }

    /// Asks the tier for every copy that it should have. A resident block whose copy is lost is not lost:
    /// that copy is dropped, and the block gets another one when it is evicted.
    fn find_lost(&self) -> Result<Lost, Error> {
        let (mut lost, mut room) = (Lost::default(), Vec::new());
        let Some(tier) = &self.options.away.0 else { return Ok(lost) };
        // Otherwise copies that were read ahead would count as still on the tier.
        tier.forget_ahead();
        let end = locked(&self.rooms).numbers().0;
        for number in 1..end {
            let Some(block) = self.blocks.get(number) else { continue };
            let _lock = block.lock();
            let frame = match block.state().residency() {
                Residency::Vacant => continue,
                Residency::Resident(frame) => self.frames.get(frame),
                Residency::Absent => None,
            };
            let found = block.with_copy(|copy| match copy {
                Copy::Stored(_) => Ok(()),
                Copy::Spilled(_) => self.payload(number, copy, &mut room).map(|_| ()),
            });
            match (frame, found) {
                (Some(frame), Some(Err(Error::Lost))) => self.changed(number, frame),
                (Some(_), _) => {}
                (None, None | Some(Err(Error::Lost))) => self.add_lost(&mut lost, number, block)?,
                (None, Some(found)) => found?,
            }
        }
        self.add_lost_parts(&mut lost)?;
        Ok(lost)
    }
}

impl Heap {
    /// Finds the blocks that the tier has lost, by asking it for every spilled block. A resident block is not
    /// lost even if its copy is: the heap then no longer depends on that copy.
    ///
    /// # Errors
    /// [`Error::Away`] if the tier does not answer.
    pub fn find_lost(&mut self) -> Result<Lost, Error> {
        let _pause = self.core().board.pause();
        self.core().find_lost()
    }

    /// Frees all nodes that the tier has lost, and long nodes of which it lost a part. Afterwards everything
    /// in the heap can be read, and the heap can be saved. The handles of these nodes are then stale, and the
    /// program has to repair everything that referred to them.
    ///
    /// A program that knows the handles of lost nodes can also free them one by one, as if they were not
    /// lost.
    ///
    /// # Errors
    /// [`Error::Away`] if the tier does not answer; nothing is freed then.
    pub fn free_lost(&mut self) -> Result<Lost, Error> {
        let lost = self.find_lost()?;
        let session = self.session()?;
        for node in &lost.large {
            session.free(*node)?;
        }
        drop(session);
        let core = self.core();
        for LostBlock { number, incarnation, .. } in &lost.blocks {
            let Some(block) = core.blocks.get(*number) else { continue };
            let lock = block.lock();
            // A block that held only parts of long nodes may be vacant by now.
            if block.incarnation.load(Relaxed) == *incarnation
                && block.state().residency() == Residency::Absent
            {
                block.live.store(0, Relaxed);
                block.bytes.store(0, Relaxed);
                // If a session still allocates from the block, it is a forgotten one.
                core.set_allocator(block, 0);
                core.vacate(0, *number, block, lock);
            }
        }
        Ok(lost)
    }
}
