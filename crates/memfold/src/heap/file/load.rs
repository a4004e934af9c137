//! Loading a heap from a file. Nothing in the file is trusted: see the module above.

use std::io::Read;
use std::string::String;
use std::sync::atomic::Ordering::*;
use std::vec;
use std::vec::Vec;

use memfold_codec::portable::{self, Head as FormHead};
use memfold_codec::{Chain, decoder};
use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::{U32, U64};

use super::bounds::Parts;
use super::error::LoadError;
use super::format::{self, Head, LargeRecord, Record, Shape, Source};
use crate::heap::Heap;
use crate::heap::block::handle::Handle;
use crate::heap::core::{Core, Shape as Blocks};
use crate::heap::error::{BadOption, Error};
use crate::heap::options::{ALIGNMENTS, BLOCK_BYTES, Options};
use crate::heap::sync::locked;

/// After this many bytes of payloads, the loader checks whether the limit allows more.
const LOOK: usize = 1 << 20;
/// Loaded blocks count as evicted this long ago: a first fault is no sign that more frames are needed.
const LONG_AGO: u32 = 1 << 31;

/// See [`Heap::load_from`].
pub fn load(from: impl Read, options: Options) -> Result<Heap, LoadError> {
    let mut source = Source::begin(from)?;
    if cfg!(target_endian = "big") {
        return Err(LoadError::Io(std::io::ErrorKind::Unsupported.into()));
    }
    let (kind, body) = source.next()?;
    let read = Head::read_from_prefix(body).ok().filter(|_| kind == format::HEAD);
    let Some((head, shapes)) =
        read.and_then(|(head, rest)| Some((head, <[Shape]>::ref_from_bytes(rest).ok()?)))
    else {
        return Err(source.wrong("it does not begin with a head"));
    };
    let (size, alignment) = (head.block_size.get() as usize, head.alignment.get() as usize);
    let options = options.block_size(size.next_power_of_two()).alignment(alignment);
    let possible = BLOCK_BYTES.contains(&size) && ALIGNMENTS.contains(&alignment) && alignment <= size / 4;
    if !possible || !alignment.is_power_of_two() {
        return Err(source.wrong("there are no such blocks"));
    }
    let heap = Heap::new(options)?;
    let core = heap.core();
    if core.plain().is_some() {
        return Err(BadOption::of_twin().into());
    }
    let known = core.options.block_size == size && core.part() == head.part.get() as usize;
    if !known || shapes.len() != head.shapes.get() as usize || head.zero.get() != 0 {
        return Err(source.wrong("there are no such blocks"));
    }
    for (shape, kind) in shapes.iter().zip(1..) {
        let len = shape.len.get() as usize;
        let known = (1..=size).contains(&len) && core.equal_kind(len) == Some(kind);
        let nodes = core.shape_of(kind).map(Blocks::places).filter(|_| known);
        if nodes != Some(shape.nodes.get() as usize) {
            return Err(source.wrong("there is no such kind of blocks"));
        }
    }
    core.root.store(head.root.get(), Relaxed);
    let mut loader = Loader {
        core,
        made_by: vec![],
        vacant: vec![],
        numbers: 0,
        blocks: 0,
        unlooked: 0,
        nodes: 0,
        large: 0,
        parts: Parts::new(core),
    };
    loop {
        let (kind, body) = source.next()?;
        let done = match kind {
            format::CODEC => loader.codec(body),
            format::BLOCKS => loader.blocks(body),
            format::LARGE => loader.large(body),
            format::END if body.is_empty() => break,
            _ => Err(Wrong::Says("a part of it is where it can't be")),
        };
        done.map_err(|wrong| match wrong {
            Wrong::Says(what) => source.wrong(what),
            Wrong::Is(error) => error,
        })?;
    }
    let Loader { vacant, numbers, blocks, nodes, large, .. } = loader;
    let all = (U32::new(numbers), U32::new(blocks), U64::new(nodes), U32::new(large));
    if all != (head.numbers, head.blocks, head.nodes, head.large) {
        return Err(source.wrong("it holds another number of blocks or nodes than it says"));
    }
    drop(core.may_grow()?);
    let mut rooms = locked(&core.rooms);
    vacant.into_iter().for_each(|number| rooms.give_number(number));
    core.counts.room_bytes.store(rooms.bytes(), Relaxed);
    drop(rooms);
    Ok(heap)
}

/// What is wrong with a chunk, or an error that is not about a chunk.
enum Wrong {
    Says(&'static str),
    Is(LoadError),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Wrong::Is(error.into())
    }
}

struct Loader<'c> {
    core: &'c Core,
    /// The codecs of payloads, in the order of their numbers from 1.
    made_by: Vec<FormHead>,
    /// Numbers that may be used again.
    vacant: Vec<u32>,
    numbers: u32,
    blocks: u32,
    /// Bytes of payloads since the limit was last checked.
    unlooked: usize,
    nodes: u64,
    large: u32,
    parts: Parts<'c>,
}

impl Loader<'_> {
    fn codec(&mut self, body: &[u8]) -> Result<(), Wrong> {
        let Some((&own @ (0 | 1), name)) = body.split_first() else {
            return Err(Wrong::Says("a codec has no name"));
        };
        let name = str::from_utf8(name).map_err(|_| Wrong::Says("a codec's name is not UTF-8"))?;
        let has = self.core.options.codec;
        let unknown = || Wrong::Is(LoadError::Codec { name: String::from(name), own: own == 1 });
        let (head, scratch) = if own == 1 {
            // The codec's number must not be that of a codec of this library.
            let same = has.name() == name && decoder(has.id()).is_none();
            (same.then(|| FormHead::of_codec(has.id())).ok_or_else(unknown)?, 0)
        } else {
            let chain: Chain = name.parse().map_err(|_| unknown())?;
            (portable::head(chain), chain.decompress_scratch(self.core.max_copy_len))
        };
        if self.made_by.len() == format::MOST_CODECS {
            return Err(Wrong::Says("it has too many codecs"));
        }
        self.core.store.will_decode(scratch);
        self.made_by.push(head);
        Ok(())
    }

    fn blocks(&mut self, body: &[u8]) -> Result<(), Wrong> {
        let says = |_| Wrong::Says("there are fewer blocks than it says");
        let (count, rest) = U32::read_from_prefix(body).map_err(|_| Wrong::Says("blocks without a count"))?;
        let count = count.get() as usize;
        let (records, mut payloads) =
            <[Record]>::ref_from_prefix_with_elems(rest, count).map_err(|error| {
                let _ = error;
                says(())
            })?;
        for record in records {
            let payload = payloads.split_off(..record.payload.get() as usize).ok_or_else(|| says(()))?;
            self.record(record, payload)?;
        }
        if payloads.is_empty() { Ok(()) } else { Err(Wrong::Says("there is more than its blocks take")) }
    }

    fn record(&mut self, record: &Record, payload: &[u8]) -> Result<(), Wrong> {
        let core = self.core;
        let number = locked(&core.rooms).take_number().map_err(|error| match error {
            Error::Limit => Wrong::Says("it has too many blocks"),
            error => error.into(),
        })?;
        let block = core.blocks.make(number).ok_or(Error::OutOfMemory)?;
        self.numbers += 1;
        block.incarnation.store(record.incarnation, Relaxed);
        if payload.is_empty() {
            let nothing = Record {
                incarnation: record.incarnation,
                flags: record.flags & format::LOST,
                ..Record::default()
            };
            if *record != nothing {
                return Err(Wrong::Says("a block without bytes has something else"));
            }
            if record.flags == 0 || !core.options.paranoid {
                self.vacant.push(number);
            }
            return Ok(());
        }
        let kind = record.kind.get().into();
        let shape = core.shape_of(kind).ok_or(Wrong::Says("a block is of a kind that there is not"))?;
        if let Some(what) = core.contradiction(record, shape) {
            return Err(Wrong::Says(what));
        }
        block.begin(kind, record.free.get());
        block.live.store(record.live.get(), Relaxed);
        block.bytes.store(record.bytes.get(), Relaxed);
        block.longest.store(record.longest.get(), Relaxed);
        block.pending.store(record.pending.get(), Relaxed);
        block.generation.store(record.generation, Relaxed);
        block.grouping.store(record.grouping, Relaxed);
        block.marked.store(record.flags & format::MARKED != 0, Relaxed);
        block.retired.store(record.flags & format::RETIRED != 0, Relaxed);
        block.unverified.store(true, Relaxed);
        block.evicted.store(LONG_AGO, Relaxed);
        let put = match record.codec.get().checked_sub(1) {
            None => core.store.put(number.into(), None, payload),
            Some(place) => {
                let head = self.made_by.get(usize::from(place));
                let head =
                    head.ok_or(Wrong::Says("a block was made by a codec that the file does not list"))?;
                if head.bytes().is_empty() {
                    core.store.put(number.into(), Some(head.id), payload)
                } else {
                    core.store.put(number.into(), Some(head.id), &[head.bytes(), payload].concat())
                }
            }
        };
        block.set_copy(put.map_err(|_| Error::OutOfMemory)?);
        block.set_absent();
        core.count_block(kind);
        core.list_by_free_space(number, block);
        // Blocks that exceed the limit go to the tier, as they did in the saved heap.
        core.spill_end.fetch_max(number, Relaxed);
        core.spill_some();
        self.blocks += 1;
        self.nodes += u64::from(record.live.get());
        self.unlooked += payload.len();
        if self.unlooked >= LOOK {
            self.unlooked = 0;
            drop(core.may_grow()?);
        }
        Ok(())
    }

    fn large(&mut self, mut body: &[u8]) -> Result<(), Wrong> {
        let core = self.core;
        let short = || Wrong::Says("there are fewer parts of a node than it says");
        while !body.is_empty() {
            let (record, rest) = LargeRecord::read_from_prefix(body).map_err(|_| short())?;
            let len = usize::try_from(record.len.get()).ok().filter(|&len| len <= crate::heap::MAX_NODE);
            let parts = record.parts.get() as usize;
            let len = len.filter(|len| len.div_ceil(core.part()) == parts && record.zero.get() == 0);
            let len = len.ok_or(Wrong::Says("a node can't be as long as it says"))?;
            let (handles, rest) = <[U64]>::ref_from_prefix_with_elems(rest, parts).map_err(|_| short())?;
            let mut parts = vec![];
            parts.try_reserve_exact(handles.len()).map_err(|_| Error::OutOfMemory)?;
            for bits in handles {
                let part = Handle::from_bits(bits.get());
                if let Some(part) = part
                    && !self.parts.add(part, self.nodes)?
                {
                    return Err(Wrong::Says("a part of a node is none"));
                }
                parts.push(part);
            }
            self.large = self.large.checked_add(1).ok_or(Wrong::Says("it has too many long nodes"))?;
            locked(&core.large).restore(record.generation.get(), len, parts, core.options.paranoid)?;
            body = rest;
        }
        Ok(())
    }
}
