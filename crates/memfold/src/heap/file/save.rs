//! Saving a heap to a file.
//!
//! Nobody else uses the heap meanwhile, so the file shows a single moment. Each block's payload is taken from
//! the store; a dirty block is put there while it is copied, and takes no more memory afterwards than before.
//! Records and payloads are collected until they are worth a chunk.
//!
//! The writer belongs to the program and may panic. So nothing is written while a block is locked, or while a
//! dirty block is in the store only to be copied.
//!
//! Saving fails rather than write a file that a reader would refuse (`bounds.rs`). The functions that create
//! blocks and long nodes check the same bounds as the reader does.

use std::io::{self, Write};
use std::sync::atomic::Ordering::*;
use std::vec;
use std::vec::Vec;

use memfold_codec::{Chain, Codec, CodecId, Compressed, ScratchBuf, codec, decoder, portable};
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

use super::error::SaveError;
use super::format::{self, Chunks, Head, LargeRecord, Record, Shape};
use crate::heap::Heap;
use crate::heap::block::table::{Block, Copy, Residency};
use crate::heap::core::{Core, Shape as Blocks};
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;
use crate::heap::stored::grouping::{ASCENDING, grouped_len};
use crate::heap::stored::lost::Lost;
use crate::heap::sync::locked;
use crate::room::{filled, gather, push};

/// This many bytes of payloads, or of parts of large nodes, are worth a chunk.
const GATHERED: usize = 128 << 10;
/// The codec that recompresses blocks whose compressed form only this process can read.
const PORTABLE: &str = "zstd:1";

/// See [`Heap::save_to`].
pub fn save(heap: &mut Heap, to: impl Write) -> Result<(), SaveError> {
    if heap.core().plain().is_some() {
        return Err(SaveError::Twin);
    }
    if cfg!(target_endian = "big") {
        return Err(SaveError::Io(std::io::ErrorKind::Unsupported.into()));
    }
    let _pause = heap.core().board.pause();
    heap.core().end_forgotten();
    // Large nodes that are still in one piece are written back into their parts, and blocks that sessions
    // held are released.
    heap.session()?.put_all_back()?;
    let core = heap.core();
    let (end, vacant) = {
        let rooms = locked(&core.rooms);
        let (end, vacant) = rooms.numbers();
        let mut vacant = gather(vacant)?;
        vacant.sort_unstable();
        (end, vacant)
    };
    let (head, shapes) = head(core, end)?;
    // This is checked before anything is written.
    if let Some(node) = super::node_with_gone_part(core, head.nodes.get())? {
        return Err(SaveError::Part(node));
    }
    let mut chunks = Chunks::begin(to)?;
    chunks.put(format::HEAD, &[head.as_bytes(), shapes.as_bytes()])?;
    let mut saver = Saver {
        core,
        chunks,
        made_by: vec![],
        named: 0,
        records: vec![],
        payloads: vec![],
        lost: Lost::default(),
    };
    for number in 1..end {
        match core.blocks.get(number) {
            Some(block) if is_used(block) => saver.add_block(number, block)?,
            block => saver.add_vacant(block, vacant.binary_search(&number).is_ok())?,
        }
        if saver.payloads.len() + saver.records.len() * size_of::<Record>() >= GATHERED {
            saver.put_blocks()?;
        }
    }
    if !saver.lost.is_empty() {
        core.add_lost_parts(&mut saver.lost)?;
        return Err(SaveError::Lost(saver.lost));
    }
    saver.put_blocks()?;
    saver.put_large()?;
    saver.chunks.put(format::END, &[])?;
    Ok(())
}

/// Whether a block has nodes. A block without nodes exists if a forgotten session held it.
fn is_used(block: &Block) -> bool {
    block.state().residency() != Residency::Vacant && block.live.load(Relaxed) > 0
}

fn head(core: &Core, end: u32) -> Result<(Head, Vec<Shape>), Error> {
    let used = || (1..end).filter_map(|number| core.blocks.get(number)).filter(|block| is_used(block));
    let shapes = gather((1..).map_while(|kind| match core.shape_of(kind) {
        Some(Blocks::Equal(shape)) => {
            Some(Shape { len: U32::new(shape.len), nodes: U32::new(shape.nodes() as u32) })
        }
        _ => None,
    }))?;
    let head = Head {
        block_size: U32::new(core.options.block_size as u32),
        alignment: U32::new(core.options.alignment as u32),
        part: U32::new(core.part() as u32),
        numbers: U32::new(end - 1),
        blocks: U32::new(used().count() as u32),
        large: U32::new(locked(&core.large).len() as u32),
        nodes: U64::new(used().map(|block| u64::from(block.live.load(Relaxed))).sum()),
        root: U64::new(core.root.load(Relaxed)),
        shapes: U32::new(shapes.len() as u32),
        zero: U32::ZERO,
    };
    Ok((head, shapes))
}

/// The codec or codecs that made a payload; the number in the file is one more than the index.
#[derive(PartialEq)]
enum Maker {
    Chain(Chain),
    /// The user-supplied codec of the heap.
    Own,
}

struct Saver<'c, W> {
    core: &'c Core,
    chunks: Chunks<W>,
    made_by: Vec<Maker>,
    /// How many of them have been written as chunks.
    named: usize,
    records: Vec<Record>,
    payloads: Vec<u8>,
    /// Once a loss is found, nothing more is written, and the rest is only searched for losses.
    lost: Lost,
}

impl<W: Write> Saver<'_, W> {
    /// Adds a number without a block; `may_be_used` says whether it may be reused.
    fn add_vacant(&mut self, block: Option<&Block>, may_be_used: bool) -> Result<(), Error> {
        let mut record = Record::default();
        if let Some(block) = block {
            let given = block.state().residency() != Residency::Vacant;
            // The incarnation is as if the block had been vacated.
            record.incarnation = block.incarnation.load(Relaxed).wrapping_add(given.into());
            record.flags = if may_be_used || given { 0 } else { format::LOST };
        }
        push(&mut self.records, record)
    }

    fn add_block(&mut self, number: u32, block: &Block) -> Result<(), SaveError> {
        let _lock = block.lock();
        let frame = match block.state().residency() {
            Residency::Resident(at) => self.core.frames.get(at).map(|frame| (at, frame)),
            _ => None,
        };
        let changed = |(_, frame): &(u32, &Frame)| frame.dirty.load(Relaxed) || !block.has_copy();
        match (self.add_block_copy(number, block, frame.filter(changed)), frame) {
            // The tier has lost the copy or does not answer, but the block is resident.
            (Err(SaveError::Heap(Error::Lost | Error::Away)), Some((at, frame))) => {
                self.core.changed(number, frame);
                self.add_block_copy(number, block, Some((at, frame)))
            }
            (Err(SaveError::Heap(Error::Lost)), None) => {
                Ok(self.core.add_lost(&mut self.lost, number, block)?)
            }
            (added, _) => added,
        }
    }

    /// Adds a block's copy; if the block is resident and dirty, it is compressed first.
    fn add_block_copy(
        &mut self,
        number: u32,
        block: &Block,
        changed: Option<(u32, &Frame)>,
    ) -> Result<(), SaveError> {
        if let Some((at, frame)) = changed {
            self.core.keep(number, at, block, frame)?;
        }
        // A block that is not resident and has no copy is given up.
        let added = block.with_copy(|copy| self.add_copy(number, block, copy));
        if let Some((_, frame)) = changed {
            self.core.drop_copy(number);
            frame.dirty.store(true, Relaxed);
        }
        added.unwrap_or(Err(SaveError::Heap(Error::Lost)))
    }

    /// Adds a block's copy, which is pinned.
    fn add_copy(&mut self, number: u32, block: &Block, copy: Copy) -> Result<(), SaveError> {
        let (core, mut sealed) = (self.core, Vec::new());
        let (id, payload) = core.payload(number, copy, &mut sealed)?;
        let own = self.core.options.codec.id();
        let (codec, len) = match id {
            None => (0, self.append(payload)?),
            Some(id) if id == own && decoder(id).is_none() => {
                (self.number_of(Maker::Own)?, self.append(payload)?)
            }
            Some(id) => match portable::split(id, payload) {
                // A record without bytes means that there is no block.
                Some((chain, body)) if !body.is_empty() => {
                    (self.number_of(Maker::Chain(chain))?, self.append(body)?)
                }
                _ => {
                    let (id, payload) = self.compress_again(number, block, copy)?;
                    let (chain, body) = portable::split(id, &payload).ok_or(Error::Damaged)?;
                    (self.number_of(Maker::Chain(chain))?, self.append(body)?)
                }
            },
        };
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let shape = self.core.shape_of(block.kind.load(Relaxed)).ok_or(Error::Damaged)?;
        // If `pending` exceeds the room, bytes were freed, used and freed again; that is not an error.
        let most = match shape {
            Blocks::Mixed(shape) => shape.room(),
            Blocks::Equal(shape) => shape.nodes(),
        };
        let record = Record {
            payload: U32::new(len),
            live: U32::new(block.live.load(Relaxed)),
            bytes: U32::new(block.bytes.load(Relaxed)),
            free: U32::new(block.free.load(Relaxed)),
            longest: U32::new(block.longest.load(Relaxed)),
            pending: U32::new(block.pending.load(Relaxed).min(most as u32)),
            kind: U16::new(block.kind.load(Relaxed) as u16),
            codec: U16::new(codec),
            flags: flag(block.marked.load(Relaxed), format::MARKED)
                | flag(block.retired.load(Relaxed), format::RETIRED),
            incarnation: block.incarnation.load(Relaxed),
            generation: block.generation.load(Relaxed),
            grouping: block.grouping.load(Relaxed),
        };
        if core.contradiction(&record, shape).is_some() {
            return Err(SaveError::Heap(Error::Damaged));
        }
        Ok(push(&mut self.records, record)?)
    }

    fn append(&mut self, payload: &[u8]) -> Result<u32, SaveError> {
        self.payloads.try_reserve(payload.len()).map_err(|_| Error::OutOfMemory)?;
        self.payloads.extend_from_slice(payload);
        Ok(payload.len() as u32)
    }

    /// The number of the codec that made a payload.
    fn number_of(&mut self, maker: Maker) -> Result<u16, SaveError> {
        let known = self.made_by.iter().position(|known| *known == maker);
        let place = match known {
            Some(place) => place,
            None if self.made_by.len() == format::MOST_CODECS => {
                let what = "its blocks were made by more codecs than a file has numbers for";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what).into());
            }
            None => {
                push(&mut self.made_by, maker)?;
                self.made_by.len() - 1
            }
        };
        Ok(place as u16 + 1)
    }

    /// Writes the names of the codecs of the payloads that follow.
    fn put_codecs(&mut self) -> Result<(), SaveError> {
        while let Some(maker) = self.made_by.get(self.named) {
            match maker {
                Maker::Chain(chain) => {
                    let name = portable::name(*chain);
                    self.chunks.put(format::CODEC, &[&[0], name.name().as_bytes()])?;
                }
                Maker::Own => {
                    self.chunks.put(format::CODEC, &[&[1], self.core.options.codec.name().as_bytes()])?;
                }
            }
            self.named += 1;
        }
        Ok(())
    }

    /// Recompresses a block so that any process can read it.
    fn compress_again(
        &self,
        number: u32,
        block: &Block,
        copy: Copy,
    ) -> Result<(CodecId, Vec<u8>), SaveError> {
        let (shape, len) = self.core.stored_len(block)?;
        let len = match block.grouping.load(Relaxed) {
            // Ascending numbers are stored without a codec.
            ASCENDING => return Err(Error::Damaged.into()),
            grouping => grouped_len(grouping, shape, len),
        };
        let codec = codec(PORTABLE).map_err(|_| Error::Damaged)?;
        let made = self.core.with_work(|work, hands| {
            let bytes = hands.spare.get_mut(..len).ok_or(Error::Damaged)?;
            let (id, payload) = self.core.payload(number, copy, hands.sealed)?;
            self.core.store.open_own(number.into(), id, payload, bytes, &mut work.decode)?;
            let mut memory = ScratchBuf::for_codecs([codec], len);
            let mut form = filled(codec.bound(len), 0)?;
            match codec.compress(bytes, &mut form, len - 1, &mut memory.scratch()) {
                Compressed::Fits(size) => {
                    form.truncate(size);
                    Ok((codec.id(), form))
                }
                Compressed::Incompressible => Ok((CodecId::COPY, gather(bytes.iter().copied())?)),
            }
        })?;
        made.map_err(SaveError::Heap)
    }

    fn put_blocks(&mut self) -> Result<(), SaveError> {
        if !self.records.is_empty() && self.lost.is_empty() {
            self.put_codecs()?;
            let count = U32::new(self.records.len() as u32);
            let bodies = [count.as_bytes(), self.records.as_bytes(), &self.payloads];
            self.chunks.put(format::BLOCKS, &bodies)?;
        }
        self.records.clear();
        self.payloads.clear();
        Ok(())
    }

    fn put_large(&mut self) -> Result<(), SaveError> {
        let core = self.core;
        let large = locked(&core.large);
        let mut body = vec![];
        for saved in large.saved() {
            let (generation, len, parts) = saved?;
            let record = LargeRecord {
                len: U64::new(len as u64),
                parts: U32::new(parts.len() as u32),
                generation: U16::new(generation),
                zero: U16::ZERO,
            };
            body.try_reserve(size_of::<LargeRecord>() + parts.len() * 8).map_err(|_| Error::OutOfMemory)?;
            body.extend_from_slice(record.as_bytes());
            for part in parts {
                body.extend(part.map_or(0, |part| part.to_bits()).to_le_bytes());
            }
            if body.len() >= GATHERED {
                self.chunks.put(format::LARGE, &[&body])?;
                body.clear();
            }
        }
        if !body.is_empty() {
            self.chunks.put(format::LARGE, &[&body])?;
        }
        Ok(())
    }
}
