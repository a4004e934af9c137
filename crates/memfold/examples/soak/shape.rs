//! The options of a round's heap, and the lengths of its nodes.

use std::sync::atomic::Ordering::Relaxed;

use memfold::heap::{Ahead, Heap, Limit, Options, PolicyKind, Stats};

use crate::random::Random;
use crate::tier::Faulty;
use crate::{Counts, holds};

const CODECS: [&str; 12] = [
    "zstd:1",
    "lz4",
    "auto",
    "auto:fast",
    "copy",
    "stride:1",
    "zstd:3",
    "delta:8x1+shuffle:8+lz4",
    "auto=xor:1x2+huffman/zstd:5",
    "zstd:1",
    "lz4",
    "auto",
];

const POLICIES: [PolicyKind; 5] =
    [PolicyKind::Fifo, PolicyKind::SecondChance, PolicyKind::Lru, PolicyKind::Lfu, PolicyKind::Sieve];

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) block: usize,
    alignment: usize,
    codec: &'static str,
    policy: PolicyKind,
    limit: Limit,
    /// The limit whose bound of memory is checked; `None` for a heap that was loaded with another one.
    pub(crate) bound: Option<Limit>,
    pub(crate) paranoid: bool,
    pub(crate) background: bool,
    ahead: Ahead,
    pub(crate) threads: usize,
    pub(crate) tier: Option<Faulty>,
    /// Nodes get one of these lengths; repeated ones are more frequent. `None`: any length up to a block.
    lengths: Vec<Option<usize>>,
    pub(crate) steps: usize,
}

/// Raises a limit until the codec's working memory and 3 MiB for a tier fit into it: some codecs need more than
/// `Shape::random` adds.
fn large_enough(limit: Limit, block: usize, codec: &str) -> Limit {
    let Limit::Bytes(mut bytes) = limit else { return limit };
    let fits = |bytes| {
        let heap = Heap::new(Options::new().block_size(block).codec(codec).limit(Limit::Bytes(bytes)));
        !heap.is_err_and(|error| error.to_string().starts_with("the limit is too small"))
    };
    while !fits(bytes - (3 << 20)) {
        bytes += 1 << 20;
    }
    Limit::Bytes(bytes)
}

impl Shape {
    pub(crate) fn random(random: &mut Random) -> Self {
        // Mostly short blocks: they reach most cases with few bytes, and long ones are slow.
        let block = 1024 << random.of(&[0, 0, 0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7]);
        let alignment = (1 << random.of(&[0, 1, 2, 3, 3, 3, 3, 3, 4, 6, 8, 12])).min(block / 4);
        let tier = random.of(&[None, Some(Faulty::Memory), Some(Faulty::File)]);
        let paranoid = random.one_in(4);
        let limit = match random.below(4) {
            // A heap spills only if it has a limit in bytes.
            _ if tier.is_some() && !paranoid => Limit::Bytes(random.of(&[2, 2, 3]) << 20),
            0 => Limit::Share,
            1 => Limit::Bytes((2 + random.below(30) as u64) << 20),
            _ => Limit::Blocks(random.of(&[4, 5, 8, 40])),
        };
        let limit = match limit {
            // The codecs' working memory counts towards the limit.
            Limit::Bytes(bytes) => Limit::Bytes(bytes + (4 << 20) + 40 * block as u64),
            limit => limit,
        };
        let around = |len: usize| [len.saturating_sub(1).max(1), len, len + 1].map(Some);
        let lengths = match random.below(6) {
            0 => vec![Some(1 + random.below(64)); 2],
            1 => vec![None],
            2 => [1, block / 64, block / 16].into_iter().flat_map(around).collect(),
            // Nodes just small enough to share a block, nodes with a block of their own, and nodes in parts.
            3 => [8, block / 4, block - 72, block - 64, block].into_iter().flat_map(around).collect(),
            4 => [24, 32_766, 3 * block, 60_000].into_iter().flat_map(around).collect(),
            _ => vec![Some(16), Some(16), Some(16), Some(40), None, Some(5 * block), Some(160), Some(160)],
        };
        let codec = random.of(&CODECS);
        let limit = large_enough(limit, block, codec);
        Shape {
            block,
            alignment,
            codec,
            policy: random.of(&POLICIES),
            limit,
            bound: Some(limit),
            paranoid,
            background: random.one_in(3),
            ahead: match random.below(4) {
                0 => Ahead::Neighbours(1 + random.below(3) as u32),
                1 => Ahead::Links(vec![0, 8]),
                _ => Ahead::Off,
            },
            threads: random.of(&[1, 1, 2, 3]),
            tier,
            lengths,
            steps: if paranoid { 300 } else { 500 << random.below(4) },
        }
    }

    /// Options of a heap of this shape, and its tier.
    pub(crate) fn options(&self, random: &mut Random) -> (Options, Option<crate::tier::Handle>) {
        let options = Options::new()
            .block_size(self.block)
            .alignment(self.alignment)
            .codec(self.codec)
            .policy(self.policy)
            .limit(self.limit)
            .paranoid(self.paranoid)
            .background(self.background)
            .ahead(self.ahead.clone());
        match self.tier {
            None => (options, None),
            Some(kind) => {
                let (spilled, handle) = kind.open(random);
                (options.spill(spilled), Some(handle))
            }
        }
    }

    /// Options for loading a file that a heap of this shape saved.
    pub(crate) fn other_options(&self, random: &mut Random) -> Options {
        let limit = if random.one_in(2) { Limit::Share } else { Limit::Blocks(5 + self.threads as u32) };
        Options::new()
            .codec(random.of(&CODECS))
            .policy(random.of(&POLICIES))
            .limit(limit)
            .paranoid(self.paranoid)
    }

    /// Whether an allocation may fail because of the limit.
    pub(crate) fn has_limit(&self) -> bool {
        matches!(self.limit, Limit::Bytes(_))
    }

    /// Checks the bound of memory that docs/heap.md states for a limit in bytes. A guard or a pin of a node that is
    /// longer than a block holds a copy of it besides. For a heap with a tier there is no bound: the excess is counted.
    pub(crate) fn is_within(&self, stats: &Stats, counts: &Counts) -> Result<(), String> {
        let Some(Limit::Bytes(limit)) = self.bound else { return Ok(()) };
        let blocks = 8 + self.threads - 1;
        let longest = self.lengths.iter().flatten().max().map_or(0, |len| *len.max(&self.block));
        let most = limit + (blocks * self.block + (128 << 10) + self.threads * longest) as u64;
        let memory = stats.memory_bytes();
        if self.tier.is_some() {
            counts.excess_permille.fetch_max(memory.saturating_sub(limit) * 1000 / limit, Relaxed);
            return Ok(());
        }
        holds(memory <= most, || format!("{memory} bytes instead of {limit}, at most {most}: {stats:?}"))
    }

    pub(crate) fn len(&self, random: &mut Random) -> usize {
        let len = random.of(&self.lengths);
        len.unwrap_or_else(|| 1 + random.below(self.block))
    }

    /// The most bytes that the nodes of a thread may take.
    pub(crate) fn most_bytes(&self) -> usize {
        let most = match (self.tier, self.limit) {
            // The rest is on the tier.
            (Some(_), Limit::Bytes(bytes)) => 2 * bytes as usize,
            // Perhaps nothing compresses.
            (None, Limit::Bytes(bytes)) => bytes as usize / 3,
            _ => 3 << 20,
        };
        most / self.threads
    }
}
