//! The check of every invariant of a heap.

use std::cmp::Reverse;
use std::fmt;
use std::format;
use std::ptr::NonNull;
use std::string::String;
use std::vec::Vec;

use super::{Core, Shape};
use crate::heap::block::layout::image::Image;
use crate::heap::block::layout::mixed::Mixed;
use crate::heap::block::table::{Block, Residency};
use crate::heap::error::Error;
use crate::heap::file::{check_starts, node_with_gone_part};
use crate::heap::stored::lost::Lost;
use crate::heap::sync::locked;
use crate::room::{filled, gather, push};
use std::sync::atomic::Ordering::Relaxed;

/// An invariant of a heap that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    pub(in crate::heap) fn of_store(what: &str) -> Self {
        Violation(format!("the store: {what}"))
    }

    fn no_memory(error: Error) -> Self {
        Violation(format!("the heap can't be checked: {error}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

fn holds(what: bool, else_say: impl FnOnce() -> String) -> Result<(), Violation> {
    if what { Ok(()) } else { Err(Violation(else_say())) }
}

/// Checks a heap that the caller has exclusively; `me` is the caller's session, or 0 for none.
pub fn check(core: &Core, me: u16) -> Result<(), Violation> {
    let rooms = locked(&core.rooms);
    let (end, vacant) = rooms.numbers();
    let mut unused = gather(vacant).map_err(Violation::no_memory)?;
    unused.sort_unstable();
    let once = unused.is_sorted_by(|a, b| a < b);
    holds(once, || "a block's number is twice among those not in use".into())?;
    let is_unused = |number: u32| unused.binary_search(&number).is_ok();
    let mut lists = rooms
        .listed()
        .map_err(Violation::no_memory)?
        .map_err(|block| Violation(format!("block {block} is linked wrongly by its room")))?;
    lists.sort_unstable_by_key(|(block, _)| *block);
    let once = lists.is_sorted_by(|a, b| a.0 < b.0);
    holds(once, || "a block is listed twice by its room".into())?;
    let list_of =
        |number: u32| lists.binary_search_by_key(&number, |(block, _)| *block).ok().map(|at| lists[at].1);
    let (mut resident, mut copies, mut without, mut nodes) = (Vec::new(), 0, 0, 0);
    let mut lost = Lost::default();
    for number in 1..end {
        let block =
            core.blocks.get(number).ok_or_else(|| Violation(format!("there is no block {number}")))?;
        let list = list_of(number);
        let noted = block.list();
        holds(list == noted, || format!("block {number} is listed at {list:?} and should be at {noted:?}"))?;
        let (live, allocator) = (block.live.load(Relaxed), block.allocator.load(Relaxed));
        copies += u64::from(block.copy().is_some());
        nodes += u64::from(live);
        if block.state().residency() == Residency::Vacant {
            let nothing = live == 0 && !block.has_copy();
            holds(nothing, || format!("block {number} is vacant and has nodes or a copy"))?;
            holds(is_unused(number) || core.options.paranoid, || format!("block {number} is lost"))?;
            continue;
        }
        holds(!is_unused(number), || format!("block {number} is not in use and not vacant"))?;
        let is_mine = me != 0 && allocator == me;
        holds(allocator == 0 || is_mine, || format!("a session that is over allocates from block {number}"))?;
        holds(live > 0 || is_mine, || format!("block {number} has no nodes"))?;
        match block.state().residency() {
            Residency::Resident(frame) => push(&mut resident, frame).map_err(Violation::no_memory)?,
            _ => without += usize::from(!block.has_copy()),
        }
        if !check_block(core, number, block)? {
            core.add_lost(&mut lost, number, block).map_err(Violation::no_memory)?;
        }
    }
    let blobs = core.store.store().stats().blobs;
    holds(blobs == copies, || format!("the store has {blobs} blobs, {copies} blocks have one"))?;
    drop(rooms);
    let given_up = locked(&core.given_up).len();
    holds(given_up == without, || format!("{without} blocks are given up, {given_up} are known to be"))?;
    holds(core.frames.check(), || "frames have other memory than was counted".into())?;
    check_frames(core, resident)?;
    let gone = node_with_gone_part(core, nodes);
    let gone = gone.map_err(|error| Violation(format!("long nodes: {error}")))?;
    if let Some(node) = gone {
        return Err(Violation(format!(
            "a part of the long node with the handle {:#x} was freed without it",
            node.to_bits()
        )));
    }
    // Everything else is checked first.
    core.add_lost_parts(&mut lost).map_err(Violation::no_memory)?;
    holds(lost.is_empty(), || format!("{lost}"))
}

/// Checks that each frame has a block and is known to the policy, or is free.
fn check_frames(core: &Core, mut resident: Vec<u32>) -> Result<(), Violation> {
    let pool = locked(&core.pool);
    let mut known = pool.policy.frames().map_err(Violation::no_memory)?;
    known.sort_unstable();
    resident.sort_unstable();
    holds(known == resident, || format!("the policy knows frames {known:?}, blocks are in {resident:?}"))?;
    known
        .try_reserve(pool.free.len() + pool.empty.len())
        .map_err(|_| Violation::no_memory(Error::OutOfMemory))?;
    known.extend(&pool.free);
    let with_memory = known.len() == pool.made as usize;
    known.extend(pool.empty.iter().map(|&Reverse(frame)| frame));
    known.sort_unstable();
    let all = known.iter().copied().eq(0..core.frames.count());
    holds(all && with_memory && pool.chosen.is_empty(), || {
        format!("of {} frames, {known:?} are free, without memory or in use", core.frames.count())
    })
}

/// Bytes aligned to 64, as an image must be.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "reached by pointers to the whole")] [u8; 64]);

/// Checks one block; false if the tier has lost it.
fn check_block(core: &Core, number: u32, block: &Block) -> Result<bool, Violation> {
    let say = |what: &str| Violation(format!("block {number}: {what}"));
    let shape = core.shape_of(block.kind.load(Relaxed)).ok_or_else(|| say("its kind is none"))?;
    // All of the block's data, as they would be compressed.
    let form = shape.form(core.options.block_size);
    let memory = filled(form.end().div_ceil(64), Line([0; 64]));
    let mut memory = memory.map_err(Violation::no_memory)?;
    let bytes = NonNull::from(memory.as_mut_slice()).cast::<u8>();
    // SAFETY: the memory above, in which nothing else is borrowed.
    let to = unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr(), form.end()) };
    match block.state().residency() {
        Residency::Resident(at) => {
            let frame = core.frames.get(at).ok_or_else(|| say("its frame is none"))?;
            holds(frame.block.load(Relaxed) == number, || {
                format!("block {number} is in a frame of another")
            })?;
            let clean = frame.dirty.load(Relaxed) != block.has_copy();
            holds(clean, || format!("block {number} is changed and has a copy, or neither"))?;
            // SAFETY: nobody else uses the heap.
            let joined = unsafe { core.join(at, block, frame, shape, to) };
            joined.map_err(|_| say("its frame has not all of its marks"))?;
        }
        _ if !block.has_copy() => return Ok(false),
        _ => match core.load(number, block, to) {
            Err(Error::Lost) => return Ok(false),
            loaded => loaded.map_err(|error| say(&format!("{error}")))?,
        },
    }
    // SAFETY: the memory above, which is this thread's.
    let image = unsafe { Image::new(bytes, form.end()) };
    let wrong = |_| say("its headers contradict each other, or free bytes are not zero");
    let live = match shape {
        Shape::Mixed(mixed) => {
            let (live, bytes, free) = Mixed::new(image, mixed).check().map_err(wrong)?;
            let noted = (block.bytes.load(Relaxed) as usize, block.free.load(Relaxed) as usize);
            holds((bytes, free) == noted, || {
                format!(
                    "block {number} has {bytes} bytes of nodes and {free} free ones, {noted:?} were counted"
                )
            })?;
            let has_starts =
                block.marked.load(Relaxed) || matches!(block.state().residency(), Residency::Resident(_));
            if has_starts {
                form.within(image)
                    .and_then(|marks| check_starts(image, mixed, marks))
                    .map_err(|_| say("a node starts where its marks don't say so, or the other way round"))?;
            }
            live
        }
        Shape::Equal(shape) => shape.block(image).check().map_err(wrong)?,
    };
    let noted = block.live.load(Relaxed) as usize;
    holds(live == noted, || format!("block {number} has {live} nodes, {noted} were counted"))?;
    Ok(true)
}
