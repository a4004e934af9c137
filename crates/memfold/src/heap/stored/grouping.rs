//! Whether and how nodes are grouped before their block is compressed.
//!
//! Which plan pays depends on what the nodes hold. Blocks of one kind mostly hold the same kind of data. So
//! the first block of a kind tries plans with all numbers of columns. After 1, 2, 4, 8 blocks and so on, and
//! later one in [`TRY_EACH`], a block tries the plans near the last winner, and the one with the most
//! columns. All other blocks use the last winner. A block records whether it is grouped, and how many bytes
//! were compressed; the plan is among those bytes.
//!
//! An array of ascending numbers is packed instead, if that takes hardly more bytes (`layout/ascending`):
//! then parts of it can be read without the rest.

use std::sync::atomic::Ordering::*;

use crate::heap::block::handle::{Handle, Parts};
use crate::heap::block::layout::ascending;
use crate::heap::block::layout::fields::{Fields, Of, Plan};
use crate::heap::block::table::Block;
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::stored::plans::{Best, Plans};
use crate::heap::sync::locked;
use crate::store::{Ref, Tier, Workspace};
use memfold_codec::CodecId;

/// See the module.
const TRY_EACH: u32 = 64;

/// A block's `grouping`: its copy is the unchanged block,
pub const AS_IT_IS: u8 = 0;
/// or an array of ascending numbers, stored without a codec,
pub const ASCENDING: u8 = 255;
/// or else it is grouped: the value is its length, as so many of this many parts of the longest possible.
const PARTS: usize = 254;

/// Packed ascending numbers may be longer than the codec's result by one part in this many: restoring them
/// costs less, and is often not needed.
const MORE: usize = 32;

/// The most bytes of a block of `len` bytes when it is grouped. An array may become a quarter longer: a few
/// rows unlike all others make the planes longer than the array, but then the planes are mostly zeros.
///
/// No form of a block is longer than its source, so no payload is longer than this. Both the writer and the
/// reader of files rely on that.
pub fn most_grouped(shape: Shape, len: usize) -> usize {
    if shape.is_alone() { len + len / 4 } else { len }
}

/// How many bytes were compressed for a block of `len` bytes, unless it holds ascending numbers.
pub fn grouped_len(grouping: u8, shape: Shape, len: usize) -> usize {
    match grouping {
        AS_IT_IS => len,
        parts => (most_grouped(shape, len) * usize::from(parts)).div_ceil(PARTS),
    }
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
        fields: &mut Fields,
    ) -> Result<Ref, Error> {
        let kind = block.kind.load(Relaxed);
        let of = of(number, block, self.shape_of(kind).ok_or(Error::Damaged)?);
        let plans = self.kind(kind).map_or(&self.plans, |kind| &kind.plans);
        let Best { plan, is_ascending } = self.try_plans(plans, of, bytes, work, spare, fields);
        // A block that was such an array usually is one again, whatever the other blocks of its kind are.
        if (is_ascending || block.grouping.load(Relaxed) == ASCENDING)
            && let Some(packed) = self.ascending(of, bytes, spare)
        {
            let copy = self.store.put(number.into(), Some(CodecId::COPY), packed);
            block.grouping.store(ASCENDING, Relaxed);
            return copy.map_err(|_| Error::OutOfMemory);
        }
        let grouped = if plan.columns == 0 { None } else { grouped(of, &plan, bytes, spare, fields) };
        let (grouping, bytes) = grouped.unwrap_or((AS_IT_IS, bytes));
        let copy =
            self.store.insert(Tier::Fast, number.into(), bytes, work).map_err(|_| Error::OutOfMemory)?;
        block.grouping.store(grouping, Relaxed);
        Ok(copy)
    }

    /// The bytes of an array of ascending numbers, packed. `None` if the block is not such an array, hardly
    /// gets shorter, or has to go through a user-supplied codec.
    fn ascending<'s>(&self, of: Of, bytes: &[u8], spare: &'s mut [u8]) -> Option<&'s [u8]> {
        if !of.shape.is_alone() || self.options.codec.id() == CodecId::OWN {
            return None;
        }
        let most = (bytes.len() - bytes.len() / 16).min(spare.len());
        let len = ascending::pack(bytes, &mut spare[..most])?;
        Some(&spare[..len])
    }

    /// How blocks of this kind are stored: as decided earlier, or as tried now.
    fn try_plans(
        &self,
        plans: &Plans,
        of: Of,
        bytes: &[u8],
        work: &mut Workspace<'_>,
        spare: &mut [u8],
        fields: &mut Fields,
    ) -> Best {
        let blocks = plans.blocks.fetch_add(1, Relaxed);
        let old = *locked(&plans.best);
        // Trying takes twenty times as long as packing.
        let each = if old.is_ascending { TRY_EACH * 16 } else { TRY_EACH };
        // The first blocks may belong to another collection, or be empty.
        if !blocks.is_multiple_of(each) && !blocks.is_power_of_two() {
            return old;
        }
        let Some(most) = fields.plan(of, bytes) else { return old };
        let mut best = (self.store.compressed_len(bytes, work), 0);
        for columns in 1..=most.columns {
            let is_near = columns.abs_diff(old.plan.columns) <= 1 || columns == most.columns;
            let plan = Plan { columns, ..most };
            if !is_near && blocks != 0 {
                continue;
            }
            if let Some((_, grouped)) = grouped(of, &plan, bytes, spare, fields) {
                best = best.min((self.store.compressed_len(grouped, work), columns));
            }
        }
        let packed = self.ascending(of, bytes, spare).map(<[u8]>::len);
        let is_ascending = packed.is_some_and(|packed| packed <= best.0 + best.0 / MORE);
        let best = Best { plan: Plan { columns: best.1, ..most }, is_ascending };
        *locked(&plans.best) = best;
        best
    }

    /// Restores a block from what came out of the store.
    pub fn ungroup(
        &self,
        number: u32,
        block: &Block,
        from: &[u8],
        to: &mut [u8],
        fields: &mut Fields,
    ) -> Result<(), Error> {
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        fields.ungroup(of(number, block, shape), from, to).ok_or(Error::Damaged)
    }
}

/// A block with its nodes grouped, in `spare`, and its `grouping`; `None` if it does not get shorter.
fn grouped<'s>(
    of: Of,
    plan: &Plan,
    bytes: &[u8],
    spare: &'s mut [u8],
    fields: &mut Fields,
) -> Option<(u8, &'s [u8])> {
    let most = most_grouped(of.shape, bytes.len());
    let used = fields.group(of, plan, bytes, spare.get_mut(..most)?)?;
    let grouping = u8::try_from((used * PARTS).div_ceil(most)).ok()?;
    // The bytes that follow are zero.
    Some((grouping, &spare[..grouped_len(grouping, of.shape, bytes.len())]))
}

fn of(number: u32, block: &Block, shape: Shape) -> Of {
    let incarnation = block.incarnation.load(Relaxed);
    Of { shape, handle: Handle::new(Parts { check: 0, incarnation, block: number, place: 0 }).to_bits() }
}
