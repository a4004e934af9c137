//! Limits on the content of a heap's file. The reader checks them before it accepts anything from a file, and
//! the writer before it writes anything. So every file that is written can be read.

use std::collections::HashSet;
use std::sync::atomic::Ordering::*;

use super::format::{self, Record};
use crate::heap::block::handle::Handle;
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::stored::grouping::most_grouped;
use crate::heap::sync::locked;

/// Bytes of a word; a block without a codec is one repeated word.
const WORD: usize = 8;

impl Core {
    /// Says what is impossible, if anything, in a record with a payload, of a block of this shape.
    pub fn contradiction(&self, record: &Record, shape: Shape) -> Option<&'static str> {
        let payload = record.payload.get() as usize;
        let marked = record.flags & format::MARKED != 0;
        if !counts_are_possible(record, shape) {
            Some("the counts of a block can't be")
        } else if payload == 0 {
            Some("a block has no bytes")
        } else if payload > most_grouped(shape, self.copy_len(shape, marked)) {
            Some("the payload of a block is longer than a block of its kind can have")
        } else if record.codec.get() == 0 && payload != WORD {
            Some("a block without a codec is not one word")
        } else {
            None
        }
    }
}

/// Whether the counts are possible for a block of this shape.
fn counts_are_possible(record: &Record, shape: Shape) -> bool {
    let Record { live, bytes, free, longest, pending, .. } = *record;
    let [live, bytes, free, longest, pending] =
        [live, bytes, free, longest, pending].map(|count| count.get() as usize);
    let counts = match shape {
        Shape::Mixed(shape) => {
            let most = shape.room();
            let fits = free <= most && bytes <= most - free && live <= bytes;
            fits && longest <= most && pending <= most
        }
        Shape::Equal(shape) => {
            live <= shape.nodes() && pending <= shape.nodes() && (bytes, free, longest) == (0, 0, 0)
        }
    };
    live > 0 && counts && record.flags & !(format::MARKED | format::RETIRED) == 0
}

/// Checks the parts of long nodes, one long node after the other.
pub struct Parts<'c> {
    core: &'c Core,
    seen: HashSet<Handle>,
}

impl<'c> Parts<'c> {
    /// No parts yet.
    pub fn new(core: &'c Core) -> Self {
        Parts { core, seen: HashSet::new() }
    }

    /// Adds a part; false if it can't be one. Each part must be a node of its own in an existing block: not
    /// part of another long node, and not a long node itself. Blocks have `nodes` nodes in all.
    pub fn add(&mut self, part: Handle, nodes: u64) -> Result<bool, Error> {
        self.seen.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        Ok(self.has_block(part) && self.seen.insert(part) && self.seen.len() as u64 <= nodes)
    }

    fn has_block(&self, part: Handle) -> bool {
        let block = self.core.blocks.get(part.block());
        !Core::is_large(part)
            && block.is_some_and(|block| {
                block.live.load(Relaxed) > 0 && block.incarnation.load(Relaxed) == part.incarnation()
            })
    }
}

/// The handle of the first long node with an invalid part, see [`Parts`]; blocks have `nodes` nodes in all.
pub fn node_with_gone_part(core: &Core, nodes: u64) -> Result<Option<Handle>, Error> {
    let mut seen = Parts::new(core);
    locked(&core.large).first_with_part(|part| Ok(!seen.add(part, nodes)?))
}
