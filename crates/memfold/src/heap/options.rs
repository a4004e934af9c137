//! Options of a heap.

use std::format;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use memfold_codec::{Codec, codec};

use super::error::BadOption;
use crate::heap::residency::policy::PolicyKind;
use crate::heap::stored::own::Own;
use crate::heap::stored::tier::Away;

/// The smallest and the largest block, bytes.
pub const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=16 << 20;
/// The smallest and the largest alignment of nodes, bytes.
pub const ALIGNMENTS: std::ops::RangeInclusive<usize> = 1..=4096;

/// How much of a heap may be uncompressed, or how much memory it may take in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Limit {
    /// The default: uncompressed blocks may take half of the free memory, or up to 3/4 while blocks are
    /// faulted in soon after their eviction; the rest is left to the program, to other programs, and to
    /// compressed blocks. The limit follows the free memory of the machine and of each cgroup that limits the
    /// process, see [the module](super#limits).
    #[default]
    Free,
    /// Uncompressed blocks may take all free memory except a reserve: nothing is compressed before memory is
    /// short. The limit follows free memory as [`Free`](Limit::Free) does.
    All,
    /// One resident block for every [`SHARE`](super::SHARE) blocks, at least
    /// [`LEAST_RESIDENT`](super::LEAST_RESIDENT). More while blocks are faulted in soon after their eviction:
    /// up to one for every [`MOST_SHARE`](super::MOST_SHARE) blocks, or
    /// [`MOST_RESIDENT`](super::MOST_RESIDENT).
    Share,
    /// This many resident blocks (as compll does). If sessions and pins need more at a time, operations fail
    /// with [`Error::Pinned`](super::Error::Pinned).
    Blocks(u32),
    /// This many bytes for everything: frames, compressed blocks, tables and buffers.
    Bytes(u64),
}

impl Limit {
    /// Returns an error if the limit leaves no room for a block of `block_size` bytes.
    pub(crate) fn check(self, block_size: usize) -> Result<(), BadOption> {
        match self {
            Limit::Blocks(0) => Err(BadOption("give at least one resident block".into())),
            Limit::Bytes(bytes) if bytes / 2 < block_size as u64 => {
                Err(BadOption::too_small(block_size, 2 * block_size as u64))
            }
            _ => Ok(()),
        }
    }

    /// Whether the limit follows free memory.
    pub(crate) fn follows_free(self) -> bool {
        matches!(self, Limit::Free | Limit::All)
    }

    /// The limit as one word: one of the three highest values, or a number of blocks with the highest bit
    /// set, or a number of bytes.
    pub(crate) fn to_bits(self) -> u64 {
        match self {
            Limit::Share => SHARE,
            Limit::Free => FREE,
            Limit::All => ALL,
            Limit::Blocks(blocks) => BLOCKS | u64::from(blocks),
            // No machine has that many bytes.
            Limit::Bytes(bytes) => bytes.min(BLOCKS - 1),
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        match bits {
            SHARE => Limit::Share,
            FREE => Limit::Free,
            ALL => Limit::All,
            bits if bits & BLOCKS != 0 => Limit::Blocks(bits as u32),
            bytes => Limit::Bytes(bytes),
        }
    }
}

const BLOCKS: u64 = 1 << 63;
const SHARE: u64 = u64::MAX;
const FREE: u64 = u64::MAX - 1;
const ALL: u64 = u64::MAX - 2;

/// Which blocks a thread of the heap faults in ahead of their use, after an access to a node whose block was
/// not resident.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Ahead {
    /// None.
    #[default]
    Off,
    /// This many of the blocks that follow, by number: mostly in the order in which they were made.
    Neighbours(u32),
    /// The blocks of the nodes to which this node links: it holds a [`Handle`](super::Handle), as eight bytes
    /// in native byte order, at each of these offsets.
    Links(Vec<u32>),
}

/// Kinds of heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HeapKind {
    /// A compressed heap.
    #[default]
    Compressed,
    /// Each node is an allocation of its own, and nothing is compressed, so that sanitizers and valgrind see
    /// what a program does to its nodes.
    Plain,
}

/// Settings of a heap, which are checked when it is made.
///
/// ```
/// use memfold::heap::{Heap, Limit, Options};
///
/// let heap = Heap::new(Options::new().block_size(16 << 10).limit(Limit::Blocks(10)).codec("zstd:3"))?;
/// # Ok::<(), memfold::heap::BadOption>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    block_size: usize,
    alignment: usize,
    limit: Limit,
    codec: String,
    /// Used instead of `codec`. The heap keeps it as long as its core.
    pub(crate) own: Option<Own>,
    policy: PolicyKind,
    paranoid: bool,
    kind: HeapKind,
    background: bool,
    ahead: Ahead,
    pub(crate) away: Away,
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// Blocks of 32 KiB, nodes at multiples of 8 bytes, `zstd:1`, [`Limit::Free`], and SIEVE as the eviction
    /// policy.
    pub fn new() -> Self {
        Options {
            block_size: 32 << 10,
            alignment: 8,
            limit: Limit::default(),
            codec: String::from("zstd:1"),
            own: None,
            policy: PolicyKind::default(),
            paranoid: false,
            kind: HeapKind::Compressed,
            background: false,
            ahead: Ahead::Off,
            away: Away::default(),
        }
    }

    /// Bytes that are compressed together: a power of two from 1 KiB to 16 MiB.
    pub fn block_size(mut self, bytes: usize) -> Self {
        self.block_size = bytes;
        self
    }

    /// Nodes begin at multiples of this: a power of two from 1 to 4096.
    pub fn alignment(mut self, bytes: usize) -> Self {
        self.alignment = bytes;
        self
    }

    /// How much may be uncompressed, or how much memory the heap may take in all.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// The codec for blocks, by the name of a codec, a pipeline or `auto`.
    pub fn codec(mut self, name: &str) -> Self {
        self.codec = name.into();
        self.own = None;
        self
    }

    /// A user-supplied codec for blocks, instead of one by name. Any thread that evicts a block or faults one
    /// in calls it, several at once.
    ///
    /// The heap does not trust it. A block stays uncompressed if the codec says that it can't compress it,
    /// claims more bytes than it had room for, or panics. If a block does not decompress to its original
    /// content, that is [`Error::Damaged`](super::Error::Damaged). The codec's number ([`Codec::id`]) does
    /// not matter. The codec must not use the heap, which is locked during the call.
    pub fn own_codec(mut self, codec: Arc<dyn Codec + Send + Sync>) -> Self {
        self.own = Some(Own::new(codec));
        self
    }

    /// The policy that chooses which blocks are evicted.
    pub fn policy(mut self, policy: PolicyKind) -> Self {
        self.policy = policy;
        self
    }

    /// Whether the heap evicts at every opportunity and never gives a handle out twice. This is slow, and
    /// finds stale pointers and handles.
    pub fn paranoid(mut self, paranoid: bool) -> Self {
        self.paranoid = paranoid;
        self
    }

    /// Whether a thread of the heap evicts ahead of need, so that other threads seldom wait for the
    /// compression of a block when they need a frame.
    pub fn background(mut self, on: bool) -> Self {
        self.background = on;
        self
    }

    /// Which blocks are faulted in ahead of their use.
    pub fn ahead(mut self, ahead: Ahead) -> Self {
        self.ahead = ahead;
        self
    }

    /// Where compressed blocks that do not fit into [`Limit::Bytes`] are spilled: a file, an NBD server,
    /// Redis. The least recently used blocks are spilled; a quarter of the limit is left for uncompressed
    /// blocks. The tier is meant for one heap; heaps made from clones of these options share it.
    #[cfg(feature = "spill")]
    pub fn spill(mut self, spilled: memfold_spill::Spilled) -> Self {
        self.away = Away(Some(Arc::new(spilled)));
        self
    }

    /// Whether it is a compressed heap or its debugging twin.
    pub fn kind(mut self, kind: HeapKind) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn settle(&self) -> Result<Settled, BadOption> {
        let power = |what: &str, value: usize, range: &std::ops::RangeInclusive<usize>| {
            if value.is_power_of_two() && range.contains(&value) {
                return Ok(());
            }
            let (least, most) = (range.start(), range.end());
            Err(BadOption(format!("{what} of {value} bytes: give a power of two from {least} to {most}")))
        };
        power("a block size", self.block_size, &BLOCK_BYTES)?;
        power("an alignment", self.alignment, &ALIGNMENTS)?;
        if self.alignment > self.block_size / 4 {
            let (alignment, block) = (self.alignment, self.block_size);
            return Err(BadOption(format!(
                "an alignment of {alignment} bytes in blocks of {block}: a block must have room for at least four nodes"
            )));
        }
        self.limit.check(self.block_size)?;
        let found = match &self.own {
            // SAFETY: only a heap's core gets the codec, and the heap drops `own` after its core.
            Some(own) => unsafe { own.codec() },
            None => {
                codec(&self.codec).map_err(|unknown| BadOption(format!("'{}': {unknown}", self.codec)))?
            }
        };
        if self.away.0.is_some() && !self.paranoid && !matches!(self.limit, Limit::Bytes(_)) {
            return Err(BadOption(
                "only what does not fit into a limit is spilled: give a limit in bytes with it".into(),
            ));
        }
        Ok(Settled {
            away: self.away.clone(),
            block_size: self.block_size,
            alignment: self.alignment,
            limit: self.limit,
            codec: found,
            policy: self.policy,
            paranoid: self.paranoid,
            plain: self.kind == HeapKind::Plain,
            background: self.background && !self.paranoid,
            ahead: if self.paranoid { Ahead::Off } else { self.ahead.clone() },
        })
    }
}

/// Options that have been checked.
#[derive(Clone)]
pub(crate) struct Settled {
    pub block_size: usize,
    pub alignment: usize,
    pub limit: Limit,
    pub codec: &'static dyn Codec,
    pub policy: PolicyKind,
    pub paranoid: bool,
    pub plain: bool,
    pub background: bool,
    pub ahead: Ahead,
    pub away: Away,
}
