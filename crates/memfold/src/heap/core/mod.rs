//! The core of a heap, with all of its parts.

pub mod check;

use std::boxed::Box;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::vec::Vec;

use crate::SystemMemory;
use crate::heap::alloc::free_space::FreeSpace;
pub use crate::heap::block::layout::Shape;
use crate::heap::block::layout::image::Image;
use crate::heap::block::layout::{equal, mixed};
use crate::heap::block::marks::{Form, Marks};
use crate::heap::block::segments::Segments;
use crate::heap::block::table::{Block, Blocks, Copy};
use crate::heap::large::table::Table as LargeTable;
use crate::heap::options::Settled;
use crate::heap::residency::board::Board;
use crate::heap::residency::frames::{Frame, Frames};
use crate::heap::residency::machine::Headroom;
use crate::heap::residency::policy::Policy;
use crate::heap::stored::plans::Plans;
use crate::heap::stored::workspace::Works;
use crate::heap::sync::locked;
use crate::heap::sync::participants::Participants;
use crate::heap::twin::Plain;
use crate::store::{MAX_PAYLOAD, Tiered, Tuning};

/// Nodes of one size get blocks of their own if at least this many of them fit into one.
pub const EQUAL_NODES: usize = 16;
/// The most sizes that have blocks of their own.
const SHAPES: u32 = 1024;

/// See the module.
pub struct Core {
    pub options: Settled,
    /// The limit, which can be changed: see [`Limit::to_bits`](super::Limit::to_bits).
    pub limit: AtomicU64,
    /// Free memory, for limits that follow it.
    pub headroom: Headroom,
    /// The shape of blocks with nodes of different sizes, and how those nodes are grouped.
    pub shape: mixed::Shape,
    pub plans: Plans,
    /// Blocks of nodes of one size, by kind from 1.
    shapes: Segments<Kind>,
    shapes_made: Mutex<u32>,
    pub blocks: Blocks,
    pub frames: Frames,
    pub pool: Mutex<Pool>,
    pub rooms: Mutex<FreeSpace>,
    pub participants: Participants,
    pub store: Tiered<SystemMemory>,
    /// The most bytes that the copy of a block has before it is compressed.
    pub max_copy_len: usize,
    /// Memory to compress in.
    pub works: Works,
    /// Advances whenever a block is faulted in.
    pub clock: AtomicU32,
    pub counts: Counts,
    nowhere: Box<(Frame, Block)>,
    /// 64 bits that belong to the program, see [`Heap::set_root`](super::Heap::set_root).
    pub root: AtomicU64,
    plain: Option<Plain>,
    pub large: Mutex<LargeTable>,
    /// Blocks that are given up, by their numbers: a bit for each place whose node was freed, see
    /// `stored/lost.rs`.
    pub given_up: Mutex<HashMap<u32, Vec<u64>>>,
    /// If there is a tier: one node of each block that has been compressed, as `1 << 31 | check << 16 |
    /// place`.
    pub nodes_noted: Segments<AtomicU32>,
    pub board: Board,
    /// The clock hand that chooses the blocks to spill, and the largest block number.
    pub spill_at: AtomicU32,
    pub spill_end: AtomicU32,
}

/// The frames without a block, and the eviction policy.
///
/// A frame is free, or known to the policy, or chosen: then the thread that chose it is about to evict its
/// block. Meanwhile the block may be vacated, and another may take the frame.
pub struct Pool {
    pub free: Vec<u32>,
    pub chosen: Vec<u32>,
    /// Frames whose memory was returned. Those with the lowest numbers get memory again first.
    pub empty: BinaryHeap<Reverse<u32>>,
    /// Frames that have memory.
    pub made: u32,
    pub policy: Box<dyn Policy>,
}

/// Counts of events, and some totals.
#[derive(Debug, Default)]
pub struct Counts {
    pub faults: AtomicU64,
    pub peeks: AtomicU64,
    pub evictions: AtomicU64,
    pub compressions: AtomicU64,
    /// Blocks that were faulted in ahead of their use.
    pub ahead: AtomicU64,
    /// Copies put into the store or taken out.
    pub moves: AtomicU64,
    /// Frames beyond the minimum, see `residency/budget.rs`.
    pub extra_frames: AtomicU32,
    /// Blocks in use.
    pub blocks: AtomicU32,
    /// Blocks in use from which a session allocates.
    pub held: AtomicU32,
    /// Sizes of which there are blocks with nodes of that size alone.
    pub sizes: AtomicU32,
    /// Bytes of workspaces and other working memory; bytes of the free lists.
    pub work_bytes: AtomicU64,
    pub room_bytes: AtomicU64,
    /// Bytes that threads are about to take: see `residency/pledge.rs`.
    pub pledged: AtomicU64,
}

/// A kind of blocks with nodes of one size.
#[derive(Default)]
pub struct Kind {
    shape: OnceLock<equal::Shape>,
    /// How many of these blocks are in use.
    blocks: AtomicU32,
    /// How its nodes are grouped.
    pub plans: Plans,
}

impl Core {
    pub fn new(options: Settled) -> Self {
        // A node and its marks must fit into one blob of the store.
        let mut size = options.block_size;
        let mut shape = mixed::Shape::new(size, options.alignment);
        while Form::new(size, shape.total_units()).end() > MAX_PAYLOAD {
            size -= 4096;
            shape = mixed::Shape::new(size, options.alignment);
        }
        let options = Settled { block_size: size, ..options };
        let most_places = (size / options.alignment).min(mixed::MOST_UNITS.max(equal::MOST_NODES));
        // An array that is alone in its block may be a quarter longer when it is grouped.
        let max_copy_len = Form::new(size, most_places).end().max((size + size / 4).min(MAX_PAYLOAD));
        let store = Tiered::new(SystemMemory, options.codec, None);
        // No put here has to find memory without delay, so no class keeps a reserve.
        store.store().set_tuning(Tuning { fill_ratio: 64, ..Tuning::DEFAULT });
        let plain = options.plain.then(|| Plain::new(options.alignment));
        Core {
            shape,
            plans: Plans::default(),
            shapes: Segments::new(),
            shapes_made: Mutex::new(0),
            blocks: Blocks::new(),
            frames: Frames::new(size, most_places),
            max_copy_len,
            pool: Mutex::new(Pool {
                free: Vec::new(),
                chosen: Vec::new(),
                empty: BinaryHeap::new(),
                made: 0,
                policy: options.policy.make(),
            }),
            rooms: Mutex::new(FreeSpace::new()),
            participants: Participants::new(),
            store,
            works: Works::default(),
            clock: AtomicU32::new(1),
            counts: Counts::default(),
            nowhere: Box::new((Frame::new(), Block::default())),
            root: AtomicU64::new(0),
            large: Mutex::default(),
            given_up: Mutex::default(),
            nodes_noted: Segments::new(),
            board: Board::default(),
            spill_at: AtomicU32::new(0),
            spill_end: AtomicU32::new(0),
            plain,
            headroom: Headroom::new(),
            limit: AtomicU64::new(options.limit.to_bits()),
            options,
        }
    }

    /// A kind of blocks with nodes of one size.
    pub fn kind(&self, kind: u32) -> Option<&Kind> {
        self.shapes.get(kind.checked_sub(1)?)
    }

    /// The shape of blocks of this kind; `None` if there is no such kind.
    #[inline]
    pub fn shape_of(&self, kind: u32) -> Option<Shape> {
        match kind {
            0 => Some(Shape::Mixed(self.shape)),
            kind => self.kind(kind)?.shape.get().copied().map(Shape::Equal),
        }
    }

    /// The longest node that fits into a block together with the heap's own data there, so that it takes no
    /// more pages than the block.
    pub fn longest_alone(&self) -> usize {
        let (size, align) = (self.options.block_size, self.options.alignment);
        let first = 8usize.next_multiple_of(align);
        size.saturating_sub(64 + first) / align * align
    }

    /// The kind of blocks that hold only nodes of this size, if such blocks pay.
    pub fn equal_kind(&self, len: usize) -> Option<u32> {
        let shape = equal::Shape::new(self.options.block_size, self.options.alignment, len);
        if shape.nodes() < EQUAL_NODES && len != self.longest_alone() {
            return None;
        }
        let mut made = locked(&self.shapes_made);
        if let Some(known) = self.kind_of_len(*made, len) {
            return Some(known);
        }
        if *made == SHAPES {
            return None;
        }
        self.shapes.make(*made, Kind::default)?.shape.set(shape).ok()?;
        *made += 1;
        Some(*made)
    }

    /// The kind of blocks for nodes of this size, if there is one already.
    pub fn known_kind(&self, len: usize) -> Option<u32> {
        self.kind_of_len(*locked(&self.shapes_made), len)
    }

    fn kind_of_len(&self, made: u32, len: usize) -> Option<u32> {
        (1..=made).find(|&kind| {
            let shape = self.kind(kind).and_then(|kind| kind.shape.get());
            shape.is_some_and(|shape| shape.len as usize == len)
        })
    }

    /// Whether blocks of this kind are in use.
    pub fn has_blocks(&self, kind: u32) -> bool {
        self.kind(kind).is_some_and(|kind| kind.blocks.load(Relaxed) > 0)
    }

    /// Counts a block of this kind that is in use from now on.
    pub fn count_block(&self, kind: u32) {
        self.counts.blocks.fetch_add(1, Relaxed);
        if let Some(kind) = self.kind(kind)
            && kind.blocks.fetch_add(1, Relaxed) == 0
        {
            self.counts.sizes.fetch_add(1, Relaxed);
        }
    }

    /// Ends `count_block`.
    pub fn uncount_block(&self, kind: u32) {
        self.counts.blocks.fetch_sub(1, Relaxed);
        if let Some(kind) = self.kind(kind)
            && kind.blocks.fetch_sub(1, Relaxed) == 1
        {
            self.counts.sizes.fetch_sub(1, Relaxed);
        }
    }

    /// The bytes of a block in a frame.
    #[inline]
    pub fn image(&self, frame: &Frame, shape: Shape) -> Image {
        frame.image(shape.image(self.options.block_size))
    }

    /// The marks of a block in a frame of that number.
    pub fn marks(&self, number: u32, block: &Block, shape: Shape) -> Marks {
        // A thread that sees that there are checks also sees that there is memory for them.
        self.frames.marks(number, shape, block.marked.load(Acquire))
    }

    /// The twin, if this heap is one.
    pub fn plain(&self) -> Option<&Plain> {
        self.plain.as_ref()
    }

    /// A frame and a block that never hold anything.
    pub fn nowhere(&self) -> (&Frame, &Block) {
        (&self.nowhere.0, &self.nowhere.1)
    }

    /// Marks the block dirty: its copy in the store becomes invalid. The caller has the right to change the
    /// block.
    #[inline]
    pub fn changed(&self, number: u32, frame: &Frame) {
        if !frame.dirty.load(Relaxed) && !frame.dirty.swap(true, Relaxed) {
            self.drop_copy(number);
        }
    }

    /// Frees the block's copy in the store.
    pub fn drop_copy(&self, number: u32) {
        match self.blocks.get(number).and_then(|block| block.take_copy()) {
            Some(Copy::Stored(copy)) => {
                // A copy that the store does not know is damaged: there is nothing to free.
                let _ = self.store.store().free(copy, number.into(), &self.blocks);
                self.upkeep();
            }
            Some(Copy::Spilled(copy)) => self.options.away.0.iter().for_each(|tier| tier.free(copy)),
            None => {}
        }
    }
}

impl Drop for Core {
    /// Frees the copies on a tier that others share, since nobody can ask for them any more. A tier that ends
    /// with this heap is not told of each copy.
    fn drop(&mut self) {
        let Some(tier) = self.options.away.0.as_ref().filter(|tier| Arc::strong_count(tier) > 1) else {
            return;
        };
        let end = locked(&self.rooms).numbers().0;
        for block in (1..end).filter_map(|number| self.blocks.get(number)) {
            if let Some(Copy::Spilled(copy)) = block.take_copy() {
                tier.free(copy);
            }
        }
    }
}
