//! What a heap is made of, and how a node is found.

use std::boxed::Box;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::blocks::{Block, Blocks, Info, Place, State};
use super::error::Error;
use super::frames::{Frame, Frames, pause};
use super::handle::{Handle, Parts};
use super::layout::image::{Damaged, Image};
use super::layout::{equal, mixed};
use super::marks::Marks;
use super::options::Settled;
use super::pins::AllPins;
use super::policy::Policy;
use super::rooms::Rooms;
use super::segments::Segments;
use crate::SystemMemory;
use crate::store::Tiered;

/// Nodes of one size get blocks of their own if as many of them fit into one.
pub const EQUAL_NODES: usize = 16;
/// Different sizes that have blocks of their own, at most.
const SHAPES: u32 = 1024;

/// See the module.
pub struct Core {
    pub options: Settled,
    /// Blocks of nodes of different sizes.
    pub shape: mixed::Shape,
    /// Blocks of nodes of one size, by kind from 1.
    shapes: Segments<std::sync::OnceLock<equal::Shape>>,
    shapes_made: Mutex<u32>,
    pub blocks: Blocks,
    pub frames: Frames,
    pub pool: Mutex<Pool>,
    pub rooms: Mutex<Rooms>,
    pub pins: AllPins,
    pub store: Tiered<SystemMemory>,
    /// Memory to compress in, as many as threads did at once.
    pub work: Mutex<Vec<Box<[u8]>>>,
    /// Moves on when a block is brought back.
    pub clock: AtomicU32,
    pub counts: Counts,
}

/// Frames without a block, and what decides which block goes.
///
/// A frame is free, known to the policy, or chosen: then who chose it is about to evict its block. Meanwhile the block may be vacated, and
/// another one come into the frame.
pub struct Pool {
    pub free: Vec<u32>,
    pub chosen: Vec<u32>,
    /// Frames that there are.
    pub made: u32,
    pub policy: Box<dyn Policy>,
}

/// What happened so far.
#[derive(Debug, Default)]
pub struct Counts {
    pub faults: AtomicU64,
    pub evictions: AtomicU64,
    pub compressions: AtomicU64,
    pub work_bytes: AtomicU64,
}

/// How a session came to a block: what is remembered has to be checked like everything that is read without a lock.
#[derive(Clone, Copy)]
pub struct Way<'c> {
    number: u32,
    to: Option<(&'c Block, State, &'c Frame)>,
}

impl Way<'_> {
    /// To nowhere.
    pub const NONE: Self = Way { number: 0, to: None };
}

/// Where a node lies, in a frame.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    pub image: Image,
    pub at: usize,
    pub len: usize,
}

/// What a block's kind means.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Mixed(mixed::Shape),
    Equal(equal::Shape),
}

impl Shape {
    /// How many places nodes can have.
    pub fn places(self) -> usize {
        match self {
            Shape::Mixed(shape) => shape.total_units(),
            Shape::Equal(shape) => shape.nodes(),
        }
    }

    /// Bytes of the block without marks.
    pub fn image(self, block_size: usize) -> usize {
        match self {
            Shape::Mixed(_) => block_size,
            Shape::Equal(shape) => shape.used().next_multiple_of(8),
        }
    }

    pub fn marks(self, block_size: usize) -> Marks {
        Marks::new(self.image(block_size), self.places())
    }
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub fn new(options: Settled) -> Self {
        // A node and its marks must fit into what the store holds in one piece.
        let mut size = options.block_size;
        let mut shape = mixed::Shape::new(size, options.alignment);
        while Marks::new(size, shape.total_units()).end() > crate::store::MAX_PAYLOAD {
            size -= 4096;
            shape = mixed::Shape::new(size, options.alignment);
        }
        let options = Settled { block_size: size, ..options };
        let most_places = mixed::MOST_UNITS.max(equal::MOST_NODES).min(size);
        let frame_bytes = Marks::new(size, most_places).end();
        Core {
            options,
            shape,
            shapes: Segments::new(),
            shapes_made: Mutex::new(0),
            blocks: Blocks::new(),
            frames: Frames::new(frame_bytes),
            pool: Mutex::new(Pool {
                free: Vec::new(),
                chosen: Vec::new(),
                made: 0,
                policy: options.policy.make(),
            }),
            rooms: Mutex::new(Rooms::new()),
            pins: AllPins::new(),
            store: Tiered::new(SystemMemory, options.codec, None),
            work: Mutex::default(),
            clock: AtomicU32::new(1),
            counts: Counts::default(),
        }
    }

    /// What a kind means; `None` for one that there is not.
    #[inline]
    pub fn shape_of(&self, kind: u32) -> Option<Shape> {
        match kind {
            0 => Some(Shape::Mixed(self.shape)),
            kind => self.shapes.get(kind - 1)?.get().copied().map(Shape::Equal),
        }
    }

    /// The kind of blocks for nodes of this size alone, if such blocks are worth it.
    pub fn equal_kind(&self, len: usize) -> Option<u32> {
        let shape = equal::Shape::new(self.options.block_size, self.options.alignment, len);
        if shape.nodes() < EQUAL_NODES {
            return None;
        }
        let mut made = locked(&self.shapes_made);
        let known = (0..*made).find(|&number| {
            self.shapes
                .get(number)
                .and_then(|shape| shape.get())
                .is_some_and(|shape| shape.len as usize == len)
        });
        if let Some(number) = known {
            return Some(number + 1);
        }
        if *made == SHAPES {
            return None;
        }
        self.shapes.make(*made, Default::default)?.set(shape).ok()?;
        *made += 1;
        Some(*made)
    }

    /// The bytes of a block in a frame, with its marks.
    #[inline]
    pub fn image(&self, frame: &Frame, shape: Shape) -> Image {
        frame.image(shape.marks(self.options.block_size).end())
    }

    /// Tells a frame whose block is in it.
    pub fn settle(&self, frame: &Frame, number: u32, info: &Info, now: u32) -> Result<(), Error> {
        let shape = self.shape_of(info.kind).ok_or(Error::Damaged)?;
        let marks = shape.marks(self.options.block_size);
        let (first, stride, len, starts) = match shape {
            Shape::Mixed(shape) => (0, shape.align(), 0, marks.starts_at()),
            Shape::Equal(shape) => (shape.first(), shape.stride(), shape.len as usize, 0),
        };
        let geometry = &frame.geometry;
        let checks = if info.marked { marks.checks_at() } else { 0 };
        for (field, value) in [
            (&geometry.first, first),
            (&geometry.stride, stride),
            (&geometry.len, len),
            (&geometry.places, shape.places()),
            (&geometry.starts, starts),
            (&geometry.checks, checks),
            (&geometry.incarnation, info.incarnation.into()),
        ] {
            field.store(value as u32, Relaxed);
        }
        frame.begin(number, now);
        Ok(())
    }

    /// Where a node lies in a frame, if the handle is that of a live node. What it says may be wrong if the block is
    /// changed meanwhile.
    #[inline(always)]
    pub fn look(&self, frame: &Frame, parts: Parts) -> Result<Option<Spot>, Damaged> {
        let geometry = &frame.geometry;
        let number = |field: &AtomicU32| field.load(Relaxed) as usize;
        let place = usize::from(parts.place);
        if place >= number(&geometry.places)
            || number(&geometry.incarnation) != usize::from(parts.incarnation)
        {
            return Ok(None);
        }
        let image = frame.image(self.frames.stride());
        let starts = image.get64(number(&geometry.starts) + place / 64 * 8)?;
        if starts >> (place % 64) & 1 == 0 {
            return Ok(None);
        }
        let checks = geometry.checks.load(Acquire) as usize;
        if (if checks == 0 { 0 } else { image.get8(checks + place)? }) != parts.check {
            return Ok(None);
        }
        let at = number(&geometry.first) + place * number(&geometry.stride);
        let len = match number(&geometry.len) {
            0 => mixed::node_len(image, at)?.ok_or(Damaged)?,
            len => len,
        };
        image.place(at, len)?;
        Ok(Some(Spot { image, at, len }))
    }

    /// The frame of a block that is to be there, which is brought back if need be.
    #[inline]
    pub fn frame_of(&self, number: u32) -> Result<(&Block, State, &Frame), Error> {
        let block = self.blocks.get(number).ok_or(Error::Stale)?;
        loop {
            let state = block.state();
            match state.place() {
                Place::Resident(frame) => {
                    return Ok((block, state, self.frames.get(frame).ok_or(Error::Damaged)?));
                }
                Place::Vacant => return Err(Error::Stale),
                Place::Absent => self.bring(number)?,
            }
        }
    }

    #[cold]
    fn bring(&self, number: u32) -> Result<(), Error> {
        let block = self.blocks.get(number).ok_or(Error::Stale)?;
        let info = block.lock();
        self.resident(number, block, &info).map(|_| ())
    }

    /// Lets `read` look at a node until nobody has changed it meanwhile. Afterwards `way` is that of its block.
    #[inline(always)]
    pub fn read<'c, R>(
        &'c self,
        handle: Handle,
        way: &Cell<Way<'c>>,
        mut read: impl FnMut(&Frame, Spot) -> R,
    ) -> Result<R, Error> {
        let parts = handle.parts();
        // Where the block was when it was last read; if it is not there any more, that is noticed.
        if let Way { number, to: Some((block, state, frame)) } = way.get()
            && number == parts.block
            && let Some(sequence) = frame.sequence(parts.place)
            && let Ok(Some(spot)) = self.look(frame, parts)
        {
            let result = read(frame, spot);
            if frame.is_still(parts.place, sequence) && block.is_still(state) {
                return Ok(result);
            }
        }
        self.read_anew(parts, way, read)
    }

    #[cold]
    #[inline(never)]
    fn read_anew<'c, R>(
        &'c self,
        parts: Parts,
        way: &Cell<Way<'c>>,
        mut read: impl FnMut(&Frame, Spot) -> R,
    ) -> Result<R, Error> {
        let mut turn = 0;
        loop {
            let (block, state, frame) = self.frame_of(parts.block)?;
            way.set(Way { number: parts.block, to: Some((block, state, frame)) });
            let Some(sequence) = frame.sequence(parts.place) else {
                pause(&mut turn);
                continue;
            };
            let result = self.look(frame, parts).map(|spot| spot.map(|spot| read(frame, spot)));
            if frame.is_still(parts.place, sequence) && block.is_still(state) {
                return result?.ok_or(Error::Stale);
            }
            pause(&mut turn);
        }
    }

    /// Takes the stripe of a node, which keeps others from writing to it or reading it, and its block from leaving.
    pub fn hold(&self, handle: Handle) -> Result<(&Frame, Spot), Error> {
        let parts = handle.parts();
        let mut turn = 0;
        loop {
            let (block, state, frame) = self.frame_of(parts.block)?;
            if frame.try_hold(parts.place) {
                if block.is_still(state) {
                    match self.look(frame, parts) {
                        Ok(Some(spot)) => {
                            self.changed(parts.block, frame);
                            return Ok((frame, spot));
                        }
                        other => {
                            frame.release(parts.place);
                            other?;
                            return Err(Error::Stale);
                        }
                    }
                }
                frame.release(parts.place);
            }
            if turn > PATIENCE {
                return Err(Error::Busy);
            }
            pause(&mut turn);
        }
    }

    /// The block is changed now: what the store has of it is of no use any more.
    #[inline]
    pub fn changed(&self, number: u32, frame: &Frame) {
        if !frame.dirty.load(Relaxed) && !frame.dirty.swap(true, Relaxed) {
            self.drop_copy(number);
        }
    }

    /// Frees what the store has of a block.
    pub fn drop_copy(&self, number: u32) {
        if let Some(copy) = self.blocks.get(number).and_then(|block| block.take_copy()) {
            // A copy that the store does not know is one that was damaged: nothing to free.
            let _ = self.store.store().free(copy, number.into(), &self.blocks);
        }
    }

    /// Notes that the block was used.
    #[inline]
    pub fn touch(&self, frame: &Frame) {
        frame.touch(self.clock.load(Relaxed));
    }

    /// What is listed of a block's room, changed.
    pub fn relist(&self, number: u32, info: &mut Info, to: u8) {
        if info.room != to {
            locked(&self.rooms).relist(number, info.room, to);
            info.room = to;
        }
    }
}

/// Turns of waiting for a stripe, most of them a chance for other threads: seconds.
const PATIENCE: u32 = 4_000_000;
