//! Nodes of every critical length, in heaps of every kind, saved and loaded.

use std::string::{String, ToString};
use std::{format, vec};

use super::*;
use crate::heap::file::format::{LARGE, LONGEST};
use crate::heap::sync::locked;
use crate::heap::tests::away::spilling;
use crate::heap::{Limit, MAX_NODE, SaveError};

const CODECS: [&str; 12] = [
    "zstd:1",
    "lz4",
    "lz4hc:9",
    "stride:1",
    "auto:fast",
    "auto",
    "copy",
    "zstd:12",
    "zstd-dict:1",
    "delta:8x1+shuffle:8+lz4",
    "xor:1x2+huffman",
    "auto=xor:1x2+huffman/zstd:5",
];

/// Where a heap's blocks are when it is saved.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Resident,
    Compressed,
    Spilled,
    Paranoid,
    ParanoidSpilled,
}

const KINDS: [Kind; 5] =
    [Kind::Resident, Kind::Compressed, Kind::Spilled, Kind::Paranoid, Kind::ParanoidSpilled];

/// A heap of that kind, and the content of its nodes.
struct Case {
    kind: Kind,
    block: usize,
    align: usize,
    codec: &'static str,
    nodes: Vec<(Handle, Vec<u8>)>,
    stale: Vec<Handle>,
    random: Random,
}

/// Zeros, ascending numbers, records, text, noise, and mixtures.
fn contents(which: usize, len: usize, random: &mut Random) -> Vec<u8> {
    let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    let number = |at: usize| (1000 + 3 * (at as u64 / 8)).to_le_bytes()[at % 8];
    let record = |at: usize| if at % 16 < 3 { noise[at] } else { (at % 16) as u8 };
    let text = b"mixed content ";
    (0..len)
        .map(|at| match which % 6 {
            0 => 0,
            1 => number(at),
            2 => record(at),
            3 => noise[at],
            4 if at > len / 10 * 9 => noise[at],
            4 => number(at),
            _ if at % 4096 < 4096 * (which % 11) / 10 => noise[at],
            _ => text[at % text.len()],
        })
        .collect()
}

impl Case {
    fn new(kind: Kind, block: usize, align: usize, codec: &'static str) -> Self {
        let random = Random(block as u64 + align as u64);
        Case { kind, block, align, codec, nodes: vec![], stale: vec![], random }
    }

    fn what(&self) -> String {
        format!("{:?}, blocks of {}, alignment {}, {}", self.kind, self.block, self.align, self.codec)
    }

    fn options(&self) -> Options {
        let options = Options::new().block_size(self.block).alignment(self.align).codec(self.codec);
        let options = options.limit(Limit::Bytes((64 << 20) + 40 * self.block as u64));
        match self.kind {
            Kind::Resident | Kind::Compressed => options,
            Kind::Spilled => spilling(options).0,
            Kind::Paranoid => options.paranoid(true),
            Kind::ParanoidSpilled => spilling(options.paranoid(true)).0,
        }
    }

    fn put(&mut self, session: &mut Session<'_>, which: usize, len: usize) {
        let bytes = contents(which, len, &mut self.random);
        self.nodes.push((session.put_bytes(&bytes).unwrap(), bytes));
    }

    /// Lengths of nodes around every limit of this heap.
    fn lengths(heap: &Heap, session: &Session<'_>) -> Vec<usize> {
        let (core, block) = (heap.core(), heap.core().options.block_size);
        let bounds = [
            1,
            block / 64,
            block / 16,
            core.shape.longest(),
            session.longest(),
            core.part(),
            2 * core.part(),
            32_767,
        ];
        let mut lengths: Vec<usize> = bounds.iter().flat_map(|len| len - 1..=len + 1).collect();
        lengths.retain(|&len| len > 0 && len < 3 * block.max(1024));
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    /// Makes nodes of these lengths, more of the short ones; some are freed, and others take their places.
    fn fill(&mut self, session: &mut Session<'_>, lengths: &[usize], most: usize) {
        for round in 0..2 {
            for &len in lengths {
                let count = (most / 40 / len).clamp(2, 80);
                (0..count).for_each(|which| self.put(session, which + round * 3, len));
                // A long sequence of one length, or what is left of it.
                if round == 0 {
                    for at in (self.nodes.len() - count / 2..self.nodes.len()).rev().step_by(2) {
                        let (node, _) = self.nodes.swap_remove(at);
                        session.free(node).unwrap();
                        self.stale.push(node);
                    }
                }
            }
        }
    }

    /// Moves the heap's blocks to where they should be when it is saved.
    fn settle(&self, heap: &mut Heap) {
        let core = heap.core();
        if self.kind != Kind::Resident {
            core.evict_all(0).unwrap();
        }
        // Copies longer than those of such blocks stay in the store.
        if self.kind == Kind::Spilled && self.block <= 1 << 16 {
            let (limit, mut spilled) = (core.limit(), u64::MAX);
            heap.set_limit(Limit::Bytes(2 * self.block as u64)).unwrap();
            while spilled != heap.stats().spilled_bytes {
                spilled = heap.stats().spilled_bytes;
                core.spill_some();
            }
            heap.set_limit(limit).unwrap();
        }
    }

    fn is_in(&self, heap: &mut Heap) {
        heap.check().unwrap_or_else(|error| panic!("{}: {error}", self.what()));
        let session = heap.session().unwrap();
        for (node, bytes) in &self.nodes {
            let read = session.read(*node);
            assert!(read.as_ref() == Ok(bytes), "{}: a node of {} bytes, {node:?}", self.what(), bytes.len());
        }
        drop(session);
        let stats = heap.stats();
        assert_eq!(stats.nodes, self.nodes.len() as u64, "{}", self.what());
        assert_eq!(stats.node_bytes, self.nodes.iter().map(|node| node.1.len() as u64).sum::<u64>());
    }

    /// Saves, loads and compares; then changes the loaded heap, and does all of it once more.
    fn comes_back(&mut self, mut heap: Heap, most: usize) {
        let what = self.what();
        for round in 0..2 {
            self.settle(&mut heap);
            if matches!(self.kind, Kind::Spilled | Kind::ParanoidSpilled) && self.block <= 1 << 16 {
                assert!(heap.stats().spilled_bytes > 0, "{what}");
            }
            let mut file = vec![];
            heap.save_to(&mut file).unwrap_or_else(|error| panic!("{what}: {error}"));
            self.is_in(&mut heap);
            let loaded = Heap::load_from(&file[..], self.options());
            heap = loaded.unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut again = vec![];
            heap.save_to(&mut again).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(again == file, "{what}: nothing was changed in between");
            let session = heap.session().unwrap();
            for node in self.stale.iter().filter(|_| round == 0 || self.kind == Kind::Paranoid) {
                assert_eq!(session.size(*node), Err(Error::Stale), "{what}: {node:?}");
            }
            drop(session);
            self.is_in(&mut heap);
            let mut session = heap.session().unwrap();
            for at in (0..self.nodes.len()).rev().step_by(7) {
                let (node, mut bytes) = self.nodes.swap_remove(at);
                let len = bytes.len();
                session.write_at(node, len - 1, &[7]).unwrap();
                bytes[len - 1] = 7;
                let node = session.resize(node, len + 1).unwrap();
                bytes.push(0);
                self.nodes.push((node, bytes));
            }
            if most > 0 {
                let lengths = Self::lengths(&heap, &session);
                self.fill(&mut session, &lengths[lengths.len() / 2..], most / 4);
            }
        }
        self.is_in(&mut heap);
    }

    fn run(mut self, most: usize) {
        let heap = Heap::new(self.options()).unwrap();
        let mut session = heap.session().unwrap();
        for len in [0, MAX_NODE + 1, usize::MAX] {
            assert_eq!(session.alloc(len), Err(Error::Size(len)), "{}", self.what());
        }
        let lengths = Self::lengths(&heap, &session);
        self.fill(&mut session, &lengths, most);
        drop(session);
        self.comes_back(heap, most);
    }
}

#[test]
fn every_bound_with_every_codec() {
    for (number, codec) in CODECS.into_iter().enumerate() {
        for (i, kind) in KINDS.into_iter().enumerate() {
            let (block, align) = [(1024, 1), (1024, 8), (4096, 16), (1024, 256), (2048, 8)][(number + i) % 5];
            Case::new(kind, block, align, codec).run(15_000);
        }
    }
}

/// Blocks whose copies, with marks, just fit into the store.
#[test]
fn the_largest_blocks() {
    for (kind, align, codec) in [(Kind::Compressed, 256, "lz4"), (Kind::Resident, 4096, "zstd:1")] {
        let mut case = Case::new(kind, 16 << 20, align, codec);
        let heap = Heap::new(case.options()).unwrap();
        let mut session = heap.session().unwrap();
        let longest = session.longest();
        for (which, len) in [(3, 300), (2, 32_767), (4, longest), (3, longest - 1)] {
            case.put(&mut session, which, len);
        }
        drop(session);
        case.comes_back(heap, 0);
    }
}

/// The handles of this node's parts form the longest chunk of a file.
#[test]
fn the_longest_node_in_blocks_that_make_the_most_parts_of_it() {
    let options = Options::new().block_size(1024).alignment(256);
    let mut heap = Heap::new(options.clone()).unwrap();
    let mut session = heap.session().unwrap();
    let node = session.alloc(MAX_NODE).unwrap();
    session.write_at(node, MAX_NODE - 5, b"hello").unwrap();
    drop(session);
    let file = saved(&mut heap);
    let longest = chunks(&file).windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    assert!(longest < LONGEST && longest > LONGEST / 2, "{longest}");
    assert_eq!(chunks(&file).iter().filter(|chunk| chunk.1 == LARGE).count(), 1);
    let mut heap = load(&file, &options).unwrap();
    heap.check().unwrap();
    let session = heap.session().unwrap();
    let mut end = [1; 10];
    session.read_at(node, MAX_NODE - 10, &mut end).unwrap();
    assert_eq!(&end, b"\0\0\0\0\0hello");
    session.free(node).unwrap();
}

/// Makes a heap with two long nodes, and returns the handles of their parts.
fn with_long_nodes(options: &Options) -> (Heap, [Handle; 2], Vec<Handle>) {
    let heap = Heap::new(options.clone()).unwrap();
    let mut session = heap.session().unwrap();
    let nodes = [1, 2].map(|byte| session.put_bytes(&[byte; 5000]).unwrap());
    drop(session);
    let parts = locked(&heap.core().large)
        .saved()
        .map(Result::unwrap)
        .flat_map(|(.., parts)| parts)
        .flatten()
        .collect();
    (heap, nodes, parts)
}

/// A stray handle freed a part of a long node. The file that was written then could not be loaded.
#[test]
fn parts_of_long_nodes_that_are_gone() {
    let options = Options::new().block_size(1024).limit(Limit::Blocks(3));
    for which in [0, 3, 7] {
        let (mut heap, nodes, parts) = with_long_nodes(&options);
        let session = heap.session().unwrap();
        session.free(parts[which]).unwrap();
        drop(session);
        let broken = nodes[which / (parts.len() / 2)];
        match heap.save_to(&mut vec![]) {
            Err(SaveError::Part(node)) => assert_eq!(node, broken),
            other => panic!("{other:?}"),
        }
        let said = heap.check().unwrap_err().to_string();
        assert!(said.contains(&format!("{:#x}", broken.to_bits())), "{said}");
        let session = heap.session().unwrap();
        assert_eq!(session.read(broken), Err(Error::Damaged));
        // The node can be freed, though the result reports the damage.
        assert_eq!(session.free(broken), Err(Error::Damaged));
        drop(session);
        heap.check().unwrap();
        let heap = load(&saved(&mut heap), &options).unwrap();
        let other = nodes[usize::from(broken == nodes[0])];
        assert_eq!(heap.session().unwrap().read(other).unwrap().len(), 5000);
    }
}

/// As above, but then the handle was given out again, to another long node.
#[test]
fn parts_that_two_long_nodes_have() {
    let options = Options::new().block_size(1024).limit(Limit::Blocks(3));
    let (mut heap, nodes, parts) = with_long_nodes(&options);
    heap.session().unwrap().free(parts[0]).unwrap();
    let mut session = heap.session().unwrap();
    for _ in 0..100_000 {
        let node = session.put_bytes(&[3; 5000]).unwrap();
        let given = locked(&heap.core().large).with_part(|part| *part == parts[0]).unwrap();
        if given.len() == 2 {
            drop(session);
            assert!(matches!(heap.save_to(&mut vec![]), Err(SaveError::Part(part)) if part == node));
            assert!(heap.check().is_err());
            assert_eq!(heap.session().unwrap().free(nodes[0]), Ok(()));
            return;
        }
        session.free(node).unwrap();
    }
    panic!("the handle was never given out again");
}

struct Named(String);

impl memfold_codec::Codec for Named {
    fn name(&self) -> &str {
        &self.0
    }

    fn id(&self) -> memfold_codec::CodecId {
        memfold_codec::CodecId::LZ4
    }

    fn bound(&self, len: usize) -> usize {
        len
    }

    fn compress_scratch(&self, _: usize) -> usize {
        0
    }

    fn decompress_scratch(&self, _: usize) -> usize {
        0
    }

    fn compress(
        &self,
        _: &[u8],
        dst: &mut [u8],
        _: usize,
        _: &mut memfold_codec::Scratch<'_>,
    ) -> memfold_codec::Compressed {
        dst[0] = 0;
        memfold_codec::Compressed::Fits(1)
    }

    fn decompress(
        &self,
        _: &[u8],
        dst: &mut [u8],
        _: &mut memfold_codec::Scratch<'_>,
    ) -> Result<(), memfold_codec::Malformed> {
        dst.fill(0);
        Ok(())
    }
}

/// Everything but the name of a user-supplied codec is limited elsewhere.
#[test]
fn a_name_longer_than_a_part_of_a_file() {
    for len in [LONGEST - 1, LONGEST] {
        let own = std::sync::Arc::new(Named("n".repeat(len)));
        let mut heap = Heap::new(Options::new().own_codec(own.clone())).unwrap();
        heap.session().unwrap().put_bytes(b"node").unwrap();
        let mut file = vec![];
        match heap.save_to(&mut file) {
            Ok(()) if len < LONGEST => {
                load(&file, &Options::new().own_codec(own)).unwrap();
            }
            Err(SaveError::Io(error)) if len == LONGEST => assert!(error.to_string().contains("64 MiB")),
            other => panic!("{other:?}"),
        }
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn every_block_size_and_alignment() {
        let mut number = 0;
        for (i, kind) in KINDS.into_iter().enumerate() {
            for power in 10..=20 {
                let (block, codec) = (1_usize << power, CODECS[number % CODECS.len()]);
                let align = (1 << ((number + i) % 13)).min(block / 4);
                let is_slow = matches!(kind, Kind::Paranoid | Kind::ParanoidSpilled);
                // Long blocks are slow.
                if block <= 1 << 14 || number % 3 == 0 && (block <= 1 << 16 || !is_slow) {
                    Case::new(kind, block, align, codec).run(if is_slow { 8_000 } else { 20_000 });
                }
                number += 1;
            }
        }
    }
}
