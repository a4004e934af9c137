//! How a heap is to be.

use std::format;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use memfold_codec::{Codec, codec};

use super::error::BadOption;
use crate::heap::residency::policy::PolicyKind;
use crate::heap::stored::own::Own;
use crate::heap::stored::tier::Away;

/// Bytes of a block at least and at most.
pub const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=16 << 20;
/// Alignment of nodes at least and at most, bytes.
pub const ALIGNMENTS: std::ops::RangeInclusive<usize> = 1..=4096;

/// How much a heap may have uncompressed, or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Limit {
    /// The default: uncompressed blocks have half of the memory that is free, and the rest of it is left to the
    /// program, to others, and to compressed blocks. It follows what is free, on the machine and in each cgroup
    /// that limits the process, see [the module](super#limits).
    #[default]
    Free,
    /// Uncompressed blocks have all memory that is free, but for a reserve: nothing is compressed before memory
    /// is short. It follows what is free as [`Free`](Limit::Free) does.
    All,
    /// One resident block for each [`SHARE`](super::SHARE) that there are, at least [`LEAST_RESIDENT`](super::LEAST_RESIDENT); more as long as
    /// blocks are brought back soon after they left, up to one for [`MOST_SHARE`](super::MOST_SHARE), or [`MOST_RESIDENT`](super::MOST_RESIDENT).
    Share,
    /// So many resident blocks (compll's way). With fewer than sessions and pins need at a time, operations fail with [`Error::Pinned`](super::Error::Pinned).
    Blocks(u32),
    /// So many bytes for everything: frames, compressed blocks, tables and buffers.
    Bytes(u64),
}

impl Limit {
    /// An error if it leaves no room for a block of so many bytes.
    pub(crate) fn check(self, block_size: usize) -> Result<(), BadOption> {
        match self {
            Limit::Blocks(0) => Err(BadOption("give one resident block at least".into())),
            Limit::Bytes(bytes) if bytes / 2 < block_size as u64 => {
                Err(BadOption::too_small(block_size, 2 * block_size as u64))
            }
            _ => Ok(()),
        }
    }

    /// Whether it follows what memory is free.
    pub(crate) fn follows_free(self) -> bool {
        matches!(self, Limit::Free | Limit::All)
    }

    /// As one word: one of the three highest, or blocks with the highest bit set, or bytes.
    pub(crate) fn to_bits(self) -> u64 {
        match self {
            Limit::Share => SHARE,
            Limit::Free => FREE,
            Limit::All => ALL,
            Limit::Blocks(blocks) => BLOCKS | u64::from(blocks),
            // No machine has so many.
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

/// Which blocks are brought ahead of their use, by a thread of the heap's own, when a node was asked for whose block was not resident.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Ahead {
    /// None.
    #[default]
    Off,
    /// So many blocks that were made after it.
    Neighbours(u32),
    /// Those to which the node leads: a [`Handle`](super::Handle) stands in it as eight bytes, as numbers do in memory, at each of these offsets.
    Links(Vec<u32>),
}

/// What kind of heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HeapKind {
    /// A compressed heap.
    #[default]
    Compressed,
    /// Each node is an allocation of its own, and nothing is compressed: so that sanitizers and valgrind see what a program does to its nodes.
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
    /// In place of `codec`; the heap keeps it as long as its core.
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
    /// Blocks of 32 KiB, nodes at multiples of 8 bytes, `zstd:1`, [`Limit::Free`], SIEVE says which blocks go.
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

    /// How much may be uncompressed, or there at all.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// What compresses, by the name of a codec, a pipeline or `auto`.
    pub fn codec(mut self, name: &str) -> Self {
        self.codec = name.into();
        self.own = None;
        self
    }

    /// What compresses: a codec that is in no registry, in place of one by name. It is called by whichever thread
    /// needs a block to go or come, and by several at once.
    ///
    /// The heap does not trust it. A block that it says it can't compress is kept as it is, and so is one for which it claims more bytes than it
    /// had room for, or panics. A block that does not come back as it was is [`Error::Damaged`](super::Error::Damaged). Its number
    /// ([`Codec::id`]) does not matter. It must not use the heap, which is locked while it is called.
    pub fn own_codec(mut self, codec: Arc<dyn Codec + Send + Sync>) -> Self {
        self.own = Some(Own::new(codec));
        self
    }

    /// Which blocks go.
    pub fn policy(mut self, policy: PolicyKind) -> Self {
        self.policy = policy;
        self
    }

    /// Evicts at every opportunity and never gives a handle out twice: slow, and finds stale pointers and handles.
    pub fn paranoid(mut self, paranoid: bool) -> Self {
        self.paranoid = paranoid;
        self
    }

    /// Whether a thread of the heap's own evicts ahead of need, so that who needs room seldom has to wait for the compression of a block.
    pub fn background(mut self, on: bool) -> Self {
        self.background = on;
        self
    }

    /// What is brought ahead of its use.
    pub fn ahead(mut self, ahead: Ahead) -> Self {
        self.ahead = ahead;
        self
    }

    /// Where blocks go that are compressed and do not fit into [`Limit::Bytes`]: a file, an NBD server, Redis. Those that were not used for long go, a quarter
    /// of the limit is left for what is uncompressed.
    /// It is meant for one heap; heaps made from clones of these options share it.
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
                "an alignment of {alignment} bytes in blocks of {block}: a block must have room for four nodes at least"
            )));
        }
        self.limit.check(self.block_size)?;
        let found = match &self.own {
            // SAFETY: only a heap's core gets it, and the heap drops `own` after that.
            Some(own) => unsafe { own.codec() },
            None => {
                codec(&self.codec).map_err(|unknown| BadOption(format!("'{}': {unknown}", self.codec)))?
            }
        };
        if self.away.0.is_some() && !self.paranoid && !matches!(self.limit, Limit::Bytes(_)) {
            return Err(BadOption(
                "what is spilled is what does not fit: give a limit in bytes with it".into(),
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

/// Options that were found good.
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
