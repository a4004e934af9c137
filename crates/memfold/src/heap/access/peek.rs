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

use crate::heap::access::bytes::Bytes;
use crate::heap::access::session::Session;
use crate::heap::access::translation::NodeBytes;
use crate::heap::access::view::View;
use crate::heap::block::handle::Handle;
use crate::heap::block::layout::ascending::{Packed, Run};
use crate::heap::block::table::{Block, Copy, Residency, State};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::stored::grouping::ASCENDING;
use crate::probe;
use crate::store::Ref;

/// See the module. With 16, who looks at the same parts until the block comes has spent as much as bringing it costs; but where all blocks are wanted, more or less often, each that comes
/// makes one go that was wanted too. A find by Zipf's law, what is wanted most being scattered, took 7 times as long as in a resident list with 16, 5 times with 64, and with 128 a little less.
const BRING: u32 = 128;
/// Once in so many times, if there is a frame without a block.
const BRING_TO_FREE: u32 = 16;
/// And if the same block was looked at the time before: so it comes soon where a program stays for a while.
const BRING_AGAIN: u32 = 8;

/// What a session keeps for it.
#[derive(Default)]
pub struct Peeks {
    /// As many words as a block has, one more, and room for a run.
    words: RefCell<Vec<u64>>,
    turn: Cell<u32>,
    /// The block that was looked at last.
    last: Cell<u32>,
}

impl Peeks {
    /// Whether a block is to be brought this time: at random, since what a program wants comes in turns of its own.
    fn brings(&self, core: &Core, block: u32) -> bool {
        // Knuth, The Art of Computer Programming, 3.3.4, table 1, line 16.
        let turn = self.turn.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.turn.set(turn);
        let random = turn >> 16;
        let is_again = self.last.replace(block) == block;
        random.is_multiple_of(if is_again { BRING_AGAIN } else { BRING })
            || random.is_multiple_of(BRING_TO_FREE) && core.has_free_frame()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.borrow().capacity() * size_of::<u64>()
    }
}

/// What somebody wants of a node.
pub(crate) trait Parts {
    /// The part that is looked at first, if parts are enough.
    fn first(&self) -> Option<Range<usize>>;
    /// The other one, by what the first one is.
    fn second(&self, node: View<'_>) -> Option<Range<usize>>;
    /// Whether of the other one only two words are wanted: the last one that is before something, and the one behind it.
    const HAS_BORDER: bool;
    /// Whether a word of the other one is before it. All words before it come first.
    fn is_before(&self, word: u64) -> bool;
}

/// What is kept of a block.
struct Kept<'s> {
    core: &'s Core,
    block: &'s Block,
    number: u32,
    /// The block is as it was as long as these are.
    state: State,
    copy: Ref,
    /// Bytes.
    len: usize,
}

/// A node of which parts are copied.
struct Peek<'s> {
    kept: Kept<'s>,
    node: Range<usize>,
    words: RefMut<'s, Vec<u64>>,
}

impl Session<'_> {
    /// As `view`, for who wants a part of the node, and in it learns which other one. If the block is compressed, and this can be done, the parts are all that
    /// `look` may find there; the block stays so. Of a part with a border it finds the two words, and copies of them: of the first one in all places before, of the other one behind.
    #[inline(always)]
    pub(crate) fn view_parts<R>(
        &self,
        handle: Handle,
        mut look: impl FnMut(View<'_>) -> R,
        parts: &impl Parts,
    ) -> Result<R, Error> {
        match self.look_once(handle, |bytes| Some(look(View::new(bytes)))) {
            Some(result) => Ok(result),
            None => self.view_parts_hard(handle, look, parts),
        }
    }

    #[cold]
    #[inline(never)]
    fn view_parts_hard<R, P: Parts>(
        &self,
        handle: Handle,
        mut look: impl FnMut(View<'_>) -> R,
        parts: &P,
    ) -> Result<R, Error> {
        if let Some(first) = parts.first()
            && let Some(mut peek) = self.peek(handle)
            && peek.copy_first(first) == Some(())
            && let Some(second) = parts.second(peek.view())
            && (P::HAS_BORDER && peek.copy_border(second.clone(), parts) == Some(())
                || peek.copy(second) == Some(()))
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
        let is_kept = state.residency() == Residency::Absent && block.grouping.load(Relaxed) == ASCENDING;
        let is_node = handle.place() == 0 && handle.check() == 0 && !block.marked.load(Relaxed);
        let kind = block.kind.load(Relaxed);
        let Some(shape @ Shape::Equal(equal)) = core.shape_of(kind).filter(|shape| shape.is_alone()) else {
            return None;
        };
        if !is_kept
            || !is_node
            || block.incarnation.load(Relaxed) != handle.incarnation()
            || self.peeks.brings(core, number)
        {
            return None;
        }
        let image = shape.image(core.options.block_size);
        let mut words = self.peeks.words.try_borrow_mut().ok()?;
        // What is read by words may end within the last one. Behind it is room for a run.
        let len = image.div_ceil(size_of::<u64>()) + 1 + Run::ROOM / size_of::<u64>();
        if words.len() < len {
            let (more, before) = (len - words.len(), words.capacity());
            words.try_reserve_exact(more).ok()?;
            words.resize(len, 0);
            let bytes = (words.capacity() - before) * size_of::<u64>();
            core.counts.work_bytes.fetch_add(bytes as u64, Relaxed);
        }
        let node = equal.first()..equal.first() + equal.len as usize;
        Some(Peek { kept: Kept { core, block, number, state, copy, len: image }, node, words })
    }
}

impl Kept<'_> {
    /// Reads it, unless the block has changed.
    fn read<R>(&self, read: impl FnOnce(Packed<'_>) -> Option<R>) -> Option<R> {
        let _lock = self.block.try_lock()?;
        // Whoever changes a block, or puts another into its place, brings it first.
        if self.block.state() != self.state || self.block.unverified.load(Relaxed) {
            return None;
        }
        let Kept { core, number, len, .. } = *self;
        self.block.with_copy(|copy| {
            if copy != Copy::Stored(self.copy) {
                return None;
            }
            // SAFETY: the copy is pinned, and who frees it has the block's lock.
            let (id, bytes) = unsafe { core.store.get_unverified(self.copy, number.into()) }.ok()?;
            Packed::new(bytes, len).filter(|_| id == Some(CodecId::COPY)).and_then(read)
        })?
    }
}

impl Peek<'_> {
    /// Copies a part of the node, and looks whether the node lives.
    fn copy_first(&mut self, part: Range<usize>) -> Option<()> {
        self.copy_image(0..self.node.start + part.end)?;
        (self.words[0].to_le() & 1 == 1).then_some(())
    }

    /// Where a part of the node is in the image.
    fn in_image(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let end = self.node.start.checked_add(part.end).filter(|&end| end <= self.node.end)?;
        Some(self.node.start + part.start..end)
    }

    /// Copies a part of the node.
    fn copy(&mut self, part: Range<usize>) -> Option<()> {
        self.copy_image(self.in_image(&part)?)
    }

    fn copy_image(&mut self, part: Range<usize>) -> Option<()> {
        let to = self.words.as_mut_bytes().get_mut(..self.kept.len)?;
        self.kept.read(|packed| packed.unpack_part(part, to))
    }

    /// Copies the words at the border of a part of the node to all places of it, if it is words of one run.
    fn copy_border(&mut self, part: Range<usize>, parts: &impl Parts) -> Option<()> {
        let range = self.in_image(&part).filter(|range| !range.is_empty())?;
        let (from, to) = (range.start / size_of::<u64>(), range.end / size_of::<u64>());
        if range != (from * size_of::<u64>()..to * size_of::<u64>()) {
            return None;
        }
        let (image, room) = self.words.split_at_mut(self.kept.len.div_ceil(size_of::<u64>()) + 1);
        // Comparing is the program's, so it comes when the block is no longer locked.
        let run = self.kept.read(|packed| packed.run_of(range)?.copy_to(room.as_mut_bytes()))?;
        if !run.is_right() {
            return None;
        }
        let start = run.words.start;
        let border = run.border(from - start..to - start, |word| parts.is_before(word))?;
        let (before, behind) = image.get_mut(from..to)?.split_at_mut_checked(start + border.before - from)?;
        before.fill(border.last.to_le());
        behind.fill(border.next.to_le());
        Some(())
    }

    fn view(&mut self) -> View<'_> {
        let words = NonNull::from(self.words.as_mut_slice()).cast::<u8>();
        // SAFETY: the node lies within the words, and a word behind it does.
        let bytes = unsafe { words.add(self.node.start) };
        View::new(Bytes::in_frame(NodeBytes { bytes, len: self.node.len() }))
    }
}
