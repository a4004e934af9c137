//! Whether and how nodes are grouped before their block is compressed.
//!
//! Which way pays depends on what the nodes hold. Blocks of one kind mostly hold the same kind of thing, so plans with all numbers of columns are tried for the
//! first blocks of a kind (the first, second, fourth and so on), and then, for one in [`TRY_EACH`], those near to what won last, which the others take. Whether a block is grouped is noted in it, with the bytes that
//! were compressed; the plan stands among them.
//!
//! An array of ascending numbers is packed instead, if that takes about as few bytes (`layout/ascending`): then parts of it can be read without the rest.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::heap::block::handle::{Handle, Parts};
use crate::heap::block::layout::ascending;
use crate::heap::block::layout::fields::{Fields, Of, Plan};
use crate::heap::block::table::Block;
use crate::heap::core::{Core, Shape, locked};
use crate::heap::error::Error;
use crate::store::{Ref, Tier, Workspace};
use memfold_codec::CodecId;

/// See the module.
const TRY_EACH: u32 = 64;

/// What a block notes of its copy: that it is the block as it was,
pub const AS_IT_IS: u8 = 0;
/// or an array of ascending numbers, kept without a codec,
pub const ASCENDING: u8 = 255;
/// or else that it is grouped, and how long that is: so many of these parts of what it is at most.
const PARTS: usize = 254;

/// Ascending numbers may take this part more than what a codec makes of them: it costs less to bring them back, and often they need not be.
const MORE: usize = 32;

/// Bytes of a block of `len` bytes when it is grouped, at most. That of an array may be a quarter longer: a
/// few rows unlike all others make its planes longer than itself, and these are mostly zeros then.
///
/// No form of a block is longer than what it was made from, so no payload is longer than this. Both the
/// writer and the reader of files rely on it.
pub fn most_grouped(shape: Shape, len: usize) -> usize {
    if shape.is_alone() { len + len / 4 } else { len }
}

/// Bytes that were compressed of a block of `len` bytes, if it is not one of ascending numbers.
pub fn grouped_len(grouping: u8, shape: Shape, len: usize) -> usize {
    match grouping {
        AS_IT_IS => len,
        parts => (most_grouped(shape, len) * usize::from(parts)).div_ceil(PARTS),
    }
}

/// What is known of the blocks of one kind.
#[derive(Debug, Default)]
pub struct Plans {
    best: Mutex<Best>,
    blocks: AtomicU32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Best {
    /// Without columns they are not grouped.
    plan: Plan,
    /// They are packed as ascending numbers, where they can be.
    is_ascending: bool,
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
        // One that was such an array mostly is one again, whatever others of its kind are.
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

    /// The bytes of an array of ascending numbers, packed; `None` if it is none, or hardly becomes shorter, or a codec of the program's own is to have it.
    fn ascending<'s>(&self, of: Of, bytes: &[u8], spare: &'s mut [u8]) -> Option<&'s [u8]> {
        if !of.shape.is_alone() || self.options.codec.id() == CodecId::OWN {
            return None;
        }
        let most = (bytes.len() - bytes.len() / 16).min(spare.len());
        let len = ascending::pack(bytes, &mut spare[..most])?;
        Some(&spare[..len])
    }

    /// How the blocks of a kind are kept: as was found out, or is now.
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
        // To try takes twenty times as long as to pack.
        let each = if old.is_ascending { TRY_EACH * 16 } else { TRY_EACH };
        // The first ones may be those of another collection, or empty.
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

    /// Makes what came out of the store the block again.
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

/// The bytes of a block with its nodes grouped, in `spare`, and what is to be noted of it; `None` if they become no fewer.
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
    // What follows is zero.
    Some((grouping, &spare[..grouped_len(grouping, of.shape, bytes.len())]))
}

fn of(number: u32, block: &Block, shape: Shape) -> Of {
    let incarnation = block.incarnation.load(Relaxed);
    Of { shape, handle: Handle::new(Parts { check: 0, incarnation, block: number, place: 0 }).to_bits() }
}
