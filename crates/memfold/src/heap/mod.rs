//! The compressed heap: millions of nodes, of which only those in use are uncompressed.
//!
//! ```
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let mut session = heap.session()?;
//! let node = session.alloc(100)?;
//! session.write(node)?[..5].copy_from_slice(b"hello");
//! assert_eq!(&session.read(node)?[..5], b"hello");
//! session.free(node)?;
//! assert!(session.read(node).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! A [`Limit`] sets how much may be uncompressed. With the default, [`Limit::Free`], a heap compresses
//! nothing if its nodes fit into half of the free memory, and little if those in use fit into 3/4. On Linux
//! it follows the free memory of the machine and of each memory cgroup of the process, so a container's limit
//! holds: blocks are compressed when that limit is near, and allocations are refused ([`Error::Limit`])
//! before it is reached. Elsewhere, and where `/proc` can't be read, it acts as [`Limit::Share`].
//! `docs/heap.md` has the rules and what each limit costs.
//!
//! # Parts
//!
//! ```text
//!   program ── access: sessions, guards ── translation of a handle to an address
//!                 │                              │
//!              alloc: which block          block: table ──> frame (residency): uncompressed
//!              gets a new node                 │  ^
//!                                              │  └ sync: who may change it
//!                                              └──> copy (stored): compressed, in the store or on a tier
//!
//!   large: nodes longer than a block     file: saved heaps     twin: every node an allocation, for debugging
//! ```
//!
//! Invariants:
//! - A block is in a frame, or has a copy, or both; if both, the two are equal. Its lock is held to change
//!   where it is.
//! - A thread that changes a block has the right to: as its owner, or by a claim (`sync/claim.rs`).
//! - A reader takes no lock and writes nothing. It reads, checks that the frame's tenancy and the node's
//!   stripe have not changed, and reads again if they have.
//! - A block is evicted only while no guard holds one of its stripes and no session has pinned it.
//! - Lock order: a block; then another block, by trying only; then the free space or the pool of frames; then the
//!   store's locks.

mod access;
mod alloc;
mod block;
mod core;
mod error;
mod file;
mod large;
mod options;
mod residency;
mod stored;
mod sync;
#[cfg(test)]
mod tests;
mod twin;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

pub use self::core::check::Violation;
use self::core::{Core, Shape};
use crate::heap::sync::locked;
pub use access::guards::{NodeMut, Pin};
pub(crate) use access::peek::Parts;
pub use access::session::Session;
pub use access::typed::Plain;
pub use access::view::View;
pub use block::handle::Handle;
pub use error::{BadOption, Error};
pub use file::{LoadError, SaveError};
pub use options::{Ahead, HeapKind, Limit, Options};
use residency::background::Background;
pub use residency::budget::{LEAST_RESIDENT, MOST_RESIDENT, MOST_SHARE, SHARE};
pub use residency::policy::{PolicyKind, UnknownPolicy};
pub use stored::lost::Lost;
use stored::own;
pub use stored::tier::TierHealth;

/// The longest node.
pub const MAX_NODE: usize = u32::MAX as usize;

/// Sessions that a heap can have at a time.
const MOST_SESSIONS: u32 = u16::MAX as u32;

/// See the module.
pub struct Heap {
    /// Dropped first: it uses the fields that follow.
    _background: Option<Background>,
    core: Arc<Core>,
    /// A user-supplied codec. Dropped after the core, which uses it to the end.
    _own: Option<own::Own>,
}

impl Heap {
    /// An empty heap.
    pub fn new(options: Options) -> Result<Self, BadOption> {
        let core = Arc::new(Core::new(options.settle()?));
        if matches!(core.limit(), Limit::Bytes(_)) && core.may_grow().is_err() {
            return Err(BadOption::too_small(core.options.block_size, core.least_bytes()));
        }
        let needed = core.options.background || core.options.ahead != Ahead::Off;
        let background = if needed { Some(Background::start(&core)) } else { None };
        let background = background.transpose().map_err(BadOption::no_thread)?;
        Ok(Heap { _background: background, core, _own: options.own })
    }

    fn core(&self) -> &Core {
        &self.core
    }

    /// Sets another limit. If it is lower than before, blocks are evicted as others are faulted in. If it is
    /// [`Limit::Bytes`] and the heap uses more than that, nothing is lost: only operations that need more
    /// memory are refused.
    pub fn set_limit(&self, limit: Limit) -> Result<(), BadOption> {
        self.core.set_limit(limit)
    }

    /// Opens a session: this thread's access to the heap. A heap has up to 65,535 sessions at a time; one
    /// more is [`Error::Sessions`]. A forgotten session (`mem::forget`) keeps its place until [`Heap::check`]
    /// or [`Heap::save_to`].
    pub fn session(&self) -> Result<Session<'_>, Error> {
        Session::new(self)
    }

    /// Checks every invariant of the heap and reports the first contradiction. This is for tests, and for
    /// programs that may have written through stray pointers. Compressed blocks are decompressed for the
    /// check, and stay compressed. Everything that forgotten sessions (`mem::forget`) still hold is released
    /// first.
    pub fn check(&mut self) -> Result<(), Violation> {
        let _pause = self.core.board.pause();
        self.core.end_forgotten();
        core::check::check(self.core(), 0)
    }

    /// Statistics. They are read block by block, not at one moment.
    pub fn stats(&self) -> Stats {
        let core = self.core();
        let store = core.store.store().stats();
        let mut resident = core.frames.bytes();
        let end = locked(&core.rooms).numbers().0;
        let (mut blocks, mut nodes, mut node_bytes) = (0, 0, 0);
        for block in (1..end).filter_map(|number| core.blocks.get(number)) {
            let live = u64::from(block.live.load(Relaxed));
            blocks += u64::from(live > 0);
            nodes += live;
            node_bytes += match core.shape_of(block.kind.load(Relaxed)) {
                Some(Shape::Equal(shape)) => live * u64::from(shape.len),
                _ => block.bytes.load(Relaxed).into(),
            };
        }
        if let Some(plain) = core.plain() {
            (nodes, node_bytes) = plain.counts();
            resident += node_bytes;
        }
        let large = core.large_counts();
        // A file may have named parts that are not nodes.
        nodes = (nodes + large.nodes).saturating_sub(large.parts);
        node_bytes = (node_bytes + large.bytes).saturating_sub(large.part_bytes);
        let other = core.bytes_without_store() + large.memory;
        // Read before evictions: a compression is counted after its eviction.
        let compressions = core.counts.compressions.load(Acquire);
        Stats {
            nodes,
            node_bytes,
            blocks,
            frame_bytes: resident,
            payload_bytes: store.payload_bytes,
            spilled_bytes: core.options.away.0.as_ref().map_or(0, |tier| tier.spilled_bytes()),
            tier: core.tier_health(),
            table_bytes: other + store.overhead_bytes(),
            faults: core.counts.faults.load(Relaxed),
            peeks: core.counts.peeks.load(Relaxed),
            evictions: core.counts.evictions.load(Relaxed),
            compressions,
            ahead: core.counts.ahead.load(Relaxed),
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// What a heap holds, and what it costs. The memory it takes is `frame_bytes`, `payload_bytes` and
/// `table_bytes` together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Live nodes.
    pub nodes: u64,
    /// The bytes that those nodes were allocated with.
    pub node_bytes: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Memory for uncompressed blocks.
    pub frame_bytes: u64,
    /// Compressed blocks.
    pub payload_bytes: u64,
    /// Compressed blocks that are on a tier, not in memory.
    pub spilled_bytes: u64,
    /// The state of the tier.
    pub tier: TierHealth,
    /// All other memory: tables, buffers, and the store's overhead.
    pub table_bytes: u64,
    /// Blocks faulted in.
    pub faults: u64,
    /// How often a node was found in a block that stayed compressed.
    pub peeks: u64,
    /// Blocks faulted in ahead of their use.
    pub ahead: u64,
    /// Blocks evicted.
    pub evictions: u64,
    /// Evictions that had to compress the block, because it was dirty.
    pub compressions: u64,
}

impl Stats {
    /// All memory that the heap takes.
    pub fn memory_bytes(&self) -> u64 {
        self.frame_bytes + self.payload_bytes + self.table_bytes
    }
}
