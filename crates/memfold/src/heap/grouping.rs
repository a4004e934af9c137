//! How the nodes of a block of one size are grouped before it is compressed.
//!
//! Which way pays depends on what the nodes hold. Blocks of one size mostly hold the same kind of thing, so all ways are tried for the first block
//! of a size and then for one in [`TRY_EACH`]; the others take what won last. What was taken is noted in each block.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

use super::blocks::Block;
use super::core::{Core, Shape};
use super::error::Error;
use super::layout::equal;
use super::layout::group::{Grouping, can_group, group};
use crate::store::{Ref, Tier, Workspace};

/// See the module.
const TRY_EACH: u32 = 32;

/// What is known of one size.
#[derive(Debug, Default)]
pub struct Choice {
    best: AtomicU8,
    blocks: AtomicU32,
}

impl Core {
    /// Puts a copy of a block into the store; `spare` is as long as a frame.
    pub fn put(
        &self,
        number: u32,
        block: &Block,
        bytes: &[u8],
        work: &mut Workspace<'_>,
        spare: &mut [u8],
    ) -> Result<Ref, Error> {
        let kind = block.kind.load(Relaxed);
        let (Some(Shape::Equal(shape)), Some(kind)) = (self.shape_of(kind), self.kind(kind)) else {
            return self.insert(number, bytes, work);
        };
        let best = &kind.choice.best;
        if kind.choice.blocks.fetch_add(1, Relaxed).is_multiple_of(TRY_EACH) {
            let mut size = |grouping| {
                let grouped = grouped(grouping, shape, bytes, spare)?;
                Some(self.store.compressed_len(grouped, work))
            };
            let sizes = Grouping::ALL.map(|grouping| (size(grouping).unwrap_or(usize::MAX), grouping));
            if let Some((_, grouping)) = sizes.into_iter().min_by_key(|(size, _)| *size) {
                best.store(grouping as u8, Relaxed);
            }
        }
        let grouping = Grouping::from_number(best.load(Relaxed));
        let grouped = grouped(grouping, shape, bytes, spare).ok_or(Error::Damaged)?;
        let copy = self.insert(number, grouped, work)?;
        block.grouping.store(grouping as u8, Relaxed);
        Ok(copy)
    }

    fn insert(&self, number: u32, bytes: &[u8], work: &mut Workspace<'_>) -> Result<Ref, Error> {
        self.store.insert(Tier::Fast, number.into(), bytes, work).map_err(|_| Error::OutOfMemory)
    }

    /// Makes what came out of the store the block again, by way of `spare`, which is as long.
    pub fn ungroup(&self, block: &Block, bytes: &mut [u8], spare: &mut [u8]) -> Result<(), Error> {
        let grouping = Grouping::from_number(block.grouping.load(Relaxed));
        let Some(Shape::Equal(shape)) = self.shape_of(block.kind.load(Relaxed)) else { return Ok(()) };
        if grouping == Grouping::Nodes {
            return Ok(());
        }
        let nodes = shape.first()..shape.used();
        let (Some(nodes), Some(spare)) = (bytes.get_mut(nodes.clone()), spare.get_mut(..nodes.len())) else {
            return Err(Error::Damaged);
        };
        spare.copy_from_slice(nodes);
        group(grouping, spare, nodes, shape.stride(), true);
        Ok(())
    }
}

/// The bytes of a block with its nodes grouped, in `spare` if they have to be moved; `None` if nodes of that size can't be grouped so.
fn grouped<'a>(
    grouping: Grouping,
    shape: equal::Shape,
    bytes: &'a [u8],
    spare: &'a mut [u8],
) -> Option<&'a [u8]> {
    if grouping == Grouping::Nodes {
        return Some(bytes);
    }
    let spare = spare.get_mut(..bytes.len()).filter(|_| can_group(grouping, shape.stride()))?;
    let (first, end) = (shape.first(), shape.used());
    spare[..first].copy_from_slice(&bytes[..first]);
    group(grouping, &bytes[first..end], &mut spare[first..end], shape.stride(), false);
    spare[end..].copy_from_slice(&bytes[end..]);
    Some(spare)
}
