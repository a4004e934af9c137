//! Looking at parts of a node whose block stays compressed.
//!
//! Of an array of ascending numbers parts can be made again without the rest (`layout/ascending`). To search one so takes about a twelfth of the time in which its block is brought
//! back. But who has brought it has it the next time: so once in [`BRING`] times it is brought, sooner if nothing has to go for it. So those come that are wanted often, and don't
//! make room for what is wanted once.
//!
//! What is looked at is a copy, which the session keeps the memory for. Nobody's code is called while the block is locked.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;
use std::vec::Vec;

use memfold_codec::CodecId;
use zerocopy::IntoBytes;

use super::blocks::{Block, Place, State};
use super::bytes::Bytes;
use super::core::{Core, Shape};
use super::error::Error;
use super::grouping::ASCENDING;
use super::handle::Handle;
use super::layout::ascending::Packed;
use super::session::Session;
use super::view::View;
use super::way::Spot;
use crate::probe;
use crate::store::Ref;

/// See the module. With 16, who looks at the same parts until the block comes has spent as much as bringing it costs; but where all blocks are wanted, more or less often, each that comes
/// makes one go that was wanted too. A find by Zipf's law, what is wanted most being scattered, took 7 times as long as in a resident list with 16, and 5 times with 64.
const BRING: u32 = 64;
/// Once in so many times, if there is a frame without a block.
const BRING_TO_FREE: u32 = 16;

/// What a session keeps for it.
#[derive(Default)]
pub struct Peeks {
    /// As many words as a block has, and one more.
    words: RefCell<Vec<u64>>,
    turn: Cell<u32>,
}

impl Peeks {
    /// Whether a block is to be brought this time: at random, since what a program wants comes in turns of its own.
    fn brings(&self, core: &Core) -> bool {
        // Knuth, The Art of Computer Programming, 3.3.4, table 1, line 16.
        let turn = self.turn.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.turn.set(turn);
        let random = turn >> 16;
        random.is_multiple_of(BRING) || random.is_multiple_of(BRING_TO_FREE) && core.has_free_frame()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.borrow().capacity() * size_of::<u64>()
    }
}

/// A node of which parts are copied.
struct Peek<'s> {
    core: &'s Core,
    block: &'s Block,
    number: u32,
    /// The block is as it was as long as these are.
    state: State,
    copy: Ref,
    node: Range<usize>,
    image: usize,
    words: RefMut<'s, Vec<u64>>,
}

impl Session<'_> {
    /// As `view`, for who wants a part of the node, and in it learns which other one: `parts` is asked for both. If the block is compressed, and this can be done,
    /// these are all that `look` may find there; the block stays so.
    #[inline(always)]
    pub(crate) fn view_parts<R>(
        &self,
        handle: Handle,
        mut look: impl FnMut(View<'_>) -> R,
        parts: impl Fn(Option<View<'_>>) -> Option<Range<usize>>,
    ) -> Result<R, Error> {
        match self.look_once(handle, |bytes| Some(look(View::new(bytes)))) {
            Some(result) => Ok(result),
            None => self.view_parts_hard(handle, look, parts),
        }
    }

    #[cold]
    #[inline(never)]
    fn view_parts_hard<R>(
        &self,
        handle: Handle,
        mut look: impl FnMut(View<'_>) -> R,
        parts: impl Fn(Option<View<'_>>) -> Option<Range<usize>>,
    ) -> Result<R, Error> {
        if let Some(first) = parts(None)
            && let Some(mut peek) = self.peek(handle)
            && peek.copy_first(first) == Some(())
            && let Some(second) = parts(Some(peek.view()))
            && peek.copy(second) == Some(())
        {
            self.core().counts.peeks.fetch_add(1, Relaxed);
            probe!(heap_peek, handle.block());
            return Ok(look(peek.view()));
        }
        self.view(handle, look)
    }

    /// The node, if parts of it can be copied, and its block is not to be brought.
    fn peek(&self, handle: Handle) -> Option<Peek<'_>> {
        let core = self.core();
        if core.plain().is_some() || Core::is_large(handle) {
            return None;
        }
        let number = handle.block();
        let block = core.blocks.get(number)?;
        // Anything may have changed until the block is locked: then it is looked at again.
        let (state, copy) = (block.state(), block.copy()?);
        let is_kept = state.place() == Place::Absent && block.grouping.load(Relaxed) == ASCENDING;
        let is_node = handle.place() == 0 && handle.check() == 0 && !block.marked.load(Relaxed);
        let kind = block.kind.load(Relaxed);
        let Some(shape @ Shape::Equal(equal)) = core.shape_of(kind).filter(|shape| shape.is_alone()) else {
            return None;
        };
        if !is_kept
            || !is_node
            || block.incarnation.load(Relaxed) != handle.incarnation()
            || self.peeks.brings(core)
        {
            return None;
        }
        let image = shape.image(core.options.block_size);
        let mut words = self.peeks.words.try_borrow_mut().ok()?;
        // What is read by words may end within the last one.
        let len = image.div_ceil(size_of::<u64>()) + 1;
        if words.len() < len {
            let (more, before) = (len - words.len(), words.capacity());
            words.try_reserve_exact(more).ok()?;
            words.resize(len, 0);
            let bytes = (words.capacity() - before) * size_of::<u64>();
            core.counts.work_bytes.fetch_add(bytes as u64, Relaxed);
        }
        let node = equal.first()..equal.first() + equal.len as usize;
        Some(Peek { core, block, number, state, copy, node, image, words })
    }
}

impl Peek<'_> {
    /// Copies a part of the node, and looks whether the node lives.
    fn copy_first(&mut self, part: Range<usize>) -> Option<()> {
        self.copy_image(0..self.node.start + part.end)?;
        (self.words[0].to_le() & 1 == 1).then_some(())
    }

    /// Copies a part of the node.
    fn copy(&mut self, part: Range<usize>) -> Option<()> {
        let end = self.node.start.checked_add(part.end).filter(|&end| end <= self.node.end)?;
        self.copy_image(self.node.start + part.start..end)
    }

    fn copy_image(&mut self, part: Range<usize>) -> Option<()> {
        let Peek { core, block, number, .. } = *self;
        let _lock = block.try_lock()?;
        // Whoever changes a block, or puts another into its place, brings it first.
        if block.state() != self.state || block.unverified.load(Relaxed) {
            return None;
        }
        let to = self.words.as_mut_bytes().get_mut(..self.image)?;
        let unpack = |copy| {
            if copy != self.copy {
                return None;
            }
            // SAFETY: the copy is pinned, and who frees it has the block's lock.
            let (id, bytes) = unsafe { core.store.get_unverified(copy, number.into()) }.ok()?;
            Packed::new(bytes, to.len()).filter(|_| id == Some(CodecId::COPY))?.unpack_part(part, to)
        };
        block.with_copy(unpack)?
    }

    fn view(&mut self) -> View<'_> {
        let words = NonNull::from(self.words.as_mut_slice()).cast::<u8>();
        // SAFETY: the node lies within the words, and a word behind it does.
        let bytes = unsafe { words.add(self.node.start) };
        View::new(Bytes::in_frame(Spot { bytes, len: self.node.len() }))
    }
}
