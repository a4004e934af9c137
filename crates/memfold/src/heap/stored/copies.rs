//! The copy of a block that is not in a frame.
//!
//! A block without checks is compressed directly from its frame, and decompressed into it. One with checks is
//! first joined with its marks, and split again afterwards: in a frame the marks are in separate memory
//! (`residency/frames/memory.rs`); in the store and in files they follow the image (`block/marks.rs`).

use std::sync::atomic::Ordering::*;
use std::vec::Vec;

use crate::heap::block::layout::ascending::Packed;
use crate::heap::block::layout::fields::Fields;
use crate::heap::block::layout::image::Damaged;
use crate::heap::block::layout::mixed::Mixed;
use crate::heap::block::table::{Block, Copy};
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;
use crate::heap::stored::grouping::{AS_IT_IS, ASCENDING, grouped_len};
use crate::heap::stored::workspace::{Hands, Work, room};
use crate::probe;
use crate::store::{OwnedWorkspace, Workspace};
use memfold_codec::CodecId;

/// How many copies are put into the store or taken out between two checks whether it needs compaction, and
/// about how many bytes are moved then.
const UPKEEP: u64 = 64;
const UPKEEP_BYTES: usize = 1 << 20;
/// Free memory is short if this many blocks do not fit any more.
const SHORT: u64 = 4;

impl Core {
    /// Bytes of memory for one compression.
    pub fn work_len(&self) -> usize {
        self.store.workspace_bytes(self.max_copy_len)
    }

    /// Runs `f` with memory to compress in.
    pub fn with_work<R>(&self, f: impl FnOnce(&mut Workspace<'_>, Hands<'_>) -> R) -> Result<R, Error> {
        let make = |is_first: bool| {
            // Without memory for a second one, threads take turns.
            if !is_first && !self.has_left(self.work_len() as u64) {
                return Err(Error::OutOfMemory);
            }
            let space = OwnedWorkspace::new(&self.store, self.max_copy_len).ok_or(Error::OutOfMemory)?;
            self.counts.work_bytes.fetch_add(self.work_len() as u64, Relaxed);
            Ok(Work::new(space))
        };
        let (result, grown) = self.works.with(make, f)?;
        self.counts.work_bytes.fetch_add(grown as u64, Relaxed);
        Ok(result)
    }

    /// Bytes of a block's copy before compression, including its marks if it has checks.
    pub fn stored_len(&self, block: &Block) -> Result<(Shape, usize), Error> {
        let shape = self.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        Ok((shape, self.copy_len(shape, block.marked.load(Relaxed))))
    }

    /// The same for a block of this shape; `marked` if it has checks.
    pub fn copy_len(&self, shape: Shape, marked: bool) -> usize {
        let size = self.options.block_size;
        if marked { shape.form(size).end() } else { shape.image(size) }
    }

    /// Puts a copy of a block into the store; `number` is that of its frame. The caller has ended the frame's
    /// tenancy, or has exclusive access to the heap.
    pub fn keep(&self, owner: u32, number: u32, block: &Block, frame: &Frame) -> Result<(), Error> {
        let (shape, len) = self.stored_len(block)?;
        if let Shape::Mixed(mixed) = shape
            && block.pending.load(Relaxed) > 0
        {
            // A damaged block is stored as it is.
            let _ = Mixed::new(self.image(frame, shape), mixed).clear();
        }
        self.note_node(owner, number, block, shape);
        probe!(heap_compress_begin, owner, len);
        let copy = self.with_work(|work, Hands { spare, fields, joined, .. }| {
            let bytes = if block.marked.load(Relaxed) {
                let to = room(joined, len)?;
                // SAFETY: the tenancy has ended, so nobody writes.
                unsafe { self.join(number, block, frame, shape, to) }?;
                to
            } else {
                // SAFETY: the block's bytes in the frame; nobody writes, as above.
                unsafe { std::slice::from_raw_parts(frame.base().as_ptr(), len) }
            };
            self.put(owner, block, bytes, work, spare, fields)
        })??;
        block.set_copy(copy);
        let grouped = match block.grouping.load(Relaxed) {
            AS_IT_IS => 0,
            ASCENDING => 2,
            _ => 1,
        };
        probe!(heap_compress, owner, len, grouped);
        frame.dirty.store(false, Relaxed);
        self.spill_end.fetch_max(owner, Relaxed);
        self.upkeep();
        self.spill_some();
        Ok(())
    }

    /// Joins a block with its checks, if it has any; `to` is at least as long as the result.
    ///
    /// # Safety
    /// Nobody writes to the block meanwhile.
    pub unsafe fn join(
        &self,
        number: u32,
        block: &Block,
        frame: &Frame,
        shape: Shape,
        to: &mut [u8],
    ) -> Result<(), Damaged> {
        let (image, marks) = (self.image(frame, shape), self.marks(number, block, shape));
        let form = shape.form(self.options.block_size);
        to.fill(0);
        let parts =
            [(0..image.len(), image), (form.starts(), marks.starts()), (form.checks(), marks.checks())];
        // Marks that the block lacks are empty.
        for (range, part) in parts.into_iter().filter(|(_, part)| part.len() > 0) {
            // SAFETY: as the caller guarantees.
            unsafe { part.copy_to(to.get_mut(range).ok_or(Damaged)?) }?;
        }
        Ok(())
    }

    /// The inverse: splits a block and its checks into a frame that has memory for them.
    fn split_marks(
        &self,
        number: u32,
        block: &Block,
        frame: &Frame,
        shape: Shape,
        from: &[u8],
    ) -> Result<(), Damaged> {
        let (image, marks) = (self.image(frame, shape), self.marks(number, block, shape));
        let form = shape.form(self.options.block_size);
        image.copy_from(from.get(..image.len()).ok_or(Damaged)?)?;
        if marks.starts().len() > 0 {
            marks.starts().copy_from(from.get(form.starts()).ok_or(Damaged)?)?;
        }
        marks.checks().copy_from(from.get(form.checks()).ok_or(Damaged)?)
    }

    /// Now and then, or each time if free memory is short, lets the store close the holes that freed blobs left.
    pub fn upkeep(&self) {
        let is_due = self.counts.moves.fetch_add(1, Relaxed) % UPKEEP == UPKEEP - 1;
        let is_short =
            || self.limit().follows_free() && !self.has_left(SHORT * self.frames.most_bytes() as u64);
        if is_due || is_short() {
            self.store.store().maintain(&self.blocks, UPKEEP_BYTES);
        }
    }

    /// Decompresses a block's copy to the beginning of `to`; the caller holds its lock.
    pub fn load(&self, number: u32, block: &Block, to: &mut [u8]) -> Result<(), Error> {
        let (shape, len) = self.stored_len(block)?;
        let to = to.get_mut(..len).ok_or(Error::Damaged)?;
        self.with_work(|work, Hands { spare, fields, sealed, .. }| {
            self.load_by(number, block, shape, to, (work, spare, fields, sealed))
        })?
    }

    fn load_by(
        &self,
        number: u32,
        block: &Block,
        shape: Shape,
        to: &mut [u8],
        hands: (&mut Workspace<'_>, &mut [u8], &mut Fields, &mut Vec<u8>),
    ) -> Result<(), Error> {
        let len = to.len();
        probe!(heap_decompress_begin, number, len);
        let loaded = self.decompress(number, block, shape, to, hands);
        probe!(heap_decompress, number, len, if loaded.is_ok() { 1 } else { 2 });
        loaded
    }

    fn decompress(
        &self,
        number: u32,
        block: &Block,
        shape: Shape,
        to: &mut [u8],
        (work, spare, fields, sealed): (&mut Workspace<'_>, &mut [u8], &mut Fields, &mut Vec<u8>),
    ) -> Result<(), Error> {
        let grouping = block.grouping.load(Relaxed);
        if grouping == ASCENDING {
            let unpack = |copy| match self.payload(number, copy, sealed)? {
                (Some(CodecId::COPY), bytes) => {
                    Packed::new(bytes, to.len()).and_then(|packed| packed.unpack(to)).ok_or(Error::Damaged)
                }
                _ => Err(Error::Damaged),
            };
            return block.with_copy(unpack).ok_or(Error::Damaged)?;
        }
        let mut load = |to: &mut [u8]| {
            let load = |copy| {
                let (id, payload) = self.payload(number, copy, sealed)?;
                self.store.open_own(number.into(), id, payload, to, &mut work.decode)?;
                Ok(())
            };
            block.with_copy(load).ok_or(Error::Damaged)?
        };
        if grouping == AS_IT_IS {
            return load(to);
        }
        let grouped = spare.get_mut(..grouped_len(grouping, shape, to.len())).ok_or(Error::Damaged)?;
        load(grouped)?;
        self.ungroup(number, block, grouped, to, fields)
    }

    /// How a block's copy is compressed, and its payload. The caller holds the block's lock while the copy is
    /// pinned.
    pub fn payload<'b>(
        &'b self,
        number: u32,
        copy: Copy,
        sealed: &'b mut Vec<u8>,
    ) -> Result<(Option<CodecId>, &'b [u8]), Error> {
        match copy {
            // SAFETY: the copy is pinned, and freeing it requires the block's lock.
            Copy::Stored(copy) => Ok(unsafe { self.store.get(copy, number.into()) }?),
            Copy::Spilled(at) => self.read_copy(number, at, room(sealed, self.copy_buffer_len(number)?)?),
        }
    }

    /// Restores a block's copy, including marks, into a frame with the number `at`. The caller holds its lock
    /// and has the frame for itself.
    pub fn fill(
        &self,
        number: u32,
        block: &Block,
        at: u32,
        frame: &Frame,
        shape: Shape,
    ) -> Result<(), Error> {
        let (_, len) = self.stored_len(block)?;
        if block.marked.load(Relaxed) {
            self.with_work(|work, Hands { spare, fields, joined, sealed }| {
                let joined = room(joined, len)?;
                self.load_by(number, block, shape, joined, (work, spare, fields, sealed))?;
                self.split_marks(at, block, frame, shape, joined).map_err(Error::from)
            })??;
        } else {
            // SAFETY: the frame's memory; it belongs to this thread until the state says that the block is
            // resident.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(frame.base().as_ptr(), self.frames.stride()) };
            self.load(number, block, bytes)?;
            self.find_starts(at, block, frame, shape)?;
        }
        if block.unverified.load(Relaxed) {
            let (image, marks) = (self.image(frame, shape), self.marks(at, block, shape));
            self.verify(block, shape, image, marks)?;
        }
        Ok(())
    }

    /// Marks where the nodes of a block begin.
    fn find_starts(&self, number: u32, block: &Block, frame: &Frame, shape: Shape) -> Result<(), Damaged> {
        let Shape::Mixed(mixed) = shape else { return Ok(()) };
        let (image, marks) = (self.image(frame, shape), self.marks(number, block, shape));
        marks.clear_starts()?;
        for extent in Mixed::new(image, mixed).extents() {
            let extent = extent?;
            if extent.node.is_some() {
                marks.set_start(mixed.unit(extent.place), true)?;
            }
        }
        Ok(())
    }
}
