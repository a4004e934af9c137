//! Looking at parts of a node whose block stays compressed.
//!
//! An array of ascending numbers can be restored in parts, without the rest (`layout/ascending`). Searching
//! one this way takes about a twelfth of the time of faulting its block in. But a block that is faulted in is
//! resident the next time. So one search in a number faults the block in, and more of them do if no other
//! block has to be evicted. Blocks that are wanted often thus become resident, and blocks that are wanted
//! once don't evict others.
//!
//! The parts are copied into memory that the session owns. No code of the program is called while the block
//! is locked.

use std::cell::RefMut;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;
use std::vec::Vec;

use memfold_codec::CodecId;
use zerocopy::IntoBytes;

use crate::heap::access::bytes::Bytes;
use crate::heap::access::bytes::NodeBytes;
use crate::heap::access::session::Session;
use crate::heap::access::view::View;
use crate::heap::block::handle::Handle;
use crate::heap::block::layout::ascending::{Packed, Run};
use crate::heap::block::table::{Block, Copy, Residency, State};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::stored::grouping::ASCENDING;
use crate::probe;
use crate::store::Ref;

/// The parts of a node that a caller wants.
pub(crate) trait Parts {
    /// The part to look at first, if parts suffice.
    fn first(&self) -> Option<Range<usize>>;
    /// The second part, which depends on the content of the first.
    fn second(&self, node: View<'_>) -> Option<Range<usize>>;
    /// Whether only two words of the second part are wanted: the last one before the border, and the one
    /// after it.
    const HAS_BORDER: bool;
    /// Whether a word of the second part is before the border. All words before it come first.
    fn is_before(&self, word: u64) -> bool;
}

/// The compressed copy of a block.
struct Kept<'s> {
    core: &'s Core,
    block: &'s Block,
    number: u32,
    /// The block is unchanged as long as its state and its copy equal these.
    state: State,
    copy: Ref,
    /// Bytes of the block's image.
    len: usize,
}

/// A node whose parts are copied.
struct Peek<'s> {
    kept: Kept<'s>,
    node: Range<usize>,
    words: RefMut<'s, Vec<u64>>,
}

impl Session<'_> {
    /// As `view`, for a caller that wants a part of the node and learns from it which other part it wants. If
    /// the block is compressed and its parts can be read, the block stays compressed, and `look` sees only
    /// those parts. Of a part with a border, it sees only the two words at the border: the first at all
    /// places before the border, and the second at all places after it.
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

    /// The node, if parts of it can be copied and its block is not to be faulted in.
    fn peek(&self, handle: Handle) -> Option<Peek<'_>> {
        let core = self.core();
        if core.plain().is_some() || Core::is_large(handle) {
            return None;
        }
        let number = handle.block();
        let block = core.blocks.get(number)?;
        // All this may change until the block is locked: then it is checked again.
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
        // Reading by words may reach into one more word. Space for a run follows it.
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
    /// Reads the copy, unless the block has changed.
    fn read<R>(&self, read: impl FnOnce(Packed<'_>) -> Option<R>) -> Option<R> {
        let _lock = self.block.try_lock()?;
        // A thread that changes a block, or reuses its number, faults it in first.
        if self.block.state() != self.state || self.block.unverified.load(Relaxed) {
            return None;
        }
        let Kept { core, number, len, .. } = *self;
        self.block.with_copy(|copy| {
            if copy != Copy::Stored(self.copy) {
                return None;
            }
            // SAFETY: the copy is pinned, and freeing it requires the block's lock.
            let (id, bytes) = unsafe { core.store.get_unverified(self.copy, number.into()) }.ok()?;
            Packed::new(bytes, len).filter(|_| id == Some(CodecId::COPY)).and_then(read)
        })?
    }
}

impl Peek<'_> {
    /// Copies a part of the node, and checks that the node is live.
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

    /// Copies the words at the border of a part to all places of the part, if its words are in one run.
    fn copy_border(&mut self, part: Range<usize>, parts: &impl Parts) -> Option<()> {
        let range = self.in_image(&part).filter(|range| !range.is_empty())?;
        let (from, to) = (range.start / size_of::<u64>(), range.end / size_of::<u64>());
        if range != (from * size_of::<u64>()..to * size_of::<u64>()) {
            return None;
        }
        let (image, room) = self.words.split_at_mut(self.kept.len.div_ceil(size_of::<u64>()) + 1);
        // The comparison is the program's code, so it runs when the block is no longer locked.
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
        // SAFETY: the node lies within the words, and so does a word after it.
        let bytes = unsafe { words.add(self.node.start) };
        View::new(Bytes::in_frame(NodeBytes { bytes, len: self.node.len() }))
    }
}
